// What is chosen. The address holds it, so that a link restores it.
const STEP = 200;
const SORTS = ['name', 'saves', 'by', 'share', 'time', 'rate', 'oi', 'held', 'at', 'roof'];
const state = { f: -1, level: 'outer', precision: '', show: 100, q: '', sort: 'saves', up: false, theme: '', roof: '', zoom: null, rows: STEP, cold: false };
const roofs = () => D.roofs.filter((r) => !r.precision || r.precision === precision());
const precision = () => state.precision || D.precision;
const chosenRoof = () => roofs().find((r) => r.id === state.roof);
// What the picture counts: FLOPs, or instructions, which every function has.
const counted = () => precision() === 'instructions' ? 'instr' : 'FLOP';
// Operations of the picture for each of a function's own; null where it has no place.
const factor = (i) => counted() === 'instr' ? D.instr[i] : D.axis[i] === 'flop' ? 1 : null;
const drawn = (i, value) => factor(i) === null || value === null ? null : value * factor(i);
const drawnRate = (i) => drawn(i, D.rate[i]);
const intensity = (i) => state.level === 'outer' ? outer(i) : D[state.level === 'aware' ? 'l1' : state.level][i];

// Share of the chosen ceiling that a function reaches: of its rate, or of a bandwidth the bytes a second that cross that level.
const ofRoof = (i) => {
  const roof = chosenRoof();
  if (!roof || D.rate[i] === null) return null;
  if (!roof.level) return drawnRate(i) === null ? null : drawnRate(i) / roof.value;
  const oi = D[roof.level][i];
  return oi > 0 ? D.rate[i] / oi / roof.value : null;
};

const writeAddress = () => {
  const p = new URLSearchParams();
  // An address without one has the function of the verdict, one with an empty name has none.
  if (state.f < 0 && D.start >= 0) p.set('f', '');
  else if (state.f >= 0 && state.f !== D.start) p.set('f', D.name[state.f] + (D.name.indexOf(D.name[state.f]) === state.f ? '' : '#' + state.f));
  if (state.level !== 'outer') p.set('level', state.level);
  if (state.precision) p.set('precision', state.precision);
  if (state.roof) p.set('roof', state.roof);
  if (state.show !== 100) p.set('show', state.show);
  if (state.q) p.set('q', state.q);
  if (state.sort !== 'saves' || state.up) p.set('sort', (state.up ? '-' : '') + state.sort);
  if (state.cold) p.set('cold', '1');
  if (state.theme) p.set('theme', state.theme);
  if (state.zoom) p.set('zoom', state.zoom.map((v) => v.toPrecision(4)).join(','));
  const hash = '#' + p;
  if (hash !== location.hash && !(hash === '#' && !location.hash)) history.replaceState(null, '', hash === '#' ? location.pathname : hash);
};

const readAddress = () => {
  const p = new URLSearchParams(location.hash.slice(1));
  const name = p.get('f'), numbered = name && /#(\d+)$/.exec(name);
  state.cold = p.get('cold') === '1';
  state.f = name === null ? D.start : numbered && Number(numbered[1]) < N ? Number(numbered[1]) : D.name.indexOf(name);
  state.level = [...LEVELS, 'aware'].includes(p.get('level')) ? p.get('level') : 'outer';
  state.precision = Object.keys(D.ranges).includes(p.get('precision')) ? p.get('precision') : '';
  state.roof = D.roofs.some((r) => r.id === p.get('roof')) ? p.get('roof') : '';
  const show = Number(p.get('show') ?? 100);
  state.show = show >= 1 && show <= 100 ? show : 100;
  state.q = p.get('q') || '';
  const sort = p.get('sort') || 'saves', key = sort.replace(/^-/, '');
  [state.sort, state.up] = SORTS.includes(key) ? [key, sort.startsWith('-')] : ['saves', false];
  state.theme = ['dark', 'light'].includes(p.get('theme')) ? p.get('theme') : '';
  const zoom = (p.get('zoom') || '').split(',').map(Number);
  state.zoom = zoom.length === 4 && zoom.every((v) => v > 0 && v < 1e30) && zoom[1] > zoom[0] && zoom[3] > zoom[2] ? zoom : null;
};
