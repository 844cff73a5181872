// What clicks and keys do.
const root = document.documentElement;
root.classList.add('js');
const draw = () => {
  const set = shown();
  if (state.theme) root.dataset.theme = state.theme; else delete root.dataset.theme;
  if (state.roof && !chosenRoof()) state.roof = '';
  if (state.sort === 'roof' && !state.roof) state.sort = 'saves';
  $('level').value = state.level;
  $('precision').value = state.precision;
  $('show').value = state.show;
  $('cold').checked = state.cold;
  $('shown').textContent = state.show + ' %';
  if ($('search').value !== state.q) $('search').value = state.q;
  drawTable(set);
  drawRoofline(set);
  drawFrames();
  drawDetail();
  writeAddress();
};
const select = (i, scroll) => {
  state.f = i === state.f ? -1 : i;
  if (state.f >= 0 && order.indexOf(i) >= state.rows) state.rows = Math.ceil((order.indexOf(i) + 1) / STEP) * STEP;
  draw();
  const row = document.querySelector('#functions tr.on');
  if (row && scroll) row.scrollIntoView({ block: 'nearest' });
};
const compare = (id) => { state.roof = id === state.roof ? '' : id; draw(); };
// A dot or a ceiling was clicked, or chosen by a key.
const chooseIn = (target) => {
  const g = target.closest('.rf-pt, [data-roof]');
  if (g && g.dataset.roof) compare(g.dataset.roof);
  else if (g) select(Number(g.dataset.f), true);
  return Boolean(g);
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
if (svg) svg.addEventListener('click', (e) => { if (!dragged) chooseIn(e.target); });
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
$('cold').parentNode.hidden = !byShare.some(isCold);
$('cold').addEventListener('change', (e) => { state.cold = e.target.checked; draw(); });
$('search').addEventListener('input', (e) => { state.q = e.target.value; draw(); });
$('level').addEventListener('change', (e) => { state.level = e.target.value; draw(); });
$('precision').parentNode.hidden = Object.keys(D.ranges).length < 2;
$('precision').addEventListener('change', (e) => { [state.precision, state.zoom] = [e.target.value, null]; draw(); });
$('show').addEventListener('input', (e) => { state.show = Number(e.target.value); draw(); });
$('more').addEventListener('click', () => { state.rows += STEP; draw(); });
$('theme').addEventListener('click', () => {
  const dark = state.theme ? state.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  state.theme = dark ? 'light' : 'dark';
  draw();
});
addEventListener('hashchange', () => { readAddress(); draw(); });
addEventListener('keydown', (e) => {
  const typing = e.target.matches('input, select, textarea');
  if (e.key === 'Escape') { e.target.blur(); [state.f, state.q, state.roof] = [-1, '', '']; draw(); }
  if (typing || e.ctrlKey || e.metaKey || e.altKey || zoomKey(e)) return;
  if (e.key === '/') { e.preventDefault(); $('search').focus(); }
  if (e.key === 'Enter' || e.key === ' ') {
    const row = e.target.closest('#functions tr[data-f]');
    if (row) select(Number(row.dataset.f), true);
    if (row || chooseIn(e.target)) e.preventDefault();
  }
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
  if (step && order.length) {
    e.preventDefault();
    const next = Math.min(Math.max(order.indexOf(state.f) + step, 0), order.length - 1);
    if (order[next] !== state.f) select(order[next], true);
  }
});
readAddress();
draw();
