/* What a citation, a figure's number or an equation's number refers to, shown beside the link while
   the pointer or the keyboard is on it. Escape takes it away. */
document.addEventListener("DOMContentLoaded", () => {
  const box = document.createElement("div");
  box.id = "preview";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  let link = null;
  let leaving = 0;

  function content(target) {
    const hash = target.getAttribute("href").split("#")[1];
    const place = target.getAttribute("href").startsWith("#") && document.getElementById(hash);
    const caption = place && place.querySelector("figcaption");
    if (caption) return caption.textContent.replace(/#\s*$/, "").trim();
    const math = place && place.querySelector("math");
    return math ? math.cloneNode(true) : target.dataset.entry;
  }

  function show(target) {
    clearTimeout(leaving);
    if (target === link) return;
    hide();
    link = target;
    box.replaceChildren(content(target));
    document.body.append(box);
    box.hidden = false;
    const at = target.getBoundingClientRect();
    const left = Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 8);
    const below = at.bottom + box.offsetHeight + 4 < innerHeight;
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${below ? at.bottom + 2 : at.top - box.offsetHeight - 2}px`;
    target.setAttribute("aria-describedby", "preview");
  }

  function hide() {
    clearTimeout(leaving);
    if (link) link.removeAttribute("aria-describedby");
    box.hidden = true;
    link = null;
  }

  const later = () => { leaving = setTimeout(hide, 200); };
  for (const target of document.querySelectorAll("article a.reference.internal[href*='#']")) {
    const cited = target.getAttribute("href").includes("bibliography.html#");
    if (cited && target.title) {
      target.dataset.entry = target.title;
      target.removeAttribute("title");  // the browser's own would cover ours
    }
    if (!content(target)) continue;
    target.addEventListener("mouseenter", () => show(target));
    target.addEventListener("focus", () => show(target));
    target.addEventListener("mouseleave", later);
    target.addEventListener("blur", hide);
  }
  box.addEventListener("mouseenter", () => clearTimeout(leaving));
  box.addEventListener("mouseleave", later);
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, {passive: true});
});
