// The pane: a canvas as large as what is in sight of a figure that may be much larger.

import { context2d, inks } from "../colours.js";
import { fillScreen, isPrinting } from "../shell.js";
import { decidedOf } from "./heatmap.js";
import { clamp, pairTip } from "./names.js";
import { CanvasSurface } from "./surface.js";
import { apart } from "./weights.js";

/** The canvas, and the text about the place under the pointer. @param {import("./types").Viewer} viewer */
export function addPane(viewer) {
  const { $, root, signal, state, VIEWS, pane, canvas } = viewer;
  /** What the figure may take: next to the table, below the controls and above the legend. */
  const room = () => {
    const above = pane.hidden ? 0 : pane.getBoundingClientRect().top + window.scrollY, least = window.innerHeight * 0.5;
    return {
      width: Math.max(280, /** @type {Element} */ (pane.closest(".columns")).clientWidth - (window.innerWidth > 900 ? $("aside").offsetWidth + 40 : 6)),
      height: Math.round(Math.max(260, least, window.innerHeight - above - $("legend").offsetHeight - 64)),
    };
  };
  const frameNow = () => ({ x: pane.scrollLeft, y: pane.scrollTop, width: canvas.clientWidth, height: canvas.clientHeight });

  function layout() {
    const view = VIEWS[state.view];
    pane.hidden = !view.draw;
    if (!view.draw) return;
    const whole = view.prepare?.(room()) ?? room();
    viewer.whole = whole;
    const limit = isPrinting() ? { width: 1400, height: 4000 } : room();
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
    canvas.setAttribute("aria-label", view.label?.() ?? "");
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
    if (!view.draw || !view.needs().every(viewer.isLoaded)) return;
    const context = context2d(canvas), density = canvas.width / canvas.clientWidth || 1;
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

  // The text about the place under the pointer: a line that is read out, and the tooltip.

  /** @param {string} text */
  const say = (text) => ($("readout").textContent = text);
  /** @param {PointerEvent} event @param {(Node | string)[] | null} parts */
  function tip(event, parts) {
    const box = $("tip");
    box.hidden = !parts;
    if (!parts) return;
    box.replaceChildren(...parts);
    const x = event.clientX + 14, y = event.clientY + 18;
    box.style.left = Math.max(4, Math.min(x, window.innerWidth - box.offsetWidth - 6)) + "px";
    box.style.top = (y + box.offsetHeight > window.innerHeight ? event.clientY - box.offsetHeight - 10 : y) + "px";
  }
  /** @param {number} row @param {number} column */
  const cellTip = (row, column) =>
    pairTip(viewer.tokenName(state.map.query, row), viewer.tokenName(state.map.key, column), viewer.valueText(row, column),
      [`query ${row}, key ${column}` + rawText(row, column), ...decidedOf(state, row, column)].join("; "));
  /** What the tokenizer itself calls the two tokens, where they are shown otherwise. @param {number} row @param {number} column */
  function rawText(row, column) {
    const { query, key } = state.map;
    if (state.merge || !(query.raw || key.raw)) return "";
    return `; tokens ${apart((query.raw || query.tokens)[row])} → ${apart((key.raw || key.tokens)[column])}`;
  }
  function cellText() {
    const { row, column, map } = state;
    const pair = `${apart(viewer.tokenName(map.query, row))} → ${apart(viewer.tokenName(map.key, column))}`;
    return `${pair}: ${viewer.valueText(row, column)} (${[`query ${row}, key ${column}`, ...decidedOf(state, row, column)].join("; ")})`;
  }
  /** @param {number} row @param {number} column @param {boolean} [quietly] */
  function move(row, column, quietly) {
    state.row = clamp(row, 0, state.matrix.rows - 1);
    state.column = clamp(column, 0, state.matrix.columns - 1);
    state.hover = null;
    redraw();
    VIEWS[state.view].moved?.();
    viewer.listStrongest();
    viewer.keepAddress();
    if (!quietly) say(cellText());
  }
  /** @param {import("./types").Spot | null} spot */
  function hover(spot) {
    const before = viewer.place();
    state.hover = spot;
    const after = viewer.place();
    if (before === after || (before.row === after.row && before.column === after.column && before.side === after.side && before.layer === after.layer)) return;
    redraw();
    VIEWS[state.view].moved?.();
    if (state.view !== "model") viewer.listStrongest();
  }
  canvas.addEventListener("pointermove", (event) => {
    const view = VIEWS[state.view];
    if (root.classList.contains("busy") || (!state.matrix && state.view !== "model")) return;
    const spot = view.at?.(event.offsetX, event.offsetY, frameNow()) ?? null;
    canvas.style.cursor = spot ? (view.cursor || "crosshair") : "default";
    hover(spot);
    tip(event, spot && (view.tip?.(spot) ?? null));
  }, { signal });
  canvas.addEventListener("pointerleave", () => {
    $("tip").hidden = true;
    hover(null);
  }, { signal });
  canvas.addEventListener("click", (event) => {
    if (root.classList.contains("busy")) return;
    const spot = VIEWS[state.view].at?.(event.offsetX, event.offsetY, frameNow());
    if (spot) VIEWS[state.view].pick?.(spot);
  }, { signal });
  canvas.addEventListener("keydown", (event) => {
    if (event.metaKey || event.altKey || !VIEWS[state.view].key?.(event)) return;
    event.preventDefault();
    keepInSight();
  }, { signal });
  // The whole screen for the figure, its controls and its table; where the browser refuses the screen, the whole window.

  /** @param {boolean} on */
  function present(on) {
    root.classList.toggle("present", on);
    $("full").setAttribute("aria-pressed", String(on));
    fillScreen(on);
    state.zoom = 1;
    if (state.view === "text" && state.matrix) VIEWS.text.show();
    layout();
  }
  $("full").addEventListener("click", () => present(!root.classList.contains("present")), { signal });
  document.addEventListener("fullscreenchange", () => {
    if (!document.fullscreenElement && root.classList.contains("present")) present(false);
  }, { signal });
  canvas.addEventListener("focus", () => {
    if (canvas.matches(":focus-visible") && state.matrix) say(VIEWS[state.view].say?.() ?? "");
  }, { signal });
  pane.addEventListener("scroll", redraw, { signal });
  Object.assign(viewer, /** @satisfies {Partial<import("./types").Viewer>} */ ({ room, frameNow, layout, redraw, keepInSight, say, tip, cellTip, cellText, move, present }));
}
