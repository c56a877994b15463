// typeset.js MATHJAX: typeset the formulas of {page: [[tex, display], ...]} on standard input.
//
// Prints {page: {formulas: [html, ...], glyphs: defs}}: the outlines of all glyphs of a page are
// once in `glyphs`, and each formula has MathML for those who hear it. A TeX error ends the run.

const {join, resolve} = require('path');
const MathJax = require(resolve(process.argv[2], 'node-main.js'));

function typeset(mathjax, formulas) {
  const cache = mathjax.startup.output.fontCache;
  cache.clearCache();
  const adaptor = mathjax.startup.adaptor;
  const html = formulas.map(([tex, display]) =>
    adaptor.outerHTML(mathjax.tex2svg(tex, {display})));
  return {formulas: html, glyphs: adaptor.outerHTML(cache.getCache())};
}

async function main(pages) {
  const mathjax = await MathJax.init({
    loader: {load: ['input/tex-full', 'output/svg', 'adaptors/liteDOM', 'a11y/assistive-mml']},
    tex: {
      packages: {'[-]': ['noundefined']},
      formatError: (jax, error) => { throw error; },
    },
    svg: {fontCache: 'global'},
  });
  const style = mathjax.startup.adaptor.textContent(mathjax.svgStylesheet());
  const typesets = Object.entries(pages).map(([page, formulas]) => {
    try {
      return [page, typeset(mathjax, formulas)];
    } catch (error) {
      throw new Error(`${page}: ${error.message}`);
    }
  });
  process.stdout.write(JSON.stringify({style, pages: Object.fromEntries(typesets)}));
}

let input = '';
process.stdin.on('data', chunk => { input += chunk; });
process.stdin.on('end', () => main(JSON.parse(input)).catch(error => {
  process.stderr.write(`${error.message ?? error}\n`);
  process.exit(1);
}));
