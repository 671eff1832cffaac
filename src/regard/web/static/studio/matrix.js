// One head's weights out of an answer, without a viewer: what is compared, and what slides are made of.

import { headOf } from "../viewer/names.js";
import { viewData } from "../viewer/viewer.js";
import { Weights } from "../viewer/weights.js";
import { sourceOf } from "./look.js";

/** One layer's head in an answer, in numbers. @param {import("./look.js").Packed} packed @param {string} address @param {number} place @param {number | "mean"} head */
export async function matrixOf(packed, address, place, head) {
  const source = sourceOf(packed), data = viewData(await source.data()), weights = new Weights(source);
  const map = data.maps.find((/** @type {any} */ one) => one.address === address) ?? data.maps[Math.min(place, data.maps.length - 1)];
  await weights.load(map);
  const chosen = map.heads < 2 ? 0 : head === "mean" || head < map.heads ? head : "mean";
  const matrix = weights.matrixOf(map, chosen, false);
  return { map, matrix, name: headOf(map, chosen) + (chosen === "mean" ? ", mean of heads" : ""), values: Float32Array.from(matrix.values), largest: matrix.peak };
}
