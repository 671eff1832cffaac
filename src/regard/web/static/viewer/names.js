// Names of heads, sides and tokens, and small helpers that every module of the viewer uses.

/** @typedef {import("./types").AttentionMap} AttentionMap */

/** @param {number} value @param {number} low @param {number} high */
export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

/** Within one sequence the rows are no output: both sides are the same tokens. @param {AttentionMap} map */
export const sideNames = (map) => (map.kind === "self" ? ["query", "key"] : ["output", "source"]);
/** @param {AttentionMap} map @param {number | "mean"} head */
export const headName = (map, head) =>
  map.heads < 2 ? map.kinds[0] ?? "the only head" : head === "mean" ? `mean of ${map.heads} heads` : headTitle(map, head);
/** A head of a layer with what it does, where that is one thing: "head 2 · previous token". @param {AttentionMap} map @param {number} head */
export const headTitle = (map, head) => "head " + head + (map.kinds[head] ? " · " + map.kinds[head] : "");
/** A head by its layer and number; the only head of a layer by its layer. @param {AttentionMap} map @param {number | "mean"} head */
export const headOf = (map, head) => (map.heads < 2 ? map.name : `${map.name}, head ${head}`);
/**
 * The most informative heads of a map, first one of each kind, then the others.
 *
 * @param {AttentionMap} map @param {number} [count]
 */
export function informativeHeads(map, count = 3) {
  const order = [...Array(map.heads).keys()].sort((a, b) => map.telling[b] - map.telling[a] || a - b);
  const isFirst = (/** @type {number} */ head) => !map.kinds[head] || order.find((one) => map.kinds[one] === map.kinds[head]) === head;
  return [...order.filter(isFirst), ...order.filter((head) => !isFirst(head))].slice(0, count);
}
/**
 * The heads that are on in a map, where others were on in the map before: the most informative heads are replaced by the most informative heads.
 *
 * @param {Set<number>} on @param {AttentionMap} before @param {AttentionMap} map
 */
export function onIn(on, before, map) {
  if (String([...on]) === String(informativeHeads(before))) return new Set(informativeHeads(map));
  if (on.size === before.heads) return new Set(Array(map.heads).keys());
  return new Set([...on].filter((head) => head < map.heads));
}
/**
 * The label of a head where its layer is named too: its number; the address, where the map has this head alone.
 *
 * @param {AttentionMap} map @param {number | "mean"} head
 */
export const headLabel = (map, head) => (map.heads < 2 ? map.address : head);
/** @param {AttentionMap} map @param {number | "mean"} head */
export const headText = (map, head) => (map.heads < 2 ? map.name : "head " + head);
/** @param {AttentionMap} map */
export const isImage = (map) => Boolean(map.key.patches || map.query.patches);

/** Whether some weights are negative. @param {AttentionMap} map */
export const isSigned = (map) => map.zero > 0;

/** @param {string} name @param {string | number} [text] @param {string} [className] @returns {any} */
export function element(name, text, className) {
  const one = document.createElement(name);
  if (text !== undefined) one.textContent = String(text);
  if (className) one.className = className;
  return one;
}

/** The text of the tooltip. @param {string} query @param {string} key @param {string} value @param {string} small */
export const pairTip = (query, key, value, small) =>
  [element("bdi", query), " → ", element("bdi", key), ": " + value, element("small", small)];

/** Pixels of the smallest letters. */
export const LETTER = 9;
/**
 * The tokens that a figure of them draws labels for: not closer than letters need.
 *
 * @param {number} from @param {number} to what is in sight, in pixels @param {number} cell pixels of a token @param {number} count of tokens
 */
export function inSight(from, to, cell, count) {
  const step = Math.max(1, Math.ceil((LETTER * 1.15) / cell)), places = [];
  const first = clamp(Math.floor(from / cell), 0, count - 1), last = clamp(Math.floor(to / cell), 0, count - 1);
  for (let i = Math.ceil(first / step) * step; i <= last; i += step) places.push(i);
  return { first, last, places };
}
