// How a text was searched for: a beam's steps as columns, what was kept, what was complete, and what was dropped.

import { inks } from "../colours.js";
import { element } from "../viewer/names.js";
import { shown } from "./bars.js";
import { fetchedJson } from "./look.js";
import { svgElement } from "./svg.js";

/** @typedef {{ step: number, parent: number | null, label: string, log_probability: number, fate: "kept" | "ended" | "dropped" }} Tried */

const WIDTH = 96, HEIGHT = 24, ROUTES = ["translation", "summarization", "text2text-generation", "image-to-text"];

/** @param {import("./types").Studio} studio */
export function addBeam(studio) {
  const { $ } = studio;
  let turn = 0;
  /** @type {Tried[]} */
  let tried = [];
  /** @type {number | null} where the first hypothesis was complete */
  let first = null;

  async function ask() {
    const mine = ++turn;
    if (!studio.seen) clear("");
    if (!studio.seen || !$("beam").open || $("beam").hidden) return;
    try {
      const found = await fetchedJson("beam", { ...studio.wanted(), beam: Number($("beam-width").value) }, studio.key);
      if (mine !== turn) return;
      tried = found.tried;
      first = found.hypotheses[0].place;
      const counts = ["kept", "ended", "dropped"].map((fate) => tried.filter((one) => one.fate === fate).length);
      $("beam-note").textContent = `${counts[0]} kept, ${counts[1]} complete, ${counts[2]} dropped, for others were more probable.`;
      $("hypotheses").tBodies[0].replaceChildren(...found.hypotheses.map((/** @type {any} */ one) => {
        const row = element("tr");
        row.append(element("td", one.text), element("td", one.log_probability.toPrecision(4)), element("td", one.score.toPrecision(4)));
        return row;
      }));
      draw();
    } catch (error) {
      if (mine === turn) clear(error instanceof Error ? error.message : String(error));
    }
  }
  /** @param {string} note */
  function clear(note) {
    tried = [];
    for (const part of [$("tree"), $("hypotheses").tBodies[0]]) part.replaceChildren();
    $("beam-note").textContent = note;
  }

  /** The places from the beginning to one. @param {number | null} place @returns {number[]} */
  const path = (place) => (place === null ? [] : [...path(tried[place].parent), place]);
  function draw() {
    const { ink, faint, mark, line } = inks(), rows = /** @type {number[]} */ ([]), counts = /** @type {number[]} */ ([]);
    for (const { step } of tried) rows.push((counts[step] = (counts[step] ?? -1) + 1));
    const best = new Set(path(first)), x = (/** @type {number} */ step) => 6 + step * WIDTH, y = (/** @type {number} */ row) => 16 + row * HEIGHT;
    const width = x(counts.length), height = y(Math.max(0, ...counts)) + 14;
    const svg = svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Steps of the search, from left to right; in each the most probable beginning of a text first" });
    tried.forEach(({ step, parent }, place) => {
      if (parent === null) return;
      const mine = best.has(place), to = x(step) - 4, from = x(step - 1) + 8 + 9 * Math.min(8, shown(tried[parent].label).length);
      svg.append(svgElement("path", { d: `M ${from} ${y(rows[parent])} C ${from + 18} ${y(rows[parent])} ${to - 18} ${y(rows[place])} ${to} ${y(rows[place])}`, fill: "none", stroke: mine ? mark : line, "stroke-width": mine ? 2 : 1 }));
    });
    tried.forEach(({ step, label, fate, log_probability }, place) => {
      const mine = best.has(place), text = shown(label).slice(0, 8) + (fate === "ended" ? " ■" : "");
      const one = svgElement("text", {
        x: x(step), y: y(rows[place]), "dominant-baseline": "middle", "font-size": 13, fill: mine ? mark : fate === "dropped" ? faint : ink,
        "font-weight": mine ? 650 : 400, "text-decoration": fate === "dropped" ? "line-through" : "none",
      }, text);
      one.append(svgElement("title", {}, `${path(place).map((each) => tried[each].label).join(" ")}: ${fate}, log p ${log_probability.toPrecision(4)}`));
      svg.append(one);
    });
    $("tree").replaceChildren(svg);
  }

  $("beam").addEventListener("toggle", ask);
  $("beam-width").addEventListener("change", ask);
  new MutationObserver(() => tried.length && draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  studio.answered.push(() => {
    $("beam").hidden = !studio.model().routes.some((/** @type {string} */ route) => ROUTES.includes(route));
    ask();
  });
}
