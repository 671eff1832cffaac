// The heatmap: queries down, keys across.

import { bitmapOf, inks } from "../colours.js";
import { theme } from "../shell.js";
import { LETTER, clamp, inSight, isSigned, sideNames } from "./names.js";
import { widthOf } from "./surface.js";
import { strongest } from "./weights.js";

const STRIP = 9;
/** Okabe and Ito's colours, which people with any colour vision can tell apart. */
const BUCKETS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D"];

/**
 * The marks of the head that is shown: none of the mean of several, which decide each for itself, nor of merged words.
 *
 * @param {import("./types").State} state
 */
function marksOf({ map, head, merge }) {
  const one = head === "mean" ? 0 : head;
  if (!map.marks || merge || (head === "mean" && map.heads > 1 && !map.marks.borders.length)) return null;
  const { window, borders, chunk } = map.marks;
  return { window, borders, chunk, centres: map.marks.centres[one], buckets: map.marks.buckets[one] };
}
/** The text about a key or a query, in the tooltip and for screen readers. */
/** @param {import("./types").State} state @param {number} row @param {number} column @returns {string[]} */
export function decidedOf(state, row, column) {
  const marks = marksOf(state);
  const rounds = (marks?.buckets ?? []).map((buckets, round) => `round ${round}: query in bucket ${buckets[row]}, key in bucket ${buckets[column]}`);
  return marks?.centres ? [`looks around ${marks.centres[row].toFixed(2)}, ${marks.window} to either side`] : rounds;
}

