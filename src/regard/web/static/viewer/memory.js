// Numbers over the steps of a run, one panel below another on one axis of time: of a neural Turing machine what was read and written,
// and where in the memory (Graves et al. 2014, figure 6). Two panels are next to each other where there is room.

import { bitmapOf, inks } from "../colours.js";
import { theme } from "../shell.js";
import { clamp, element } from "./names.js";
import { widthOf } from "./surface.js";
import { apart, short, strongest } from "./weights.js";

/** @typedef {import("./types").Track} Track */
/** @typedef {{ track: Track, x: number, y: number, cell: number, high: number }} Panel `cell`, `high`: pixels of a step and of a number */

const TITLE = 24, GAP = 26;

/** Adds the view. @param {import("./types").Viewer} viewer */
export function addMemory(viewer) {
  const { state, VIEWS, data } = viewer;
  /** @type {WeakMap<Track, { theme: string, canvas: HTMLCanvasElement }>} */
  const bitmaps = new WeakMap();
  /** @param {import("./types").AttentionMap} map */
  const tracksOf = (map) => (data.tracks ?? []).filter((one) => one.example === map.example);
  const steps = () => state.map.query.tokens;
  /** The size of the largest number of two panels that are next to each other: they share one scale of colours. @param {Track} track */
  const largestOf = (track) => {
    const all = tracksOf(state.map), at = all.indexOf(track), pair = all.slice(at - (at % 2), at - (at % 2) + 2);
    const most = Math.max(...pair.map((one) => Math.max(0, ...one.values.flat().map((value) => Math.abs(value ?? 0)))));
    return track.signed ? most || 1 : Math.max(most, 1);
  };
  /** @param {Track} track */
  function bitmap(track) {
    const held = bitmaps.get(track);
    if (held?.theme === theme()) return held.canvas;
    const rows = track.values[0].length, columns = track.values.length, values = new Float32Array(rows * columns), end = largestOf(track);
    track.values.forEach((step, column) => step.forEach((value, row) => (values[row * columns + column] = value ?? 0)));
    const canvas = bitmapOf(track.signed, values, rows, columns, () => end);
    bitmaps.set(track, { theme: theme(), canvas });
    return canvas;
  }
  /** @param {Track} track @param {number} step @param {number} entry */
  const valueText = (track, step, entry) => {
    const value = track.values[step]?.[entry];
    return value === null || value === undefined ? "none" : String(Number(value.toPrecision(7)));
  };

  VIEWS.memory = {
    name: "Memory", role: "numbers over time", heads: "one", panel: -1, entry: 0,
    usable: (map) => tracksOf(map).length > 0,
    /** A map whose queries are the steps. */
    map: () => viewer.mapsOf(state.map.example).find((map) => map.query.tokens.length === tracksOf(state.map)[0]?.values.length) ?? null,
    needs: () => [state.map],
    show() {},
    where: () => "what was read and written at each step, over time",
    label: () => `${tracksOf(state.map).length} panels over ${steps().length} steps: ${tracksOf(state.map).map((one) => one.name).join(", ")}`,
    prepare(space) {
      const tracks = tracksOf(state.map), count = steps().length, left = 30, across = space.width > 760 ? 2 : 1;
      const cell = clamp(((space.width - 12) / across - left - GAP) / count, 3, 46) * state.zoom, font = clamp(cell * 0.75, 8, 13);
      this.font = font;
      this.below = cell >= 8 ? Math.min(Math.max(...steps().map((one) => widthOf(one, font, true))) + 12, 150) : 0;
      /** @type {Panel[]} */
      this.panels = [];
      let y = 4;
      for (let first = 0; first < tracks.length; first += across) {
        const row = tracks.slice(first, first + across), tallest = Math.max(...row.map((one) => one.values[0].length)), high = clamp(150 / tallest, 2.5, 15) * state.zoom;
        row.forEach((track, column) => this.panels.push({ track, x: left + column * (count * cell + left + GAP), y: y + TITLE, cell, high }));
        y += TITLE + tallest * high + 12;
      }
      // It begins with what was read last, where the head was most.
      if (!tracks[this.panel]) Object.assign(this, { panel: tracks.length - 1, entry: strongest(tracks[tracks.length - 1].values[state.row].map((value) => value ?? 0), 1)[0] });
      return { width: across * (count * cell + left + GAP), height: y + this.below };
    },
    draw(surface, frame) {
      const ink = inks(), here = viewer.place(), chosen = here.layer ?? this.panel, entry = state.hover ? here.column : this.entry, panels = /** @type {Panel[]} */ (this.panels);
      const lowest = Math.max(...panels.map((one) => one.y));
      panels.forEach(({ track, x, y, cell, high }, number) => {
        const rows = track.values[0].length, columns = track.values.length, from = x - frame.x, top = y - frame.y, wide = columns * cell, tall = rows * high;
        if (top > frame.height || top + tall + this.below < 0) return;
        const on = number === chosen && !frame.whole, most = short(largestOf(track));
        surface.text(`${track.name} · ${track.signed ? `−${most} to ${most}` : `0 to ${most}`}`, from, top - 10, { size: 13, colour: on ? ink.mark : ink.ink, bold: on, width: wide });
        surface.image(bitmap(track), [0, 0, columns, rows], [from, top, wide, tall]);
        for (let step = 0; step < columns; step++) {
          if (track.values[step].some((value) => value !== null)) continue;
          // What nobody asked for: bare paper, and lines that climb over it.
          surface.rect(from + step * cell, top, cell, tall, ink.paper);
          for (let up = 0; up < tall + cell; up += 7) {
            const low = Math.min(up, tall), right = Math.max(0, up - tall);
            if (up - low < cell) surface.line(from + step * cell + right, top + low, from + step * cell + Math.min(up, cell), top + Math.max(0, up - cell), ink.hatch, 1);
          }
        }
        surface.frame(from - 0.5, top - 0.5, wide + 1, tall + 1, ink.line, 1);
        if (track.border !== null) surface.line(from + (track.border + 1) * cell, top, from + (track.border + 1) * cell, top + tall, ink.faint, 1.5, 1, 1);
        for (const end of rows > 1 ? [0, rows - 1] : [0]) {
          surface.text(String(end + track.first), from - 6, top + clamp((end + 0.5) * high, 5, tall - 3), { size: 10, colour: ink.faint, align: "right" });
        }
        if (!frame.whole) {
          surface.frame(from + here.row * cell, top, cell, tall, ink.mark, 1, 0.6);
          if (on) surface.frame(from + here.row * cell, top + Math.min(entry, rows - 1) * high, cell, high, ink.mark, 2);
        }
        if (y !== lowest && panels[number + 2]) return;
        const every = Math.max(1, Math.ceil((this.font * 1.15) / cell));
        if (this.below) for (let step = 0; step < columns; step += every) {
          const marked = step === here.row && !frame.whole, text = steps()[step];
          surface.text(text, from + (step + 0.5) * cell, top + tall + 6 + Math.min(widthOf(text, this.font, marked), this.below - 10), { size: this.font, colour: marked ? ink.mark : ink.ink, bold: marked, turned: true, width: this.below - 8 });
        }
      });
    },
    at(x, y, frame) {
      const panels = /** @type {Panel[]} */ (this.panels);
      for (const [layer, { track, x: from, y: top, cell, high }] of panels.entries()) {
        const row = Math.floor((x + frame.x - from) / cell), column = Math.floor((y + frame.y - top) / high);
        if (row >= 0 && row < track.values.length && column >= 0 && column < track.values[0].length) return { row, column, layer };
      }
      return null;
    },
    /** @param {number} layer @param {number} step @param {number} entry */
    describe(layer, step, entry) {
      const { track } = this.panels[layer];
      return { name: track.name, value: valueText(track, step, entry), where: `${apart(steps()[step])}, step ${step}; ${track.unit} ${entry + track.first}` };
    },
    tip({ row, column, layer = 0 }) {
      const { name, value, where } = this.describe(layer, row, column);
      return [`${name}: ${value}`, element("small", where)];
    },
    pick({ row, column, layer = 0 }) {
      this.go(layer, row, column);
    },
    /** @param {number} panel @param {number} step @param {number} entry */
    go(panel, step, entry) {
      const { track } = this.panels[clamp(panel, 0, this.panels.length - 1)];
      this.panel = clamp(panel, 0, this.panels.length - 1);
      this.entry = clamp(entry, 0, track.values[0].length - 1);
      viewer.move(step, state.column, true);
      viewer.say(this.say?.() ?? "");
    },
    say() {
      const { name, value, where } = this.describe(this.panel, state.row, this.entry);
      return `${name}: ${value} (${where})`;
    },
    strongest() {
      const here = viewer.place(), { track } = this.panels[here.layer ?? this.panel];
      const values = track.values[here.row].map((/** @type {number | null} */ value) => value ?? 0);
      return {
        title: `${track.name} at ${apart(steps()[here.row])}`, heads: [track.unit, "step", "value"], signed: track.signed,
        rows: strongest(values, 8).map((entry) => [String(entry + track.first), String(here.row), valueText(track, here.row, entry), values[entry]]),
      };
    },
    rows: () => [["panel", "number", ...steps()], ...tracksOf(state.map).flatMap((track) => track.values[0].map((_, entry) => [track.name, entry + track.first, ...track.values.map((step) => step[entry] ?? "")]))],
    sight() {
      const panel = /** @type {Panel} */ (this.panels[this.panel]);
      return panel && { x: panel.x + state.row * panel.cell, y: panel.y - TITLE, width: panel.cell, height: TITLE + panel.track.values[0].length * panel.high };
    },
    key(event) {
      const { panel, entry } = this, { track } = this.panels[panel], last = track.values.length - 1, end = track.values[0].length - 1;
      /** @type {Record<string, [number, number, number]>} */
      const moves = {
        ArrowLeft: [panel, state.row - 1, entry], ArrowRight: [panel, state.row + 1, entry], ArrowUp: [panel, state.row, entry - 1], ArrowDown: [panel, state.row, Math.min(entry + 1, end)],
        PageUp: [panel - 1, state.row, entry], PageDown: [panel + 1, state.row, entry], Home: [panel, 0, entry], End: [panel, last, entry],
      };
      if (event.key in moves) this.go(...moves[event.key]);
      else if (event.key === "Enter" || event.key === " ") {
        const { title, rows } = /** @type {import("./types").Strongest} */ (this.strongest?.());
        viewer.say(`${title}: ${rows.slice(0, 3).map((/** @type {any[]} */ row) => `${track.unit} ${row[0]} ${row[2]}`).join(", ")}`);
      } else return false;
      return true;
    },
  };
}
