// What the chosen token sees most, as a table: the values for those who cannot see the figure.

import { element, headText, isSigned } from "./names.js";
import { apart, strongest, three, written } from "./weights.js";

/** Rows of the table. */
const LISTED = 8;

/** Adds the table next to the figure. @param {import("./types").Viewer} viewer */
export function addStrongest(viewer) {
  const { $, state, VIEWS } = viewer;
  /** @returns {import("./types").Strongest} */
  function strongestRows() {
    const { view, map, matrix } = state, { row, column } = viewer.place(), own = VIEWS[view].strongest?.();
    if (own) return own;
    const pairs = (/** @type {Float32Array} */ values, /** @type {(i: number, value: number) => any[]} */ put) => strongest(values, LISTED).map((i) => put(i, values[i]));
    if (view === "model") {
      const layer = VIEWS.model.maps()[VIEWS.model.chosen().layer], { head } = VIEWS.model.chosen();
      if (!viewer.isLoaded(layer)) return { title: "", heads: ["query", "key", "weight"], rows: [] };
      const one = viewer.matrixOf(layer, head, state.merge);
      return {
        title: `strongest of ${headText(layer, head)}`, heads: ["query", "key", "weight"],
        rows: one.strongest(LISTED).map(([r, c]) =>
          [viewer.tokenName(layer.query, r), viewer.tokenName(layer.key, c), written(one.at(r, c), one.errorAt(r, c)), one.at(r, c)]),
      };
    }
    if (view === "heads") {
      // A single head needs no column: its number, where it was chosen from several, is in the name above.
      const chosen = state.hover || (state.side ? state : null), single = map.heads < 2, heads = ["token", single ? "position" : "head", "weight"];
      if (!chosen) return { title: "Point at a token or choose one.", heads, rows: [] };
      const isQuery = chosen.side !== "key", name = isQuery ? viewer.tokenName(map.query, chosen.row) : viewer.tokenName(map.key, chosen.column);
      return {
        title: isQuery ? `${apart(name)} sees` : `${apart(name)} is seen by`, heads,
        rows: VIEWS.heads.strongestOf(chosen, LISTED).map((/** @type {{ head: number, row: number, column: number, value: number, error: number }} */ one) =>
          [isQuery ? viewer.tokenName(map.key, one.column) : viewer.tokenName(map.query, one.row),
            String(single ? (isQuery ? one.column : one.row) : one.head), written(one.value, one.error), one.value]),
      };
    }
    if (view === "text" && state.text === "mean") {
      return {
        title: "all see", heads: ["token", "position", "weight"],
        rows: pairs(VIEWS.text.values(), (i, value) => [viewer.tokenName(map.key, i), String(i), written(value, matrix.meanError(i)), value]),
      };
    }
    if (view === "image" && !map.key.patches) {
      return {
        title: `${apart(viewer.tokenName(map.key, column))} is seen by`, heads: ["token", "position", "weight"],
        rows: pairs(matrix.column(column), (i, value) => [viewer.tokenName(map.query, i), String(i), viewer.valueText(i, column), value]),
      };
    }
    return {
      title: `${apart(viewer.tokenName(map.query, row))} sees`, heads: ["token", "position", "weight"],
      rows: pairs(matrix.row(row), (i, value) => [viewer.tokenName(map.key, i), String(i), viewer.valueText(row, i), value]),
    };
  }
  function listStrongest() {
    if (!state.matrix && state.view !== "model") return;
    const { title, heads, rows, signed = isSigned(state.map) } = strongestRows(), most = Math.max(...rows.map((row) => Math.abs(row[3])));
    $("strongest-title").textContent = title;
    $("strongest-head").replaceChildren(...heads.map((head) => {
      const cell = element("th", head);
      cell.scope = "col";
      return cell;
    }));
    $("strongest-body").replaceChildren(...rows.map((row) => {
      const line = element("tr");
      row.slice(0, 3).forEach((text, i) => {
        const cell = element("td");
        cell.append(element("bdi", i === 2 ? three(row[3]) : text));
        if (i === 2) {
          cell.title = text; // with its error
          cell.style.setProperty("--share", (100 * Math.abs(row[3])) / most + "%");
          if (signed) cell.style.setProperty("--bar", `var(--${row[3] < 0 ? "negative" : "positive"}-bar)`);
        }
        line.append(cell);
      });
      return line;
    }));
    $("strongest-table").hidden = !rows.length;
  }
  const strongestText = () => {
    const { row, matrix } = state, found = strongest(matrix.row(row), 3);
    return `${apart(viewer.tokenName(state.map.query, row))}: strongest ${found.map((i) => `${apart(viewer.tokenName(state.map.key, i))} ${viewer.valueText(row, i)}`).join(", ")}`;
  };
  Object.assign(viewer, /** @satisfies {Partial<import("./types").Viewer>} */ ({ listStrongest, strongestText }));
}
