"use strict";
// The numbers of the page and their colours.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const SCALES = {
  light: ["f7fafc", "d3e6f1", "9ecae1", "5aa5d1", "2676b8", "0d4a8b", "08264f"],
  dark: ["161a21", "2b2f5e", "31568f", "21838d", "2fb07c", "8fd644", "fde725"],
};
// For weights that may be negative: orange below zero, blue above.
const SIGNED = {
  light: ["7f3b08", "d67b1b", "fdd0a0", "f7f7f7", "bcd7ec", "3e8cc4", "08306b"],
  dark: ["ffb45c", "b3661a", "5a3a1c", "161a21", "1d4468", "3c8ccb", "9fd3ff"],
};
const SMALLEST = 3, USUAL = 32, LARGEST = 80, LETTER = 9;

const state = { map: data.maps[0], head: "mean", row: 0, column: 0, hover: null, zoom: 1, cell: 20 };
let chosenTheme = null;
let printing = false;

// The weights.

const decoded = new Map();
function weightsOf(map) {
  if (!decoded.has(map)) {
    const text = atob(map.weights);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const view = new DataView(bytes.buffer);
    const weights = new Float32Array(bytes.length / 2);
    for (let i = 0; i < weights.length; i++) weights[i] = (view.getUint16(2 * i, true) - map.zero) * map.step;
    decoded.set(map, weights);
  }
  return decoded.get(map);
}
function matrixOf(map, head) {
  const all = weightsOf(map);
  const size = map.query.length * map.key.length;
  if (head !== "mean") return all.subarray(head * size, (head + 1) * size);
  const mean = new Float32Array(size);
  for (let i = 0; i < all.length; i++) mean[i % size] += all[i] / map.heads;
  return mean;
}
let matrix = matrixOf(state.map, "mean");
const weight = (row, column) => matrix[row * state.map.key.length + column];

// Colours.

const theme = () => (printing ? "light" : document.documentElement.dataset.theme);
const stops = () => (state.map.zero ? SIGNED : SCALES)[theme()];
function makeTable() {
  const ends = stops().map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  return Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (ends.length - 1);
    const low = Math.min(Math.floor(place), ends.length - 2);
    return ends[low].map((value, c) => Math.round(value + (ends[low + 1][c] - value) * (place - low)));
  });
}
let table = [];
function colour(value, limit) {
  const share = state.map.zero ? (value / limit + 1) / 2 : value / limit;
  return table[Math.max(0, Math.min(255, Math.round(share * 255)))];
}
const largest = (values) => values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
// The weight that has the last colour: one for the whole picture, or one for each row.
let limit = 1;
function limitOf(values, row) {
  const { key } = state.map;
  const byRow = $("scale").value === "row";
  return byRow ? largest(values.subarray(row * key.length, (row + 1) * key.length)) || 1 : limit;
}
// Black or white, whichever stands out more: relative luminance as WCAG defines it.
function inkOn(rgb) {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}
function paint(canvas, values, rows, columns) {
  const pixels = new ImageData(columns, rows);
  for (let row = 0, i = 0; row < rows; row++) {
    const end = limitOf(values, row);
    for (let column = 0; column < columns; column++, i++) {
      const [r, g, b] = colour(values[i], end);
      pixels.data.set([r, g, b, 255], 4 * i);
    }
  }
  canvas.width = columns;
  canvas.height = rows;
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}
