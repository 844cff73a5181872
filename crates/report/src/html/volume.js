// Turns the picture of the three roofs: plot/volume.rs draws it, with the points of the unit cube in data-p.
for (const group of document.querySelectorAll('.rf-volume')) {
  let [left, top, right, bottom, turn, tilt] = group.dataset.view.split(' ').map(Number);
  const svg = group.closest('svg');
  const place = ([x, y, z]) => {
    const sin = Math.sin(turn), cos = Math.cos(turn), scale = (bottom - top) / (1 + 1.42 * tilt);
    [x, y] = [x - 0.5, y - 0.5];
    const across = x * cos - y * sin, depth = x * sin + y * cos;
    return [(left + right) / 2 + across * scale * 1.35, bottom - 0.71 * tilt * scale - z * scale + depth * tilt * scale];
  };
  const set = (node, values) => Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
  const draw = () => {
    for (const node of group.querySelectorAll('[data-p]')) {
      const points = node.dataset.p.split(' ').map(point => place(point.split(',').map(Number)).map(v => Math.round(10 * v) / 10));
      const [[x, y]] = points, [dx, dy] = (node.dataset.shift || '0 0').split(' ').map(Number);
      if (node.tagName === 'polyline') node.setAttribute('points', points.map(point => point.join(',')).join(' '));
      else if (node.tagName === 'circle') set(node, {cx: x, cy: y});
      else if (node.tagName === 'line') set(node, {x1: x, y1: y, x2: points[1][0], y2: points[1][1]});
      else set(node, {x: x + dx, y: y + dy});
    }
  };
  let from = null;
  group.style.cursor = 'grab';
  const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  set(ground, {x: left, y: top, width: right - left, height: bottom - top, fill: 'transparent'});
  group.prepend(ground);
  group.addEventListener('pointerdown', event => { from = [event.clientX, turn]; group.setPointerCapture(event.pointerId); });
  group.addEventListener('pointermove', event => {
    if (!from) return;
    turn = from[1] + (event.clientX - from[0]) * 6 / svg.getBoundingClientRect().width;
    draw();
  });
  group.addEventListener('pointerup', () => { from = null; });
  group.addEventListener('pointercancel', () => { from = null; });
  group.setAttribute('tabindex', '0');
  group.addEventListener('keydown', event => {
    const step = {ArrowLeft: -0.1, ArrowRight: 0.1}[event.key];
    if (!step) return;
    turn += step;
    draw();
    event.preventDefault();
    event.stopPropagation();
  });
}
