// Weights over an image, where the keys or the queries are its patches.

import { SCALES, SIGNED, coloursOf, context2d, inks } from "../colours.js";
import { bytesOf } from "../source.js";
import { clamp, element, isImage, isSigned } from "./names.js";
import { apart, labelsOf, largest, short } from "./weights.js";

/** Adds the view. @param {import("./types").Viewer} viewer */
export function addImage(viewer) {
  const { state, VIEWS, data } = viewer;
  /** @type {Map<number, { plain: ImageBitmap, grey: HTMLCanvasElement } | null>} by example; null where there is no image */
  const bitmaps = new Map();
  /** @param {number} example */
  async function loadImage(example) {
    if (bitmaps.has(example)) return;
    bitmaps.set(example, null);
    if (!data.images[example]) return;
    try {
      const bytes = /** @type {any} */ (bytesOf(/** @type {string} */ (data.images[example])));
      const plain = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
      const grey = element("canvas");
      grey.width = plain.width;
      grey.height = plain.height;
      const context = context2d(grey, { willReadFrequently: true });
      context.drawImage(plain, 0, 0);
      const pixels = context.getImageData(0, 0, grey.width, grey.height), all = pixels.data;
      for (let i = 0; i < all.length; i += 4) all[i] = all[i + 1] = all[i + 2] = 0.21 * all[i] + 0.72 * all[i + 1] + 0.07 * all[i + 2];
      context.putImageData(pixels, 0, 0);
      bitmaps.set(example, { plain, grey });
    } catch {
      viewer.say("The image in this page cannot be read; its weights are shown without it.");
    }
    if (state.view === "image") viewer.layout();
  }

  VIEWS.image = {
    name: "Image", role: "image under weights", heads: "one",
    usable: (map) => isImage(map),
    needs: () => [state.map],
    // The side that is patches, and the one whose token sees or is seen.
    sides() {
      const { map } = state, byKey = Boolean(map.key.patches);
      return { byKey, patched: byKey ? map.key : map.query, other: byKey ? map.query : map.key, both: Boolean(map.key.patches && map.query.patches) };
    },
    index: () => (VIEWS.image.sides().byKey ? viewer.place().row : viewer.place().column),
    /** The weights of a token of the other side: all, and those of the patches. @param {number} index */
    values(index) {
      const { byKey, patched } = this.sides(), [rows, columns, first] = patched.patches;
      const all = byKey ? state.matrix.row(index) : state.matrix.column(index);
      return { all, rows, columns, first, part: all.subarray(first, first + rows * columns) };
    },
    show() {
      loadImage(state.map.example);
      viewer.listQueries();
    },
    label() {
      const { byKey, other } = this.sides(), name = apart(viewer.tokenName(other, this.index()));
      return `${viewer.whereText()}: the image as ${name} ${byKey ? "sees it" : "is seen by it"}`;
    },
    prepare(space) {
      const { rows, columns } = this.values(this.index()), held = bitmaps.get(state.map.example);
      const shape = held ? held.plain.width / held.plain.height : columns / rows;
      this.many = state.image === "every" && !this.sides().both;
      const count = this.many ? labelsOf(this.sides().other, state.merge).length : 1;
      // As large as all of them have room for side by side; of very many a few rows are seen.
      const widthOf = (/** @type {number} */ across) =>
        Math.min((space.width - 10) / across - 14, ((space.height - 4) / Math.ceil(count / across) - 34) * shape);
      const usual = this.many ? Math.max(150, ...Array.from({ length: count }, (_, i) => widthOf(i + 1)))
        : Math.min(space.width - 30, (space.height - 60) * shape);
      this.width = Math.round(clamp(usual * state.zoom, 60, 2400));
      this.height = Math.round(this.width / shape);
      this.across = this.many ? Math.max(1, Math.floor((space.width - 10) / (this.width + 14))) : 1;
      this.stepX = this.width + 14;
      this.stepY = this.height + (this.many ? 34 : 56);
      return { width: Math.min(count, this.across) * this.stepX, height: Math.ceil(count / this.across) * this.stepY + 4, count };
    },
    draw(surface, frame) {
      const { other, byKey } = this.sides(), ink = inks();
      const count = this.many ? labelsOf(other, state.merge).length : 1;
      for (let n = 0; n < count; n++) {
        const x = (n % this.across) * this.stepX + 2 - frame.x, y = Math.floor(n / this.across) * this.stepY + 28 - frame.y;
        if (y > frame.height || y + this.stepY < 0) continue;
        const index = this.many ? n : this.index(), on = this.many && n === this.index() && !frame.whole;
        const name = viewer.tokenName(other, index);
        surface.text(this.many ? name : byKey ? `what ${apart(name)} sees` : `what sees ${apart(name)}`, x, y - 13,
          { size: 14, colour: on ? ink.mark : ink.ink, bold: on || !this.many, width: this.width });
        this.one(surface, x, y, index, frame);
      }
    },
    /**
     * Draws the image as one token sees it.
     *
     * @param {import("./types").Surface} surface @param {number} x @param {number} y @param {number} index @param {import("./types").Frame} frame
     */
    one(surface, x, y, index, frame) {
      const { width, height } = this, { all, rows, columns, first, part } = this.values(index), ink = inks();
      const held = bitmaps.get(state.map.example), end = viewer.scale() === "unit" ? 1 : largest(part) || 1;
      // Weights of both signs are shown in colour whatever is chosen: light shows their sizes only.
      const signed = isSigned(state.map), light = state.overlay === "light" && !signed;
      const image = held && (light ? held.plain : held.grey);
      if (image) surface.image(image, [0, 0, image.width, image.height], [x, y, width, height], true);
      else surface.rect(x, y, width, height, light ? "#ffffff" : "#888888");
      if (signed) surface.rect(x, y, width, height, "#888888", 0.6); // black and white brought to grey, on which both colours show
      const pixels = new ImageData(columns, rows), ramp = coloursOf(signed ? SIGNED.light : SCALES.dark);
      part.forEach((/** @type {number} */ value, /** @type {number} */ i) => {
        const share = clamp(Math.abs(value) / end, 0, 1);
        if (light) pixels.data[4 * i + 3] = Math.round(195 * (1 - share));
        else {
          const at = signed ? (value < 0 ? 0.1 : 0.9) : share, opacity = signed ? 0.9 * share ** 0.7 : 0.35 + 0.5 * share;
          pixels.data.set([...ramp[Math.round(at * 255)], Math.round(255 * opacity)], 4 * i);
        }
      });
      if (!state.smooth) surface.image(canvasOf(pixels), [0, 0, columns, rows], [x, y, width, height]);
      else surface.image(enlarged(pixels), [0, 0, 8 * columns, 8 * rows], [x, y, width, height], true);
      surface.frame(x - 0.5, y - 0.5, width + 1, height + 1, ink.line);
      if (this.many) return;
      const cellX = width / columns, cellY = height / rows, box = (/** @type {number} */ token, /** @type {number} */ thick, /** @type {number} */ alpha) => {
        const at = token - first;
        if (at < 0 || at >= rows * columns) return;
        surface.frame(x + (at % columns) * cellX, y + Math.floor(at / columns) * cellY, cellX, cellY, ink.mark, thick, alpha);
      };
      const { byKey, both } = this.sides();
      if (both) box(index, 3, 1);
      if (!frame.whole) box(byKey ? viewer.place().column : viewer.place().row, 1.5, 0.9);
      const outside = [...all].map((value, i) => [value, i]).filter(([, i]) => i < first || i >= first + rows * columns);
      if (outside.length) {
        const { patched } = this.sides(), list = outside.sort((a, b) => b[0] - a[0]).slice(0, 3);
        const text = list.map(([value, i]) => `${apart(patched.tokens[i])} ${short(value)}`).join(", ");
        surface.text("outside the image: " + text, x, y + height + 14, { size: 12, colour: ink.faint, width });
      }
    },
    at(x, y, frame) {
      const column = Math.floor((x + frame.x) / this.stepX), line = Math.floor((y + frame.y) / this.stepY), { byKey, other } = this.sides();
      const n = line * this.across + column, index = this.many ? n : byKey ? state.row : state.column;
      if (column >= this.across || (this.many ? n >= labelsOf(other, state.merge).length : n)) return null;
      const { rows, columns, first } = this.values(index);
      const inX = (x + frame.x - column * this.stepX - 2) / this.width, inY = (y + frame.y - line * this.stepY - 28) / this.height;
      if (inX < 0 || inX >= 1 || inY < 0 || inY >= 1) return null;
      const patch = first + Math.floor(inY * rows) * columns + Math.floor(inX * columns);
      return byKey ? { row: index, column: patch } : { row: patch, column: index };
    },
    tip: (spot) => viewer.cellTip(spot.row, spot.column),
    pick(spot) {
      if (this.sides().both) viewer.move(spot.column, spot.column);
      else if (this.many) viewer.choose("image-mode", "one").then(() => viewer.move(spot.row, spot.column));
      else viewer.move(spot.row, spot.column);
    },
    moved() {
      viewer.markQuery();
      viewer.canvas.setAttribute("aria-label", this.label?.() ?? "");
    },
    say: () => viewer.cellText(),
    key(event) {
      const { byKey, patched, both } = this.sides(), [rows, columns, first] = patched.patches;
      const at = clamp((byKey ? state.column : state.row) - first, 0, rows * columns - 1);
      /** @type {Record<string, number>} */
      const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -(at % columns), End: columns - 1 - (at % columns) };
      const go = (/** @type {number} */ patch, /** @type {number} */ other) => (byKey ? viewer.move(other, first + patch) : viewer.move(first + patch, other));
      const other = byKey ? state.row : state.column;
      if (event.key in steps) {
        const to = at + steps[event.key];
        go(to < 0 || to >= rows * columns ? at : to, other);
      } else if (event.key === "PageDown" || event.key === "PageUp") go(at, other + (event.key === "PageDown" ? 1 : -1));
      else if (both && (event.key === "Enter" || event.key === " ")) viewer.move(state.column, state.column);
      else if (event.key === "Enter" || event.key === " ") viewer.say(viewer.strongestText());
      else return false;
      return true;
    },
  };
}

/** Enlarged with interpolation, its edge cells continued outwards: browsers fade a small image at its border. @param {ImageData} pixels */
function enlarged(pixels) {
  const { width, height } = pixels, padded = new ImageData(width + 2, height + 2), from = new Uint32Array(pixels.data.buffer);
  const to = new Uint32Array(padded.data.buffer);
  for (let y = 0; y < height + 2; y++) {
    for (let x = 0; x < width + 2; x++) {
      to[y * (width + 2) + x] = from[clamp(y - 1, 0, height - 1) * width + clamp(x - 1, 0, width - 1)];
    }
  }
  const wide = element("canvas");
  wide.width = 8 * width;
  wide.height = 8 * height;
  const context = context2d(wide);
  context.imageSmoothingEnabled = true;
  context.drawImage(canvasOf(padded), -8, -8, 8 * (width + 2), 8 * (height + 2));
  return wide;
}
/** @param {ImageData} pixels @returns {HTMLCanvasElement} */
function canvasOf(pixels) {
  const small = element("canvas");
  small.width = pixels.width;
  small.height = pixels.height;
  context2d(small).putImageData(pixels, 0, 0);
  return small;
}
