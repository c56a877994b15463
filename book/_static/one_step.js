/* A logistic regression of one parameter: what each rung does when points are left out. */
document.addEventListener("DOMContentLoaded", () => {
const X = [0.4, -0.7, 1.1, 0.6, -1.3, 0.9, -0.5, 1.6, -1.0, 0.8, -1.8, 2.2];
const Y = [1, -1, 1, -1, -1, 1, 1, 1, -1, 1, -1, 1];
const ORDER = [11, 10, 7, 4, 2, 8, 5, 9];  // whom the slider leaves out, the most decisive first
const RUNGS = [["infinitesimal jackknife", "#3f7fd9"], ["frozen step", "#e69f00"],
  ["Newton step", "#2e7d32"], ["refit", "#000000"]];
const WIDTH = 560, HEIGHT = 320, LEFT = 20, RIGHT = 20, TOP = 15, BOTTOM = 42;

/* Value, slope and curvature of the loss at theta; `kept` says which points count. */
function loss(theta, kept, ridge) {
  return X.reduce(([value, slope, curvature], x, n) => {
    if (!kept[n]) return [value, slope, curvature];
    const p = 1 / (1 + Math.exp(Y[n] * x * theta));
    return [value - Math.log(1 - p), slope - Y[n] * x * p, curvature + x * x * p * (1 - p)];
  }, [ridge * theta * theta / 2, ridge * theta, ridge]);
}

function minimum(kept, ridge) {
  let theta = 0;
  for (let step = 0; step < 200; step++) {
    const [, slope, curvature] = loss(theta, kept, ridge);
    theta -= Math.max(-1, Math.min(1, slope / curvature));
  }
  return theta;
}

function fill(box) {
  box.innerHTML = `<p><label>Points left out <input type="range" min="1" max="${ORDER.length}" value="3"
    step="1"> <output></output></label></p><p><label>Ridge <input type="range" min="-2" max="1" value="-1"
    step="0.25"> <output></output></label></p><div class="charts"><figure></figure></div><table><caption>Where each rung ends</caption>
    <thead><tr><th scope="col">rung</th><th scope="col">parameter</th><th scope="col">share of the way to the refit</th></tr>
    </thead><tbody></tbody></table>`;
  const [count, strength] = box.querySelectorAll("input");
  const outputs = box.querySelectorAll("output");

  function show() {
    const ridge = 10 ** Number(strength.value);
    const kept = X.map((_, n) => !ORDER.slice(0, Number(count.value)).includes(n));
    const all = X.map(() => true);
    const share = kept.filter(Boolean).length / X.length;
    const start = minimum(all, ridge);
    const [, , whole] = loss(start, all, ridge);
    const [value, slope, own] = loss(start, kept, ridge);
    const ends = [start - slope / whole, start - slope / (share * whole), start - slope / own,
      minimum(kept, ridge)];
    outputs[0].textContent = `${count.value} of ${X.length}`;
    outputs[1].textContent = ridge.toPrecision(2);
    box.querySelector("figure").innerHTML = picture(start, ends, kept, all, ridge, [value, slope, own]);
    box.querySelector("tbody").innerHTML = RUNGS.map(([name], n) => `<tr><th scope="row">${name}</th>
      <td>${ends[n].toFixed(2)}</td><td>${(100 * (ends[n] - start) / (ends[3] - start)).toFixed(0)} %</td></tr>`).join("");
  }
  box.addEventListener("input", show);
  box.hidden = false;
  show();
}

function picture(start, ends, kept, all, ridge, [value, slope, own]) {
  const places = [start, ...ends];
  const span = Math.max(...places) - Math.min(...places);
  const from = Math.min(...places) - 0.4 * span, to = Math.max(...places) + 0.4 * span;
  const grid = Array.from({length: 81}, (_, n) => from + (to - from) * n / 80);
  const above = curve => { const low = Math.min(...curve); return curve.map(each => each - low); };
  const full = above(grid.map(theta => loss(theta, all, ridge)[0]));
  const fold = grid.map(theta => loss(theta, kept, ridge)[0]);
  const low = Math.min(...fold), parabola = grid.map(theta =>
    value + slope * (theta - start) + own * (theta - start) ** 2 / 2 - low);
  const high = Math.max(...above(fold)) * 1.1;
  const x = theta => LEFT + (WIDTH - LEFT - RIGHT) * (theta - from) / (to - from);
  const y = each => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.max(Math.min(each, high), -0.15 * high) / (1.15 * high) - 0.13);
  const line = curve => `M${grid.map((theta, n) => `${x(theta).toFixed(1)} ${y(curve[n]).toFixed(1)}`).join("L")}`;
  const dots = ends.map((end, n) => `<circle cx="${x(end)}" cy="${y(loss(end, kept, ridge)[0] - low)}" r="${n === 3 ? 8 : 6}"
    fill="${n === 3 ? "none" : RUNGS[n][1]}" stroke="${n === 3 ? "#222222" : RUNGS[n][1]}" stroke-width="2"/>`).join("");
  const said = RUNGS.map(([name], n) => `${name} ${ends[n].toFixed(2)}`).join(", ");
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Loss without the points, and where each rung
    ends from ${start.toFixed(2)}: ${said}"><path d="${line(full)}" fill="none" stroke="#999999" stroke-width="2"/>
    <path d="${line(above(fold))}" fill="none" stroke="#222222" stroke-width="2"/>
    <path d="${line(parabola)}" fill="none" stroke="#2e7d32" stroke-dasharray="4 4"/>
    <path d="M${x(start)} ${TOP}V${HEIGHT - BOTTOM}" stroke="#999999" stroke-dasharray="2 3"/>${dots}
    <text x="${x(start)}" y="${HEIGHT - 24}" text-anchor="middle">fit of all</text>
    <text x="${WIDTH / 2}" y="${HEIGHT - 6}" text-anchor="middle">parameter</text></svg>
    <figcaption>Grey: all points. Black: without those left out; circle: its minimum. Blue, orange, green: jackknife,
    frozen step, Newton step, whose parabola is dashed.</figcaption>`;
}

const box = document.querySelector(".one-step");
if (box) fill(box);
});
