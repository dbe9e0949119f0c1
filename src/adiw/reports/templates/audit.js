// The table of the audit: filters hide rows, headings sort them.
const rows = [...document.querySelectorAll('tbody tr')], body = document.querySelector('tbody');
const [search, label, differ, check, count] =
  ['filter', 'label', 'differ', 'check', 'count'].map(id => document.getElementById(id));
const total = count.textContent.split(' of ')[1];

function filter() {
  const word = search.value.trim().toLowerCase(), number = /^\d+$/.test(word);
  const wanted = row => {
    const {number: own, given, predicted} = row.dataset;
    if (label?.value && given !== label.value) return false;
    if (differ?.checked && given === predicted) return false;
    if (check?.checked && row.dataset.check === undefined) return false;
    // A number is looked for as a whole, among sample numbers and columns; a word in every text.
    const texts = [...row.cells].slice(1).map(cell => cell.textContent.toLowerCase());
    return !word || own === word || texts.some(text => number ? text === word : text.includes(word));
  };
  for (const row of rows) row.hidden = !wanted(row);
  count.textContent = `${rows.filter(row => !row.hidden).length} of ${total}`;
}

function sort(head) {
  const up = head.getAttribute('aria-sort') !== 'ascending', place = head.cellIndex;
  for (const other of document.querySelectorAll('th[aria-sort]')) other.setAttribute('aria-sort', 'none');
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const value = row => row.cells[place].dataset.value ?? row.cells[place].textContent.trim();
  const filled = rows.filter(row => value(row) !== ''), numbers = filled.every(row => !isNaN(value(row)));
  const compare = (a, b) => numbers ? value(a) - value(b) : value(a).localeCompare(value(b));
  const empty = row => value(row) === '';  // empty cells come last in either direction
  rows.sort((a, b) => empty(a) - empty(b) || (empty(a) ? 0 : (up ? 1 : -1) * compare(a, b)) || a.dataset.rank - b.dataset.rank);
  body.append(...rows);
}

for (const input of [search, label, differ, check]) input?.addEventListener('input', filter);
for (const head of document.querySelectorAll('th[aria-sort]')) head.querySelector('button').addEventListener('click', () => sort(head));
filter();
