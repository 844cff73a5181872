// The roofline: the body of the picture is drawn again whenever the axes, the level, the precision or the selection change.
const svg = document.querySelector('#roofline svg');
const body = svg && svg.querySelector('.rf-body'), axes = svg && svg.querySelector('[data-x]');
const MOST_DOTS = 40, LEAST_SHARE = 0.005;
const node = (tag, attributes, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, typeof value === 'number' ? Math.round(value * 10) / 10 : value);
  e.append(...children);
  return e;
};
// Drawing area: left, right, bottom, top.
const [LEFT, RIGHT] = axes ? axes.dataset.x.split(' ').slice(2).map(Number) : [0, 1];
const [BOTTOM, TOP] = axes ? axes.dataset.y.split(' ').slice(2).map(Number) : [1, 0];
const view = () => state.zoom || D.ranges[precision()];
const scales = () => {
  const [x0, x1, y0, y1] = view(), of = (low, high, from, to) => (v) => from + (to - from) * Math.log(v / low) / Math.log(high / low);
  return [of(x0, x1, LEFT, RIGHT), of(y0, y1, BOTTOM, TOP)];
};

// Lines at each digit; labels at powers of ten, or at more where few fit.
const multiples = (low, high, factors) => {
  const all = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) factors.forEach((f) => all.push(Number(`${f}e${e}`)));
  return all.filter((v) => v >= low * 0.999 && v <= high * 1.001);
};
const steps = (low, high) => {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough)), step = power * [1, 2, 5, 10].find((f) => f * power >= rough);
  const all = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) all.push(Number(v.toPrecision(6)));
  return all;
};
const ticks = (low, high) => [[1], [1, 2, 5]].map((f) => multiples(low, high, f)).find((all) => all.length >= 3) || steps(low, high);
const drawAxes = (x, y) => {
  const [x0, x1, y0, y1] = view(), old = axes.querySelectorAll('.rf-fine, .rf-grid, .rf-tick'), first = axes.querySelector('.rf-frame');
  old.forEach((e) => e.remove());
  const short = (text) => text.replace(/\.0+(?= |$)/, '').replace(/(\.\d*[1-9])0+(?= |$)/, '$1');
  const vertical = (v, cls) => node('line', { x1: x(v), x2: x(v), y1: TOP, y2: BOTTOM, class: cls });
  const horizontal = (v, cls) => node('line', { x1: LEFT, x2: RIGHT, y1: y(v), y2: y(v), class: cls });
  const all = [];
  multiples(x0, x1, [2, 3, 4, 5, 6, 7, 8, 9]).forEach((v) => all.push(vertical(v, 'rf-fine')));
  multiples(y0, y1, [2, 3, 4, 5, 6, 7, 8, 9]).forEach((v) => all.push(horizontal(v, 'rf-fine')));
  for (const v of ticks(x0, x1)) {
    const text = v >= 0.001 && v < 10000 ? String(v) : v.toExponential();
    all.push(vertical(v, 'rf-grid'), node('text', { x: x(v), y: BOTTOM + 18, class: 'rf-tick', 'text-anchor': 'middle' }, text));
  }
  for (const v of ticks(y0, y1)) {
    all.push(horizontal(v, 'rf-grid'), node('text', { x: LEFT - 8, y: y(v) + 4, class: 'rf-tick', 'text-anchor': 'end' }, short(si(v, counted() + '/s'))));
  }
  first.before(...all);
  const title = axes.querySelector('.rf-axis');
  title.textContent = title.textContent.replace(/\[.*?\/byte\]/, counted() === 'instr' ? '[instructions/byte]' : '[FLOP/byte]');
  axes.dataset.x = `${x0} ${x1} ${LEFT} ${RIGHT}`;
  axes.dataset.y = `${y0} ${y1} ${BOTTOM} ${TOP}`;
};

