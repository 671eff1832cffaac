// Colours of weights, of heads and of the page: one convention everywhere. Numbers that may be negative are violet below zero and
// orange above it, on every page, plot and terminal; sizes alone run along one scale. What is chosen or asks is crimson.

import { theme } from "./shell.js";

/** @typedef {[number, number, number]} Rgb */

/** Magnitudes, from zero to the largest. */
export const SCALES = {
  light: ["f7fafc", "d3e6f1", "9ecae1", "5aa5d1", "2676b8", "0d4a8b", "08264f"],
  dark: ["161a21", "2b2f5e", "31568f", "21838d", "2fb07c", "8fd644", "fde725"],
};
/** From the most negative over zero to the most positive. */
export const SIGNED = {
  light: ["2d004b", "6a4fc4", "cdc6ea", "f7f7f7", "fdd0a0", "d26d0a", "7f3b08"],
  dark: ["cfc2ff", "8466e0", "35295c", "161a21", "5a3a1c", "c4701a", "ffb45c"],
};
/** Okabe and Ito's, which people with any colour vision can tell apart. After seven heads the colours repeat, each with another dash. */
export const HEADS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#c0559a", "#b87f00", "#2f8fc4", "#4d4d4d"],
  dark: ["#4aa3dc", "#ff7f32", "#22c796", "#e58fc0", "#f0b429", "#8fd0f5", "#c9c9c9"],
};
export const FONT = 'system-ui, "Noto Sans", "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** The colours of the page, as its style sheet has them. */
export function inks() {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const ink = (name) => style.getPropertyValue("--" + name).trim();
  return { paper: ink("paper"), ink: ink("ink"), faint: ink("faint"), line: ink("line"), mark: ink("mark"), band: ink("band"), hatch: ink("hatch"), negative: ink("negative"), positive: ink("positive") };
}
/** @param {number} head */
export const headColour = (head) => HEADS[theme()][head % 7];
/** @type {[string, ...number[]][]} */
export const DASHES = [["solid"], ["dashed", 7, 4], ["dotted", 2, 3], ["double", 12, 3, 2, 3]];
/** The dash of a head, which distinguishes it from the other shown heads of its colour. @param {number} head @param {Iterable<number>} on */
export const dashOf = (head, on) => [...on].filter((one) => one < head && one % 7 === head % 7).length % DASHES.length;

/** @type {Map<string, Rgb[]>} */
const tables = new Map();
/** 256 colours along some stops. @param {string[]} stops @returns {Rgb[]} */
export function coloursOf(stops) {
  const name = stops.join();
  let table = tables.get(name);
  if (!table) {
    const ends = stops.map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    table = Array.from({ length: 256 }, (_, i) => {
      const place = (i / 255) * (ends.length - 1);
      const low = Math.min(Math.floor(place), ends.length - 2);
      return /** @type {Rgb} */ (ends[low].map((value, c) => Math.round(value + (ends[low + 1][c] - value) * (place - low))));
    });
    tables.set(name, table);
  }
  return table;
}
/** The scale of weights. @param {boolean} signed whether some are negative */
export const stopsOf = (signed) => (signed ? SIGNED : SCALES)[theme()];
/** The colour of a value. @param {boolean} signed @param {number} value @param {number} end what has the last colour @returns {Rgb} */
export function colourOf(signed, value, end) {
  const share = signed ? (value / end + 1) / 2 : value / end;
  return coloursOf(stopsOf(signed))[Math.max(0, Math.min(255, Math.round(share * 255)))];
}
/** Black or white, whichever has more contrast: relative luminance as WCAG defines it. @param {Rgb} rgb */
export function inkOn(rgb) {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}
/**
 * A matrix as an image with one pixel for each cell.
 *
 * @param {boolean} signed
 * @param {Float32Array} values
 * @param {number} rows
 * @param {number} columns
 * @param {(row: number) => number} end the weight that has the last colour
 */
export function bitmapOf(signed, values, rows, columns, end) {
  const colours = coloursOf(stopsOf(signed));
  const packed = new Uint32Array(colours.map(([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r));
  const pixels = new Uint32Array(rows * columns);
  for (let row = 0, i = 0; row < rows; row++) {
    const scale = (signed ? 127.5 : 255) / end(row), zero = signed ? 127.5 : 0;
    for (let column = 0; column < columns; column++, i++) {
      const place = values[i] * scale + zero + 0.5;
      pixels[i] = packed[place < 0 ? 0 : place > 255 ? 255 : place | 0];
    }
  }
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  context2d(canvas).putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), columns, rows), 0, 0);
  return canvas;
}
/** @param {HTMLCanvasElement} canvas @param {CanvasRenderingContext2DSettings} [settings] */
export const context2d = (canvas, settings) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", settings));
