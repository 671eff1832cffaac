// Where figures are drawn: a canvas, or an SVG file. Both know the same few strokes.

import { DASHES, FONT, context2d } from "../colours.js";

/**
 * @typedef {import("./types").Surface} Surface
 * @typedef {import("./types").TextStyle} TextStyle
 */

const measuring = context2d(document.createElement("canvas"));
/** @type {Map<string, number>} */
const widths = new Map();
/** @param {number} size @param {boolean} [bold] */
const fontOf = (size, bold) => `${bold ? 650 : 400} ${size}px ${FONT}`;
/** How wide a text is. @param {string} text @param {number} size @param {boolean} [bold] */
export function widthOf(text, size, bold = false) {
  const name = bold + text;
  let width = widths.get(name);
  if (width === undefined) {
    if (widths.size > 20000) widths.clear();
    measuring.font = fontOf(100, bold);
    width = measuring.measureText(text).width / 100;
    widths.set(name, width);
  }
  return width * size;
}
/** @type {Map<string, string>} */
const cuts = new Map();
/** A text that is not wider than `width`. @param {string} text @param {number} size @param {number} width @param {boolean} [bold] @returns {string} */
function cut(text, size, width, bold) {
  if (widthOf(text, size, bold) <= width) return text;
  const name = [size, width, bold, text].join();
  let found = cuts.get(name);
  if (found === undefined) {
    if (cuts.size > 20000) cuts.clear();
    const characters = [...text];
    let low = 0, high = characters.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      measuring.font = fontOf(size, bold);
      if (measuring.measureText(characters.slice(0, middle).join("") + "…").width <= width) low = middle;
      else high = middle - 1;
    }
    found = characters.slice(0, low).join("") + "…";
    cuts.set(name, found);
  }
  return found;
}

/** @param {number} dash */
const dashesOf = (dash) => /** @type {number[]} */ (DASHES[dash].slice(1));

/** @implements {Surface} */
export class CanvasSurface {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
  }
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour */
  rect(x, y, width, height, colour, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour */
  frame(x, y, width, height, colour, thick = 1, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.strokeStyle = colour;
    this.context.lineWidth = thick;
    this.context.setLineDash([]);
    this.context.strokeRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }
  /** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} colour */
  line(x1, y1, x2, y2, colour, thick = 1, alpha = 1, dash = 0) {
    this.context.globalAlpha = alpha;
    this.context.strokeStyle = colour;
    this.context.lineWidth = thick;
    this.context.setLineDash(dashesOf(dash));
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
    this.context.globalAlpha = 1;
  }
  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} style */
  text(text, x, y, { size = 13, colour, align = "left", bold = false, turned = false, width = Infinity }) {
    this.context.save();
    this.context.font = fontOf(size, bold);
    this.context.fillStyle = colour;
    this.context.textBaseline = "middle";
    this.context.textAlign = align;
    this.context.direction = "ltr";
    this.context.translate(x, y);
    if (turned) this.context.rotate(-Math.PI / 2);
    this.context.fillText(cut(text, size, width, bold), 0, size * 0.06);
    this.context.restore();
  }
  /** @param {CanvasImageSource} source @param {number[]} from @param {number[]} to */
  image(source, from, to, smooth = false) {
    this.context.imageSmoothingEnabled = smooth;
    this.context.drawImage(source, from[0], from[1], from[2], from[3], to[0], to[1], to[2], to[3]);
  }
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {() => void} draw */
  within(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }
  /** @param {number} x @param {number} y @param {() => void} draw */
  shift(x, y, draw) {
    this.context.save();
    this.context.translate(x, y);
    draw();
    this.context.restore();
  }
}

/** @type {Record<string, string>} */
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
/** @param {unknown} text */
const escaped = (text) => String(text).replace(/[&<>"]/g, (mark) => ESCAPES[mark]);

/** @implements {Surface} */
export class SvgSurface {
  constructor() {
    /** @type {string[]} */
    this.parts = [];
    this.clips = 0;
  }
  /** @param {string} name @param {Record<string, string | number>} attributes */
  add(name, attributes, inside = "") {
    /** @param {string | number} value */
    const round = (value) => (typeof value === "number" ? Math.round(value * 100) / 100 : escaped(value));
    const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${round(value)}"`).join("");
    this.parts.push(inside ? `<${name}${list}>${inside}</${name}>` : `<${name}${list}/>`);
  }
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour */
  rect(x, y, width, height, colour, alpha = 1) {
    this.add("rect", { x, y, width, height, fill: colour, ...(alpha < 1 ? { "fill-opacity": alpha } : {}) });
  }
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour */
  frame(x, y, width, height, colour, thick = 1, alpha = 1) {
    this.add("rect", { x, y, width, height, fill: "none", stroke: colour, "stroke-width": thick, "stroke-opacity": alpha });
  }
  /** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} colour */
  line(x1, y1, x2, y2, colour, thick = 1, alpha = 1, dash = 0) {
    /** @type {Record<string, string>} */
    const more = dash ? { "stroke-dasharray": dashesOf(dash).join(" ") } : {};
    this.add("line", { x1, y1, x2, y2, stroke: colour, "stroke-width": thick, "stroke-opacity": alpha, ...more });
  }
  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} style */
  text(text, x, y, { size = 13, colour, align = "left", bold = false, turned = false, width = Infinity }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    /** @type {Record<string, string | number>} */
    const place = turned ? { transform: `translate(${x.toFixed(2)} ${y.toFixed(2)}) rotate(-90)` } : { x, y };
    this.add("text", {
      ...place, fill: colour, "font-size": size, "font-family": FONT, "text-anchor": anchor, "dominant-baseline": "central",
      "font-weight": bold ? 650 : 400, "xml:space": "preserve",
    }, escaped(cut(text, size, width, bold)));
  }
  /** @param {CanvasImageSource} source @param {number[]} from @param {number[]} to */
  image(source, from, to, smooth = false) {
    const part = document.createElement("canvas");
    part.width = Math.max(1, Math.round(from[2]));
    part.height = Math.max(1, Math.round(from[3]));
    context2d(part).drawImage(source, from[0], from[1], from[2], from[3], 0, 0, part.width, part.height);
    this.add("image", {
      x: to[0], y: to[1], width: to[2], height: to[3], href: part.toDataURL("image/png"), preserveAspectRatio: "none",
      style: smooth ? "" : "image-rendering: pixelated",
    });
  }
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {() => void} draw */
  within(x, y, width, height, draw) {
    const id = "clip" + this.clips++;
    this.add("clipPath", { id }, `<rect x="${x}" y="${y}" width="${width}" height="${height}"/>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }
  /** @param {number} x @param {number} y @param {() => void} draw */
  shift(x, y, draw) {
    this.parts.push(`<g transform="translate(${x} ${y})">`);
    draw();
    this.parts.push("</g>");
  }
  /** @param {number} width @param {number} height @param {string} title */
  file(width, height, title) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
      `<title>${escaped(title)}</title>${this.parts.join("\n")}</svg>`;
  }
}
