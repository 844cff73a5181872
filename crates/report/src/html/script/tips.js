// Value, source and interval of what the pointer or the focus is on.
const tip = $('tip');
const sourceOf = (column, i) => D.sources[D[column][i]];
const withSource = (words, value, column, i) => `${words}: ${value ?? 'not measured'}` + (sourceOf(column, i) ? ` (${sourceOf(column, i)})` : '');
const from = (words, column, i) => sourceOf(column, i) && `${words}: ${sourceOf(column, i)}`;
const CELLS = {
  name: (i) => [D.name[i], D.places[D.place[i]]],
  saves: (i) => [`saves: ${COLUMNS.find((c) => c[0] === 'saves')[2](i) ?? 'no change found'}${D.by[i] ? ', by ' + D.by[i] : ''}`, 'computed: seconds of the whole program' + (D.limit[i] ? '; an upper limit' : '')],
  share: (i) => [withSource('share of CPU time', percent(D.share[i]), 'src_time', i)],
  time: (i) => [withSource('time', si(D.time[i], 's'), 'src_time', i), D.ci[i] === null ? '' : `95 % interval: ${si(Math.max(D.time[i] - D.ci[i], 0), 's')} to ${si(D.time[i] + D.ci[i], 's')}`],
  rate: (i) => [`rate: ${si(D.rate[i], unit(i) + '/s') ?? 'not measured'}`, from('operations', 'src_ops', i), from('time', 'src_time', i)],
  oi: (i) => [`intensity: ${intensity(i) === null ? 'not measured' : digits(intensity(i)) + ' ' + unit(i) + '/B'}`, from('operations', 'src_ops', i), from('bytes', 'src_bytes', i)],
  held: (i) => [`held by: ${cls(i)}`, D.low[i] ? 'low confidence' : ''],
  at: (i) => [`${D.least[i] ? 'at least ' : ''}${percent(D.at[i]) ?? 'not measured'} of its own bound`, 'computed: least time of the binding term / measured time', D.at[i] >= 1.005 && 'above 100 %: the ceiling (noise, a slower clock), the time or the bytes are off by that much'],
  roof: (i) => [`${percent(ofRoof(i)) ?? 'not measured'} of ${state.roof}`],
};
CELLS.by = CELLS.saves;
const ofFunction = (i) => [D.name[i], ...['time', 'share', 'rate', 'oi', 'held', 'at'].flatMap((key) => CELLS[key](i)), inInstructions(i)];
const inInstructions = (i) => counted() === 'instr' && drawnRate(i) !== null
  && `drawn: ${si(drawnRate(i), 'instr/s')}` + (intensity(i) === null ? '' : `, ${digits(drawn(i, intensity(i)))} instr/B`);
const ofRing = (i, level) => [D.name[i], `${digits(drawn(i, D[level][i]))} ${counted()}/B at ${level.toUpperCase()} (${level === 'l1' ? sourceOf('src_ops', i) : sourceOf('src_bytes', i)})`];
const ofRoofLine = (id) => {
  const r = D.roofs.find((roof) => roof.id === id), u = r.level ? 'B/s' : counted() + '/s';
  const interval = r.spread === null ? 'interval: not known' : `interval: ${si(r.value * (1 - r.spread), u)} to ${si(r.value * (1 + r.spread), u)}`;
  return [r.label, `${r.id}: ${si(r.value, u)}, ${r.how}, ${r.quality}, ${r.threads} threads`, interval, 'click: compare all functions with it'];
};
const linesAt = (target) => {
  const e = target instanceof Element ? target.closest('[data-ring], .rf-pt, [data-roof], td[data-key], tr[data-f]') : null;
  if (!e) return null;
  const i = Number((e.closest('[data-f]') || e).dataset.f);
  const lines = e.dataset.ring ? ofRing(i, e.dataset.ring) : e.dataset.roof ? ofRoofLine(e.dataset.roof) : e.dataset.key ? CELLS[e.dataset.key](i) : ofFunction(i);
  return [e, lines.filter((line) => line)];
};
const showTip = (target) => {
  const found = linesAt(target);
  tip.hidden = !found;
  if (!found) return;
  tip.replaceChildren(...found[1].map((line) => element('div', line)));
  const at = found[0].getBoundingClientRect(), own = tip.getBoundingClientRect();
  const below = at.bottom + 8 + own.height < innerHeight;
  tip.style.left = Math.max(4, Math.min(at.left + Math.min(at.width / 2, 60), innerWidth - own.width - 4)) + 'px';
  tip.style.top = Math.max(4, below ? at.bottom + 8 : at.top - own.height - 8) + 'px';
};
document.addEventListener('pointerover', (e) => showTip(drag ? null : e.target));
document.addEventListener('focusin', (e) => showTip(e.target.matches(':focus-visible') ? e.target : null));
document.addEventListener('focusout', () => showTip(null));
document.addEventListener('scroll', () => showTip(null), { capture: true, passive: true });
