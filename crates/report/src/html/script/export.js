// Export of what is seen. Nothing is requested: files are made of the page.
const save = (name, type, content) => {
  const a = element('a');
  a.href = URL.createObjectURL(new Blob([content], { type }));
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
// The picture as it is: a file has no page around it whose choice of colours it could follow.
const picture = () => {
  const copy = svg.cloneNode(true), style = getComputedStyle(svg);
  const own = ['--ground', '--ink', '--soft', '--grid', '--fine', '--dim', '--roof', '--ceiling', '--memory'];
  copy.setAttribute('style', own.map((name) => `${name}: ${style.getPropertyValue(name)}`).join('; '));
  copy.querySelectorAll('.rf-hit').forEach((e) => e.remove());
  return new XMLSerializer().serializeToString(copy);
};
// At twice its size, for screens and slides.
const png = async () => {
  const { width, height } = svg.viewBox.baseVal, image = new Image(), canvas = element('canvas');
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(picture());
  await image.decode();
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, 'image/png'); });
};
$('csv').addEventListener('click', () => save('functions.csv', 'text/csv', csv()));
$('json').addEventListener('click', () => save('functions.json', 'application/json', JSON.stringify(D)));
$('svg').addEventListener('click', () => svg && save('roofline.svg', 'image/svg+xml', picture()));
$('png').addEventListener('click', async () => svg && save('roofline.png', 'image/png', await png()));
