// The report: filter and buttons select methods in all tables and charts at once.
const data = JSON.parse(document.getElementById('data').textContent);
const all = (query, root = document) => [...root.querySelectorAll(query)];
const keys = all('.key'), search = document.getElementById('filter');
const pressed = key => key.getAttribute('aria-pressed') === 'true';
const matches = name => {
  const words = search ? search.value.toLowerCase().split(/[\s,]+/).filter(Boolean) : [];
  return !words.length || words.some(word => name.toLowerCase().includes(word));
};

function shownRows() {
  if (!keys.length) return new Set(data.rows.keys());
  return new Set(keys.filter(key => pressed(key) && matches(key.dataset.name)).map(key => +key.dataset.row));
}

const column = () => +(document.querySelector('#columns input:checked')?.value ?? 0);

function update() {
  const rows = shownRows(), names = new Set([...rows].map(row => data.rows[row])), here = column();
  for (const key of keys) key.hidden = !matches(key.dataset.name);
  for (const part of all('.of')) {
    const elsewhere = part.dataset.column !== undefined && part.dataset.column !== data.columns[here];
    part.classList.toggle('off', !names.has(part.dataset.name) || elsewhere);
  }
  const empty = document.getElementById('empty');
  if (empty) empty.hidden = rows.size > 0;
  const cells = data.cells.filter(cell => cell.column === here && rows.has(cell.row));
  for (const chart of all('figure[data-curves]')) drawCurves(chart, cells);
  drawHistograms(cells);
}

function drawCurves(chart, cells) {
  const curves = chart.dataset.curves.split(' ');
  const tall = chart.querySelector('.tall'), range = tall ? {} : {low: undefined, high: undefined};
  const series = cells.flatMap(cell => curves.map((name, i) => cell.curves[name] && {
    ...cell.curves[name], ...range, row: cell.row, name: data.rows[cell.row],
    pattern: curves.length > 1 ? ['', '5 3'][i] : dash(cell.row), best: name === 'accuracy' ? cell.best : undefined,
  })).filter(Boolean);
  const zoom = chart.querySelector('.zoom input')?.checked;
  const lines = curves[0] === 'accuracy' ? data.references[column()] : [];
  lineChart(chart.querySelector('.plot'), chart.querySelector('.readout'), series, zoom, lines);
}

function drawHistograms(cells) {
  const box = document.getElementById('histograms');
  if (!box) return;
  box.replaceChildren(...cells.filter(cell => cell.weights).map(cell => {
    const chart = document.createElement('figure'), plot = document.createElement('div');
    const caption = document.createElement('figcaption'), readout = document.createElement('p');
    chart.className = 'chart'; plot.className = 'plot'; readout.className = 'readout';
    caption.textContent = data.rows[cell.row];
    Object.assign(plot, {tabIndex: 0, ariaLabel: `Weights of ${data.rows[cell.row]}`});
    chart.append(caption, plot, readout);
    chart.cell = cell;
    return chart;
  }));
  for (const chart of box.children) histogram(chart.querySelector('.plot'), chart.querySelector('.readout'), chart.cell.weights);
}

for (const key of keys) {
  key.prepend(swatch(+key.dataset.row));
  key.addEventListener('click', () => { key.setAttribute('aria-pressed', !pressed(key)); update(); });
}
for (const [id, on] of [['all', true], ['none', false]]) document.getElementById(id)?.addEventListener('click', () => {
  for (const key of keys) if (!key.hidden) key.setAttribute('aria-pressed', on);
  update();
});
for (const zoom of all('.zoom input')) zoom.addEventListener('change', update);
search?.addEventListener('input', update);
for (const choice of all('#columns input')) choice.addEventListener('change', update);
let width = document.body.clientWidth;
addEventListener('resize', () => { if (document.body.clientWidth !== width) { width = document.body.clientWidth; update(); } });
update();
