// The front end: one page, no library. What users typed or named is only ever set as text, never as markup.
'use strict';

const main = document.getElementById('main');
const nav = document.getElementById('nav');
let me = null;
let leave = () => {};

const money = cents => (cents / 100).toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const day = ms => new Date(ms).toLocaleDateString(undefined, { year: 'numeric', month: 'short', day: 'numeric' });
const picture = (item, size) => `/api/items/${item}/images/0/${size}`;

// An element: el('p', { class: 'soft' }, 'text', child ...).
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter(child => child != null));
  return node;
}

class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    Object.assign(this, error, { status });
  }
}

async function call(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers['content-type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new Refused(response.status, answer.error || { code: 'unavailable', message: 'the server does not answer' });
}

function show(...nodes) {
  main.replaceChildren(...nodes);
}

function login() {
  nav.hidden = true;
  const error = el('p', { class: 'error', role: 'alert' });
  const name = el('input', { name: 'username', autocomplete: 'username', required: '', maxlength: 80 });
  const word = el('input', { name: 'password', type: 'password', autocomplete: 'current-password', required: '', maxlength: 128 });
  const button = el('button', {}, 'Log in');
  const submit = async event => {
    event.preventDefault();
    button.disabled = true;
    error.textContent = '';
    try {
      await call('POST', '/api/login', { username: name.value, password: word.value });
      await start();
    } catch (why) {
      error.textContent = why.message;
      button.disabled = false;
    }
  };
  show(el('form', { class: 'card narrow', onsubmit: submit }, el('h1', {}, 'Log in'),
    el('label', {}, 'Name', name), el('label', {}, 'Password', word), button, error));
  name.focus();
}

async function browse(page) {
  const { auctions, total, size } = await call('GET', `/api/auctions?page=${page}&size=12`);
  const cards = auctions.map(auction => el('a', { class: 'card', href: `#/auction/${auction.auction_id}` },
    el('img', { src: picture(auction.current_item || 1, 'thumbnail'), alt: '', width: 80, height: 80 }),
    el('span', {}, el('b', {}, auction.name), el('span', { class: 'soft' }, `${auction.items} items, round ${auction.round + 1}`))));
  const last = Math.max(0, Math.ceil(total / size) - 1);
  const step = (to, text) => el('button', { class: 'second', disabled: to < 0 || to > last ? '' : false,
    onclick: () => { location.hash = `#/page/${to}`; } }, text);
  show(el('h1', {}, 'Live auctions'), el('div', { class: 'grid' }, ...cards),
    el('div', { class: 'pager' }, step(page - 1, 'Back'), el('span', { class: 'soft' }, `${page + 1} of ${last + 1}`), step(page + 1, 'Next')));
}

async function room(id) {
  const auction = await call('GET', `/api/auctions/${id}`);
  let current = await call('POST', `/api/auctions/${id}/attendance`);
  let length = Math.max(1, current.closes_ms - Date.now());
  const image = el('img', { alt: '' });
  const title = el('h1', { id: 'item' });
  const about = el('p', { class: 'soft' });
  const state = el('span', { class: 'state', id: 'state' });
  const price = el('div', { class: 'price', id: 'price' });
  const holder = el('p', { class: 'soft', id: 'holder' });
  const clock = el('span', { class: 'soft', id: 'clock' });
  const rest = el('i');
  const amount = el('input', { id: 'amount', inputmode: 'decimal', autocomplete: 'off' });
  const button = el('button', { id: 'bid' }, 'Bid');
  const error = el('p', { class: 'error', role: 'alert', id: 'error' });
  const log = el('ol', { class: 'log', id: 'log' });

  const note = (text, side, mine) => {
    log.prepend(el('li', mine ? { class: 'mine' } : {}, el('span', {}, text), el('span', {}, side || '')));
    while (log.children.length > 50) log.lastChild.remove();
  };
  const draw = () => {
    const { item } = current;
    const words = { open: 'Open', lastcall: 'Last call', between: 'Next item is coming' };
    state.textContent = words[current.state];
    state.className = `state ${current.state}`;
    if (!item) return;
    if (image.dataset.item !== String(item.image_item)) {
      image.dataset.item = item.image_item;
      image.src = picture(item.image_item, 'preview');
    }
    title.textContent = item.name;
    about.textContent = `${item.manufacturer}, ${item.condition}. ${item.description}`;
    const mine = current.high_bidder === me.account_id;
    price.textContent = money(current.high_cents ?? item.starting_cents);
    holder.textContent = current.high_cents == null ? 'Starting price, no bid yet' : mine ? 'The high bid is yours' : `High bid of bidder ${current.high_bidder}`;
    if (document.activeElement !== amount || !(Math.round(Number(amount.value) * 100) >= current.minimum_cents)) amount.value = (current.minimum_cents / 100).toFixed(2);
    button.disabled = current.state === 'between' || mine;
  };
  const fresh = () => {
    price.classList.remove('fresh');
    void price.offsetWidth;
    price.classList.add('fresh');
  };
  const take = event => {
    current.order = event.order;
    current.closes_ms = event.closes_ms;
    length = Math.max(1, event.closes_ms - Date.now());
    if (event.minimum_cents) current.minimum_cents = event.minimum_cents;
    const mine = event.account_id === me.account_id;
    const who = mine ? 'You' : `Bidder ${event.account_id}`;
    if (event.type === 'bid') {
      current = { ...current, state: 'open', high_cents: event.amount_cents, high_bidder: event.account_id };
      note(who, money(event.amount_cents), mine);
      fresh();
    } else if (event.type === 'lastcall') {
      current.state = 'lastcall';
      note('Last call');
    } else if (event.type === 'sold') {
      current.state = 'between';
      note(mine ? 'Sold to you' : `Sold to bidder ${event.account_id}`, money(event.amount_cents), mine);
    } else if (event.type === 'returned') {
      current.state = 'between';
      note('Returned without a bid');
    } else if (event.type === 'opened') {
      call('GET', `/api/auctions/${id}/current`).then(now => {
        if (now.order >= current.order) current = now;
        error.textContent = '';
        draw();
      }).catch(() => {});
      note('Next item is open');
    }
    draw();
  };
  const bid = async event => {
    event.preventDefault();
    error.textContent = '';
    button.disabled = true;
    try {
      const cents = Math.round(Number(amount.value.replace(',', '')) * 100);
      await call('POST', `/api/auctions/${id}/bids`, { item_id: current.item.item_id, amount_cents: cents });
    } catch (why) {
      error.textContent = why.code === 'too_low' ? `At least ${money(why.minimum_cents)}` : why.message;
    }
    draw();
  };

  const stream = new EventSource(`/api/auctions/${id}/events`);
  stream.addEventListener('current', message => {
    current = JSON.parse(message.data);
    draw();
  });
  for (const type of ['bid', 'lastcall', 'sold', 'returned', 'opened']) {
    stream.addEventListener(type, message => take(JSON.parse(message.data)));
  }
  const tick = setInterval(() => {
    const left = Math.max(0, current.closes_ms - Date.now());
    const then = { open: 'until last call', lastcall: 'until sold', between: '' }[current.state];
    clock.textContent = then && `${Math.ceil(left / 1000)} s ${then}`;
    rest.style.width = `${Math.min(100, 100 * left / length)}%`;
  }, 200);
  leave = () => {
    stream.close();
    clearInterval(tick);
  };
  show(el('p', { class: 'soft' }, el('a', { href: '#/' }, 'Live auctions'), ` / ${auction.name}`),
    el('div', { class: 'room' }, el('div', {}, image),
      el('div', {}, title, about, state, ' ', clock, price, holder, el('div', { class: 'bar' }, rest),
        el('form', { class: 'bid', onsubmit: bid }, el('label', {}, 'Your bid', amount), button), error,
        el('h2', {}, 'What happened'), log)));
  draw();
}

function table(title, heads, rows, page, path) {
  const cell = (name, at, text) => el(name, heads[at].startsWith('$') ? { class: 'money' } : {}, text);
  const body = rows.map(row => el('tr', {}, ...row.map((text, at) => cell('td', at, text))));
  const step = (to, text, off) => el('button', { class: 'second', disabled: off ? '' : false,
    onclick: () => { location.hash = `#/${path}/${to}`; } }, text);
  show(el('h1', {}, title), rows.length ? el('div', { class: 'scroll card' }, el('table', {}, el('thead', {}, el('tr', {},
    ...heads.map((head, at) => cell('th', at, head.replace('$', ''))))), el('tbody', {}, ...body))) : el('p', { class: 'soft' }, 'Nothing here yet.'),
  el('div', { class: 'pager' }, step(page - 1, 'Newer', page === 0), step(page + 1, 'Older', rows.length < 20)));
}

const histories = {
  bids: async page => {
    const { bids } = await call('GET', `/api/bids?size=20&page=${page}`);
    table('My bids', ['Item', 'Placed', '$Amount'], bids.map(bid => [bid.item_name, day(bid.placed_ms), money(bid.amount_cents)]), page, 'bids');
  },
  purchases: async page => {
    const { purchases } = await call('GET', `/api/purchases?size=20&page=${page}`);
    table('My purchases', ['Item', 'Bought', '$Price'], purchases.map(it => [it.item_name, day(it.bought_ms), money(it.amount_cents)]), page, 'purchases');
  },
  attendances: async page => {
    const { attendances } = await call('GET', `/api/attendances?size=20&page=${page}`);
    table('Auctions I visited', ['Auction', 'Joined', 'Left'], attendances.map(it =>
      [it.auction_name, day(it.joined_ms), it.left_ms ? day(it.left_ms) : 'still there']), page, 'attendances');
  },
};

async function profile() {
  const mine = await call('GET', '/api/profile');
  const error = el('p', { class: 'error', role: 'alert' });
  const fields = [['first_name', 'First name'], ['last_name', 'Last name'], ['email', 'E-mail']];
  const inputs = fields.map(([name]) => el('input', { name, required: '' }));
  inputs.forEach((input, at) => { input.value = mine[fields[at][0]]; });
  const submit = async event => {
    event.preventDefault();
    try {
      await call('PUT', '/api/profile', Object.fromEntries(inputs.map(input => [input.name, input.value])));
      error.textContent = 'Stored.';
    } catch (why) {
      error.textContent = why.message;
    }
  };
  show(el('h1', {}, mine.username), el('p', {}, `You may spend ${money(mine.credit_cents - mine.held_cents)}; your high bids hold ${money(mine.held_cents)}.`),
    el('form', { class: 'card', onsubmit: submit }, ...fields.map(([, label], at) => el('label', {}, label, inputs[at])), el('button', {}, 'Store'), error));
}

async function route() {
  leave();
  leave = () => {};
  const [where, what] = location.hash.replace(/^#\//, '').split('/');
  const number = Number(what) || 0;
  for (const link of nav.querySelectorAll('a')) {
    const here = link.hash === `#/${where === 'page' || where === 'auction' ? '' : where}`;
    if (here) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  }
  try {
    if (where === 'auction') await room(number);
    else if (where === 'profile') await profile();
    else if (Object.hasOwn(histories, where)) await histories[where](number);
    else await browse(number);
  } catch (why) {
    if (why.status === 401) login();
    else show(el('h1', {}, 'That did not work'), el('p', { class: 'soft' }, why.message));
  }
}

async function start() {
  try {
    me = await call('GET', '/api/profile');
  } catch (why) {
    if (why.status === 401) { login(); return; }
    show(el('p', { class: 'error' }, why.message));
    return;
  }
  nav.hidden = false;
  await route();
}

document.getElementById('logout').addEventListener('click', async () => {
  leave();
  await call('POST', '/api/logout').catch(() => {});
  location.hash = '#/';
  login();
});
addEventListener('hashchange', () => { if (me) route(); });
start();
