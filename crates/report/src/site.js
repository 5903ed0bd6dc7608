// The index of a site: fills its table, filters and sorts it, lists the runs of a study, and compares runs side by side. What a run says
// becomes text, never markup. Files next to the page hand over rows (studies-K.js) and runs (runs-K.js) by calling `baremark`.
'use strict';
const at = id => document.getElementById(id);
const first = JSON.parse(at('first').textContent);
const studies = [...first.rows];
const runs = new Map();       // By run ID, those of studies whose runs were loaded.
const listed = new Map();     // By study, its runs in order.
const picked = [];            // IDs of selected runs; the first is the base of a comparison.
const open = new Set();       // Studies whose runs are shown.
const arrived = new Map();    // What waits for a file.
let order = null, shown = 60, compared = false;

const byNumber = new Map(first.rows.map(row => [row.g, row]));
const baremark = {
  rows(file, rows) {
    for (const row of rows) if (!byNumber.has(row.g)) { byNumber.set(row.g, row); studies.push(row); }
    arrived.get(`studies-${file}.js`)?.();
  },
  runs(study, rows) {
    const known = listed.get(study) ?? [];
    for (const run of rows) {
      if (!runs.has(run.i)) { runs.set(run.i, { ...run, g: study }); known.push(run.i); }
    }
    listed.set(study, known);
  },
  read(file) { arrived.get(file)?.(); },
};
const loading = new Map();
const load = file => {
  if (!loading.has(file)) {
    loading.set(file, new Promise((done, failed) => {
      const script = document.createElement('script');
      arrived.set(file, done);
      script.onerror = () => { loading.delete(file); failed(new Error(`${file} cannot be read; load the page again`)); };
      script.src = file;
      document.head.append(script);
    }));
  }
  return loading.get(file);
};
const loadRuns = async row => { for (let file = row.f[0]; file <= row.f[1]; file++) await load(`runs-${file}.js`); };

// Elements: `make('td', { class: 'x' }, 'text', child)`.
const make = (name, attributes, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) if (value !== null && value !== false) element.setAttribute(key, value === true ? '' : value);
  element.append(...children.filter(child => child !== null && child !== ''));
  return element;
};
const day = text => text.slice(0, 16).replace('T', ' ');
const when = text => make('td', { class: 'when' }, make('span', {}, text.slice(0, 10)), ` ${text.slice(11, 16)}`);
const number = value => Number(value.toPrecision(4)).toString();

