// What is shown, kept in one place and in the page's address; and the names of things.

import { clamp, headName, headOf, onIn, informativeHeads } from "./names.js";
import { canMerge, labelsOf, largest, written } from "./weights.js";

/** Views that some models alone have; where one is there, a page opens on it. */
const OWN = ["image", "document", "memory"];

/** The state of a viewer, its address, and the names of things. @param {import("./types").Viewer} viewer */
export function addState(viewer) {
  const { $, root, state, VIEWS, data } = viewer;
  /** @param {number} example */
  const mapsOf = (example) => data.maps.filter((map) => map.example === example);
  const place = () => state.hover || state;
  const chosenHeads = () => (state.view === "heads" ? [...state.on].sort((a, b) => a - b) : [state.view === "model" && state.head === "mean" ? 0 : state.head]);
  // Where later keys cannot be seen, the first row sees one and has it all: on one scale it would pale every other.
  const scale = () => state.scale || (state.map.causal ? "row" : "fit");
  /** Whether a key comes after a query of a causal map. Words merged from a part of a text have no positions to compare. @param {number} row @param {number} column */
  const isHidden = (row, column) => {
    const before = state.matrix.columns - state.matrix.rows;
    return state.map.causal && (!before || !state.merge) && column > row + before;
  };
  /** @param {number} row @param {number} column */
  const valueText = (row, column) => written(state.matrix.at(row, column), state.matrix.errorAt(row, column));
  const whereText = () => {
    const { map, head } = state, many = VIEWS[state.view].heads === "many", own = VIEWS[state.view].where?.();
    if (own) return own;
    const heads = many ? `${state.on.size} of ${map.heads} heads` : headName(map, head);
    if (state.view === "model") return `${mapsOf(map.example).length} layers · chosen: ${headOf(map, head === "mean" ? 0 : head)}`;
    const kind = map.name.includes("-attention") ? [] : [map.kind + "-attention"];
    return [map.name, ...kind, ...(map.heads > 1 || map.kinds[0] ? [heads] : [])].join(" · ");
  };
  /** @param {import("./types").Side} side @param {number} index */
  const tokenName = (side, index) => {
    const { patches } = side, [rows, columns, first] = patches || [0, 0, 0], at = index - first;
    if (!patches || at < 0 || at >= rows * columns) return labelsOf(side, state.merge)[index];
    return `patch ${Math.floor(at / columns) + 1},${(at % columns) + 1}`;
  };

  /** The largest weight of the last colour, for one row or for all. @param {number} row */
  function endOf(row) {
    if (scale() === "unit") return 1;
    if (scale() === "row") return largest(state.matrix.row(row)) || 1;
    return state.limit;
  }

  // The address (URL) of the figure: the parameters after the # open the page on the same one.
  /** What is shown, as the parameters after the # of an address (URL). */
  function address() {
    const parts = new URLSearchParams({ view: state.view, layer: state.map.address, head: String(state.head) });
    if (state.map.example) parts.set("example", String(state.map.example));
    parts.set("query", String(state.row));
    parts.set("key", String(state.column));
    if (state.merge) parts.set("words", "1");
    if (state.side) parts.set("side", state.side);
    if (String([...state.on]) !== String(informativeHeads(state.map))) parts.set("heads", [...state.on].join("."));
    for (const [name, usual] of /** @type {const} */ ([["scale", ""], ["text", "one"], ["image", "one"], ["overlay", "light"]])) {
      if (state[name] !== usual) parts.set(name, state[name]);
    }
    return parts;
  }
  let hashTimer = /** @type {any} */ (0);
  function keepAddress() {
    viewer.chosen?.();
    clearTimeout(hashTimer);
    hashTimer = setTimeout(() => {
      const parts = address();
      for (const [name, value] of viewer.more?.() ?? []) parts.set(name, value);
      try {
        history.replaceState(null, "", "#" + parts);
      } catch {
        // A frame of a notebook may not change its address.
      }
    }, 200);
  }
  /** Where a decoder reads a source it is that which one wants to see first. @param {import("./types").AttentionMap[]} maps */
  function mostInformative(maps) {
    const crossed = maps.filter((map) => map.kind === "cross"), among = crossed.length ? crossed : maps;
    const most = (/** @type {import("./types").AttentionMap} */ map) => Math.max(...map.telling);
    return among.reduce((best, map) => (most(map) > most(best) ? map : best), among[0]);
  }
  /** @param {URLSearchParams} parts */
  function readAddress(parts) {
    const maps = mapsOf(Number(parts.get("example") || 0));
    const map = maps.find((one) => one.address === parts.get("layer")) || mostInformative(maps) || data.maps[0];
    /** @param {string} name @param {string[]} list @param {string | null} usual @returns {any} */
    const among = (name, list, usual) => (list.includes(parts.get(name) ?? "") ? parts.get(name) : usual);
    const asked = parts.get("head") ?? "", head = /^\d+$/.test(asked) && Number(asked) < map.heads ? Number(asked) : informativeHeads(map)[0];
    Object.assign(state, {
      map, head: map.heads > 1 && asked === "mean" ? "mean" : head,
      merge: parts.has("words") && canMerge(map), scale: among("scale", ["fit", "row", "unit"], ""),
      text: among("text", ["one", "mean", "lines"], "one"), image: among("image", ["one", "every"], "one"),
      overlay: among("overlay", ["light", "colour"], "light"), side: among("side", ["query", "key"], null),
    });
    const usable = Object.keys(VIEWS).filter((name) => VIEWS[name].usable(map));
    state.view = among("view", usable, OWN.find((name) => usable.includes(name)) ?? "heatmap");
    const heads = (parts.get("heads") || "").split(".").filter((one) => /^\d+$/.test(one) && Number(one) < map.heads);
    state.on = new Set(heads.length ? heads.map(Number) : informativeHeads(map));
    /** @param {string} name @param {import("./types").Side} side */
    const index = (name, side) => {
      const count = labelsOf(side, state.merge).length, given = Number(parts.get(name));
      return parts.has(name) && Number.isInteger(given) && given >= 0 && given < count ? given : null;
    };
    state.asked = { row: index("query", map.query), column: index("key", map.key) };
  }

  // Whatever changed: load what the figure needs, then draw it.
  let turns = 0;
  async function show() {
    const turn = ++turns, view = VIEWS[state.view], own = view.map?.();
    // A view of certain maps has no choice of another map.
    if (own && own !== state.map) Object.assign(state, { map: own, head: 0, on: onIn(state.on, state.map, own) });
    if (own) state.merge = false;
    root.classList.toggle("busy", !view.needs().every(viewer.isLoaded));
    try {
      await Promise.all(view.needs().map(viewer.load));
    } catch {
      state.matrix = /** @type {any} */ (null);
      $("where").textContent = typeof DecompressionStream === "undefined"
        ? "This browser is too old for this page: it cannot inflate the weights (DecompressionStream)."
        : "The weights in this page cannot be read; the file is damaged. Write the page again.";
      return;
    }
    if (turn !== turns) return;
    root.classList.remove("busy");
    const { map } = state;
    if (view.needs().includes(map)) {
      state.matrix = viewer.matrixOf(map, state.head, state.merge);
      state.row = clamp(state.row, 0, state.matrix.rows - 1);
      state.column = clamp(state.column, 0, state.matrix.columns - 1);
      const shown = view.heads === "many" ? [...state.on].map((head) => viewer.matrixOf(map, head, state.merge)) : [state.matrix];
      state.limit = Math.max(0, ...shown.map((one) => one.peak)) || 1;
    }
    state.hover = null;
    $("tip").hidden = true; // it describes what was shown before
    viewer.fillControls();
    view.show();
    viewer.layout();
    viewer.legend();
    viewer.listStrongest();
    keepAddress();
  }
  Object.assign(viewer, /** @satisfies {Partial<import("./types").Viewer>} */ ({ mapsOf, place, chosenHeads, scale, isHidden, valueText, whereText, tokenName, endOf, address, keepAddress, mostInformative, readAddress, show }));
}
