/* The page with the slider: curves of each method's error, and their values at the chosen size.
   Numbers come with the page; nothing is loaded. */
document.addEventListener("DOMContentLoaded", () => {
const SHAPES = {
  no_adjustment: ["#999999", "M-4-4H4V4H-4Z"],
  infinitesimal_jackknife: ["#3f7fd9", "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z"],
  frozen_newton: ["#e69f00", "M0-5.5L5.5 0L0 5.5L-5.5 0Z"],
  newton_step: ["#2e7d32", "M0-5.5L5.2-1.7L3.2 4.4H-3.2L-5.2-1.7Z"],
};
const WIDTH = 360, HEIGHT = 300, LEFT = 52, RIGHT = 10, TOP = 12, BOTTOM = 40;

function fill(box, models, labels, measures) {
  const names = Object.keys(models);
  const methods = Object.keys(labels);
  box.innerHTML = `
    <p><label>Model <select>${names.map(name => `<option>${name}</option>`).join("")}</select></label></p>
    <p><label>Left out <input type="range" min="0" step="1"> <output></output></label></p>
    <fieldset><legend>Methods</legend>${methods.map(method => `<label>
      <input type="checkbox" value="${method}" checked> ${key(method)} ${labels[method]}</label>`).join(" ")}
    </fieldset>
    <div class="charts">${Object.keys(measures).map(() => "<figure></figure>").join("")}</div>
    <table><caption>Median errors at this size</caption><thead><tr><th scope="col">method</th>
      ${Object.values(measures).map(name => `<th scope="col">${name}</th>`).join("")}</tr></thead>
      <tbody></tbody></table>`;
  const [select, slider, output] = ["select", "[type=range]", "output"].map(what => box.querySelector(what));

  function show() {
    const model = models[select.value];
    const at = Math.min(Number(slider.value), model.percents.length - 1);
    const chosen = [...box.querySelectorAll(":checked[type=checkbox]")].map(one => one.value);
    slider.max = model.percents.length - 1;
    output.textContent = `${model.percents[at]} % of the sites`;
    slider.setAttribute("aria-valuetext", output.textContent);
    [...box.querySelectorAll("figure")].forEach((figure, number) => {
      const measure = Object.keys(measures)[number];
      figure.innerHTML = chart(model, measure, measures[measure], chosen, at, labels);
    });
    box.querySelector("tbody").innerHTML = chosen.map(method =>
      `<tr><th scope="row">${labels[method]}</th>${Object.keys(measures).map(measure =>
        `<td>${number(model[measure][method][at][1])}</td>`).join("")}</tr>`).join("");
  }

  slider.value = 4;
  box.addEventListener("input", show);
  box.hidden = false;
  show();
}

function number(value) {
  return value < 1e-3 ? value.toExponential(1) : Number(value.toPrecision(3)).toString();
}

function key(method) {
  const [colour, shape] = SHAPES[method];
  return `<svg width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true">
    <path d="${shape}" fill="${colour}"/></svg>`;
}

/* One panel: bands, lines and marks on logarithmic axes, and a line at the chosen size. */
function chart(model, measure, title, chosen, at, labels) {
  const all = Object.values(model[measure]).flat(2);
  const [low, high] = [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))];
  const ends = model.percents.map(Math.log10);
  const span = ends[ends.length - 1] - ends[0];
  const x = place => LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (ends[place] - ends[0]) / span;
  const y = value => TOP + (HEIGHT - TOP - BOTTOM) * (high - Math.log10(value)) / (high - low);
  const line = values => values.map((value, place) => `${x(place).toFixed(1)} ${y(value).toFixed(1)}`);
  const powers = Array.from({length: high - low + 1}, (_, step) => low + step);
  const sizes = model.percents.map((size, place) => [size, place]).filter(([size]) =>
    [0.1, 0.5, 2, 10, 50].includes(size));
  const ticks = powers.map(power => `<path d="M${LEFT} ${y(10 ** power)}H${WIDTH - RIGHT}" class="grid"/>
    <text x="${LEFT - 6}" y="${y(10 ** power) + 4}" text-anchor="end">${10 ** power >= 0.01 && power < 3
      ? Number((10 ** power).toPrecision(1)) : `1e${power}`}</text>`).join("")
    + sizes.map(([size, place]) => `<text x="${x(place)}" y="${HEIGHT - BOTTOM + 18}"
      text-anchor="middle">${size}</text>`).join("");
  const curves = chosen.map(method => {
    const [colour, shape] = SHAPES[method];
    const points = model[measure][method];
    const band = [...line(points.map(point => point[0])), ...line(points.map(point => point[2])).reverse()];
    const middle = line(points.map(point => point[1]));
    const marks = middle.map((point, place) => `<path d="${shape}" fill="${colour}"
      transform="translate(${point})${place === at ? " scale(1.5)" : ""}"/>`).join("");
    return `<path d="M${band.join("L")}Z" fill="${colour}" opacity="0.13"/>
      <path d="M${middle.join("L")}" fill="none" stroke="${colour}" stroke-width="1.8"/>${marks}`;
  }).join("");
  const said = chosen.map(method => `${labels[method]} ${number(model[measure][method][at][1])}`).join(", ");
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Error of the ${title} at
    ${model.percents[at]} % left out: ${said}">${ticks}
    <path d="M${x(at)} ${TOP}V${HEIGHT - BOTTOM}" class="chosen"/>${curves}
    <text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 6}" text-anchor="middle">% of the sites left out</text>
    </svg><figcaption>Error of the ${title}</figcaption>`;
}

const data = document.getElementById("fold-sizes-data");
if (data) {
  const {labels, measures, ...models} = JSON.parse(data.textContent);
  fill(document.querySelector(".fold-sizes"), models, labels, measures);
}
});
