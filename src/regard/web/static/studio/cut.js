// A view as it was after so many tokens: what a token looks at does not change when others are written after it.

import { numbersOf } from "./look.js";

/** The sides that are written token by token: of a language model all, else those that look at a source. @param {any} head @returns {Set<number>} */
function writtenSides(head) {
  const crossing = head.maps.filter((/** @type {any} */ map) => map.kind === "cross");
  return new Set((crossing.length ? crossing : head.maps).map((/** @type {any} */ map) => map.query));
}
/** How many tokens were written in a view, and those of the source where there is one. @param {any} head @returns {{ count: number, tokens: string[], crosses: boolean }} */
export function writtenIn(head) {
  // What a document's sentences look at, or a memory's steps, is not written token by token.
  const crosses = !head.documents && !head.tracks && head.maps.some((/** @type {any} */ map) => map.kind === "cross");
  const { tokens } = head.sides[/** @type {number} */ ([...writtenSides(head)][0])];
  return { count: tokens.length, tokens, crosses };
}

/**
 * The first tokens of what was written, as a view.
 *
 * @param {import("./look.js").Packed} packed @param {number} count
 * @returns {import("../source.js").Source}
 */
export function cut(packed, count) {
  const { head } = packed, written = writtenSides(head);
  const sides = [...head.sides];
  /** @type {Map<number, number>} */
  const shorter = new Map();
  /** @param {number} side */
  const shortened = (side) => {
    let place = shorter.get(side);
    if (place === undefined) {
      const { tokens, raw, words, texts, patches } = head.sides[side], kept = words?.slice(0, count);
      place = sides.push({
        tokens: tokens.slice(0, count), raw: raw?.slice(0, count), patches, words: kept ?? null,
        texts: kept && texts ? texts.slice(0, new Set(kept).size) : null,
      }) - 1;
      shorter.set(side, place);
    }
    return place;
  };
  const maps = head.maps.map((/** @type {any} */ map) => {
    if (!written.has(map.query)) return { ...map };
    return { ...map, query: shortened(map.query), key: map.kind === "self" ? shortened(map.key) : map.key };
  });
  return {
    data: async () => ({ ...head, maps, sides: structuredClone(sides) }),
    levels: async (index) => {
      const map = head.maps[index], all = numbersOf(packed, index);
      if (!written.has(map.query)) return all;
      const rows = head.sides[map.query].tokens.length, columns = head.sides[map.key].tokens.length;
      const height = Math.min(count, rows), width = map.kind === "self" ? Math.min(count, columns) : columns;
      const planes = map.heads * map.size, part = new Uint8Array(planes * height * width);
      for (let plane = 0, to = 0; plane < planes; plane++) {
        for (let row = 0; row < height; row++, to += width) {
          const from = (plane * rows + row) * columns;
          part.set(all.subarray(from, from + width), to);
        }
      }
      return part;
    },
  };
}
