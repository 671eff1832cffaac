// What is shown, kept in one place and in the page's address; and the names of things.

const VIEWS = {}; // by name, in the order of their tabs; each view is in a file of its own
const state = {
  view: "heatmap", map: data.maps[0], head: "mean", on: new Set(), row: 0, column: 0,
  side: null, // lines: "query" or "key" where one token is chosen
  merge: false, scale: "fit", text: "one", picture: "one", overlay: "light", smooth: true,
  zoom: 1, hover: null, matrix: null, limit: 1,
};
const mapsOf = (example) => data.maps.filter((map) => map.example === example);
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const place = () => state.hover || state;
const weight = (row, column) => weightAt(state.matrix, row, column);
const valueText = (row, column) => written(weight(row, column), errorAt(state.matrix, row, column));
// Within one sequence the rows are no output: both sides are the same tokens.
const sideNames = (map) => (map.kind === "self" ? ["query", "key"] : ["output", "source"]);
const headName = (map, head) =>
  map.heads < 2 ? "the only head" : head === "mean" ? `mean of ${map.heads} heads` : "head " + head;
// A head by its layer and number; of a layer with a single one its address says it all.
const headOf = (map, head) => (map.heads < 2 ? map.address : `${map.address}, head ${head}`);
// What stands for a head where its layer is named too: its number, or for a head chosen from several the address, which has it.
const headLabel = (map, head) => (map.heads < 2 ? map.address : head);
const headText = (map, head) => (map.heads < 2 ? map.address : "head " + head);
const isPicture = (map) => Boolean(map.key.patches || map.query.patches);
const whereText = () => {
  const { map, head } = state, many = VIEWS[state.view].heads === "many";
  const heads = many ? `${state.on.size} of ${map.heads} heads` : headName(map, head);
  if (state.view === "model") return `${mapsOf(map.example).length} layers · chosen: ${headOf(map, head === "mean" ? 0 : head)}`;
  return [map.address, map.kind + "-attention", ...(map.heads > 1 ? [heads] : [])].join(" · ");
};
const tokenName = (side, index) => {
  const { patches } = side, [rows, columns, first] = patches || [0, 0, 0], at = index - first;
  if (!patches || at < 0 || at >= rows * columns) return labelsOf(side, state.merge)[index];
  return `patch ${Math.floor(at / columns) + 1},${(at % columns) + 1}`;
};

function element(name, text, className) {
  const one = document.createElement(name);
  if (text !== undefined) one.textContent = text;
  if (className) one.className = className;
  return one;
}

// The largest weight of the last colour, for one row or for all.
function endOf(row) {
  if (state.scale === "unit") return 1;
  if (state.scale === "row") return largest(rowOf(state.matrix, row)) || 1;
  return state.limit;
}

// The address of the picture: what stands after the # opens the page on the same one.
let hashTimer = 0;
function keepAddress() {
  clearTimeout(hashTimer);
  hashTimer = setTimeout(() => {
    const parts = new URLSearchParams({ view: state.view, layer: state.map.address, head: state.head });
    if (state.map.example) parts.set("example", state.map.example);
    parts.set("query", state.row);
    parts.set("key", state.column);
    if (state.merge) parts.set("words", 1);
    if (state.side) parts.set("side", state.side);
    if (state.on.size < state.map.heads) parts.set("heads", [...state.on].join("."));
    for (const [name, usual] of [["scale", "fit"], ["text", "one"], ["picture", "one"], ["overlay", "light"]]) {
      if (state[name] !== usual) parts.set(name, state[name]);
    }
    try {
      history.replaceState(null, "", "#" + parts);
    } catch {
      // A frame of a notebook may not change its address.
    }
  }, 200);
}
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const maps = mapsOf(Number(parts.get("example") || 0));
  const map = maps.find((one) => one.address === parts.get("layer")) || maps[0] || data.maps[0];
  const among = (name, list, usual) => (list.includes(parts.get(name)) ? parts.get(name) : usual);
  const head = parts.has("head") && /^\d+$/.test(parts.get("head")) ? Number(parts.get("head")) : "mean";
  Object.assign(state, {
    map, head: map.heads > 1 && head < map.heads ? head : map.heads > 1 ? "mean" : 0,
    merge: parts.has("words") && canMerge(map), scale: among("scale", ["fit", "row", "unit"], "fit"),
    text: among("text", ["one", "mean", "lines"], "one"), picture: among("picture", ["one", "every"], "one"),
    overlay: among("overlay", ["light", "colour"], "light"), side: among("side", ["query", "key"], null),
  });
  const usable = Object.keys(VIEWS).filter((name) => VIEWS[name].usable(map));
  state.view = among("view", usable, usable.includes("image") ? "image" : "heatmap");
  const heads = (parts.get("heads") || "").split(".").filter((one) => /^\d+$/.test(one) && Number(one) < map.heads);
  state.on = new Set(heads.length ? heads.map(Number) : Array(map.heads).keys());
  const index = (name, side) => {
    const count = labelsOf(side, state.merge).length, given = Number(parts.get(name));
    return parts.has(name) && Number.isInteger(given) && given >= 0 && given < count ? given : null;
  };
  state.asked = { row: index("query", map.query), column: index("key", map.key) };
}

// Whatever changed: load what the picture needs, then draw it.
let turns = 0;
async function show() {
  const turn = ++turns, view = VIEWS[state.view];
  document.body.classList.toggle("busy", !view.needs().every(isLoaded));
  try {
    await Promise.all(view.needs().map(load));
  } catch {
    state.matrix = null;
    $("where").textContent = "The weights in this page cannot be read; the file is damaged. Write the page again.";
    return;
  }
  if (turn !== turns) return;
  document.body.classList.remove("busy");
  const { map } = state;
  if (view.needs().includes(map)) {
    state.matrix = matrixOf(map, state.head, state.merge);
    state.row = clamp(state.row, 0, state.matrix.rows - 1);
    state.column = clamp(state.column, 0, state.matrix.columns - 1);
    const shown = view.heads === "many" ? [...state.on].map((head) => matrixOf(map, head, state.merge)) : [state.matrix];
    state.limit = Math.max(0, ...shown.map((one) => one.peak)) || 1;
  }
  state.hover = null;
  fillControls();
  view.show();
  layout();
  legend();
  listStrongest();
  keepAddress();
}
