// Zoom and pan: wheel, drag, buttons, keys. Both axes are logarithmic, so a factor moves or stretches them evenly.
const MOST_ZOOM = 200;
const zoomBy = (factor, cx = 0.5, cy = 0.5) => {
  const whole = D.ranges[precision()], [x0, x1, y0, y1] = view();
  const axis = (low, high, at, all) => {
    const span = Math.log(high / low), to = Math.min(Math.max(span / factor, Math.log(all[1] / all[0]) / MOST_ZOOM), Math.log(all[1] / all[0]));
    const fixed = Math.log(low) + at * span;
    return [Math.exp(fixed - at * to), Math.exp(fixed + (1 - at) * to)];
  };
  const x = axis(x0, x1, cx, whole.slice(0, 2)), y = axis(y0, y1, cy, whole.slice(2));
  const full = Math.log(x[1] / x[0]) > 0.999 * Math.log(whole[1] / whole[0]);
  state.zoom = full ? null : [...x, ...y];
  drawLater();
};
const panBy = (dx, dy) => {
  if (!state.zoom) return;
  const whole = D.ranges[precision()], [x0, x1, y0, y1] = state.zoom;
  // The middle of the picture stays within what there is.
  const axis = (low, high, by, all) => {
    const middle = Math.sqrt(low * high), factor = Math.min(Math.max((high / low) ** by, all[0] / middle), all[1] / middle);
    return [low * factor, high * factor];
  };
  state.zoom = [...axis(x0, x1, dx, whole.slice(0, 2)), ...axis(y0, y1, dy, whole.slice(2))];
  drawLater();
};
const resetZoom = () => { state.zoom = null; drawLater(); };

// One drawing a frame at most. (Not requestAnimationFrame: it rests in a browser without a screen.)
let waiting = false;
const drawLater = () => {
  if (waiting) return;
  waiting = true;
  setTimeout(() => { waiting = false; drawRoofline(shown()); writeAddress(); }, 12);
};
// Where an event is, as shares of the drawing area from its left and lower edge; null outside.
const shareAt = (e) => {
  const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const x = (p.x - LEFT) / (RIGHT - LEFT), y = (p.y - BOTTOM) / (TOP - BOTTOM);
  return x >= 0 && x <= 1 && y >= 0 && y <= 1 ? [x, y] : null;
};
let drag = null, dragged = false;
if (axes) {
  svg.addEventListener('wheel', (e) => {
    const at = shareAt(e);
    // A picture that is whole leaves the wheel to the page.
    if (!at || (e.deltaY > 0 && !state.zoom)) return;
    e.preventDefault();
    zoomBy(Math.exp(-Math.sign(e.deltaY) * Math.min(Math.abs(e.deltaY), 120) / 500), ...at);
  }, { passive: false });
  svg.addEventListener('pointerdown', (e) => {
    dragged = false;
    if (e.button === 0 && e.pointerType !== 'touch' && shareAt(e)) drag = { x: e.clientX, y: e.clientY };
  });
  addEventListener('pointermove', (e) => {
    if (!drag || !state.zoom) return;
    const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
    if (!dragged && Math.hypot(dx, dy) < 4) return;
    dragged = true;
    const width = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    panBy(-dx / width / (RIGHT - LEFT), dy / width / (BOTTOM - TOP));
    drag = { x: e.clientX, y: e.clientY };
  });
  addEventListener('pointerup', () => { drag = null; });
  $('in').addEventListener('click', () => zoomBy(1.5));
  $('out').addEventListener('click', () => zoomBy(1 / 1.5));
  $('reset').addEventListener('click', resetZoom);
}
const zoomKey = (e) => {
  const pan = e.shiftKey && { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[e.key];
  if (pan) panBy(...pan);
  else if (e.key === '+' || e.key === '=') zoomBy(1.5);
  else if (e.key === '-') zoomBy(1 / 1.5);
  else if (e.key === '0') resetZoom();
  else return false;
  e.preventDefault();
  return true;
};
