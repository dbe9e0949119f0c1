// The table of the audit: filters hide rows, headings sort them.
const rows = [...document.querySelectorAll('tbody tr')], body = document.querySelector('tbody');
const [search, label, differ, count] = ['filter', 'label', 'differ', 'count'].map(id => document.getElementById(id));
const total = count.textContent.split(' of ')[1];

function filter() {
  const word = search.value.trim().toLowerCase();
  const wanted = row => {
    const {index, given, predicted, true: truth = ''} = row.dataset;
    const text = [given, predicted, truth].some(name => name.toLowerCase().includes(word));
    return (!label.value || row.dataset.label === label.value) && (!differ.checked || given !== predicted)
      && (!word || text || index === word);
  };
  for (const row of rows) row.hidden = !wanted(row);
  count.textContent = `${rows.filter(row => !row.hidden).length} of ${total}`;
}

function sort(button) {
  const key = button.dataset.key, head = button.closest('th');
  const up = head.getAttribute('aria-sort') !== 'ascending';
  for (const other of document.querySelectorAll('th[aria-sort]')) other.setAttribute('aria-sort', 'none');
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const value = row => row.dataset[key], numbers = rows.every(row => value(row) !== '' && !isNaN(value(row)));
  const compare = (a, b) => numbers ? value(a) - value(b) : value(a).localeCompare(value(b));
  rows.sort((a, b) => (up ? 1 : -1) * compare(a, b) || a.dataset.rank - b.dataset.rank);
  body.append(...rows);
}

for (const input of [search, label, differ]) input.addEventListener('input', filter);
for (const button of document.querySelectorAll('th button')) button.addEventListener('click', () => sort(button));
filter();
