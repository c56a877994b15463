/* What is wider than its place scrolls there: it fades at the right edge as long as more follows. */
document.addEventListener("DOMContentLoaded", () => {
  const boxes = [...document.querySelectorAll("article :is(figure, pre, div, span.math, mjx-container)")]
    .filter(box => ["auto", "scroll"].includes(getComputedStyle(box).overflowX));

  function mark(box) {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("goes-on", rest > 4);
    box.style.setProperty("--seen", `${box.scrollLeft + box.clientWidth}px`);
  }

  const sizes = new ResizeObserver(() => boxes.forEach(mark));
  sizes.observe(document.documentElement);
  for (const box of boxes) {
    mark(box);
    box.addEventListener("scroll", () => mark(box), {passive: true});
  }
  for (const image of document.querySelectorAll("article figure img")) {
    image.addEventListener("load", () => boxes.forEach(mark));
  }
});
