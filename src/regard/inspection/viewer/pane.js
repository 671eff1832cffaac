// The pane: a canvas as large as what is in sight of a picture that may be much larger.

const pane = $("pane"), canvas = $("picture");
const LETTER = 9; // pixels of the smallest letters
let whole = { width: 0, height: 0 };
const room = () => ({
  width: Math.max(280, document.querySelector(".columns").clientWidth - (window.innerWidth > 900 ? $("aside").offsetWidth + 40 : 6)),
  height: Math.max(260, Math.round(window.innerHeight * 0.78)),
});
const frameNow = () => ({ x: pane.scrollLeft, y: pane.scrollTop, width: canvas.clientWidth, height: canvas.clientHeight });

function layout() {
  const view = VIEWS[state.view];
  pane.hidden = !view.draw;
  if (!view.draw) return;
  whole = view.prepare(room());
  const limit = printing ? { width: 1400, height: 4000 } : room();
  $("stage").style.width = whole.width + "px";
  $("stage").style.height = whole.height + "px";
  pane.style.maxHeight = limit.height + "px";
  const width = Math.min(whole.width, pane.clientWidth || limit.width), height = Math.min(whole.height, pane.clientHeight || limit.height);
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  canvas.setAttribute("aria-roledescription", view.role);
  canvas.setAttribute("aria-label", view.label());
  draw();
}
let waiting = 0;
function redraw() {
  if (!waiting) waiting = requestAnimationFrame(draw);
}
function draw() {
  cancelAnimationFrame(waiting);
  waiting = 0;
  const view = VIEWS[state.view];
  if (!view.draw || !view.needs().every(isLoaded)) return;
  const context = canvas.getContext("2d"), density = canvas.width / canvas.clientWidth || 1;
  context.setTransform(density, 0, 0, density, 0, 0);
  const frame = frameNow();
  const surface = new CanvasSurface(context);
  surface.rect(0, 0, frame.width, frame.height, inks().paper);
  view.draw(surface, frame);
}
function keepInSight() {
  const box = VIEWS[state.view].sight?.();
  if (!box) return;
  const { x, y, width, height } = frameNow(), margin = box.margin || { left: 0, top: 0 };
  if (box.x < x + margin.left) pane.scrollLeft = box.x - margin.left;
  else if (box.x + box.width > x + width) pane.scrollLeft = box.x + box.width - width;
  if (box.y < y + margin.top) pane.scrollTop = box.y - margin.top;
  else if (box.y + box.height > y + height) pane.scrollTop = box.y + box.height - height;
}

// Saying what is pointed at.

const say = (text) => ($("readout").textContent = text);
function tip(event, parts) {
  const box = $("tip");
  box.hidden = !parts;
  if (!parts) return;
  box.replaceChildren(...parts);
  const x = event.clientX + 14, y = event.clientY + 18;
  box.style.left = Math.max(4, Math.min(x, window.innerWidth - box.offsetWidth - 6)) + "px";
  box.style.top = (y + box.offsetHeight > window.innerHeight ? event.clientY - box.offsetHeight - 10 : y) + "px";
}
const pairTip = (query, key, value, small) => [element("bdi", query), " → ", element("bdi", key), ": " + value, element("small", small)];
const cellTip = (row, column) =>
  pairTip(tokenName(state.map.query, row), tokenName(state.map.key, column), valueText(row, column),
    `query ${row}, key ${column}` + rawText(row, column));
// What the tokenizer itself calls the two tokens, where they are shown otherwise.
function rawText(row, column) {
  const { query, key } = state.map;
  if (state.merge || !(query.raw || key.raw)) return "";
  return `; tokens ${apart((query.raw || query.tokens)[row])} → ${apart((key.raw || key.tokens)[column])}`;
}
function cellText(before = "") {
  const { row, column, map } = state;
  const pair = `${apart(tokenName(map.query, row))} → ${apart(tokenName(map.key, column))}`;
  return `${before}${pair}: ${valueText(row, column)} (query ${row}, key ${column})`;
}
function move(row, column, quietly) {
  state.row = clamp(row, 0, state.matrix.rows - 1);
  state.column = clamp(column, 0, state.matrix.columns - 1);
  state.hover = null;
  redraw();
  VIEWS[state.view].moved?.();
  listStrongest();
  keepAddress();
  if (!quietly) say(cellText());
}
function hover(spot) {
  const before = place();
  state.hover = spot;
  const after = place();
  if (before === after || (before.row === after.row && before.column === after.column && before.side === after.side)) return;
  redraw();
  VIEWS[state.view].moved?.();
  if (state.view !== "model") listStrongest();
}
// The places of the tokens that a picture of them draws labels for: not closer than letters need.
function inSight(from, to, cell, count) {
  const step = Math.max(1, Math.ceil((LETTER * 1.15) / cell)), places = [];
  const first = clamp(Math.floor(from / cell), 0, count - 1), last = clamp(Math.floor(to / cell), 0, count - 1);
  for (let i = Math.ceil(first / step) * step; i <= last; i += step) places.push(i);
  return { first, last, places };
}

canvas.addEventListener("pointermove", (event) => {
  const view = VIEWS[state.view];
  if (document.body.classList.contains("busy") || (!state.matrix && state.view !== "model")) return;
  const spot = view.at(event.offsetX, event.offsetY, frameNow());
  canvas.style.cursor = spot ? (view.cursor || "crosshair") : "default";
  hover(spot);
  tip(event, spot && view.tip(spot));
});
canvas.addEventListener("pointerleave", () => {
  $("tip").hidden = true;
  hover(null);
});
canvas.addEventListener("click", (event) => {
  if (document.body.classList.contains("busy")) return;
  const spot = VIEWS[state.view].at(event.offsetX, event.offsetY, frameNow());
  if (spot) VIEWS[state.view].pick(spot);
});
canvas.addEventListener("keydown", (event) => {
  if (event.metaKey || event.altKey || !VIEWS[state.view].key(event)) return;
  event.preventDefault();
  keepInSight();
});
canvas.addEventListener("focus", () => {
  if (canvas.matches(":focus-visible") && state.matrix) say(VIEWS[state.view].say());
});
pane.addEventListener("scroll", redraw);
