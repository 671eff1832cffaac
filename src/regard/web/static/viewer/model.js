// All layers and heads: a small heatmap for each, layers down, heads across.

import { bitmapOf, inks } from "../colours.js";
import { theme } from "../shell.js";
import { clamp, headOf, inSight, isSigned, pairTip } from "./names.js";
import { widthOf } from "./surface.js";
import { apart, largest, scaleOf, strongest, written } from "./weights.js";

/** @typedef {import("./types").AttentionMap} AttentionMap */

/** Cells of a small heatmap along a side; of the weights under one the largest is shown. */
const POOLED = 64;

/** Adds the view. @param {import("./types").Viewer} viewer */
export function addModel(viewer) {
  const { $, state, VIEWS, data, weights, thumbs } = viewer;
  /** @param {import("./types").AttentionMap} map @param {number} head */
  function thumbOf(map, head) {
    const name = [map.index, head, theme()].join();
    let found = thumbs.get(name);
    if (!found) {
      const rows = map.query.tokens.length, columns = map.key.tokens.length, all = weights.of(map);
      const high = Math.min(rows, POOLED), wide = Math.min(columns, POOLED), { values } = scaleOf(map);
      const most = new Int32Array(high * wide), place = Uint8Array.from({ length: columns }, (_, i) => (i * wide) / columns);
      for (let row = 0, i = head * rows * columns; row < rows; row++) {
        const from = Math.floor((row * high) / rows) * wide;
        for (let column = 0; column < columns; column++, i++) {
          const level = all[i] - map.zero, at = from + place[column];
          if (Math.abs(level) > Math.abs(most[at])) most[at] = level;
        }
      }
      const pooled = Float32Array.from(most, (level) => values[level + map.zero]);
      const peak = largest(pooled);
      const end = (/** @type {number} */ row) => (map.causal ? largest(pooled.subarray(row * wide, (row + 1) * wide)) : peak) || 1;
      const bitmap = bitmapOf(isSigned(map), pooled, high, wide, end);
      found = { bitmap, peak };
      thumbs.set(name, found);
    }
    return found;
  }

  VIEWS.model = {
    name: "All heads", role: "grid of heads", heads: "none", cursor: "pointer",
    usable: () => data.maps.some((map) => map.heads > 1) || data.maps.length > 1,
    needs: () => [],
    show: () => viewer.load(state.map).then(viewer.listStrongest, () => {}),
    maps: () => viewer.mapsOf(state.map.example),
    label() {
      const maps = this.maps(), heads = Math.max(...maps.map((/** @type {AttentionMap} */ map) => map.heads));
      return `all layers and heads: ${maps.length} layers by up to ${heads} heads. Enter opens a head.`;
    },
    chosen() {
      return { layer: this.maps().indexOf(state.map), head: state.head === "mean" ? 0 : state.head };
    },
    prepare(space) {
      const maps = this.maps(), heads = Math.max(...maps.map((/** @type {AttentionMap} */ map) => map.heads));
      this.left = clamp(Math.ceil(Math.max(...maps.map((/** @type {AttentionMap} */ map) => widthOf(map.name, 13, true)))) + 14, 40, 230);
      const across = (space.width - this.left - 20) / heads, down = Math.max((space.height - 40) / maps.length, 48);
      const usual = clamp(Math.min(across, down), 18, 320);
      this.step = Math.floor(clamp(usual * state.zoom, 14, 400));
      this.gap = this.step > 60 ? 8 : 4;
      return { width: this.left + heads * this.step + 8, height: 28 + maps.length * this.step + 8 };
    },
    draw(surface, frame) {
      const maps = this.maps(), { left, step, gap } = this, ink = inks(), chosen = this.chosen(), { hover } = state;
      const heads = Math.max(...maps.map((/** @type {AttentionMap} */ map) => map.heads));
      const x = (/** @type {number} */ head) => left + head * step - frame.x, y = (/** @type {number} */ layer) => 28 + layer * step - frame.y;
      const layers = inSight(frame.y, frame.y + frame.height - 28, step, maps.length);
      const across = inSight(frame.x, frame.x + frame.width - left, step, heads);
      const until = performance.now() + 12, size = step - gap;
      // Under each figure, where there is room, what its head does.
      const labelled = step >= 84 && maps.some((/** @type {AttentionMap} */ map) => map.heads > 1 && map.kinds.some(Boolean)), high = labelled ? size - 15 : size;
      surface.within(left - 4, 24, frame.width - left + 4, frame.height - 24, () => {
        for (let layer = layers.first; layer <= layers.last; layer++) {
          const map = maps[layer];
          for (let head = across.first; head <= Math.min(across.last, map.heads - 1); head++) {
            const known = thumbs.has([map.index, head, theme()].join());
            if (known || (viewer.isLoaded(map) && (frame.whole || performance.now() < until))) {
              const { bitmap } = thumbOf(map, head);
              surface.image(bitmap, [0, 0, bitmap.width, bitmap.height], [x(head), y(layer), size, high]);
            } else {
              surface.rect(x(head), y(layer), size, high, ink.band);
              if (viewer.isLoaded(map)) setTimeout(viewer.redraw);
              else if (weights.loading.has(map) || weights.loadingBytes() < 1e8) viewer.load(map).then(viewer.redraw, () => {});
            }
            const isChosen = layer === chosen.layer && head === chosen.head && !frame.whole;
            const under = hover && hover.layer === layer && hover.head === head;
            surface.frame(x(head) - 0.5, y(layer) - 0.5, size + 1, high + 1, ink.line, 1);
            if (labelled) surface.text(map.kinds[head] ?? "", x(head), y(layer) + high + 9, { size: 11, colour: ink.faint, width: size });
            if (isChosen || under) surface.frame(x(head) - 1.5, y(layer) - 1.5, size + 3, high + 3, ink.mark, isChosen ? 3 : 1.5);
          }
        }
      });
      surface.within(0, 28, left, frame.height - 28, () => {
        for (let layer = layers.first; layer <= layers.last; layer++) {
          const on = layer === chosen.layer && !frame.whole;
          surface.text(maps[layer].name, left - 10, y(layer) + size / 2,
            { size: 13, colour: on ? ink.mark : ink.ink, bold: on, align: "right", width: left - 14 });
        }
      });
      surface.within(left, 0, frame.width - left, 28, () => {
        const every = Math.max(1, Math.ceil(22 / step));
        for (let head = across.first; heads > 1 && head <= across.last; head++) {
          const on = head === chosen.head && !frame.whole;
          if (head % every === 0) {
            surface.text(String(head), x(head) + size / 2, 16, { size: 12, colour: on ? ink.mark : ink.faint, bold: on, align: "center" });
          }
        }
      });
      if (heads > 1) surface.text("head →", left - 10, 16, { size: 11, colour: ink.faint, align: "right" });
    },
    at(x, y, frame) {
      const maps = this.maps(), layer = Math.floor((y - 28 + frame.y) / this.step), head = Math.floor((x - this.left + frame.x) / this.step);
      if (x < this.left || y < 28 || layer >= maps.length || head >= maps[layer].heads) return null;
      return { layer, head, row: layer, column: head };
    },
    /** The largest weight of a head, in words; null where it is not loaded. @param {AttentionMap} map @param {number} head */
    best(map, head) {
      if (!viewer.isLoaded(map)) return null;
      const matrix = viewer.matrixOf(map, head, state.merge), [[row, column]] = matrix.strongest(1);
      return { row, column, query: viewer.tokenName(map.query, row), key: viewer.tokenName(map.key, column),
        value: written(matrix.at(row, column), matrix.errorAt(row, column)) };
    },
    tip({ layer = 0, head = 0 }) {
      const map = this.maps()[layer], found = this.best(map, head), where = headOf(map, head);
      return found ? pairTip(found.query, found.key, found.value, `strongest of ${where}${map.kinds[head] ? " · " + map.kinds[head] : ""}`) : [where];
    },
    pick({ layer = 0, head = 0 }) {
      $("tip").hidden = true;
      state.map = this.maps()[layer];
      state.head = state.map.heads > 1 ? head : 0;
      state.on = new Set([head]);
      const open = state.opened || "heatmap";
      viewer.choose("view", VIEWS[open].usable(state.map) ? open : "heatmap").then(() => {
        viewer.move(...state.matrix.strongest(1)[0]);
        if (!viewer.pane.hidden) viewer.canvas.focus();
      });
    },
    say() {
      const { layer, head } = this.chosen(), map = this.maps()[layer], found = this.best(map, head);
      const best = found ? `, strongest ${apart(found.query)} → ${apart(found.key)} ${found.value}` : "";
      return headOf(map, head) + best;
    },
    sight() {
      const { layer, head } = this.chosen();
      return { x: this.left + head * this.step, y: 28 + layer * this.step, width: this.step, height: this.step, margin: { left: this.left, top: 30 } };
    },
    key(event) {
      const maps = this.maps(), { layer, head } = this.chosen(), end = maps[layer].heads - 1;
      /** @type {Record<string, [number, number]>} */
      const steps = {
        ArrowLeft: [layer, head - 1], ArrowRight: [layer, head + 1], ArrowUp: [layer - 1, head], ArrowDown: [layer + 1, head],
        Home: [event.ctrlKey ? 0 : layer, 0], End: [event.ctrlKey ? maps.length - 1 : layer, end],
        PageUp: [layer - 6, head], PageDown: [layer + 6, head],
      };
      if (event.key === "Enter" || event.key === " ") this.pick?.({ layer, head, row: layer, column: head });
      else if (event.key in steps) {
        const to = steps[event.key];
        state.map = maps[clamp(to[0], 0, maps.length - 1)];
        state.head = clamp(to[1], 0, state.map.heads - 1);
        viewer.load(state.map).then(() => {
          viewer.redraw();
          viewer.fillControls();
          viewer.listStrongest();
          viewer.keepAddress();
          viewer.say(this.say?.() ?? "");
        });
        viewer.redraw();
      } else return false;
      return true;
    },
  };
}
