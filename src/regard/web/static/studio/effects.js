// Which heads an answer needs: each is switched off in turn, and those that change it most come first.

import { element } from "../viewer/names.js";
import { shown } from "./bars.js";
import { fetchedJson } from "./look.js";

const MOST = 40; // rows that are shown
/** @typedef {{ address: string, head: number, score: number, effect: number }} Row */

/** @param {import("./types").Studio} studio */
export function addEffects(studio) {
  const { $ } = studio;
  /** @type {AbortController | null} */
  let running = null;

  function reset() {
    running?.abort();
    running = null;
    $("effects-table").hidden = $("effects-progress").hidden = true;
    $("effects-note").textContent = "";
    $("effects-start").textContent = "switch each head off in turn";
  }
  async function start() {
    if (running) return reset();
    const { signal } = (running = new AbortController()), layers = studio.model().attention;
    /** @type {Row[]} */
    let rows = [];
    $("effects-start").textContent = "cancel";
    Object.assign($("effects-progress"), { hidden: false, max: layers.length, value: 0 });
    try {
      for (const [number, address] of layers.entries()) {
        $("effects-note").textContent = `layer ${number + 1} of ${layers.length}: ${address}`;
        const found = await fetchedJson("effects", { ...studio.wanted(), address }, studio.key, signal);
        if (signal.aborted) return;
        rows = [...rows, ...found.rows].sort((one, other) => Math.abs(other.effect) - Math.abs(one.effect));
        draw(found, rows);
        $("effects-progress").value = number + 1;
      }
      const left = rows.length > MOST ? `; the ${MOST} that move it most are shown` : "";
      $("effects-note").textContent = `${rows.length} head${rows.length === 1 ? "" : "s"}${left}`;
    } catch (error) {
      if (signal.aborted) return;
      $("effects-note").textContent = error instanceof Error ? error.message : String(error);
    }
    running = null;
    $("effects-progress").hidden = true;
    $("effects-start").textContent = "switch each head off in turn";
  }
  /** @param {{ about: string, baseline: number }} found @param {Row[]} rows */
  function draw({ about, baseline }, rows) {
    const most = Math.abs(rows[0]?.effect ?? 0) || 1;
    $("effects-table").hidden = false;
    $("effects-caption").textContent = `${about.replace(/\(([^]*)\)$/, (_, token) => `(${shown(token)})`)}: ${baseline.toPrecision(4)} ${studio.changes.length ? "as it is now" : "with all heads"}`;
    $("effects-table").tBodies[0].replaceChildren(...rows.slice(0, MOST).map(({ address, head, score, effect }) => {
      const row = element("tr"), name = element("td"), cell = element("td", undefined, "share signed"), line = element("span");
      const button = Object.assign(element("button", studio.nameOf(address, [head])), { type: "button", title: `${address} head ${head}` });
      button.addEventListener("click", () => studio.choose(address, head));
      name.append(button);
      line.className = effect < 0 ? "negative" : "positive";
      line.style.width = (50 * Math.abs(effect)) / most + "%";
      cell.append(line);
      row.append(name, cell, element("td", (effect > 0 ? "+" : "") + effect.toPrecision(3)), element("td", score.toPrecision(4)));
      return row;
    }));
  }
  $("effects-start").addEventListener("click", start);
  studio.answered.push(reset);
}
