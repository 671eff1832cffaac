// The text, coloured by how much of it one token sees, or all do; or a line for each token.

import { colourOf, inkOn } from "../colours.js";
import { clamp, element, isImage, isSigned, sideNames } from "./names.js";
import { labelsOf, largest, short, strongest, written } from "./weights.js";

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const SPANS = 2500; // in the figure of a line for each token
/** @param {string[]} tokens */
const directionOf = (tokens) =>
  tokens.filter((token) => RIGHT_TO_LEFT.test(token)).length * 2 > tokens.length ? "rtl" : "ltr";

/** Adds the view, and the list of tokens that can ask. @param {import("./types").Viewer} viewer */
export function addText(viewer) {
  const { $, signal, state, VIEWS } = viewer;
  const sameSides = () => state.map.kind === "self" && state.map.query === state.map.key;

  /** @param {HTMLElement} span @param {number} value @param {number} end */
  function shade(span, value, end) {
    const rgb = colourOf(isSigned(state.map), value, end), plain = value === 0;
    span.style.background = plain ? "" : `rgb(${rgb})`;
    span.style.color = plain ? "" : inkOn(rgb);
  }

  VIEWS.text = {
    name: "Text", role: "text", heads: "one",
    usable: (map) => !isImage(map),
    needs: () => [state.map],
    show() {
      const { query, key } = state.matrix, lines = state.text === "lines";
      $("words").hidden = lines;
      $("lines").hidden = !lines;
      viewer.listQueries();
      for (const id of ["words", "lines"]) {
        $(id).dir = directionOf(key);
        $(id).style.fontSize = clamp((viewer.root.classList.contains("present") ? 2.2 : 1.4) * state.zoom, 0.5, 6) + "rem";
      }
      if (lines) return this.lines();
      $("words").setAttribute("role", sameSides() ? "listbox" : "group");
      $("words").setAttribute("aria-label", sameSides() ? "the text; choose a token" : sideNames(state.map)[1]);
      $("words").replaceChildren(...key.map((token) => element("span", token)));
      this.moved?.();
    },
    // One line for each token, as in the papers on reading one word after another.
    lines() {
      const { query, key, rows, columns } = state.matrix, self = sameSides();
      const count = Math.min(rows, Math.max(1, Math.floor(SPANS / columns))), first = clamp(state.row - (count >> 1), 0, rows - count);
      $("lines").replaceChildren(...Array.from({ length: count }, (_, n) => {
        const row = first + n, values = state.matrix.row(row), line = element("div"), end = viewer.endOf(row);
        let last = columns - 1;
        while (last > row && values[last] === 0) last--;
        if (!self) line.append(element("b", query[row], "asks"));
        line.append(...key.map((token, i) => {
          const span = element("span", token);
          shade(span, values[i], end);
          if (self && i === row) span.className = "now";
          else if (self && i > row && i > last) span.className = "later";
          span.dataset.row = row;
          span.dataset.column = i;
          return span;
        }));
        line.setAttribute("aria-label", `${query[row]} sees ${strongest(values, 3).map((i) => `${key[i]} ${short(values[i])}`).join(", ")}`);
        line.setAttribute("role", "listitem");
        return line;
      }));
      $("lines").dataset.part = count < rows ? `lines ${first} to ${first + count - 1} of 0 to ${rows - 1}` : "";
    },
    values: () => (state.text === "mean" ? state.matrix.meanRow : state.matrix.row(viewer.place().row)),
    moved() {
      markQuery();
      if (state.text === "lines") return;
      const values = this.values(), self = sameSides(), { row } = viewer.place(), one = state.text === "one";
      const end = viewer.scale() === "unit" ? 1 : largest(values) || 1, few = values.length <= 300;
      [...$("words").children].forEach((span, i) => {
        shade(span, values[i], end);
        if (few) span.setAttribute("aria-label", `${span.textContent}: ${short(values[i])}`);
        span.setAttribute("role", self ? "option" : "img");
        if (!self) return;
        span.setAttribute("aria-selected", String(one && i === row));
        span.tabIndex = i === state.row ? 0 : -1;
      });
    },
  };

  // The tokens that can be the query, next to a text or an image that is not made of them.
  function listQueries() {
    const image = state.view === "image", { byKey, other, both } = image ? VIEWS.image.sides() : { byKey: true, other: state.map.query };
    const wanted = image ? state.image === "one" || both : state.text === "one" && !sameSides();
    $("asking").hidden = !wanted;
    if (!wanted) return;
    const tokens = labelsOf(other, state.merge), [rows, columns, first] = both ? other.patches : [0, 0, 0];
    const shown = tokens.map((token, i) => /** @type {[string, number]} */ ([token, i])).filter(([, i]) => !both || i < first || i >= first + rows * columns);
    $("asking-title").textContent = sideNames(state.map)[byKey ? 0 : 1];
    $("queries").dir = directionOf(tokens);
    $("queries").replaceChildren(...shown.map(([token, i]) => {
      const option = element("span", token);
      option.setAttribute("role", "option");
      option.dataset.index = i;
      option.setAttribute("aria-label", `${token}, position ${i}`);
      return option;
    }));
    $("asking").hidden = !shown.length;
    markQuery();
  }
  function markQuery() {
    if ($("asking").hidden) return;
    const byKey = state.view !== "image" || VIEWS.image.sides().byKey, index = byKey ? viewer.place().row : viewer.place().column;
    let any = false;
    for (const option of $("queries").children) {
      const on = Number(option.dataset.index) === index;
      any ||= on;
      option.setAttribute("aria-selected", String(on));
      option.tabIndex = on ? 0 : -1;
    }
    if (!any && $("queries").firstChild) $("queries").firstChild.tabIndex = 0;
  }
  /** @param {number} index @param {boolean} [quietly] */
  function ask(index, quietly) {
    if (state.view === "image" && !VIEWS.image.sides().byKey) return viewer.move(strongest(state.matrix.column(index), 1)[0], index, quietly);
    if (state.view === "text" && state.text === "mean") {
      state.text = "one";
      viewer.fillControls();
    }
    viewer.move(index, strongest(state.matrix.row(index), 1)[0], true);
    if (!quietly) viewer.say(viewer.strongestText());
  }

  const spanOf = (/** @type {any} */ event, /** @type {string} */ holder) => event.target.closest?.(`#${holder} span`);
  for (const id of ["queries", "words", "lines"]) {
    const placeOf = (/** @type {HTMLElement} */ span) =>
      id === "queries" ? Number(span.dataset.index) : id === "lines" ? Number(span.dataset.row) : [...$("words").children].indexOf(span);
    const chooses = () => id !== "words" || sameSides();
    $(id).addEventListener("click", (/** @type {any} */ event) => {
      const span = spanOf(event, id);
      if (!span || !chooses()) return;
      const index = placeOf(span);
      ask(index);
      if (id !== "lines") span.focus();
    }, { signal });
    $(id).addEventListener("pointermove", (/** @type {any} */ event) => {
      const span = spanOf(event, id);
      if (!span) return viewer.tip(event, null);
      if (id === "queries") return;
      const column = id === "lines" ? Number(span.dataset.column) : placeOf(span);
      if (state.text === "mean" && id === "words") {
        const value = written(VIEWS.text.values()[column], state.matrix.meanError(column));
        return viewer.tip(event, [element("bdi", span.textContent), ": " + value, element("small", `mean of all, key ${column}`)]);
      }
      viewer.tip(event, viewer.cellTip(id === "lines" ? Number(span.dataset.row) : state.row, column));
    }, { signal });
    $(id).addEventListener("pointerleave", () => ($("tip").hidden = true), { signal });
    $(id).addEventListener("keydown", (/** @type {any} */ event) => {
      const spans = [...$(id).children], at = spans.indexOf(document.activeElement);
      if (id === "lines" || at < 0) return;
      const forward = $(id).dir === "rtl" ? "ArrowLeft" : "ArrowRight", backward = forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
      /** @type {Record<string, number>} */
      const steps = { [forward]: at + 1, ArrowDown: at + 1, [backward]: at - 1, ArrowUp: at - 1, Home: 0, End: spans.length - 1 };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const next = spans[clamp(steps[event.key], 0, spans.length - 1)];
      ask(placeOf(next));
      next.focus();
    }, { signal });
  }
  Object.assign(viewer, /** @satisfies {Partial<import("./types").Viewer>} */ ({ sameSides, listQueries, markQuery }));
}
