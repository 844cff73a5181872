// Places labels so that none covers another, a dot or the edge. A shape is four corners; two are apart if an edge of one separates them.
const measure = document.createElement('canvas').getContext('2d');
const textWidth = (text, weight, size) => {
  measure.font = `${weight} ${size}px ${getComputedStyle(svg).fontFamily}`;
  return measure.measureText(text).width;
};
const box = (left, top, right, bottom) => [[left, top], [right, top], [right, bottom], [left, bottom]];
// A text of `width` whose baseline starts at (x, y), turned by `angle` about it, with a margin.
const textShape = (x, y, width, size, angle = 0) => {
  const c = Math.cos(angle), s = Math.sin(angle);
  return box(-2, -size - 1, width + 2, 0.3 * size + 1).map(([u, v]) => [x + u * c - v * s, y + u * s + v * c]);
};
const separated = (a, b) => a.some(([x, y], k) => {
  const [u, v] = a[(k + 1) % 4], nx = y - v, ny = u - x;
  const along = (shape) => shape.map((p) => p[0] * nx + p[1] * ny);
  const p = along(a), q = along(b);
  return Math.max(...p) <= Math.min(...q) || Math.max(...q) <= Math.min(...p);
});
const overlaps = (a, b) => !separated(a, b) && !separated(b, a);

class Taken {
  constructor(left, top, right, bottom) {
    this.inside = (shape) => shape.every(([x, y]) => x >= left && x <= right && y >= top && y <= bottom);
    this.shapes = [];
    // Lines that a label covers only where there is no better place, each with its weight.
    this.lines = [];
  }
  // Of the free `places` the one that covers fewest lines and is near; it is taken.
  place(places) {
    const isFree = ({ shape }) => this.inside(shape) && !this.shapes.some((other) => overlaps(shape, other));
    const cost = ({ far, shape }) => far > 14 ? 100 : this.lines.reduce((sum, line) => sum + (overlaps(shape, line.shape) ? line.weight : 0), 0);
    let found, least = Infinity;
    for (const place of places) {
      const own = least > 0 && isFree(place) ? cost(place) : Infinity;
      if (own < least) [found, least] = [place, own];
    }
    if (found) this.shapes.push(found.shape);
    return found;
  }
}