const spark = row => {
  const values = row.h;
  if (values.length < 2) return null;
  const [width, height] = [96, 22], [least, most] = [Math.min(...values), Math.max(...values)];
  const x = at => 2 + (width - 4) * at / (values.length - 1);
  const y = value => most > least ? height - 3 - (height - 6) * (value - least) / (most - least) : height / 2;
  const svg = (name, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const drawing = svg('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img' });
  const title = svg('title', {});
  title.textContent = `${row.w}: ${values.length} runs, ${number(least)} to ${number(most)}, last ${number(values.at(-1))}`;
  drawing.append(title);
  if (row.r && least < 1 && most > 1) drawing.append(svg('line', { x1: 0, x2: width, y1: y(1), y2: y(1) }));
  drawing.append(svg('polyline', { points: values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ') }));
  drawing.append(svg('circle', { cx: x(values.length - 1), cy: y(values.at(-1)), r: 2.5 }));
  return drawing;
};

const COLUMNS = [
  ['', null], ['Study', row => row.t], ['Value', null], ['Ratio', row => row.x], ['Verdict', row => row.o], ['History', row => row.n],
  ['Machine', row => row.m], ['Latest run', row => row.d],
];

const tick = (id, label) => {
  const box = make('input', { type: 'checkbox', 'aria-label': `compare ${label}` });
  box.checked = picked.includes(id);
  box.addEventListener('change', async () => {
    const place = picked.indexOf(id);
    if (box.checked && place < 0) picked.push(id); else if (!box.checked && place >= 0) picked.splice(place, 1);
    if (picked.length < 2) compared = false;
    await state();
  });
  box.dataset.run = id;
  return box;
};

const studyRow = row => {
  const runsOf = row.n > 1 ? make('button', { type: 'button', class: 'fold', 'aria-expanded': String(open.has(row.g)) }, `${row.n} runs`) : null;
  runsOf?.addEventListener('click', async () => {
    open.has(row.g) ? open.delete(row.g) : open.add(row.g);
    await loadRuns(row);
    draw();
    document.querySelector(`[data-study="${row.g}"] button`)?.focus();
  });
  return make('tr', { 'data-study': row.g },
    make('td', { class: 'tick' }, tick(row.i, `${row.t}, latest run`)),
    make('th', { scope: 'row' }, make('a', { href: row.p }, row.t), make('small', {}, row.k, row.l ? ', ' : '', row.l ? make('span', { class: 'live' }, row.l > 1 ? `${row.l} live` : 'live') : row.s === 'finished' ? '' : `, ${row.s}`), runsOf),
    make('td', { class: 'amount' }, row.v, row.v && row.w ? make('small', {}, row.r ? row.w.split(' / ')[0] : row.w) : ''),
    make('td', { class: 'amount' }, row.r, row.r ? make('small', {}, row.w.includes(' / ') ? `of ${row.w.split(' / ')[1]}` : '') : ''),
    make('td', { class: `verdict ${row.c}` }, row.o, row.a ? make('small', {}, `others: ${row.a}`) : ''),
    make('td', { class: 'spark' }, spark(row)),
    make('td', { class: 'machine' }, row.m),
    when(row.d));
};
const runRow = id => {
  const run = runs.get(id);
  return make('tr', { class: 'run' },
    make('td', { class: 'tick' }, tick(id, `run ${id}`)),
    make('th', { scope: 'row' }, make('a', { href: run.p }, id), make('small', {}, `baremark ${run.b}, ${run.s}`)),
    make('td', { class: 'amount' }, run.v), make('td', { class: 'amount' }, run.r), make('td', { class: `verdict ${run.c}` }, run.o),
    make('td', {}), make('td', {}), when(run.d));
};

const chosen = () => {
  const words = at('text').value.toLowerCase().split(/\s+/).filter(Boolean);
  const [kind, machine] = [at('kind').value, at('machine').value];
  const found = studies.filter(row => (!kind || row.k === kind) && (!machine || row.m === machine) && words.every(word =>
    `${row.t} ${row.k} ${row.m} ${row.o} ${row.w}`.toLowerCase().includes(word) || word.length > 3 && row.i.includes(word)));
  if (!order) return found;
  const key = COLUMNS[order.column][1], sign = order.down ? -1 : 1;
  // Rows without a number come last, whichever way.
  return found.sort((a, b) => {
    const [one, two] = [key(a), key(b)];
    if (one === null || two === null) return (one === null) - (two === null);
    return sign * (typeof one === 'number' ? one - two : one.localeCompare(two, 'en', { numeric: true }));
  });
};

const draw = () => {
  const found = chosen();
  const rows = found.slice(0, shown).flatMap(row => [studyRow(row), ...(open.has(row.g) ? (listed.get(row.g) ?? []).map(runRow) : [])]);
  at('studies').tBodies[0].replaceChildren(...rows);
  at('count').textContent = found.length === total ? `${total} ${total === 1 ? 'study' : 'studies'}` : `${found.length} of ${total} studies`;
  at('more').hidden = found.length <= shown;
  [...at('studies').tHead.rows[0].cells].forEach((head, column) => {
    if (COLUMNS[column][1]) head.setAttribute('aria-sort', order?.column === column ? (order.down ? 'descending' : 'ascending') : 'none');
  });
};
let total = studies.length;

const options = (select, values) => {
  const value = select.value;
  const all = [...new Set(values)].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  select.replaceChildren(make('option', { value: '' }, 'all'), ...all.map(text => make('option', { value: text }, text)));
  select.value = all.includes(value) ? value : '';
};

// A ratio of two estimates that know nothing of each other, with its interval by MOVER on the log scale (Zou & Donner 2008).
const difference = (base, other) => {
  const ratio = other[2] / base[2];
  if (!(base[2] > 0 && other[2] > 0)) return null;
  if (![base[3], base[4], other[3], other[4]].every(limit => limit > 0)) return { ratio };
  const below = Math.hypot(Math.log(other[2] / other[3]), Math.log(base[4] / base[2]));
  const above = Math.hypot(Math.log(other[4] / other[2]), Math.log(base[2] / base[3]));
  return { ratio, lo: ratio * Math.exp(-below), hi: ratio * Math.exp(above) };
};
const places = found => Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(Math.max(found.hi - found.lo, 1e-6)))));
const differenceCell = found => {
  if (!found) return '';
  if (found.lo === undefined) return make('small', {}, `${number(found.ratio)} times (no interval)`);
  const text = value => value.toFixed(places(found));
  const tone = found.lo > 1 || found.hi < 1 ? 'differs' : 'open';
  return make('small', { class: tone }, `${text(found.ratio)} times (${text(found.lo)} to ${text(found.hi)})`);
};
const valueText = ([, unit, value, lo, hi]) => {
  const half = lo === null ? '' : ` (${number(lo)} to ${number(hi)})`;
  return `${number(value)}${half}${unit ? ` ${unit}` : ''}`;
};