/** Adds the view. @param {import("./types").Viewer} viewer */
export function addHeatmap(viewer) {
  const { state, VIEWS } = viewer;
  VIEWS.heatmap = {
    name: "Heatmap", role: "heatmap", heads: "one",
    usable: () => true,
    needs: () => [state.map],
    show() {},
    label() {
      const [asking, asked] = sideNames(state.map), { rows, columns } = state.matrix;
      return `${viewer.whereText()}: ${rows} ${asking} tokens by ${columns} ${asked} tokens`;
    },
    prepare(space) {
      const { query, key, rows, columns } = state.matrix;
      const longest = (/** @type {string[]} */ list) => Math.max(14, ...list.slice(0, 400).map((token) => widthOf(token, this.font, true) + 14));
      this.turned = key.some((token) => [...token.normalize("NFC")].length > 1);
      // Fitted to the room: labels grow with the cells, and leave them less of it.
      this.font = 14;
      for (let turn = 0; turn < 2; turn++) {
        this.side = clamp(Math.ceil(longest(query)), 58, Math.max(190, space.width / 5));
        this.strip = (marksOf(state)?.buckets?.length ?? 0) * STRIP;
        this.top = this.strip + (this.turned ? clamp(Math.ceil(longest(key)) + 4, 40, Math.max(150, space.height / 4)) : Math.max(40, this.font + 24));
        const across = (space.width - this.side - 14) / columns, down = Math.max((space.height - this.top - 4) / rows, 12);
        this.cell = clamp(clamp(Math.min(across, down), 3, 160) * state.zoom, 1, 320);
        if (this.cell > 3) this.cell = Math.floor(this.cell);
        this.font = clamp(this.cell * (this.cell > 28 ? 0.42 : 0.62), LETTER, 26);
      }
      return { width: this.side + columns * this.cell + 2, height: this.top + rows * this.cell + 2 };
    },
    bitmap() {
      const { matrix } = state, name = [theme(), viewer.scale(), state.limit].join();
      if (matrix.bitmap?.name !== name) {
        const canvas = bitmapOf(isSigned(state.map), matrix.values, matrix.rows, matrix.columns, viewer.endOf);
        matrix.bitmap = { name, canvas };
      }
      return matrix.bitmap.canvas;
    },
    draw(surface, frame) {
      const { rows, columns, query, key } = state.matrix, { cell, side, top, font } = this, ink = inks();
      const across = inSight(frame.x, frame.x + frame.width - side, cell, columns);
      const down = inSight(frame.y, frame.y + frame.height - top, cell, rows);
      const x = (/** @type {number} */ column) => side + column * cell - frame.x, y = (/** @type {number} */ row) => top + row * cell - frame.y;
      const { row, column } = viewer.place();
      surface.within(side, top, frame.width - side, frame.height - top, () => {
        const wide = across.last - across.first + 1, high = down.last - down.first + 1;
        const to = [x(across.first), y(down.first), wide * cell, high * cell];
        surface.image(this.bitmap(), [across.first, down.first, wide, high], to);
        if (viewer.isHidden(0, columns - 1)) this.hatch(surface, frame);
        if (cell >= 12) {
          for (let i = across.first; i <= across.last + 1; i++) surface.line(x(i), to[1], x(i), to[1] + to[3], ink.paper, 1);
          for (let i = down.first; i <= down.last + 1; i++) surface.line(to[0], y(i), to[0] + to[2], y(i), ink.paper, 1);
        }
        this.decided(surface, x, y, down, ink);
        if (frame.whole) return;
        surface.frame(x(0), y(row), columns * cell, cell, ink.mark, 1);
        surface.frame(x(column), y(0), cell, rows * cell, ink.mark, 1, 0.5);
        surface.frame(x(column), y(row), cell, cell, ink.mark, cell > 8 ? 2.5 : 2);
      });
      surface.within(0, top, side, frame.height - top, () => {
        for (const i of withMarked(down.places, frame.whole ? -1 : row)) {
          const marked = i === row && !frame.whole;
          surface.text(query[i], side - 6, y(i) + cell / 2,
            { size: font, colour: marked ? ink.mark : ink.ink, bold: marked, align: "right", width: side - 8 });
        }
      });
      surface.within(side, 0, frame.width - side, top, () => {
        for (const i of withMarked(across.places, frame.whole ? -1 : column)) {
          const marked = i === column && !frame.whole, style = { size: font, colour: marked ? ink.mark : ink.ink, bold: marked };
          const above = top - this.strip;
          if (this.turned) surface.text(key[i], x(i) + cell / 2, above - 5, { ...style, turned: true, width: above - 8 });
          else surface.text(key[i], x(i) + cell / 2, above - 10, { ...style, align: "center" });
        }
        // Which bucket each key fell into, a row for each round of hashing; a line where a chunk of that order begins.
        marksOf(state)?.buckets?.forEach((buckets, round) => {
          const under = top - this.strip + round * STRIP;
          for (let i = across.first; i <= across.last; i++) surface.rect(x(i), under, cell, STRIP - 2, BUCKETS[buckets[i] % BUCKETS.length]);
        });
      });
      const [asking, asked] = sideNames(state.map);
      // As large as the corner has room for: a letter is some 0.62 of its size wide.
      const size = clamp(Math.min(font * 0.8, (side - 8) / (0.62 * (Math.max(asking.length, asked.length) + 2))), 9, 16);
      surface.text(asked + " →", side - 7, top - 7 - 1.5 * size, { size, colour: ink.faint, align: "right" });
      surface.text(asking + " ↓", side - 7, top - 9, { size, colour: ink.faint, align: "right" });
    },
    /**
     * What was decided before there were scores: the window of each query and its centre, and borders of chunks.
     *
     * @param {import("./types").Surface} surface @param {(column: number) => number} x @param {(row: number) => number} y
     * @param {{ first: number, last: number }} down @param {ReturnType<typeof inks>} ink
     */
    decided(surface, x, y, down, ink) {
      const marks = marksOf(state), { rows, columns } = state.matrix, { cell } = this;
      if (!marks) return;
      for (const border of marks.borders) {
        surface.line(x(border), y(0), x(border), y(rows), ink.mark, 1.5);
        surface.line(x(0), y(border), x(columns), y(border), ink.mark, 1.5);
      }
      for (let row = down.first; marks.centres && row <= down.last; row++) {
        const centre = marks.centres[row], first = clamp(Math.ceil(centre - marks.window), 0, columns);
        const end = clamp(Math.floor(centre + marks.window) + 1, first, columns), dot = clamp(cell / 4, 2, 9);
        if (end > first) surface.frame(x(first) + 1, y(row) + 1, (end - first) * cell - 2, cell - 2, ink.mark, 1.5, 0.9);
        const at = x(clamp(centre, -0.5, columns - 0.5)) + cell / 2, middle = y(row) + cell / 2;
        surface.rect(at - dot / 2 - 1, middle - dot / 2 - 1, dot + 2, dot + 2, ink.paper);
        surface.rect(at - dot / 2, middle - dot / 2, dot, dot, ink.mark);
      }
    },
    /** What cannot be attended: bare paper, and lines that climb over it. @param {import("./types").Surface} surface @param {import("./types").Frame} frame */
    hatch(surface, frame) {
      const { rows, columns } = state.matrix, { cell, side, top } = this, ink = inks(), left = side - frame.x, above = top - frame.y;
      for (let row = 0; row < rows; row++) {
        const first = columns - rows + row + 1;
        if (first < columns) surface.rect(left + first * cell, above + row * cell, (columns - first) * cell, cell, ink.paper);
      }
      const edge = (columns - rows + 1) * cell, end = columns * cell, every = Math.max(6, cell / 4);
      for (let sum = edge + every; sum < end + rows * cell; sum += every) {
        const right = Math.min(sum, end), low = (sum + edge) / 2;
        if (low < right) surface.line(left + low, above + sum - low, left + right, above + sum - right, ink.hatch, 1);
      }
    },
    at(x, y, frame) {
      const { rows, columns } = state.matrix;
      const column = Math.floor((x - this.side + frame.x) / this.cell), row = Math.floor((y - this.top + frame.y) / this.cell);
      if (row >= rows || column >= columns || (x < this.side && y < this.top)) return null;
      if (x < this.side) return row < 0 ? null : { row, column: strongest(state.matrix.row(row), 1)[0] };
      if (y < this.top) return column < 0 ? null : { row: strongest(state.matrix.column(column), 1)[0], column };
      return { row, column };
    },
    tip: (spot) => viewer.cellTip(spot.row, spot.column),
    pick: (spot) => viewer.move(spot.row, spot.column),
    say: () => viewer.cellText(),
    sight() {
      const { cell, side, top } = this;
      return { x: side + state.column * cell, y: top + state.row * cell, width: cell + 2, height: cell + 2, margin: { left: side, top } };
    },
    key(event) {
      const { row, column, matrix } = state, end = matrix.columns - 1, bottom = matrix.rows - 1;
      /** @type {Record<string, [number, number]>} */
      const steps = {
        ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
        Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? bottom : row, end],
        PageUp: [row - 10, column], PageDown: [row + 10, column],
      };
      if (event.key in steps) viewer.move(...steps[event.key]);
      else if (event.key === "Enter" || event.key === " ") viewer.say(viewer.strongestText());
      else return false;
      return true;
    },
  };
}

/** Places to label, the marked one among them; its neighbours make room for it. @param {number[]} places @param {number} marked */
const withMarked = (places, marked) => {
  if (marked < 0 || places.includes(marked)) return places;
  return [...places.filter((i) => Math.abs(i - marked) >= (places[1] - places[0] || 1)), marked];
};
