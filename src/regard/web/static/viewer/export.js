// Taking a figure or its numbers out of the page, without asking any other computer.

import { SCALES, SIGNED, coloursOf, context2d, inks, stopsOf } from "../colours.js";
import { download } from "../saving.js";
import { element, headLabel, isSigned } from "./names.js";
import { CanvasSurface, SvgSurface, widthOf } from "./surface.js";
import { canMerge } from "./weights.js";

/** @typedef {import("./types").Surface} Surface */

const HEADING = 58, MARGIN = 16, LARGEST_PNG = 8192;

/** The buttons that save. @param {import("./types").Viewer} viewer */
export function addExport(viewer) {
  const { $, state, VIEWS, data } = viewer;
  function wholeFigure() {
    const view = VIEWS[state.view];
    if (!view.draw || !view.prepare) return textFigure();
    const { width, height } = view.prepare(viewer.room());
    /** @param {Surface} surface */
    const draw = (surface) => view.draw?.(surface, { x: 0, y: 0, width, height, whole: true });
    return { width, height, draw };
  }
  // The browser has laid the text out; its boxes are drawn at their positions.
  function textFigure() {
    const holder = $(state.text === "lines" ? "lines" : "words"), box = holder.getBoundingClientRect();
    return {
      width: Math.ceil(box.width), height: Math.ceil(holder.scrollHeight) + 4,
      /** @param {Surface} surface */
      draw(surface) {
        for (const span of holder.querySelectorAll("span, b")) {
          const own = span.getBoundingClientRect(), style = getComputedStyle(span), size = parseFloat(style.fontSize);
          const x = own.left - box.left, y = own.top - box.top + holder.scrollTop;
          if (span.style.background) surface.rect(x, y, own.width, own.height, style.backgroundColor);
          const chosen = span.getAttribute("aria-selected") === "true";
          if (chosen) surface.frame(x + 0.5, y + 0.5, own.width - 1, own.height - 1, inks().mark, 2);
          const faint = span.className === "later" ? inks().faint : style.color;
          surface.text(span.textContent, x + own.width / 2, y + own.height / 2,
            { size, colour: faint, align: "center", bold: parseInt(style.fontWeight) > 500 });
        }
      },
    };
  }
  const hasRamp = () => ["heatmap", "text", "image", "document"].includes(state.view) && !(state.view === "image" && state.overlay === "light" && !isSigned(state.map));
  /** @param {Surface} surface @param {{ draw(surface: Surface): void }} figure @param {number} width @param {number} height */
  function drawAll(surface, figure, width, height) {
    const ink = inks();
    surface.rect(0, 0, width, height, ink.paper);
    surface.text(data.title, MARGIN, MARGIN + 8, { size: 16, colour: ink.ink, bold: true, width: width - 2 * MARGIN });
    const where = [viewer.whereText(), $("note").textContent].filter(Boolean).join(" · ");
    surface.text(where, MARGIN, MARGIN + 29, { size: 12, colour: ink.faint, width: width - 2 * MARGIN });
    surface.shift(MARGIN, HEADING, () => figure.draw(surface));
    if (!hasRamp()) return;
    const y = height - MARGIN - 12, map = state.map, stops = coloursOf(state.view === "image" ? (isSigned(map) ? SIGNED.light : SCALES.dark) : stopsOf(isSigned(map))), { low, high } = viewer.legendTexts();
    surface.text(low, MARGIN, y + 6, { size: 11, colour: ink.faint });
    const from = MARGIN + widthOf(low, 11) + 8;
    for (let i = 0; i < 64; i++) surface.rect(from + 2 * i, y, 2.3, 12, `rgb(${stops[Math.round((i / 63) * 255)]})`);
    surface.text(high, from + 136, y + 6, { size: 11, colour: ink.faint });
  }
  function sized() {
    const figure = wholeFigure(), width = Math.ceil(Math.max(figure.width, 300)) + 2 * MARGIN;
    return { figure, width, height: Math.ceil(figure.height) + HEADING + (hasRamp() ? 40 : MARGIN) };
  }
  /** @param {string} suffix */
  const fileName = (suffix) =>
    [state.map.address, state.view, state.view === "heads" ? "" : state.head].filter((part) => part !== "").join("-").replace(/[^\w.-]+/g, "_") + "." + suffix;
  /** @param {Blob} blob @param {string} suffix */
  function save(blob, suffix) {
    download(blob, fileName(suffix));
    viewer.say(`saved ${fileName(suffix)}`);
  }
  async function shownLoaded() {
    if (state.view === "model") await Promise.all(VIEWS.model.maps().map(viewer.load));
    else await viewer.load(state.map);
  }

  const SAVERS = {
    async png() {
      await shownLoaded();
      const { figure, width, height } = sized(), density = Math.min(2, LARGEST_PNG / Math.max(width, height));
      const sheet = element("canvas");
      sheet.width = Math.round(width * density);
      sheet.height = Math.round(height * density);
      const context = context2d(sheet);
      context.scale(density, density);
      drawAll(new CanvasSurface(context), figure, width, height);
      sheet.toBlob((/** @type {Blob} */ blob) => save(blob, "png"));
    },
    async svg() {
      await shownLoaded();
      const { figure, width, height } = sized(), surface = new SvgSurface();
      drawAll(surface, figure, width, height);
      save(new Blob([surface.file(width, height, data.title)], { type: "image/svg+xml" }), "svg");
    },
    async json() {
      await viewer.load(state.map);
      const { map, matrices } = shownMatrices(), [{ query, key }] = matrices, [header, ...rows] = VIEWS[state.view].rows?.() ?? [];
      const shown = { title: data.title, example: data.examples[map.example] };
      const value = header ? { ...shown, columns: header, rows } : {
        ...shown, address: map.address, kind: map.kind,
        query_tokens: query, key_tokens: key, words_merged: state.merge && canMerge(map), relative_step: map.step, knee: map.knee,
        heads: matrices.map((one) => ({
          head: headLabel(map, one.head), weights: Array.from({ length: one.rows }, (_, row) => [...one.row(row)].map((x) => Number(x.toPrecision(7)))),
        })),
      };
      save(new Blob([JSON.stringify(value)], { type: "application/json" }), "json");
    },
    async csv() {
      await viewer.load(state.map);
      const { map, matrices } = shownMatrices(), [{ query, key }] = matrices, own = VIEWS[state.view].rows?.();
      const quoted = (/** @type {string | number} */ text) => `"${String(text).replaceAll('"', '""')}"`;
      const lines = own ? own.map((row) => row.map((cell) => (typeof cell === "number" ? String(Number(cell.toPrecision(7))) : quoted(cell))).join())
        : [["head", "query", ...key].map(quoted).join()];
      for (const one of own ? [] : matrices) {
        query.forEach((token, row) => lines.push([quoted(headLabel(map, one.head)), quoted(token), ...[...one.row(row)].map((x) => x.toPrecision(7))].join()));
      }
      save(new Blob(["\ufeff" + lines.join("\r\n") + "\r\n"], { type: "text/csv;charset=utf-8" }), "csv");
    },
  };
  Object.assign(SAVERS, {
    // The browser's own way to paper and PDF: the style sheet for printing leaves the figure and its table.
    pdf: () => print(),
    // The page without what was written into it since it was opened. What it shows is in its address (URL), which a file does not have: so it is written on its body.
    html() {
      const whole = /** @type {HTMLElement} */ (document.documentElement.cloneNode(true)), body = /** @type {HTMLElement} */ (whole.querySelector("body"));
      for (const name of ["data-theme", "class"]) whole.removeAttribute(name);
      for (const name of body.getAttributeNames()) body.removeAttribute(name);
      body.dataset.place = String(viewer.address());
      for (const id of ["readout", "tip"]) whole.querySelector("#" + id)?.replaceChildren();
      whole.querySelector("#tip")?.setAttribute("hidden", "");
      for (const list of whole.querySelectorAll("[data-entries]")) list.removeAttribute("data-entries");
      for (const one of whole.querySelectorAll("dialog[open]")) one.removeAttribute("open");
      save(new Blob(["<!doctype html>\n" + whole.outerHTML], { type: "text/html;charset=utf-8" }), "html");
    },
  });
  $("save-html").hidden = !document.getElementById("data"); // a page whose data a server gives is no file
  function shownMatrices() {
    const { map } = state;
    const heads = viewer.chosenHeads();
    if (!heads.length) heads.push("mean");
    return { map, matrices: heads.map((head) => viewer.matrixOf(map, head, state.merge)) };
  }
  for (const [kind, saver] of Object.entries(SAVERS)) $("save-" + kind).addEventListener("click", saver, { signal: viewer.signal });
}