// A ceiling goes from the fastest slope to the right edge, a slope up to the highest ceiling: intensities and rates of both ends; null outside.
const endsOf = (roof) => {
  const [x0, x1, y0, y1] = view(), flat = !roof.level, of = roofs();
  const fastest = Math.max(0, ...of.filter((r) => r.level).map((r) => r.value));
  const highest = Math.max(0, ...of.filter((r) => !r.level).map((r) => r.value)) || y1;
  const from = flat ? (fastest ? Math.max(roof.value / fastest, x0) : x0) : Math.max(x0, y0 / roof.value);
  const to = flat ? x1 : Math.min(highest / roof.value, x1);
  const rate = (oi) => flat ? roof.value : oi * roof.value;
  return to <= from || rate(to) < y0 || rate(from) > y1 ? null : { from, to, rate };
};
const lineOf = (roof, x, y) => {
  const ends = endsOf(roof);
  return ends && [ends.from, ends.to].map((oi) => [x(oi), y(ends.rate(oi))]);
};
// Each is a button with a wide invisible line.
const drawRoof = (roof, x, y, taken) => {
  const found = endsOf(roof), flat = !roof.level, of = roofs();
  if (!found) return null;
  const { from, to, rate } = found, [a, b] = lineOf(roof, x, y);
  const ends = { x1: a[0], y1: a[1], x2: b[0], y2: b[1] };
  // A slope is bold up to the roof, thin on to the highest mix.
  const bold = of.find((r) => r.class === 'rf-roof'), knee = flat || !bold ? to : Math.min(Math.max(bold.value / roof.value, from), to);
  const k = { x: x(knee), y: y(rate(knee)) };
  const parts = [node('line', { ...ends, x2: k.x, y2: k.y, class: roof.class })];
  if (knee < to) parts.push(node('line', { ...ends, x1: k.x, y1: k.y, class: 'rf-slope' }));
  const chosen = chosenRoof(), above = chosen && chosen.level === roof.level && roof.value > chosen.value;
  const other = roof.level && state.level !== 'outer' && state.level !== 'aware' && roof.level !== state.level;
  const g = node('g', {
    class: 'rf-control' + (roof === chosen ? ' rf-chosen' : '') + (above ? ' rf-above' : ''), 'data-roof': roof.id, tabindex: 0, role: 'button',
    'aria-pressed': roof === chosen, 'aria-label': roof.label, ...(roof.level ? { 'data-level': roof.level } : {}), ...(other ? { style: 'opacity: 0.25' } : {}),
  }, node('line', { ...ends, class: 'rf-hit' }), ...parts);
  const width = textWidth(roof.label, 400, 11), angle = Math.atan2(b[1] - a[1], b[0] - a[0]), run = Math.hypot(b[0] - a[0], b[1] - a[1]);
  const places = [];
  if (flat) {
    for (const below of [-5, 13]) {
      for (let end = RIGHT - 8; end - width > a[0]; end -= 30) places.push({ x: end - width, y: a[1] + below, shape: textShape(end - width, a[1] + below, width, 11) });
    }
  } else {
    for (const above of [6, -13]) {
      for (let along = 12; along < run - width - 12; along += 24) {
        const at = [a[0] + along * Math.cos(angle) + above * Math.sin(angle), a[1] + along * Math.sin(angle) - above * Math.cos(angle)];
        places.push({ x: at[0], y: at[1], shape: textShape(at[0], at[1], width, 11, angle) });
      }
    }
  }
  const at = taken.place(places);
  if (at) {
    const turn = flat ? {} : { transform: `rotate(${(angle * 180 / Math.PI).toFixed(1)} ${at.x.toFixed(1)} ${at.y.toFixed(1)})` };
    g.append(node('text', { x: at.x, y: at.y, class: (flat ? 'rf-label' : 'rf-slope-label') + ' rf-halo', ...turn }, roof.label));
  }
  return g;
};

const radius = (i) => 4 + 14 * Math.sqrt(Math.min(Math.max(D.share[i] || 0, 0), 1));
const onAxes = (i) => drawnRate(i) > 0 && intensity(i) > 0;
// Functions with a dot, the hottest first, and how many of those shown have no intensity at this level.
const dotted = (set) => {
  const all = byShare.filter((i) => set.has(i) && drawnRate(i) > 0 && (D.share[i] >= LEAST_SHARE || D.built[i])
    && (!state.precision || counted() === 'instr' || !D.prec[i] || D.prec[i] === state.precision)).slice(0, MOST_DOTS);
  if (state.f >= 0 && !all.includes(state.f) && onAxes(state.f)) all.push(state.f);
  const dots = all.filter(onAxes);
  return [dots, all.length - dots.length];
};
// At the right edge where its intensity is beyond the axis that shows everything; a zoomed picture leaves out what is outside.
const spot = (i, x, y) => {
  const oi = drawn(i, intensity(i)), beyond = !state.zoom && oi > view()[1];
  return { x: beyond ? RIGHT - radius(i) - 2 : Math.min(x(oi), state.zoom ? Infinity : RIGHT - 8), y: y(drawnRate(i)), beyond };
};
const inside = (at) => at.x >= LEFT && at.x <= RIGHT && at.y >= TOP && at.y <= BOTTOM;

