// What a mouse, a pen or fingers do on a map: pan, zoom, point at, choose, draw a lasso.

import { number } from "./panels.js";

const STILL = 5, REACH = 12;

/** @param {import("./types").VectorMap} map @param {(on: boolean) => void} setLasso */
export function addPointer(map, setLasso) {
  const { $, data, state, space, signal } = map, over = /** @type {HTMLCanvasElement} */ ($("over")), tip = $("tip");
  /** Fingers that are down, by their number: where they are. @type {Map<number, { x: number, y: number }>} */
  const down = new Map();
  let begun = { x: 0, y: 0 }, moved = false;

  /** @param {{ clientX: number, clientY: number }} event */
  const place = (event) => {
    const box = over.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  function fingers() {
    const [a, b] = [...down.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, apart: Math.hypot(a.x - b.x, a.y - b.y) };
  }
  /** @param {number} point @param {{ x: number, y: number }} at */
  function pointAt(point, at) {
    if (point !== state.hover) {
      state.hover = point;
      map.redraw();
    }
    tip.hidden = point < 0;
    if (point < 0) return;
    const column = state.colour, value = column && (column.kind === "number" ? number(column.of[point]) : column.values[column.of[point]]);
    const text = data.labels[point];
    tip.textContent = (text.length > 400 ? text.slice(0, 399) + "…" : text) + (column ? `\n${column.name}: ${value}` : "");
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${Math.max(0, Math.min(at.x + 14, space.width - width - 4))}px`;
    tip.style.top = `${at.y + 18 + height > space.height ? Math.max(0, at.y - height - 10) : at.y + 18}px`;
  }

  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    over.setPointerCapture(event.pointerId);
    const at = place(event);
    down.set(event.pointerId, at);
    tip.hidden = true;
    if (down.size > 1) {
      state.path = [];
      moved = true;
      return;
    }
    [begun, moved] = [at, false];
    if (state.lasso || event.shiftKey) state.path = [at.x, at.y];
    else over.classList.add("moving");
  }, { signal });
  over.addEventListener("pointermove", (event) => {
    const at = place(event), before = down.get(event.pointerId);
    if (!before) return pointAt(space.nearest(at.x, at.y, REACH), at);
    moved ||= Math.hypot(at.x - begun.x, at.y - begun.y) > STILL;
    if (down.size === 2) {
      const was = fingers();
      down.set(event.pointerId, at);
      const now = fingers();
      space.pan(now.x - was.x, now.y - was.y);
      space.zoom(now.apart / (was.apart || 1), now.x, now.y);
    } else if (state.path.length) {
      state.path.push(at.x, at.y);
      down.set(event.pointerId, at);
    } else if (moved) {
      space.pan(at.x - before.x, at.y - before.y);
      down.set(event.pointerId, at);
    }
    map.redraw();
  }, { signal });
  over.addEventListener("pointerup", (event) => {
    if (!down.delete(event.pointerId)) return;
    over.classList.remove("moving");
    const at = place(event), path = state.path;
    state.path = [];
    if (moved && path.length > 4) {
      map.select(space.within(path));
      setLasso(false);
    } else if (!moved) {
      const point = space.nearest(at.x, at.y, event.pointerType === "touch" ? 2 * REACH : REACH);
      if (point >= 0 || !event.shiftKey) map.choose(point);
    }
    map.redraw();
  }, { signal });
  over.addEventListener("pointercancel", (event) => {
    down.delete(event.pointerId);
    over.classList.remove("moving");
    state.path = [];
    map.redraw();
  }, { signal });
  over.addEventListener("pointerleave", () => pointAt(-1, begun), { signal });
  over.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = place(event), lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    space.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) * 0.0022), at.x, at.y);
    tip.hidden = true;
    map.redraw();
  }, { passive: false, signal });
}
