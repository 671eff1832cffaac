// A played text as a deck of slides: one offline file, a token a slide, with what it looked at and the other tokens that were probable there.

import { colourOf, inkOn } from "../colours.js";
import { theme } from "../shell.js";
import { element } from "../viewer/names.js";
import { labelsOf, short, strongest } from "../viewer/weights.js";
import { share, shown } from "./bars.js";

const BARS = 10; // rows of a table

/** @typedef {{ title: string, written: string, where: string, summary: string, map: import("../viewer/types").AttentionMap, matrix: import("../viewer/weights.js").Matrix, before: number, steps: import("./playback.js").Step[] }} Deck `before`: tokens in the map when the first is chosen */

/** @param {string} name */
async function asset(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name} cannot be read from the server: ${answer.status}`);
  return answer.text();
}

/** The whole file. @param {Deck} deck @returns {Promise<string>} */
export async function deckFile(deck) {
  const [script, ...styles] = await Promise.all(["../slides.js", "../shell.css", "../slides.css"].map(asset));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(script)));
  const page = document.implementation.createHTMLDocument(deck.title), root = page.documentElement;
  root.lang = "en";
  root.dataset.theme = theme();
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = `default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${btoa(String.fromCharCode(...digest))}'; base-uri 'none'; form-action 'none'`;
  const encoding = page.createElement("meta");
  encoding.setAttribute("charset", "utf-8");
  page.head.prepend(encoding, policy, Object.assign(page.createElement("style"), { textContent: styles.join("\n") }));
  page.body.append(first(deck), ...deck.steps.map((_, at) => slide(deck, at)), Object.assign(page.createElement("script"), { textContent: script }));
  return "<!doctype html>\n" + root.outerHTML;
}

/** @param {Deck} deck */
function first({ title, written, where, summary }) {
  const whole = element("section");
  whole.append(element("h1", title), element("p", written, "text"), element("p", summary, "where"), element("p", where, "where"));
  return whole;
}

/** @param {Deck} deck @param {number} at */
function slide({ map, matrix, where, before, steps }, at) {
  const whole = element("section"), heading = element("h2", `${at + 1} of ${steps.length}: `), step = steps[at];
  heading.append(element("em", shown(step.label)));
  const row = Math.min(before + at, matrix.rows) - 1, weights = matrix.row(row), keys = labelsOf(map.key, false), signed = map.zero > 0;
  // Of a language model the tokens from which this one was chosen; of what reads a source, all of the source.
  const end = map.kind === "self" ? row + 1 : keys.length, largest = Math.max(...Array.from(weights).slice(0, end).map(Math.abs)) || 1;
  const text = element("p", undefined, "text");
  for (let key = 0; key < end; key++) {
    const one = element("span", keys[key]), colour = colourOf(signed, weights[key], largest);
    one.style.background = `rgb(${colour})`;
    one.style.color = inkOn(colour);
    text.append(one);
  }
  if (map.kind === "self") text.append(element("span", shown(step.label), "now"));
  const columns = element("div", undefined, "columns");
  columns.append(table(`what ${shown(labelsOf(map.query, false)[row])} looked at`,
    strongest(Array.from(weights).slice(0, end), BARS).map((key) => ({ name: keys[key], share: weights[key] / largest, value: short(weights[key]), signed, chosen: false }))));
  if (step.top) {
    const bars = step.top.some((bar) => bar.id === step.id) ? step.top : [...step.top, step];
    columns.append(table("what the model expected here", bars.map((bar) => ({ name: shown(bar.label), share: share(bar), value: share(bar).toPrecision(3), signed: false, chosen: bar.id === step.id }))));
  }
  whole.append(heading, text, columns, element("p", where, "where"));
  return whole;
}

/** @param {string} title @param {{ name: string, share: number, value: string, signed: boolean, chosen: boolean }[]} rows */
function table(title, rows) {
  const whole = element("div"), body = element("tbody"), table = element("table");
  for (const { name, share, value, signed, chosen } of rows) {
    const row = element("tr", undefined, chosen ? "chosen" : ""), cell = element("td", undefined, signed ? "signed" : ""), bar = element("span", undefined, share < 0 ? "negative" : "");
    bar.style.width = 100 * Math.abs(share) + "%";
    cell.append(bar);
    row.append(element("td", name), cell, element("td", value));
    body.append(row);
  }
  table.append(body);
  whole.append(element("h3", title), table);
  return whole;
}
