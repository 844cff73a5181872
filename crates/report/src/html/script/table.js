// The table: which functions are shown, in which order.
const COLUMNS = [
  ['name', (i) => D.name[i], null],
  ['roof', ofRoof, (i) => percent(ofRoof(i))],
  ['saves', (i) => D.saves[i], (i) => D.saves[i] === null ? null : (D.limit[i] ? '≤ ' : '') + si(D.saves[i], 's')],
  ['by', (i) => D.by[i], (i) => D.by[i]],
  ['share', (i) => D.share[i], (i) => percent(D.share[i])],
  ['time', (i) => D.time[i], (i) => si(D.time[i], 's')],
  ['rate', (i) => D.rate[i], (i) => si(D.rate[i], unit(i) + '/s')],
  ['oi', intensity, (i) => intensity(i) === null ? null : digits(intensity(i))],
  ['held', cls, (i) => cls(i) + (D.low[i] ? ' (low)' : '')],
  ['at', (i) => D.at[i], (i) => D.at[i] === null ? null : (D.least[i] ? '≥ ' : '') + percent(D.at[i])],
];

// Those with the first N % of the time whose name or class contains what is searched for.
const byShare = [...Array(N).keys()].sort((a, b) => (D.share[b] ?? -1) - (D.share[a] ?? -1));
const whole = D.share.reduce((s, v) => s + (v || 0), 0);
// Functions without a sample have a switch, if others have some.
const isCold = (i) => whole > 0 && D.share[i] === null;
const shown = () => {
  const q = state.q.toLowerCase(), set = new Set();
  let sum = 0;
  for (const i of byShare) {
    if (state.show < 100 && (D.share[i] === null || sum >= state.show / 100 * whole - 1e-12)) break;
    sum += D.share[i] || 0;
    if (isCold(i) && !state.cold && !q && i !== state.f) continue;
    if (!q || D.name[i].toLowerCase().includes(q) || cls(i).includes(q)) set.add(i);
  }
  return set;
};
const sorted = (set) => {
  const value = COLUMNS.find((c) => c[0] === state.sort)[1], sign = state.up ? 1 : -1;
  return [...set].sort((a, b) => {
    const x = value(a), y = value(b);
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    return sign * (typeof x === 'string' ? x.localeCompare(y) : x - y) || (D.share[b] ?? -1) - (D.share[a] ?? -1) || a - b;
  });
};

let order = [];
// A long name breaks between its words first.
const breakable = (name) => {
  const span = element('span', undefined, 'n');
  name.split(/(?<=_|::|[,<(])/).forEach((part) => span.append(part, element('wbr')));
  return span;
};
const tableRow = (i) => {
  const row = element('tr');
  row.dataset.f = i;
  row.tabIndex = 0;
  const first = element('td', undefined, 'named'), dot = element('span', undefined, 'dot');
  dot.style.background = D.colors[D.class[i]];
  first.append(dot, breakable(D.name[i]), element('span', D.places[D.place[i]], 'place'));
  first.dataset.key = 'name';
  row.append(first);
  for (const [key, , cell] of COLUMNS.slice(1)) {
    if (key === 'roof' && !chosenRoof()) continue;
    const text = cell(i), words = key === 'held' || key === 'by';
    const td = text === null ? element('td', '–', words ? 'absent words' : 'absent') : element('td', text, words ? 'words' : '');
    if (key === 'at' && D.built[i]) td.append(element('span', [' \u2713', ' \u2717'][D.built[i] - 1], 'place'));
    td.dataset.key = key;
    row.append(td);
  }
  row.classList.toggle('on', i === state.f);
  row.classList.toggle('cold', D.share[i] === null);
  return row;
};
const drawTable = (set) => {
  const heads = $('functions').tHead.rows[0], old = heads.querySelector('[data-key="roof"]'), roof = chosenRoof();
  if (old) old.remove();
  if (roof) {
    const th = element('th', 'of ' + roof.id);
    th.dataset.key = 'roof';
    th.title = 'share of the chosen ceiling: ' + roof.label;
    heads.cells[0].after(th);
  }
  order = sorted(set);
  $('functions').tBodies[0].replaceChildren(...order.slice(0, state.rows).map(tableRow));
  const rest = order.length - Math.min(order.length, state.rows);
  $('more').hidden = rest === 0;
  $('more').textContent = `${rest} more rows`;
  $('count').textContent = `${order.length} of ${D.all} functions`;
  heads.querySelectorAll('th').forEach((th) => {
    th.setAttribute('aria-sort', th.dataset.key === state.sort ? (state.up ? 'ascending' : 'descending') : 'none');
  });
};
