/* What is wider than its place scrolls there: it fades at the right edge as long as more follows. */
document.addEventListener("DOMContentLoaded", () => {
  const boxes = [...document.querySelectorAll("article :is(figure, pre, div, span.math, math)")]
    .filter(box => ["auto", "scroll"].includes(getComputedStyle(box).overflowX));

  function mark(box) {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("goes-on", rest > 4);
    box.style.setProperty("--seen", `${box.scrollLeft + box.clientWidth}px`);
  }

  // Called once at first, and whenever a figure has loaded or a cell was unfolded.
  new ResizeObserver(() => boxes.forEach(mark)).observe(document.documentElement);
  for (const box of boxes) box.addEventListener("scroll", () => mark(box), {passive: true});
});
