'use strict';
// The page's own script. Data: #data, columns of all functions. Names only ever become text, never markup.
(() => {
  const D = JSON.parse(document.getElementById('data').textContent);
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement, svg = document.querySelector('#roofline svg'), N = D.name.length;
  const LEVELS = ['l1', 'l2', 'l3', 'dram'], STEP = 200;
  const state = { f: -1, level: 'outer', show: 100, q: '', sort: 'saves', up: false, theme: '', rows: STEP };
  root.classList.add('js');

  // Numbers as the reports print them.
  const digits = (v) => v === 0 ? '0' : v >= 9999.5 ? v.toExponential(2) : v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v >= 0.9995 ? v.toFixed(2)
    : v >= 0.001 ? v.toPrecision(3) : v.toExponential(2);
  const si = (v, unit) => {
    if (v === null) return null;
    const all = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, ''], [1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n']];
    const p = all.find((x) => Math.abs(v) * 1.0005 >= x[0]) || all[8];
    return v === 0 ? '0 ' + unit : digits(v / p[0]) + ' ' + p[1] + unit;
  };
  const percent = (v) => v === null ? null : (Math.abs(v) < 0.0995 ? (100 * v).toFixed(1) : (100 * v).toFixed(0)) + ' %';
  const unit = (i) => ({ int: 'op', byte: 'B' })[D.axis[i]] || 'FLOP';
  const outer = (i) => D.dram[i] ?? D.l3[i] ?? D.l2[i] ?? D.l1[i];
  const intensity = (i) => state.level === 'outer' ? outer(i) : D[state.level === 'aware' ? 'l1' : state.level][i];
  const cls = (i) => D.classes[D.class[i]];

  const COLUMNS = [
    ['name', (i) => D.name[i], null],
    ['saves', (i) => D.saves[i], (i) => D.saves[i] === null ? null : (D.limit[i] ? '≤ ' : '') + si(D.saves[i], 's')],
    ['by', (i) => D.by[i], (i) => D.by[i]],
    ['share', (i) => D.share[i], (i) => percent(D.share[i])],
    ['time', (i) => D.time[i], (i) => si(D.time[i], 's')],
    ['rate', (i) => D.rate[i], (i) => si(D.rate[i], unit(i) + '/s')],
    ['oi', intensity, (i) => intensity(i) === null ? null : digits(intensity(i))],
    ['held', cls, (i) => cls(i) + (D.low[i] ? ' (low)' : '')],
    ['at', (i) => D.at[i], (i) => D.at[i] === null ? null : (D.least[i] ? '≥ ' : '') + percent(D.at[i])],
  ];

  // Which functions are shown: those with the first N % of the time whose name contains what is searched for.
  const byShare = [...Array(N).keys()].sort((a, b) => (D.share[b] ?? -1) - (D.share[a] ?? -1));
  const shown = () => {
    const total = D.share.reduce((s, v) => s + (v || 0), 0);
    const q = state.q.toLowerCase();
    let sum = 0;
    const set = new Set();
    for (const i of byShare) {
      if (state.show < 100 && (D.share[i] === null || sum >= state.show / 100 * total - 1e-12)) break;
      sum += D.share[i] || 0;
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

  const element = (tag, text, className) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };
  let order = [];
  const drawTable = (set) => {
    order = sorted(set);
    const body = $('functions').tBodies[0];
    body.replaceChildren(...order.slice(0, state.rows).map((i) => {
      const row = element('tr');
      row.dataset.f = i;
      const first = element('td', undefined, 'named');
      const dot = element('span', undefined, 'dot');
      dot.style.background = D.colors[D.class[i]];
      first.append(dot, element('span', D.name[i], 'n'), element('span', D.places[D.place[i]], 'place'));
      row.append(first);
      for (const [key, , cell] of COLUMNS.slice(1)) {
        const text = cell(i), words = key === 'held' || key === 'by';
        row.append(text === null ? element('td', '–', 'absent') : element('td', text, words ? 'words' : ''));
      }
      if (D.built[i]) row.lastChild.append(element('span', [' \u2713', ' \u2717'][D.built[i] - 1], 'place'));
      first.title = D.name[i];
      row.classList.toggle('on', i === state.f);
      return row;
    }));
    const rest = order.length - Math.min(order.length, state.rows);
    $('more').hidden = rest === 0;
    $('more').textContent = `${rest} more rows`;
    $('count').textContent = `${order.length} of ${D.all} functions`;
    document.querySelectorAll('#functions th').forEach((th) => {
      th.setAttribute('aria-sort', th.dataset.key === state.sort ? (state.up ? 'ascending' : 'descending') : 'none');
    });
  };

  // The roofline: dots move with the level; the slope of that level stands out.
  const axes = svg && svg.querySelector('[data-x]');
  const scale = (name) => {
    const [low, high, from, to] = axes.dataset[name].split(' ').map(Number);
    return (v) => from + (to - from) * Math.log(v / low) / Math.log(high / low);
  };
  const drawDots = (set) => {
    if (!axes) return;
    const x = scale('x'), y = scale('y'), [, , left, right] = axes.dataset.x.split(' ').map(Number);
    let absent = 0;
    svg.querySelectorAll('.rf-pt').forEach((g) => {
      const i = Number(g.dataset.f), oi = intensity(i), visible = set.has(i) && oi !== null && oi > 0;
      if (set.has(i) && !visible) absent += 1;
      g.style.display = visible ? '' : 'none';
      if (visible) {
        const to = state.level === 'outer' ? Number(g.dataset.at) : Math.min(Math.max(x(oi), left), right - 8);
        g.setAttribute('transform', `translate(${(to - Number(g.dataset.at)).toFixed(1)} 0)`);
      }
      g.classList.toggle('rf-on', i === state.f);
      g.classList.toggle('rf-off', state.f >= 0 && i !== state.f);
      g.querySelectorAll('.rf-levels').forEach((rings) => { rings.style.display = state.level === 'outer' ? '' : 'none'; });
    });
    svg.querySelectorAll('[data-level]').forEach((line) => {
      const own = state.level === 'outer' || state.level === 'aware' || line.dataset.level === state.level;
      line.style.opacity = own ? '' : '0.25';
    });
    svg.querySelectorAll('.rf-extra').forEach((e) => e.remove());
    const f = state.f;
    if (f >= 0 && !svg.querySelector(`.rf-pt[data-f="${f}"]`) && D.axis[f] === 'flop' && D.rate[f] > 0 && intensity(f) > 0) {
      const c = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
      c.setAttribute('class', 'rf-dot rf-extra');
      c.setAttribute('cx', Math.min(Math.max(x(intensity(f)), left), right));
      c.setAttribute('cy', y(D.rate[f]));
      c.setAttribute('r', 7);
      c.setAttribute('fill', D.colors[D.class[f]]);
      axes.parentNode.append(c);
    }
    const where = { outer: 'outermost level measured', aware: 'L1 bytes against all bandwidths', l1: 'L1', l2: 'L2', l3: 'L3', dram: 'DRAM' };
    $('levelnote').textContent = `intensity: ${where[state.level]}` + (absent ? `; ${absent} functions without bytes there` : '');
  };

  // The flame graph is a document of its own in a frame.
  const frames = () => {
    const doc = $('flames') && $('flames').contentDocument;
    return doc ? [...doc.querySelectorAll('g > title')] : [];
  };
  const frameOf = (i) => D.name[i].replace(/;/g, ':');
  const frameName = (title) => title.textContent.replace(/ \([^()]*\)$/, '');
  const drawFrames = () => {
    for (const title of frames()) {
      const own = state.f < 0 || frameName(title) === frameOf(state.f);
      title.parentNode.style.opacity = own ? '' : '0.35';
    }
  };

  const drawDetail = () => {
    let found = false;
    document.querySelectorAll('.function').forEach((section) => {
      const own = Number(section.dataset.f) === state.f;
      section.classList.toggle('on', own);
      found = found || own;
    });
    const note = $('nodetail');
    note.hidden = found;
    note.textContent = state.f < 0 ? 'Select a function: click a row, a dot or a frame.'
      : `${D.name[state.f]}: all of it with  rprof report PROFILE --function NAME  (this page has the details of the first ${D.detailed}).`;
  };

  const write = () => {
    const p = new URLSearchParams();
    if (state.f >= 0) p.set('f', D.name[state.f] + (D.name.indexOf(D.name[state.f]) === state.f ? '' : '#' + state.f));
    if (state.level !== 'outer') p.set('level', state.level);
    if (state.show !== 100) p.set('show', state.show);
    if (state.q) p.set('q', state.q);
    if (state.sort !== 'saves' || state.up) p.set('sort', (state.up ? '-' : '') + state.sort);
    if (state.theme) p.set('theme', state.theme);
    const hash = '#' + p;
    if (hash !== location.hash && !(hash === '#' && !location.hash)) history.replaceState(null, '', hash === '#' ? location.pathname : hash);
  };
  const read = () => {
    const p = new URLSearchParams(location.hash.slice(1));
    const name = p.get('f'), numbered = name && /#(\d+)$/.exec(name);
    state.f = name === null ? -1 : numbered && Number(numbered[1]) < N ? Number(numbered[1]) : D.name.indexOf(name);
    state.level = [...LEVELS, 'aware'].includes(p.get('level')) ? p.get('level') : 'outer';
    const show = Number(p.get('show') ?? 100);
    state.show = show >= 1 && show <= 100 ? show : 100;
    state.q = p.get('q') || '';
    const sort = p.get('sort') || 'saves', key = sort.replace(/^-/, '');
    [state.sort, state.up] = COLUMNS.some((c) => c[0] === key) ? [key, sort.startsWith('-')] : ['saves', false];
    state.theme = ['dark', 'light'].includes(p.get('theme')) ? p.get('theme') : '';
  };
  const draw = () => {
    const set = shown();
    if (state.theme) root.dataset.theme = state.theme; else delete root.dataset.theme;
    $('level').value = state.level;
    $('show').value = state.show;
    $('shown').textContent = state.show + ' %';
    if ($('search').value !== state.q) $('search').value = state.q;
    drawTable(set);
    drawDots(set);
    drawFrames();
    drawDetail();
    write();
  };
  const select = (i, scroll) => {
    state.f = i === state.f ? -1 : i;
    if (state.f >= 0 && order.indexOf(i) >= state.rows) state.rows = Math.ceil((order.indexOf(i) + 1) / STEP) * STEP;
    draw();
    const row = document.querySelector('#functions tr.on');
    if (row && scroll) row.scrollIntoView({ block: 'nearest' });
  };

  $('functions').tHead.addEventListener('click', (e) => {
    const key = e.target.closest('th') && e.target.closest('th').dataset.key;
    if (!key) return;
    const words = ['name', 'by', 'held'].includes(key);
    [state.up, state.sort] = [state.sort === key ? !state.up : words, key];
    draw();
  });
  $('functions').tBodies[0].addEventListener('click', (e) => {
    const row = e.target.closest('tr[data-f]');
    if (row && !String(getSelection())) select(Number(row.dataset.f), false);
  });
  if (svg) svg.addEventListener('click', (e) => {
    const g = e.target.closest('.rf-pt');
    if (g) select(Number(g.dataset.f), true);
  });
  const listen = () => {
    const doc = $('flames') && $('flames').contentDocument;
    if (!doc || !doc.querySelector('svg')) return;
    doc.addEventListener('click', (e) => {
      const g = e.target.closest && e.target.closest('g'), title = g && g.querySelector('title');
      const i = title ? D.name.findIndex((name, k) => frameOf(k) === frameName(title)) : -1;
      if (i >= 0 && i !== state.f) select(i, true);
    });
    drawFrames();
  };
  if ($('flames')) {
    $('flames').addEventListener('load', listen);
    listen();
  }
  $('search').addEventListener('input', (e) => { state.q = e.target.value; draw(); });
  $('level').addEventListener('change', (e) => { state.level = e.target.value; draw(); });
  $('show').addEventListener('input', (e) => { state.show = Number(e.target.value); draw(); });
  $('more').addEventListener('click', () => { state.rows += STEP; draw(); });
  $('theme').addEventListener('click', () => {
    const dark = state.theme ? state.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    state.theme = dark ? 'light' : 'dark';
    draw();
  });
  addEventListener('hashchange', () => { read(); draw(); });
  addEventListener('keydown', (e) => {
    const typing = e.target.matches('input, select, textarea');
    if (e.key === 'Escape') { e.target.blur(); state.f = -1; state.q = ''; draw(); }
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === '/') { e.preventDefault(); $('search').focus(); }
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
    if (step && order.length) {
      e.preventDefault();
      const next = Math.min(Math.max(order.indexOf(state.f) + step, 0), order.length - 1);
      if (order[next] !== state.f) select(order[next], true);
    }
  });

  // Export of what is seen.
  const save = (name, type, text) => {
    const a = element('a');
    a.href = URL.createObjectURL(new Blob([text], { type }));
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  };
  const csv = () => {
    const quote = (v) => v === null || v === undefined ? '' : /[",\n\r]/.test(String(v)) ? '"' + String(v).replace(/"/g, '""') + '"' : v;
    const row = (cells) => cells.map(quote).join(',');
    const keys = ['name', 'place', 'share', 'time', 'rate', 'axis', 'l1', 'l2', 'l3', 'dram', 'at', 'saves', 'by'];
    return [row([...keys, 'class']), ...order.map((i) => row([...keys.map((k) => k === 'place' ? D.places[D.place[i]] : D[k][i]), cls(i)]))].join('\r\n') + '\r\n';
  };
  $('csv').addEventListener('click', () => save('functions.csv', 'text/csv', csv()));
  $('json').addEventListener('click', () => save('functions.json', 'application/json', JSON.stringify(D)));
  $('svg').addEventListener('click', () => svg && save('roofline.svg', 'image/svg+xml', new XMLSerializer().serializeToString(svg)));

  read();
  draw();
})();
