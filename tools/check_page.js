// What is wrong with a page that is open, for check_html.py: each function returns what it found.

const text = element => element.textContent.trim().slice(0, 40);
const all = selector => [...document.querySelectorAll(selector)];

const isTeX = node => node.nodeType === Node.TEXT_NODE && /\\[a-z]{2}/i.test(node.data);
const rawMath = () => all('.math').filter(node => !node.querySelector('math'))
  .concat(all('main :is(p, li, td)').filter(node => [...node.childNodes].some(isTeX))).map(text);

// Badges are links in plain HTML, which Sphinx does not check.
const links = () => all('a.verdict, a:has(.verdict)').map(a => a.href);

const barriers = done => {
  const settings = {resultTypes: ['violations'], preload: false};
  axe.run(document, settings).then(result => done(result.violations
    .filter(fault => !['minor', null].includes(fault.impact))
    .map(fault => `${fault.help} (${fault.nodes.length}: ${fault.nodes[0].html.slice(0, 80)})`)),
    error => done([String(error)]));
};

// What is wider than the screen and in nothing that scrolls; where `scrolls` is false, nothing may.
const clipped = scrolls => {
  const width = document.documentElement.clientWidth;
  const hidden = element => !element.getClientRects().length || element.closest('[aria-hidden]');
  const free = element => {
    const right = element.getBoundingClientRect().right;
    for (let at = element; at !== document.body; at = at.parentElement) {
      const flow = getComputedStyle(at).overflowX;
      const over = at === element ? at.scrollWidth > at.clientWidth + 1 && at.clientWidth
        : right > at.getBoundingClientRect().right + 1;
      if (over && ['auto', 'scroll'].includes(flow)) return scrolls;
      if (over && flow === 'hidden') return false;
    }
    return right <= width + 1;
  };
  return all('article :is(table, pre, img, math)')
    .filter(element => !hidden(element) && !free(element))
    .map(element => `${element.tagName} ${text(element)}`);
};

// What there is to read beyond the edge of the screen: a figure may scroll, its caption may not,
// nor may the titles of the pages before and after.
const captions = () => {
  const width = document.documentElement.clientWidth;
  return all(':is(figcaption, .prev-next-area) :is(p, a)')
    .filter(element => element.getBoundingClientRect().right > width + 1).map(text);
};

const wider = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;

// Text of a figure that reaches beyond the drawing, of which the page shows nothing.
const outside = () => {
  const page = document.documentElement.getBoundingClientRect();
  return all('g[id^=text_]').filter(element => {
    const box = element.getBoundingClientRect();
    return box.left < page.left - 1 || box.top < page.top - 1
      || box.right > page.right + 1 || box.bottom > page.bottom + 1;
  }).map(element => `${element.id} is cut off`);
};

// Each figure's drawing, and its width on the page over its own.
const shown = () => all('article img[src$=".svg"]')
  .map(figure => [figure.src, figure.getBoundingClientRect().width / figure.naturalWidth || 0]);

const paint = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0;

const found = () => all('#search-results li').length;
