// A map of vectors: points to pan and zoom, a search, the neighbours of a point, colours, a lasso.

import { finder, startShell } from "../shell.js";
import { addPointer } from "./pointer.js";
import { overlayOf } from "./overlay.js";
import { looksOf, painterOf, pointSize } from "./painter.js";
import { addPanels } from "./panels.js";
import { Space, readMap } from "./space.js";

/** @typedef {import("./types").VectorMap} VectorMap */

const STEP = 60, CLOSER = 1.4, NONE = new Int32Array(0);

/**
 * Brings a map to life in an element that holds its markup (`templates/map.html`).
 *
 * @param {HTMLElement} root
 * @param {import("../source.js").Source} source
 * @returns {Promise<VectorMap>}
 */
export async function mount(root, source) {
  const $ = finder(root), data = await readMap(source), over = $("over");
  /** @type {import("./types").State} */
  const state = { chosen: -1, hover: -1, hits: NONE, hit: -1, search: "", selected: NONE, colour: null, lasso: false, path: [] };
  /** @type {string[] | null} */
  let lower = null;
  let waiting = 0, dressed = false, timer = 0;
  const space = new Space(data.xs, data.ys);
  const painter = painterOf($("points"), data.xs, data.ys, () => map.redraw());
  const signal = startShell(root, { keys, changed: () => { map.showLegend(); dressed = false; draw(); } });
  const map = /** @type {VectorMap} */ ({ $, root, signal, data, state, space, painter });
  const overlay = overlayOf(map);

  function draw() {
    cancelAnimationFrame(waiting);
    waiting = 0;
    if (!dressed) painter.dress(looksOf(data.count, state.colour, state.hits.length ? state.hits : state.selected));
    dressed = true;
    painter.draw(space, pointSize(data.count, space.scale / space.fitting));
    overlay();
  }
  map.redraw = (colours = false) => {
    if (colours) dressed = false;
    if (!waiting) waiting = requestAnimationFrame(draw);
  };
  map.say = (text) => void ($("status").textContent = text);
  map.go = (point) => {
    space.goTo(point);
    map.redraw();
  };
  map.choose = (point, go = false) => {
    state.chosen = point;
    map.showChosen();
    if (point >= 0) map.say(`${data.labels[point]}. ${$("chosen").querySelectorAll("ol li").length} neighbours are listed.`);
    if (point >= 0 && go) space.goTo(point);
    map.redraw();
  };
  map.select = (points) => {
    state.selected = points;
    if (points.length && state.hits.length) clearSearch(); // one set of points is highlighted at a time
    map.showSelected();
    map.say(`${points.length.toLocaleString("en")} points are selected`);
    map.redraw(true);
  };
  map.find = (text) => {
    state.search = text;
    state.hit = -1;
    const wanted = text.trim().toLowerCase();
    /** @type {number[][]} */
    const [whole, first, rest] = [[], [], []];
    if (wanted) {
      lower ??= data.labels.map((label) => label.toLowerCase());
      for (let i = 0; i < data.count; i++) {
        const at = lower[i].indexOf(wanted);
        if (at < 0) continue;
        (lower[i].length === wanted.length ? whole : at === 0 ? first : rest).push(i);
      }
    }
    state.hits = Int32Array.from([...whole, ...first, ...rest]);
    showHits();
    map.redraw(true);
  };
  map.goHit = (by) => {
    if (!state.hits.length) return;
    state.hit = state.hit < 0 && by < 0 ? state.hits.length - 1 : (state.hit + by + state.hits.length) % state.hits.length;
    map.choose(state.hits[state.hit], true);
    showHits();
  };
  function showHits() {
    const { hits, hit } = state, some = hits.length > 0;
    $("hits").textContent = !state.search.trim() ? "" : !some ? "nothing found"
      : `${hit >= 0 ? `${(hit + 1).toLocaleString("en")} of ` : ""}${hits.length.toLocaleString("en")} hit${hits.length === 1 ? "" : "s"}`;
    for (const id of ["before", "next", "take-hits"]) $(id).disabled = !some;
  }
  function clearSearch() {
    $("search").value = "";
    Object.assign(state, { search: "", hits: NONE, hit: -1 });
    showHits();
  }
  function takeHits() {
    if (state.hits.length) map.select(state.hits.slice().sort());
  }
  /** @param {boolean} on */
  function setLasso(on) {
    state.lasso = on;
    state.path = [];
    $("lasso").setAttribute("aria-pressed", String(on));
    over.classList.toggle("lasso", on);
    map.redraw();
  }
  /** One thing after another. @returns {boolean} whether there was any */
  function letGo() {
    if (state.path.length || state.lasso) setLasso(false);
    else if (state.chosen >= 0) map.choose(-1);
    else if (state.selected.length) map.select(NONE);
    else if (state.search) {
      clearSearch();
      map.redraw(true);
    } else return false;
    return true;
  }
  /** @param {number} by */
  function zoom(by) {
    space.zoom(by);
    map.redraw();
  }
  function showAll() {
    space.showAll();
    map.redraw();
  }
  /** @param {KeyboardEvent} event @returns {boolean} */
  function keys(event) {
    const { key } = event, target = /** @type {HTMLElement} */ (event.target);
    if (target.matches?.("select")) return false;
    const move = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[key];
    if (move) {
      space.pan(move[0] * STEP, move[1] * STEP);
      map.redraw();
    } else if (key === "+" || key === "=") zoom(CLOSER);
    else if (key === "-" || key === "−") zoom(1 / CLOSER);
    else if (key === "0") showAll();
    else if (key === "/") $("search").focus();
    else if (key === "n") map.goHit(1);
    else if (key === "p") map.goHit(-1);
    else if (key === "s") takeHits();
    else if (key === "v") map.select(space.inSight());
    else if (key === "l") setLasso(!state.lasso);
    else if (key === "Escape") return letGo();
    else if (key === "Enter" && target === over) {
      const point = space.nearest(space.width / 2, space.height / 2, Math.max(space.width, space.height));
      if (point >= 0) map.choose(point);
    } else return false;
    return true;
  }

  addPanels(map);
  addPointer(map, setLasso);
  const search = $("search");
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => map.find(search.value), data.count > 20000 ? 120 : 0);
  }, { signal });
  search.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      clearSearch();
      over.focus();
      map.redraw(true);
    } else if (event.key !== "Enter") return;
    else {
      clearTimeout(timer);
      if (search.value !== state.search) map.find(search.value);
      map.goHit(event.shiftKey ? -1 : 1);
    }
    event.preventDefault();
  }, { signal });
  $("choices").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault(), { signal });
  /** @type {[string, () => void][]} */
  const buttons = [["before", () => map.goHit(-1)], ["next", () => map.goHit(1)], ["take-hits", takeHits], ["larger", () => zoom(CLOSER)],
    ["smaller", () => zoom(1 / CLOSER)], ["whole", showAll], ["lasso", () => setLasso(!state.lasso)], ["clear", () => map.select(NONE)]];
  for (const [id, act] of buttons) $(id).addEventListener("click", act, { signal });
  $("colour").replaceChildren(...[new Option("none", "-1"), ...data.columns.map((column, place) => new Option(column.name, String(place)))]);
  $("colour-label").hidden = !data.columns.length;
  $("colour").addEventListener("change", () => {
    state.colour = data.columns[Number($("colour").value)] ?? null;
    map.showLegend();
    map.redraw(true);
  }, { signal });
  for (const name of ["focus", "blur"]) over.addEventListener(name, () => map.redraw(), { signal });
  const watching = new ResizeObserver(() => {
    space.resize(over.clientWidth, over.clientHeight);
    draw(); // at once: a canvas that gets another size is empty
  });
  watching.observe($("stage"));
  map.unmount = () => {
    watching.disconnect();
    cancelAnimationFrame(waiting);
    clearTimeout(timer);
    signal.stop?.();
    $("points").replaceWith($("points").cloneNode()); // what WebGL holds goes with its canvas
  };
  if (painter.kind === "canvas") {
    $("fallback").textContent = "This browser has no WebGL 2 here, so the points are drawn on an ordinary canvas: slower where there are many, squares for every mark.";
    $("fallback").hidden = false;
  }
  if (data.columns.length) state.colour = data.columns[Number(($("colour").value = "0"))];
  const asked = new URLSearchParams(location.hash.slice(1)), text = asked.get("search");
  space.resize(over.clientWidth, over.clientHeight);
  space.showAll();
  map.showLegend();
  map.showSelected();
  showHits();
  if (text) {
    search.value = text;
    map.find(text);
    map.goHit(1);
  }
  draw();
  document.body.dataset.ready = "";
  return map;
}
