// Curves of numbers by step: what a log holds as lists of points, and a plot of each list, with the numbers of one step.

import { element } from "../viewer/names.js";
import { svgElement } from "./svg.js";

/** @typedef {{ event: string, step: number, [name: string]: any }} Event a line of a run's log */
/** @typedef {{ step: number, value: number | null, clipped?: boolean }} Point no number where null; of a gradient's norm, whether it was clipped */
/** @typedef {{ title: string, lines: Map<string, Point[]> }} Chart the points of each kind of event */
/** @typedef {{ log: boolean, step: number | null, best: number | null }} Shown the step whose numbers are shown: the newest where null */

const WIDTH = 640, HEIGHT = 250, LEFT = 62, RIGHT = 14, TOP = 12, BOTTOM = 26;
const COUNTERS = ["step", "event", "epoch", "tokens", "seconds"];
const THROUGHPUT = "tokens_per_second", NORM = "gradient_norm";

/** Lines of a log, those of training with the tokens of each second since the one before. @param {Event[]} events @returns {Event[]} */
export function withThroughput(events) {
  let tokens = 0, seconds = 0;
  return events.map((event) => {
    if (event.event !== "train" || typeof event.tokens !== "number" || typeof event.seconds !== "number") return event;
    const rate = event.seconds > seconds ? (event.tokens - tokens) / (event.seconds - seconds) : null;
    ({ tokens, seconds } = event);
    return { ...event, [THROUGHPUT]: rate };
  });
}

/** A chart for each number that lines have besides their counters. @param {Event[]} events @returns {Chart[]} */
export function charts(events) {
  /** @type {Map<string, Chart>} */
  const found = new Map();
  for (const event of events) {
    for (const [name, value] of Object.entries(event)) {
      if (COUNTERS.includes(name) || (value !== null && typeof value !== "number")) continue;
      if (!found.has(name)) found.set(name, { title: name.replaceAll("_", " "), lines: new Map() });
      const { lines } = /** @type {Chart} */ (found.get(name));
      if (!lines.has(event.event)) lines.set(event.event, []);
      lines.get(event.event)?.push({ step: event.step, value, ...(name === NORM && { clipped: event.clipped }) });
    }
  }
  return [...found.values()];
}

/** All lines as a table, with a column for each name that is in any of them. @param {Event[]} events */
export function csv(events) {
  const names = [...new Set(["step", ...events.flatMap((event) => Object.keys(event))])];
  /** @param {any} value */
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...events.map((event) => names.map((name) => event[name]))].map((row) => row.map(cell).join()).join("\r\n") + "\r\n";
}

