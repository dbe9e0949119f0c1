// Curves over the epochs, and histograms of weights.
// One path, interrupted at missing values; a single point becomes a dot.
function path(values, x, y) {
  let text = '', open = false;
  values.forEach((value, k) => {
    if (value === null) { open = false; return; }
    text += `${open ? 'L' : 'M'}${x(k + 1).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!open && (values[k + 1] ?? null) === null) text += 'h0.01';
    open = true;
  });
  return text;
}

function band(series, x, y) {
  const known = series.low.map((low, k) => [k + 1, low, series.high[k]]).filter(p => p[1] !== null && p[2] !== null);
  const points = [...known.map(p => [p[0], p[2]]), ...known.reverse().map(p => [p[0], p[1]])];
  return element('polygon', {class: 'band', fill: colour(series.row), 'fill-opacity': .13,
    points: points.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(' ')});
}

// The range of the y axis; zoomed in, that of the last three quarters of the epochs.
function bounds(curves, zoom) {
  const late = curves.map(values => zoom ? values.slice(Math.floor(values.length / 4)) : values).flat();
  const values = late.filter(value => value !== null);
  if (!values.length) return null;
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const pad = Math.max(.04 * (high - low), (.1 * Math.abs(high) - (high - low)) / 2) || .5;  // small changes stay small
  return [!zoom && low >= 0 && low < .35 * high ? 0 : low - pad, high + pad];
}

// Curves over the epochs 1, 2, 3, ...; series: {name, row, pattern, mean, low, high, others, best}.
// lines: [{name, value}] are horizontal; a circle marks the best epoch.
function lineChart(plot, readout, series, zoom, lines = []) {
  const all = series.flatMap(s => [s.mean, s.low || [], s.high || [], ...(s.others || []).map(o => o.values)]);
  const wide = all.some(values => values.length) ? [...all, lines.map(line => line.value)] : all;
  const ys = bounds(zoom ? series.map(s => s.mean) : wide, zoom) || bounds(wide, false);
  readout.replaceChildren();
  if (!ys) {
    unfollow(plot);
    plot.replaceChildren('The selected methods have no curve in this setting.');
    return;
  }
  const longest = Math.max(...all.map(v => v.length));
  const place = frame(plot, [1, Math.max(longest, 2)], ys, {wholeNumbers: true});
  const {svg, x, y} = place;
  for (const s of series) if (s.low) svg.append(band(s, x, y));
  const shown = lines.filter(line => line.value >= ys[0] && line.value <= ys[1]).sort((a, b) => a.value - b.value);
  const end = x(Math.max(longest, 2));
  for (const {value} of shown) svg.append(element('line', {class: 'reference', x1: x(1), x2: end, y1: y(value), y2: y(value)}));
  let above = Infinity;
  for (const {name, value} of shown) {  // from the lowest; a name that would cover the one below moves up
    above = Math.min(y(value) - 5, above - 14);
    svg.append(element('text', {class: 'reference-name', x: end - 4, y: above, 'text-anchor': 'end'}, `${name} ${reading(value)}`));
  }
  for (const s of series) {
    const look = {fill: 'none', stroke: colour(s.row), 'stroke-linejoin': 'round', 'stroke-linecap': 'round'};
    for (const other of s.others || []) {
      const last = other.values.findLastIndex(value => value !== null);
      svg.append(element('path', {...look, 'stroke-width': 1, opacity: .8, class: 'other', d: path(other.values, x, y)}));
      if (last >= 0) svg.append(element('path', {...look, 'stroke-width': 1.5,
        d: `M${x(last + 1) - 4} ${y(other.values[last]) - 4}l8 8m0 -8l-8 8`}));
    }
    const line = element('path', {...look, class: 'curve', 'stroke-width': 2, 'stroke-dasharray': s.pattern, d: path(s.mean, x, y)});
    line.dataset.name = s.name;
    svg.append(line);
    const top = s.best === undefined ? null : s.mean[s.best - 1] ?? null;
    if (top !== null) svg.append(element('circle', {class: 'best', cx: x(s.best), cy: y(top), r: 5, stroke: colour(s.row)}));
  }
  const cursor = element('line', {class: 'at', y1: place.top, y2: place.base, visibility: 'hidden'});
  svg.append(cursor);
  const show = (epoch, mark) => {
    cursor.setAttribute('visibility', mark ? 'visible' : 'hidden');
    for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(epoch));
    readout.replaceChildren(span('when', `Epoch ${epoch}`), ...readings(series, epoch));
  };
  follow(plot, show, longest, event => place.unscaled(event.clientX - plot.getBoundingClientRect().left));
}

// The values at an epoch, highest first; the values of one method together.
function readings(series, epoch) {
  const rows = new Map();
  for (const s of series) {
    const value = s.mean[epoch - 1] ?? null;
    if (value !== null) rows.set(s.row, [...(rows.get(s.row) || []), [s, value]]);
  }
  return [...rows.values()].sort((a, b) => b[0][1] - a[0][1]).map(found => span('item', swatch(found[0][0].row, found[0][0].pattern),
    `${found[0][0].name} `, span('value', found.map(pair => reading(pair[1])).join(' / '))));
}

// The share of each group's samples in each bin.
function histogram(plot, readout, weights) {
  const {edges, groups} = weights, names = Object.keys(groups), bins = edges.length - 1;
  const most = Math.max(...names.flatMap(name => groups[name].shares));
  const end = edges[bins];
  const {svg, x, y, top, base, unscaled} = frame(plot, [edges[0], end], [0, most * 1.05 || 1],
    {root: true, endLabel: (text, value) => value === end ? `≥ ${text}` : text});
  names.forEach((name, i) => {
    const steps = groups[name].shares.flatMap((share, k) => [[edges[k], share], [edges[k + 1], share]]);
    const points = [[edges[0], 0], ...steps, [end, 0]].map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(' ');
    const shape = element('polygon', {class: 'steps', points, fill: colour(i), 'fill-opacity': .22, stroke: colour(i),
      'stroke-width': 1.75, 'stroke-dasharray': ['', '5 3'][i] || ''});
    shape.dataset.name = name;
    svg.append(shape);
  });
  const cursor = element('line', {class: 'at', y1: top, y2: base, visibility: 'hidden'});
  svg.append(cursor);
  const line = (when, value) => readout.replaceChildren(span('when', when),
    ...names.map((name, i) => span('item', swatch(i, ['', '5 3'][i] || ''), `${name} ${value(groups[name])}`)));
  follow(plot, (bin, mark) => {
    cursor.setAttribute('visibility', mark ? 'visible' : 'hidden');
    for (const side of ['x1', 'x2']) cursor.setAttribute(side, x((edges[bin - 1] + edges[bin]) / 2));
    if (mark) line(bin === bins ? `from ${short(edges[bin - 1])}` : `${short(edges[bin - 1])} to ${short(edges[bin])}`, group => `${(100 * group.shares[bin - 1]).toFixed(1)}%`);
    else line('Mean', group => group.mean === null ? '' : reading(group.mean));
  }, bins, event => (unscaled(event.clientX - plot.getBoundingClientRect().left) - edges[0]) / (end - edges[0]) * bins + .5);
}
