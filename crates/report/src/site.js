// Sorts the table by the column whose head is selected: numbers by value, texts by alphabet, the other way round the second time.
const body = document.querySelector('#runs tbody');
document.querySelectorAll('#runs th[data-sort]').forEach((head, column) => head.addEventListener('click', () => {
  const down = head.dataset.sort !== 'up';
  document.querySelectorAll('#runs th').forEach(other => { other.dataset.sort = ''; });
  head.dataset.sort = down ? 'up' : 'down';
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  // 0.95 is above 0.8523; rows without a number come after those that have one.
  const number = row => key(row).trim() === '' ? NaN : Number(key(row));
  const sign = down ? 1 : -1;
  const order = (a, b) => {
    const [one, two] = [number(a), number(b)];
    if (!Number.isNaN(one) && !Number.isNaN(two)) return sign * (one - two);
    if (Number.isNaN(one) !== Number.isNaN(two)) return Number.isNaN(one) ? 1 : -1;
    return sign * key(a).localeCompare(key(b), 'en', { numeric: true });
  };
  const rows = [...body.rows].sort(order);
  body.append(...rows);
}));
