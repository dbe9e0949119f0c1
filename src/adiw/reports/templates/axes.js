// Shared by all charts: SVG in the pixels of its box. Text is added as text nodes, never as HTML.
const DASHES = ['', '7 3', '2 3', '9 3 2 3', '12 3 2 3 2 3'];
const colour = i => `var(--c${i % 8})`;
const dash = i => DASHES[i % DASHES.length];

function element(name, attributes = {}, ...inside) {
  const found = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...inside);
  return found;
}

function span(kind, ...inside) {
  const found = document.createElement('span');
  found.className = kind;
  found.append(...inside);
  return found;
}

const swatch = (i, pattern = dash(i)) => element('svg', {class: 'swatch', 'aria-hidden': 'true'},
  element('line', {x1: 0, x2: 24, y1: 4, y2: 4, 'stroke-width': 3, stroke: colour(i), 'stroke-dasharray': pattern}));

// About `count` round numbers between low and high.
function ticks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= raw);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

const short = value => Math.abs(value) >= 1000 ? Math.round(value).toString() : String(+value.toPrecision(3));

// The axes of a chart, and the functions that map values to pixels.
function frame(plot, xs, ys, {wholeNumbers = false, endLabel = text => text, root = false} = {}) {
  const width = plot.clientWidth, height = plot.clientHeight, left = 44, bottom = 24, top = 8, right = 16;
  const x = value => left + (width - left - right) * (value - xs[0]) / (xs[1] - xs[0] || 1);
  const share = value => (value - ys[0]) / (ys[1] - ys[0] || 1);
  const y = value => height - bottom - (height - top - bottom) * (root ? Math.sqrt(share(value)) : share(value));
  const marks = root ? [0, .01, .05, .2, .5, 1].filter(v => v <= ys[1]) : ticks(...ys, Math.max(3, height / 60));
  const svg = element('svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'});
  for (const value of marks) svg.append(
    element('line', {class: 'axis', x1: left, x2: width - right, y1: y(value), y2: y(value)}),
    element('text', {x: left - 7, y: y(value) + 4, 'text-anchor': 'end'}, short(value)));
  const places = ticks(...xs, Math.max(2, width / 110)).filter(value => !wholeNumbers || Number.isInteger(value));
  for (const value of places) svg.append(
    element('text', {x: x(value), y: height - 6, 'text-anchor': 'middle'}, endLabel(short(value), value)));
  const unscaled = place => xs[0] + (place - left) / (width - left - right) * (xs[1] - xs[0]);
  const inside = element('svg', {x: 0, y: 0, width: width - right + 4, height: height - bottom + 1, viewBox: `0 0 ${width - right + 4} ${height - bottom + 1}`});
  svg.append(inside);  // a nested svg clips what lies outside
  plot.replaceChildren(svg);
  return {svg: inside, x, y, unscaled, top, base: height - bottom};
}

const reading = value => Math.abs(value) >= 1000 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);

// Mouse, touch and arrow keys choose a position from 1 to last; leaving the plot returns to the last.
function follow(plot, show, last, at) {
  let now = last;
  const readout = plot.parentElement.querySelector('.readout');
  const go = (place, mark) => {
    show(now = Math.min(last, Math.max(1, Math.round(place))), mark);
    plot.setAttribute('aria-valuenow', now);  // screen readers read the values as those of a slider
    plot.setAttribute('aria-valuetext', [...readout.children].map(part => part.textContent).join(', '));
  };
  for (const [key, value] of [['role', 'slider'], ['aria-valuemin', 1], ['aria-valuemax', last]]) plot.setAttribute(key, value);
  plot.onpointermove = plot.onpointerdown = event => go(at(event), true);
  plot.onpointerleave = event => { if (event.pointerType === 'mouse' && plot !== document.activeElement) go(last, false); };
  plot.onblur = () => go(last, false);
  plot.onkeydown = event => {
    const far = Math.max(1, Math.round(last / 10));
    const to = {ArrowLeft: now - 1, ArrowRight: now + 1, PageDown: now - far, PageUp: now + far, Home: 1, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to, true);
  };
  go(last, false);
}

// An empty plot has no values to read.
function unfollow(plot) {
  for (const name of ['onpointermove', 'onpointerdown', 'onpointerleave', 'onblur', 'onkeydown']) plot[name] = null;
  for (const name of ['valuemin', 'valuemax', 'valuenow', 'valuetext']) plot.removeAttribute(`aria-${name}`);
  plot.setAttribute('role', 'img');
}
