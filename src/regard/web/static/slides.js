// The keys of a deck of slides, which has this script and its style sheet inside it (studio/deck.js).

addEventListener("keydown", (event) => {
  const slides = [...document.querySelectorAll("section")], { top } = slides[0].getBoundingClientRect();
  const here = Math.round(-top / innerHeight), last = slides.length - 1;
  const to = /** @type {Record<string, number>} */ ({
    ArrowRight: here + 1, ArrowDown: here + 1, PageDown: here + 1, " ": here + (event.shiftKey ? -1 : 1), ArrowLeft: here - 1, ArrowUp: here - 1,
    PageUp: here - 1, Home: 0, End: last,
  })[event.key];
  if (event.key === "f" && !event.ctrlKey && !event.metaKey) document.documentElement.requestFullscreen?.().catch(() => {});
  if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  slides[Math.min(Math.max(to, 0), last)].scrollIntoView({ behavior: "instant" });
});
