// Lines between tokens: queries left, keys right, a colour for each head.

import { DASHES, dashOf, headColour, inks } from "../colours.js";
import { LETTER, clamp, element, headText, headTitle, inSight, isSigned, pairTip, sideNames } from "./names.js";
import { widthOf } from "./surface.js";
import { apart, largest, strongest, written } from "./weights.js";

/**
 * @typedef {import("./types").Frame} Frame
 * @typedef {import("./types").Spot} Spot
 * @typedef {import("./weights.js").Matrix} Matrix
 * @typedef {{ head: number, row: number, column: number, value: number, error: number }} Strong
 */

/** Lines drawn at once, the strongest. */
const LINES = 2000;

/** Adds the view, and the switches of the heads. @param {import("./types").Viewer} viewer */
export function addHeads(viewer) {
  const { $, signal, state, VIEWS } = viewer;
  /** A head's own colour; violet and orange where weights may be negative, as everywhere. @param {number} head @param {number} value */
  const lineColour = (head, value) => (isSigned(state.map) ? (value < 0 ? inks().negative : inks().positive) : headColour(head));

  VIEWS.heads = {
    name: "Lines", role: "lines between tokens", heads: "many", cursor: "pointer",
    usable: () => true,
    needs: () => [state.map],
    show: () => drawSwitches(),
    label() {
      const [asking, asked] = sideNames(state.map);
      return `${viewer.whereText()}: ${asking} tokens on the left, ${asked} tokens on the right`;
    },
    prepare(space) {
      const { query, key, rows, columns } = state.matrix;
      const longest = (/** @type {string[]} */ list) => clamp(Math.max(...list.slice(0, 400).map((token) => widthOf(token, this.font, true))) + 10, 70, Math.max(120, space.width / 4));
      const usual = clamp((space.height - 34) / Math.max(rows, columns), 18, 56);
      this.line = clamp(Math.floor(usual * state.zoom), 10, 90);
      this.font = clamp(this.line * 0.6, LETTER, 24);
      this.left = longest(query) + 14;
      this.right = longest(key) + 14;
      const between = clamp(space.width - this.left - this.right - 10, 130, Math.max(420, 0.9 * space.height));
      this.from = this.left;
      this.to = this.left + between;
      return { width: this.to + this.right, height: Math.max(rows, columns) * this.line + 34 };
    },
    // Where a token is chosen only its lines are drawn, of the others those in sight.
    draw(surface, frame) {
      const { rows, columns, query, key, map } = state.matrix, { line, font, from, to } = this, ink = inks();
      const at = (/** @type {number} */ index) => 30 + (index + 0.5) * line - frame.y, sheet = -frame.x;
      const chosen = state.hover || (state.side ? state : null), weakest = chosen ? 0.14 : 0.03;
      const tokenRoom = (/** @type {boolean} */ isQuery) => (isQuery ? from : this.right) - 10;
      const matrices = [...state.on].sort((a, b) => a - b).map((head) => viewer.matrixOf(map, head, state.merge));
      const end = viewer.scale() === "unit" ? 1 : state.limit, each = viewer.scale() === "row";
      const chosenEnd = chosen && each
        ? Math.max(...matrices.map((one) => largest(chosen.side === "key" ? one.column(chosen.column) : one.row(chosen.row)))) || 1
        : end;
      /** @type {Map<number, number>} the largest weight of a row, where each has its own scale */
      const ends = new Map(), endOf = (/** @type {number} */ row) => {
        if (chosen || !each) return chosenEnd;
        if (!ends.has(row)) ends.set(row, Math.max(...matrices.map((one) => largest(one.row(row)))) || 1);
        return /** @type {number} */ (ends.get(row));
      };
      surface.within(0, 26, frame.width, frame.height - 26, () => {
        if (chosen) {
          const isQuery = chosen.side !== "key", index = isQuery ? chosen.row : chosen.column;
          surface.rect(sheet + (isQuery ? 0 : to), at(index) - line / 2, isQuery ? from : this.right, line, ink.band);
        }
        for (const one of this.lines(matrices, frame, chosen, chosenEnd)) {
          const share = Math.min(1, Math.abs(one.value) / endOf(one.row));
          // Lines of several heads between the same two tokens are next to each other.
          const offset = ((one.place + 0.5) / matrices.length - 0.5) * Math.min(0.6 * line, 1.8 * matrices.length);
          surface.line(sheet + from, at(one.row) + offset, sheet + to, at(one.column) + offset, lineColour(one.head, one.value),
            (0.6 + 2.4 * share) * Math.max(1, line / 26), weakest + (1 - weakest) * share ** 1.5, dashOf(one.head, state.on));
        }
        const first = clamp(Math.floor((frame.y - 30) / line) - 1, 0, Infinity), count = Math.ceil(frame.height / line) + 2;
        const step = Math.max(1, Math.ceil((LETTER * 1.15) / line));
        for (let i = first - (first % step); i < first + count; i += step) {
          // Under each token of the other side a square for each head, as strong as the weight.
          const isOther = chosen && i < (chosen.side === "key" ? rows : columns);
          for (const [n, one] of isOther ? matrices.entries() : []) {
            if (!chosen) break;
            const value = chosen.side === "key" ? one.at(i, chosen.column) : one.at(chosen.row, i);
            const wide = Math.min(tokenRoom(chosen.side === "key") / matrices.length, 16);
            const x = sheet + (chosen.side === "key" ? from - 4 - wide * (n + 1) : to + 4 + wide * n);
            surface.rect(x, at(i) - line / 2 + 1.5, wide, line - 3, lineColour(Number(one.head), value), 0.65 * Math.min(1, Math.abs(value) / chosenEnd));
          }
          const isQuery = chosen?.side !== "key" && chosen?.row === i, isKey = chosen?.side === "key" && chosen.column === i;
          if (i < rows) {
            surface.text(query[i], sheet + from - 10, at(i),
              { size: font, colour: isQuery ? ink.mark : ink.ink, bold: isQuery, align: "right", width: from - 14 });
          }
          if (i < columns) {
            surface.text(key[i], sheet + to + 10, at(i),
              { size: font, colour: isKey ? ink.mark : ink.ink, bold: isKey, width: this.right - 14 });
          }
        }
      });
      surface.rect(0, 0, frame.width, 26, ink.paper);
      const [asking, asked] = sideNames(map), style = { size: 12, colour: ink.faint };
      surface.text(asking, sheet + from - 10, 13, { ...style, align: "right" });
      surface.text(asked, sheet + to + 10, 13, style);
    },
    /**
     * The lines to draw, weak ones first; a token that is chosen has its own alone.
     *
     * @param {Matrix[]} matrices @param {Frame} frame @param {Spot | null} chosen @param {number} end
     */
    lines(matrices, frame, chosen, end) {
      const { rows } = state.matrix, least = 0.03 * end;
      /** @type {{ head: number, place: number, row: number, column: number, value: number }[]} */
      const found = [];
      /** @param {Matrix} matrix @param {number} place @param {number} row @param {number} column @param {number} value */
      const add = (matrix, place, row, column, value) => found.push({ head: Number(matrix.head), place, row, column, value });
      const { first, last } = inSight(frame.y - 30, frame.y + frame.height - 30, this.line, rows);
      for (const [place, matrix] of matrices.entries()) {
        const addRow = (/** @type {number} */ row) => matrix.over(row, least, (column, value) => add(matrix, place, row, column, value));
        if (chosen && chosen.side === "key") {
          matrix.column(chosen.column).forEach((value, row) => Math.abs(value) >= least && add(matrix, place, row, chosen.column, value));
        } else if (chosen) addRow(chosen.row);
        else for (let row = first; row <= last; row++) addRow(row);
      }
      // Weak lines first, so that strong ones lie on top; of very many only the strong.
      found.sort((a, b) => Math.abs(a.value) - Math.abs(b.value));
      return found.slice(-LINES);
    },
    at(x, y, frame) {
      const index = Math.floor((y - 30 + frame.y) / this.line), across = x + frame.x;
      if (y < 26 || index < 0) return null;
      const side = across < this.from ? "query" : across > this.to ? "key" : null;
      if (!side || index >= (side === "query" ? state.matrix.rows : state.matrix.columns)) return null;
      return { side, row: side === "query" ? index : -1, column: side === "key" ? index : -1 };
    },
    /** The largest weights of a token, of all heads that are on. @param {Spot} spot @param {number} count @returns {Strong[]} */
    strongestOf(spot, count) {
      const isKey = spot.side === "key", all = [];
      for (const head of state.on) {
        const one = viewer.matrixOf(state.map, head, state.merge);
        const values = isKey ? one.column(spot.column) : one.row(spot.row);
        for (const i of strongest(values, count)) {
          const row = isKey ? i : spot.row, column = isKey ? spot.column : i;
          all.push({ head, row, column, value: values[i], error: one.errorAt(row, column) });
        }
      }
      return all.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, count);
    },
    tip(spot) {
      const [best] = this.strongestOf(spot, 1), { map } = state;
      if (!best) return [element("small", "no head is switched on")];
      return pairTip(viewer.tokenName(map.query, best.row), viewer.tokenName(map.key, best.column), written(best.value, best.error),
        `strongest, ${headText(map, best.head)} · query ${best.row}, key ${best.column}`);
    },
    pick(spot) {
      const same = state.side === spot.side && (spot.side === "query" ? state.row === spot.row : state.column === spot.column);
      this.choose(same ? null : spot.side, spot.side === "query" ? spot.row : spot.column);
    },
    /** @param {"query" | "key" | null} side @param {number} index */
    choose(side, index) {
      state.side = side;
      if (side) state[side === "query" ? "row" : "column"] = clamp(index, 0, (side === "query" ? state.matrix.rows : state.matrix.columns) - 1);
      state.hover = null;
      viewer.redraw();
      viewer.listStrongest();
      viewer.keepAddress();
      viewer.say(this.say?.() ?? "");
    },
    say() {
      if (!state.side) return "All lines. Arrow down chooses a token, arrow right goes to the other side.";
      const { map } = state, found = this.strongestOf(state, 3);
      const other = (/** @type {Strong} */ one) => apart(state.side === "query" ? viewer.tokenName(map.key, one.column) : viewer.tokenName(map.query, one.row));
      const name = apart(state.side === "query" ? viewer.tokenName(map.query, state.row) : viewer.tokenName(map.key, state.column));
      return `${name}: ${found.map((/** @type {Strong} */ one) => `${other(one)} ${written(one.value, one.error)} in ${headText(map, one.head)}`).join(", ")}`;
    },
    sight() {
      const index = state.side === "key" ? state.column : state.row;
      return state.side && { x: 0, y: 30 + index * this.line, width: 1, height: this.line, margin: { left: 0, top: 30 } };
    },
    key(event) {
      const side = state.side || "query", index = side === "query" ? state.row : state.column;
      const count = side === "query" ? state.matrix.rows : state.matrix.columns;
      /** @type {Record<string, number>} */
      const steps = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: count - 1, PageUp: index - 10, PageDown: index + 10 };
      if (event.key in steps) this.choose(side, state.side ? steps[event.key] : index);
      else if (event.key === "ArrowRight") this.choose("key", state.side ? Math.min(index, state.matrix.columns - 1) : 0);
      else if (event.key === "ArrowLeft") this.choose("query", state.side ? Math.min(index, state.matrix.rows - 1) : 0);
      else if (event.key === "Escape") this.choose(null, 0);
      else if (event.key === "Enter" || event.key === " ") viewer.say(this.say?.() ?? "");
      else return false;
      return true;
    },
  };

  // The switches of the heads.
  function drawSwitches() {
    const { heads } = state.map, holder = $("switches");
    if (holder.children.length !== heads) {
      holder.replaceChildren(...Array.from({ length: heads }, (_, head) => {
        const button = element("button", String(head));
        button.type = "button";
        button.tabIndex = head ? -1 : 0;
        button.addEventListener("click", (/** @type {MouseEvent} */ event) => switchHead(head, event.shiftKey));
        button.addEventListener("dblclick", () => switchHead(head, true));
        return button;
      }));
    }
    [...holder.children].forEach((button, head) => {
      button.setAttribute("aria-pressed", String(state.on.has(head)));
      button.setAttribute("aria-label", headTitle(state.map, head));
      button.title = headTitle(state.map, head);
      button.style.setProperty("--colour", headColour(head));
      button.style.borderBottomStyle = DASHES[state.on.has(head) ? dashOf(head, state.on) : 0][0];
    });
  }
  /** @param {number} head @param {boolean} [alone] */
  function switchHead(head, alone) {
    if (alone) state.on = new Set([head]);
    else if (!state.on.delete(head)) state.on.add(head);
    viewer.say(`head ${head} ${alone ? "alone" : state.on.has(head) ? "on" : "off"}, ${state.on.size} of ${state.map.heads} heads`);
    viewer.show();
  }
  $("switches").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const buttons = [...$("switches").children], index = buttons.indexOf(document.activeElement);
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: buttons.length - 1 };
    if (!(event.key in steps) || index < 0) return;
    event.preventDefault();
    buttons.forEach((button) => (button.tabIndex = -1));
    const next = buttons[clamp(steps[event.key], 0, buttons.length - 1)];
    next.tabIndex = 0;
    next.focus();
  }, { signal });
  $("all-heads").addEventListener("click", () => {
    state.on = new Set(state.on.size === state.map.heads ? [] : Array(state.map.heads).keys());
    viewer.say(state.on.size ? "all heads on" : "all heads off");
    viewer.show();
  }, { signal });
  Object.assign(viewer, /** @satisfies {Partial<import("./types").Viewer>} */ ({ switchHead }));
}
