// The viewer: attention as figures of several kinds, with their numbers.

import { finder, startShell } from "../shell.js";
import { addControls } from "./controls.js";
import { addDocument } from "./document.js";
import { addExport } from "./export.js";
import { addHeads } from "./heads.js";
import { addHeatmap } from "./heatmap.js";
import { addImage } from "./image.js";
import { addMemory } from "./memory.js";
import { addModel } from "./model.js";
import { onIn, informativeHeads } from "./names.js";
import { addPane } from "./pane.js";
import { addState } from "./state.js";
import { addStrongest } from "./strongest.js";
import { addText } from "./text.js";
import { Weights, canMerge, strongest } from "./weights.js";

/**
 * Brings the viewer to life in an element that holds its markup (`templates/viewer.html`).
 *
 * @param {HTMLElement} root
 * @param {import("../source.js").Source} source
 * @returns {Promise<import("./types").Viewer>} when the first figure is drawn; `unmount` ends it
 */
export async function mount(root, source) {
  const data = viewData(await source.data()), weights = new Weights(source), $ = finder(root);
  /** @type {import("./types").Viewer} */
  const viewer = Object.assign(/** @type {any} */ ({}), {
    root, $, data, weights,
    state: {
      view: "heatmap", map: data.maps[0], head: "mean", on: new Set(), row: 0, column: 0, side: null,
      merge: false, scale: "", text: "one", image: "one", overlay: "light", smooth: true,
      zoom: 1, hover: null, matrix: null, limit: 1,
    },
    VIEWS: {}, // by name, in the order of their tabs
    canvas: $("figure"), pane: $("pane"), whole: { width: 0, height: 0 }, thumbs: new Map(),
    load: weights.load.bind(weights), isLoaded: weights.isLoaded.bind(weights), matrixOf: weights.matrixOf.bind(weights),
  });
  const { state, VIEWS } = viewer;
  const shell = startShell(root, {
    keys: (event) => viewer.keys(event),
    changed: () => {
      if (!viewer.show) return;
      if (state.view === "text" && state.matrix) VIEWS.text.show();
      viewer.show();
      viewer.layout();
    },
  });
  viewer.signal = shell;
  viewer.unmount = () => shell.stop?.();

  addState(viewer);
  addPane(viewer);
  for (const addView of [addHeatmap, addHeads, addModel, addText, addImage, addDocument, addMemory]) addView(viewer);
  addStrongest(viewer);
  addControls(viewer);
  addExport(viewer);

  viewer.replace = async (other) => {
    const before = state.map;
    Object.assign(data, { documents: undefined, tracks: undefined }, viewData(await other.data()));
    weights.reset(other);
    viewer.thumbs.clear();
    const same = data.maps.find((map) => map.address === before.address && map.example === before.example && map.heads === before.heads);
    state.map = same ?? viewer.mostInformative(data.maps);
    if (same) state.on = onIn(state.on, before, same);
    else Object.assign(state, { head: informativeHeads(state.map)[0], on: new Set(informativeHeads(state.map)) });
    state.merge &&= canMerge(state.map);
    if (!VIEWS[state.view].usable(state.map)) state.view = "heatmap";
    await viewer.show();
  };
  // A page that was saved as a file opens where it was, unless its own address (URL) has another place.
  viewer.open = async (parts = new URLSearchParams(location.hash.slice(1) || root.dataset.place)) => {
    viewer.readAddress(parts);
    await viewer.show();
    // Begin where there is something to see: the first token of a causal map has seen nothing yet.
    const { row, column } = state.asked;
    if (!state.matrix) return;
    const first = state.merge || state.map.query.patches?.[2]; // merged words have other places; the class token of an image reads all of it
    const [query, key] = first ? [0, null] : state.map.cells[state.head === "mean" ? informativeHeads(state.map)[0] : state.head];
    const from = row ?? (state.map.causal ? state.matrix.rows - 1 : query);
    viewer.move(from, column ?? (from === query ? key : null) ?? strongest(state.matrix.row(from), 1)[0], true);
    viewer.legend();
  };
  addEventListener("hashchange", () => viewer.open(), { signal: shell });
  addEventListener("resize", viewer.layout, { signal: shell });
  await viewer.open();
  root.dataset.ready = "yes";
  return viewer;
}

/** A view's data with the sides of its maps in their place: maps share them. @param {any} data @returns {import("./types").ViewData} */
export function viewData(data) {
  data.maps.forEach((/** @type {any} */ map, /** @type {number} */ i) => {
    map.index = i;
    map.query = data.sides[map.query];
    map.key = data.sides[map.key];
  });
  return data;
}