const drawDot = (i, at, rank, x, y) => {
  const color = D.colors[D.class[i]], r = radius(i);
  const g = node('g', { class: 'rf-pt' + (i === state.f ? ' rf-on' : state.f >= 0 ? ' rf-off' : ''), 'data-f': i, tabindex: 0, role: 'button', 'aria-label': D.name[i] });
  if (state.level === 'outer' && D.share[i] >= 0.05 && rank < 8) {
    const rings = LEVELS.slice(0, 3).filter((level) => D[level][i] > 0 && Math.abs(D[level][i] / outer(i) - 1) > 0.05);
    const xs = [...rings.map((level) => x(drawn(i, D[level][i]))), at.x];
    const levels = node('g', { class: 'rf-levels' });
    if (rings.length) levels.append(node('line', { x1: Math.min(...xs), x2: Math.max(...xs), y1: at.y, y2: at.y, class: 'rf-thread', stroke: color }));
    for (const level of rings) levels.append(node('circle', { cx: x(drawn(i, D[level][i])), cy: at.y, r: 3.6, class: 'rf-ring', stroke: color, 'data-ring': level }));
    g.append(levels);
  }
  if (D.at[i] > 0 && D.at[i] < 1 && rank < 8) {
    const top = y(drawnRate(i) / D.at[i]);
    if (top < at.y - r - 2) {
      g.append(node('line', { x1: at.x, x2: at.x, y1: at.y - r, y2: top, class: 'rf-gap', stroke: color }),
        node('line', { x1: at.x - 5, x2: at.x + 5, y1: top, y2: top, class: 'rf-gap', stroke: color }));
    }
  }
  const shape = { class: 'rf-dot', fill: color };
  g.append(at.beyond ? node('polygon', { ...shape, points: `${at.x - 0.8 * r},${at.y - 0.9 * r} ${at.x - 0.8 * r},${at.y + 0.9 * r} ${at.x + r},${at.y}` })
    : node('circle', { ...shape, cx: at.x, cy: at.y, r }));
  return g;
};
const dotLabel = (i, at, taken) => {
  const text = D.name[i].length > 28 ? D.name[i].slice(0, 13) + '…' + D.name[i].slice(-14) : D.name[i];
  const width = textWidth(text, 600, 12), places = [];
  for (const far of [4, 14, 28, 46, 70]) {
    const reach = radius(i) + far, side = 0.7 * reach;
    for (const [dx, dy] of [[reach, 4], [side, -side], [side, side + 8], [-width / 2, -reach - 2], [-width / 2, reach + 10], [-reach - width, 4], [-side - width, -side], [-side - width, side + 8]]) {
      places.push({ far, x: at.x + dx, y: at.y + dy, shape: textShape(at.x + dx, at.y + dy, width, 12) });
    }
  }
  const to = taken.place(places);
  if (!to) return [];
  const label = node('text', { x: to.x, y: to.y, class: 'rf-name' }, text);
  const near = (v, low, high) => Math.min(Math.max(v, low), high);
  return to.far <= 14 ? [label]
    : [node('line', { x1: at.x, y1: at.y, x2: near(at.x, to.x, to.x + width), y2: near(at.y, to.y - 10, to.y + 3), class: 'rf-leader' }), label];
};

const drawRoofline = (set) => {
  if (!axes) return;
  const [x, y] = scales(), taken = new Taken(LEFT, TOP, RIGHT, BOTTOM), [all, absent] = dotted(set);
  const dots = all.map((i) => [i, spot(i, x, y)]).filter(([, at]) => inside(at));
  drawAxes(x, y);
  dots.forEach(([i, at]) => taken.shapes.push(box(at.x - radius(i), at.y - radius(i), at.x + radius(i), at.y + radius(i))));
  for (const roof of roofs()) {
    const line = lineOf(roof, x, y);
    // Slopes lie close together, and a label of one must not be taken for another's.
    if (line) taken.lines.push({ shape: [...line, ...[...line].reverse().map(([u, v]) => [u, v + 0.5])], weight: roof.level ? 3 : 1 });
  }
  const lines = [...roofs()].sort((a, b) => !!b.level - !!a.level || b.value - a.value).map((r) => drawRoof(r, x, y, taken)).filter(Boolean);
  const drawn = dots.map(([i, at], rank) => drawDot(i, at, rank, x, y));
  dots.forEach(([i, at], k) => drawn[k].append(...dotLabel(i, at, taken)));
  const clip = node('clipPath', { id: 'rf-area' }, node('rect', { x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP }));
  const focused = document.activeElement && body.contains(document.activeElement) && document.activeElement.dataset;
  body.setAttribute('clip-path', 'url(#rf-area)');
  body.replaceChildren(clip, ...lines, ...drawn);
  // The focus stays on what is drawn again.
  const again = focused && [...body.querySelectorAll('[tabindex]')].find((e) => e.dataset.roof === focused.roof && e.dataset.f === focused.f);
  if (again) again.focus({ preventScroll: true });
  svg.querySelector('.rf-note').textContent = D.note + precision();
  // What is said of functions without a place is true of the usual axes alone.
  svg.querySelectorAll('.rf-others').forEach((e) => { e.style.display = precision() === D.precision ? '' : 'none'; });
  const where = { outer: 'outermost level measured', aware: 'L1 bytes against all bandwidths', l1: 'L1', l2: 'L2', l3: 'L3', dram: 'DRAM' };
  const others = all.length - dots.length;
  $('levelnote').textContent = `intensity: ${where[state.level]}` + (absent ? `; ${absent} functions without bytes there` : '')
    + (others ? `; ${others} outside of this part` : '');
  $('reset').hidden = !state.zoom;
};
