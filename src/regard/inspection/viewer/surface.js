// Where pictures are drawn: a canvas, or an SVG file. Both know the same few strokes.

const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();
const fontOf = (size, bold) => `${bold ? 650 : 400} ${size}px ${FONT}`;
function widthOf(text, size, bold = false) {
  const name = bold + text;
  if (!widths.has(name)) {
    if (widths.size > 20000) widths.clear();
    measuring.font = fontOf(100, bold);
    widths.set(name, measuring.measureText(text).width / 100);
  }
  return widths.get(name) * size;
}
const cuts = new Map();
function cut(text, size, width, bold) {
  if (widthOf(text, size, bold) <= width) return text;
  const name = [size, width, bold, text].join();
  if (!cuts.has(name)) {
    if (cuts.size > 20000) cuts.clear();
    const characters = [...text];
    let low = 0, high = characters.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      measuring.font = fontOf(size, bold);
      if (measuring.measureText(characters.slice(0, middle).join("") + "…").width <= width) low = middle;
      else high = middle - 1;
    }
    cuts.set(name, characters.slice(0, low).join("") + "…");
  }
  return cuts.get(name);
}

class CanvasSurface {
  constructor(context) {
    this.context = context;
  }
  rect(x, y, width, height, colour, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }
  frame(x, y, width, height, colour, thick = 1, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.strokeStyle = colour;
    this.context.lineWidth = thick;
    this.context.setLineDash([]);
    this.context.strokeRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }
  line(x1, y1, x2, y2, colour, thick = 1, alpha = 1, dash = 0) {
    this.context.globalAlpha = alpha;
    this.context.strokeStyle = colour;
    this.context.lineWidth = thick;
    this.context.setLineDash(DASHES[dash].slice(1));
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
    this.context.globalAlpha = 1;
  }
  // `y` is the middle of the line; turned text runs upwards from (x, y).
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
  image(source, from, to, smooth = false) {
    this.context.imageSmoothingEnabled = smooth;
    this.context.drawImage(source, ...from, ...to);
  }
  within(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }
  shift(x, y, draw) {
    this.context.save();
    this.context.translate(x, y);
    draw();
    this.context.restore();
  }
}

const escaped = (text) =>
  String(text).replace(/[&<>"]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[mark]);
class SvgSurface {
  constructor() {
    this.parts = [];
    this.clips = 0;
  }
  add(name, attributes, inside = "") {
    const round = (value) => (typeof value === "number" ? Math.round(value * 100) / 100 : escaped(value));
    const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${round(value)}"`).join("");
    this.parts.push(inside ? `<${name}${list}>${inside}</${name}>` : `<${name}${list}/>`);
  }
  rect(x, y, width, height, colour, alpha = 1) {
    this.add("rect", { x, y, width, height, fill: colour, ...(alpha < 1 ? { "fill-opacity": alpha } : {}) });
  }
  frame(x, y, width, height, colour, thick = 1, alpha = 1) {
    this.add("rect", { x, y, width, height, fill: "none", stroke: colour, "stroke-width": thick, "stroke-opacity": alpha });
  }
  line(x1, y1, x2, y2, colour, thick = 1, alpha = 1, dash = 0) {
    const more = dash ? { "stroke-dasharray": DASHES[dash].slice(1).join(" ") } : {};
    this.add("line", { x1, y1, x2, y2, stroke: colour, "stroke-width": thick, "stroke-opacity": alpha, ...more });
  }
  text(text, x, y, { size = 13, colour, align = "left", bold = false, turned = false, width = Infinity }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const place = turned ? { transform: `translate(${x.toFixed(2)} ${y.toFixed(2)}) rotate(-90)` } : { x, y };
    this.add("text", {
      ...place, fill: colour, "font-size": size, "font-family": FONT, "text-anchor": anchor, "dominant-baseline": "central",
      "font-weight": bold ? 650 : 400, "xml:space": "preserve",
    }, escaped(cut(text, size, width, bold)));
  }
  image(source, from, to, smooth = false) {
    const part = document.createElement("canvas");
    part.width = Math.max(1, Math.round(from[2]));
    part.height = Math.max(1, Math.round(from[3]));
    part.getContext("2d").drawImage(source, ...from, 0, 0, part.width, part.height);
    this.add("image", {
      x: to[0], y: to[1], width: to[2], height: to[3], href: part.toDataURL("image/png"), preserveAspectRatio: "none",
      style: smooth ? "" : "image-rendering: pixelated",
    });
  }
  within(x, y, width, height, draw) {
    const id = "clip" + this.clips++;
    this.add("clipPath", { id }, `<rect x="${x}" y="${y}" width="${width}" height="${height}"/>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }
  shift(x, y, draw) {
    this.parts.push(`<g transform="translate(${x} ${y})">`);
    draw();
    this.parts.push("</g>");
  }
  file(width, height, title) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
      `<title>${escaped(title)}</title>${this.parts.join("\n")}</svg>`;
  }
}
