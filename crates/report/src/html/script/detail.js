// The flame graph is a document of its own in a frame.
const frames = () => {
  const doc = $('flames') && $('flames').contentDocument;
  return doc ? [...doc.querySelectorAll('g > title')] : [];
};
const frameOf = (i) => D.name[i].replace(/;/g, ':');
const frameName = (title) => title.textContent.replace(/ \([^()]*\)$/, '');
const drawFrames = () => {
  const doc = $('flames') && $('flames').contentDocument;
  if (doc && doc.documentElement) {
    if (state.theme) doc.documentElement.dataset.theme = state.theme; else delete doc.documentElement.dataset.theme;
  }
  for (const title of frames()) {
    const own = state.f < 0 || frameName(title) === frameOf(state.f);
    title.parentNode.style.opacity = own ? '' : '0.35';
  }
};

// Sections of functions beyond the first are packed: DEFLATE in Base64. They hold markup that was escaped when the page was made.
let packed = null;
const unpacked = async () => {
  const bytes = Uint8Array.from(atob($('packed').textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return JSON.parse(await new Response(stream).text());
};
// Opens the section of a function, if there is one that is not open yet.
const openDetail = async (i) => {
  if (!packed && $('packed').textContent) packed = unpacked().catch(() => ({}));
  const markup = packed && (await packed)[i];
  if (!markup || document.querySelector(`.function[data-f="${i}"]`)) return;
  const template = element('template');
  template.innerHTML = markup;
  $('nodetail').after(template.content);
  if (state.f === i) drawDetail();
};

const drawDetail = () => {
  let found = false;
  document.querySelectorAll('.function').forEach((section) => {
    const own = Number(section.dataset.f) === state.f;
    section.classList.toggle('on', own);
    found = found || own;
  });
  if (!found && state.f >= 0) openDetail(state.f);
  const note = $('nodetail');
  note.hidden = found;
  note.textContent = state.f < 0 ? 'Select a function: click a row, a dot or a frame.'
    : `${D.name[state.f]}: all of it with  rprof report PROFILE --function NAME  (this page has the details of the first ${$('packed').dataset.detailed}).`;
};