/** Round numbers from `low` to `high`. @param {number} low @param {number} high @param {boolean} log @returns {number[]} */
export function ticks(low, high, log) {
  if (log) {
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) powers.push(power);
    const every = Math.ceil(powers.length / 6), factors = powers.length > 3 ? [1] : [1, 2, 5];
    const all = powers.filter((_, place) => place % every === 0).flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`)));
    const inside = all.filter((value) => value >= low && value <= high);
    if (inside.length > 2) return inside; // of less than a power of ten, those of a linear scale
  }
  const rough = (high - low) / 4, size = 10 ** Math.floor(Math.log10(rough));
  const gap = size * (rough / size < 1.5 ? 1 : rough / size < 3.5 ? 2 : rough / size < 7.5 ? 5 : 10);
  const first = Math.ceil(low / gap - 1e-9), count = Math.floor(high / gap + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, place) => Number(((first + place) * gap).toPrecision(12)));
}

/** @param {number} value */
const short = (value) => (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5) ? value.toExponential().replace("e+", "e") : String(value));

/**
 * A place for one chart, that stays where it is while its numbers grow.
 *
 * @param {string} title
 * @param {(step: number) => void} choose called with the step under the pointer
 * @returns {{ figure: HTMLElement, draw: (chart: Chart, shown: Shown) => void }}
 */
export function addPlot(title, choose) {
  const figure = element("figure"), caption = element("figcaption"), plot = element("div", undefined, "plot");
  const tip = element("div", undefined, "tip"), svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
  plot.tabIndex = 0;
  plot.setAttribute("role", "slider"); // its value is the step whose numbers are read
  plot.setAttribute("aria-label", `${title} by step`);
  plot.append(svg, tip);
  figure.append(caption, plot);
  /** @type {number[]} */
  let steps = [];
  let low = 0, high = 1, over = false;
  const x = (/** @type {number} */ step) => LEFT + ((step - low) / (high - low)) * (WIDTH - LEFT - RIGHT);
  plot.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * WIDTH;
    over = true;
    choose(steps.reduce((best, step) => (Math.abs(x(step) - at) < Math.abs(x(best) - at) ? step : best), steps[0]));
  });
  plot.addEventListener("pointerleave", () => {
    over = false;
    tip.hidden = true;
  });

  /** @param {Chart} chart @param {Shown} shown */
  function draw(chart, { log, step, best }) {
    const lines = [...chart.lines], points = lines.flatMap(([, own]) => own);
    steps = [...new Set(points.map((point) => point.step))].sort((one, other) => one - other);
    low = steps[0];
    high = steps.length > 1 ? steps[steps.length - 1] : low + 1;
    const values = /** @type {number[]} */ (points.map(({ value }) => value).filter((value) => value !== null && (!log || value > 0)));
    let [bottom, top] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    if (!values.length) [bottom, top] = log ? [1, 10] : [0, 1];
    const scale = log ? Math.log10 : (/** @type {number} */ value) => value;
    if (bottom === top) [bottom, top] = log ? [bottom / 2, top * 2] : [bottom - (Math.abs(bottom) / 2 || 1), top + (Math.abs(top) / 2 || 1)];
    const y = (/** @type {number} */ value) => TOP + ((scale(top) - scale(value)) / (scale(top) - scale(bottom))) * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    for (const value of ticks(bottom, top, log)) {
      parts.push(svgElement("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(svgElement("text", { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }, short(value)));
    }
    for (const value of ticks(low, high, false).filter(Number.isInteger)) {
      parts.push(svgElement("text", { x: x(value), y: HEIGHT - 7, "text-anchor": "middle" }, value.toLocaleString("en")));
    }
    /** @param {string} name @param {number} at */
    const upright = (name, at) => parts.push(svgElement("line", { class: name, x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }));
    if (best !== null && best >= low && best <= high && chart.lines.has("validation")) {
      upright("best", best);
      parts.push(svgElement("text", { x: x(best) - 4, y: TOP + 9, "text-anchor": "end" }, "best"));
    }
    for (const [name, own] of lines) {
      let path = "", begun = false;
      for (const { step, value } of own) {
        const there = value !== null && (!log || value > 0);
        if (there) path += `${begun ? "L" : "M"}${x(step).toFixed(2)} ${y(value).toFixed(2)}`;
        if (there && own.length < 40) parts.push(svgElement("circle", { class: name, cx: x(step), cy: y(value), r: 2.6 }));
        begun = there;
      }
      parts.push(svgElement("path", { class: name, d: path }));
    }
    const at = step ?? high, readout = [`step ${(step ?? steps[steps.length - 1]).toLocaleString("en")}`];
    if (step !== null && step >= low && step <= high) upright("now", step);
    svg.replaceChildren(...parts);
    caption.replaceChildren(element("h2", title));
    for (const [name, own] of lines) {
      const point = step === null ? own[own.length - 1] : own.find((one) => one.step === step), key = element("span"), sign = element("i");
      const text = point === undefined ? "" : point.value === null ? " no number" : ` ${point.value}${point.clipped ? ", clipped" : ""}`;
      sign.className = name;
      key.append(sign, name + text);
      caption.append(key);
      if (text) readout.push(name + text);
    }
    const left = log ? points.filter(({ value }) => value !== null && value <= 0).length : 0;
    if (left) caption.append(element("span", `${left} not above 0, which have no place on this scale`, "quiet"));
    tip.hidden = !over || step === null;
    tip.textContent = readout.join("\n");
    const share = x(at) / WIDTH;
    tip.style.cssText = share < 0.5 ? `left: calc(${100 * share}% + .6rem)` : `right: calc(${100 - 100 * share}% + .6rem)`;
    for (const [key, value] of Object.entries({ valuemin: low, valuemax: high, valuenow: at, valuetext: readout.join(", ") })) {
      plot.setAttribute(`aria-${key}`, String(value));
    }
  }
  return { figure, draw };
}
