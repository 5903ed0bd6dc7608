// Sorts the table by the column whose head is selected: numbers by value, texts by alphabet, the other way round the second time.
const body = document.querySelector('#runs tbody');
document.querySelectorAll('#runs th[data-sort]').forEach((head, column) => head.addEventListener('click', () => {
  const down = head.dataset.sort !== 'up';
  document.querySelectorAll('#runs th').forEach(other => { other.dataset.sort = ''; });
  head.dataset.sort = down ? 'up' : 'down';
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const order = (a, b) => key(a).localeCompare(key(b), 'en', { numeric: true });
  const rows = [...body.rows].sort((a, b) => down ? order(a, b) : order(b, a));
  body.append(...rows);
}));
