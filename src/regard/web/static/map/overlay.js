// What is drawn over the points: names where there is room, the chosen point and its neighbours, the lasso.

import { FONT, context2d, inks } from "../colours.js";
import { pointSize, sized } from "./painter.js";

const CELL = 16, LONGEST = 32, MOST = 80;

/** @param {string} text */
export const short = (text) => {
  const line = text.replace(/\s+/g, " ");
  return line.length > LONGEST ? line.slice(0, LONGEST - 1) + "…" : line;
};

/** The neighbours of a point that are known. @param {import("./types").MapData} data @param {number} point */
export function neighboursOf(data, point) {
  const found = [];
  for (let at = point * data.neighbours; at < (point + 1) * data.neighbours; at++)
    if (data.rows[at] >= 0) found.push({ point: data.rows[at], cosine: data.cosines[at] });
  return found;
}

/** @param {import("./types").VectorMap} map @returns {() => void} draws */
export function overlayOf(map) {
  const canvas = /** @type {HTMLCanvasElement} */ (map.$("over")), context = context2d(canvas);
  const { data, state, space } = map;
  /** @type {Map<string, number>} */
  const widths = new Map();
  /** @param {string} text */
  function widthOf(text) {
    let width = widths.get(text);
    if (width === undefined) widths.set(text, (width = context.measureText(text).width));
    return width;
  }

  /** Names do not overlap: each takes cells of a grid. @param {ReturnType<typeof inks>} ink @param {number} size */
  function names(ink, size) {
    const columns = Math.ceil(space.width / CELL) + 1, taken = new Uint8Array(columns * (Math.ceil(space.height / CELL) + 1));
    let left = Math.min(MOST, Math.floor((space.width * space.height) / 7000));
    context.font = `12px ${FONT}`;
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = ink.paper;
    /** @param {number} i @param {string} colour */
    const name = (i, colour) => {
      const dot = space.toX(i), y = space.toY(i);
      if (left <= 0 || dot < 0 || y < 8 || dot > space.width || y > space.height - 8) return;
      // It is in one row of cells or between two.
      const above = Math.floor((y - 7) / CELL) * columns, below = Math.floor((y + 7) / CELL) * columns, own = Math.floor(dot / CELL);
      if (taken[above + own] || taken[below + own]) return;
      const text = short(data.labels[i]), width = widthOf(text), right = dot + size / 2 + 4;
      const x = right + width > space.width ? Math.max(2, dot - size / 2 - 4 - width) : right;
      const first = Math.floor(x / CELL), last = Math.min(columns - 1, Math.floor((x + width) / CELL));
      for (let cell = first; cell <= last; cell++) if (taken[above + cell] || taken[below + cell]) return;
      taken.fill(1, above + first, above + last + 1).fill(1, below + first, below + last + 1);
      left--;
      context.strokeText(text, x, y);
      context.fillStyle = colour;
      context.fillText(text, x, y);
    };
    if (state.chosen >= 0) {
      name(state.chosen, ink.mark);
      for (const { point } of neighboursOf(data, state.chosen)) name(point, ink.ink);
    }
    const some = state.hits.length ? state.hits : state.selected;
    for (let at = 0; at < some.length && left > 0; at++) name(some[at], ink.ink);
    // Of words the first are the commonest.
    if (!some.length) for (let i = 0; i < data.count && left > 0; i++) name(i, state.chosen < 0 ? ink.ink : ink.faint);
  }
  /** @param {number} i @param {string} colour @param {number} size @param {number} thick */
  function ring(i, colour, size, thick) {
    context.beginPath();
    context.arc(space.toX(i), space.toY(i), size / 2 + 3, 0, 2 * Math.PI);
    context.lineWidth = thick;
    context.strokeStyle = colour;
    context.stroke();
  }
  return () => {
    const { ratio } = sized(canvas, space), ink = inks(), size = pointSize(data.count, space.scale / space.fitting);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, space.width, space.height);
    if (state.chosen >= 0) {
      context.strokeStyle = ink.mark;
      context.lineWidth = 1;
      context.globalAlpha = 0.55;
      for (const { point } of neighboursOf(data, state.chosen)) {
        context.beginPath();
        context.moveTo(space.toX(state.chosen), space.toY(state.chosen));
        context.lineTo(space.toX(point), space.toY(point));
        context.stroke();
      }
      context.globalAlpha = 1;
      for (const { point } of neighboursOf(data, state.chosen)) ring(point, ink.mark, size, 1.2);
      ring(state.chosen, ink.mark, size + 3, 3);
    }
    names(ink, size);
    if (state.hover >= 0 && state.hover !== state.chosen) ring(state.hover, ink.ink, size + 1, 1.5);
    if (canvas.matches(":focus-visible")) {
      const [x, y] = [space.width / 2, space.height / 2];
      context.strokeStyle = ink.ink;
      context.lineWidth = 1;
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.beginPath();
        context.moveTo(x + 4 * dx, y + 4 * dy);
        context.lineTo(x + 11 * dx, y + 11 * dy);
        context.stroke();
      }
    }
    if (state.path.length > 2) {
      context.beginPath();
      for (let i = 0; i < state.path.length; i += 2) context.lineTo(state.path[i], state.path[i + 1]);
      context.closePath();
      context.strokeStyle = ink.mark;
      context.lineWidth = 1.5;
      context.setLineDash([5, 3]);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 0.1;
      context.fillStyle = ink.mark;
      context.fill();
      context.globalAlpha = 1;
    }
  };
}