const compare = () => {
  const section = at('comparison');
  section.hidden = !compared;
  if (!compared) { section.replaceChildren(); return; }
  const all = picked.map(id => runs.get(id)).filter(Boolean), base = all[0];
  if (all.length < 2) { section.replaceChildren('A selected run is no longer here; load the page again.'); return; }
  const studyOf = run => byNumber.get(run.g) ?? { t: '', m: '' };
  const names = [];
  for (const run of all) for (const [name, unit] of run.q) if (!names.some(([n, u]) => n === name && u === unit)) names.push([name, unit]);
  const find = (run, name, unit) => run.q.find(([n, u]) => n === name && u === unit);
  const letter = run => String.fromCharCode(65 + all.indexOf(run) % 26);
  const head = run => make('th', { scope: 'col' }, `${letter(run)} `, make('a', { href: run.p }, run.i),
    make('small', {}, studyOf(run).t), make('small', {}, `${day(run.d)}, baremark ${run.b}${run === base ? '; base' : ''}`), make('small', {}, studyOf(run).m));
  const row = ([name, unit]) => {
    const of = find(base, name, unit);
    return make('tr', {}, make('th', { scope: 'row' }, name, make('small', {}, name.includes(' / ') ? 'ratio' : '')), ...all.map(run => {
      const own = find(run, name, unit);
      return make('td', { 'data-run': letter(run) }, own ? valueText(own) : '\u2013', own && of && run !== base ? differenceCell(difference(of, own)) : '');
    }));
  };
  const close = make('button', { type: 'button' }, 'Close');
  close.addEventListener('click', () => { compared = false; state(); });
  section.replaceChildren(
    make('div', { class: 'bar' }, make('h2', { id: 'compared' }, `${all.length} runs side by side`), close),
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'comparison' },
      make('table', { class: 'side' }, make('thead', {}, make('tr', {}, make('td', {}), ...all.map(head))), make('tbody', {}, ...names.map(row)))),
    make('p', { class: 'note' }, 'Values with their intervals; below them the value over that of A, with the interval that follows from both. ' +
      'The interval excludes run-to-run variation. To include it, compare at least three runs per side:'),
    make('pre', {}, `baremark compare ${base.i} ${all.slice(1).map(run => run.i).join(',')}`));
};

// Everything that follows from what is selected; the address has it, too, so that Back and a bookmark keep it.
const state = async () => {
  const wanted = picked.filter(id => !runs.has(id)).map(id => studies.find(row => row.i === id)).filter(Boolean);
  for (const row of wanted) await loadRuns(row);
  const bar = at('picked');
  bar.hidden = picked.length === 0;
  const go = make('button', { type: 'button', disabled: picked.length < 2 }, 'Compare side by side');
  go.addEventListener('click', async () => { compared = true; await state(); at('comparison').scrollIntoView(); at('comparison').querySelector('button').focus({ preventScroll: true }); });
  const clear = make('button', { type: 'button' }, 'Clear');
  clear.addEventListener('click', () => { picked.length = 0; compared = false; state(); });
  bar.replaceChildren(picked.length === 1 ? '1 run is selected; select another' : `${picked.length} runs are selected`, go, clear);
  document.querySelectorAll('#studies input[data-run]').forEach(box => { box.checked = picked.includes(box.dataset.run); });
  compare();
  const address = new URLSearchParams();
  if (at('text').value) address.set('text', at('text').value);
  for (const id of ['kind', 'machine']) if (at(id).value) address.set(id, at(id).value);
  if (picked.length) address.set(compared ? 'compare' : 'select', picked.join(','));
  try { history.replaceState(null, '', address.size ? `#${address}` : location.pathname + location.search); } catch { /* Not from a disk. */ }
};

const heads = () => COLUMNS.map(([name, key], column) => {
  if (!key) return make(name ? 'th' : 'td', name ? { scope: 'col' } : {}, name);
  const button = make('button', { type: 'button' }, name);
  button.addEventListener('click', () => {
    order = { column, down: order?.column === column ? !order.down : column === 5 || column === 7 };
    draw();
  });
  return make('th', { scope: 'col' }, button);
});

const begin = async () => {
  at('studies').tHead.rows[0].replaceChildren(...heads());
  draw();
  const address = new URLSearchParams(location.hash.slice(1));
  for (const id of ['text', 'kind', 'machine']) at(id).addEventListener('input', () => { shown = 60; draw(); state(); });
  at('more').addEventListener('click', () => { shown += 200; draw(); });
  at('text').value = address.get('text') ?? '';
  // The rest comes after what is seen first.
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  for (let file = 0; file < first.files; file++) await load(`studies-${file}.js`);
  total = studies.length;
  options(at('kind'), studies.map(row => row.k));
  options(at('machine'), studies.map(row => row.m));
  for (const id of ['kind', 'machine']) if (!at(id).value) at(id).value = address.get(id) ?? '';
  const ids = (address.get('compare') ?? address.get('select') ?? '').split(',').filter(Boolean);
  const unknown = ids.filter(id => !studies.some(row => row.i === id));
  if (unknown.length) for (const row of studies.filter(row => row.n > 1)) { await loadRuns(row); if (unknown.every(id => runs.has(id))) break; }
  for (const id of ids) if (!picked.includes(id) && (runs.has(id) || studies.some(row => row.i === id))) picked.push(id);
  compared = address.has('compare') && picked.length > 1;
  draw();
  await state();
  document.body.dataset.ready = 'yes';
};
addEventListener('unhandledrejection', event => { at('count').textContent = event.reason.message; });
begin();
