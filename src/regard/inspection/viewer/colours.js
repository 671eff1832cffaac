// Colours: of weights, of heads, of the page; and numbers as they are written.

const SCALES = {
  light: ["f7fafc", "d3e6f1", "9ecae1", "5aa5d1", "2676b8", "0d4a8b", "08264f"],
  dark: ["161a21", "2b2f5e", "31568f", "21838d", "2fb07c", "8fd644", "fde725"],
};
// For weights that may be negative: orange below zero, blue above.
const SIGNED = {
  light: ["7f3b08", "d67b1b", "fdd0a0", "f7f7f7", "bcd7ec", "3e8cc4", "08306b"],
  dark: ["ffb45c", "b3661a", "5a3a1c", "161a21", "1d4468", "3c8ccb", "9fd3ff"],
};
// Okabe and Ito's, which people with any colour vision can tell apart. After seven heads they come again with another dash.
const HEADS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#c0559a", "#b87f00", "#2f8fc4", "#4d4d4d"],
  dark: ["#4aa3dc", "#ff7f32", "#22c796", "#e58fc0", "#f0b429", "#8fd0f5", "#c9c9c9"],
};
const INKS = {
  light: { paper: "#ffffff", ink: "#1b2530", faint: "#5b6773", line: "#d5dbe1", mark: "#d9480f", band: "#eef1f4" },
  dark: { paper: "#0f1318", ink: "#e6eaee", faint: "#9aa5b1", line: "#313a45", mark: "#ff922b", band: "#1a2029" },
};
const FONT = 'system-ui, "Noto Sans", "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

let printing = false;
const theme = () => (printing ? "light" : document.documentElement.dataset.theme);
const inks = () => INKS[theme()];
const headColour = (head) => HEADS[theme()][head % 7];
const DASHES = [["solid"], ["dashed", 7, 4], ["dotted", 2, 3], ["double", 12, 3, 2, 3]];
const dashOf = (head) => Math.floor(head / 7) % DASHES.length;

const tables = new Map();
function coloursOf(stops) {
  const name = stops.join();
  if (!tables.has(name)) {
    const ends = stops.map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    tables.set(name, Array.from({ length: 256 }, (_, i) => {
      const place = (i / 255) * (ends.length - 1);
      const low = Math.min(Math.floor(place), ends.length - 2);
      return ends[low].map((value, c) => Math.round(value + (ends[low + 1][c] - value) * (place - low)));
    }));
  }
  return tables.get(name);
}
const stopsOf = (map) => (map.zero ? SIGNED : SCALES)[theme()];
function colourOf(map, value, end) {
  const share = map.zero ? (value / end + 1) / 2 : value / end;
  return coloursOf(stopsOf(map))[Math.max(0, Math.min(255, Math.round(share * 255)))];
}
// Black or white, whichever stands out more: relative luminance as WCAG defines it.
function inkOn(rgb) {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}
// A matrix as a picture of one pixel for each cell; `end(row)` is the weight that has the last colour.
function bitmapOf(map, values, rows, columns, end) {
  const colours = coloursOf(stopsOf(map)), signed = map.zero > 0;
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
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), columns, rows), 0, 0);
  return canvas;
}

// A weight with its error: as many digits as the error leaves meaning to.
function written(value, error) {
  if (!error) return String(Number(value.toPrecision(7)));
  if (Math.abs(value) >= 1e5 || error < 1e-7) return `${value.toExponential(3)} ± ${error.toExponential(1)}`;
  const digits = Math.max(0, Math.min(9, 1 - Math.floor(Math.log10(error))));
  return `${value.toFixed(digits)} ± ${error.toFixed(digits)}`;
}
const short = (value) => String(Number(value.toPrecision(3)));
// A token keeps its own direction among other text.
const apart = (text) => "\u2068" + text + "\u2069";
