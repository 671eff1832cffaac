// A map of texts that are pasted or come from a file: the server makes their vectors and lays them out.

import { mount } from "../map/map.js";
import { finder } from "../shell.js";
import { inflated } from "../source.js";
import { fetchedBytes, headAndRest, models } from "./look.js";
import { linkWithKey } from "./training.js";

/** Lines that are not empty; the first of the two parts of a line is its class, where every line has a tab. @param {string} text */
export function textsOf(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length || !lines.every((line) => line.includes("\t") && line.slice(line.indexOf("\t")).trim())) return { texts: lines };
  return { texts: lines.map((line) => line.slice(line.indexOf("\t") + 1)), classes: lines.map((line) => line.slice(0, line.indexOf("\t"))) };
}

/** @param {HTMLElement} root the element that holds the page's markup */
export async function startMap(root) {
  const $ = finder(root), key = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  /** @type {import("../map/types").VectorMap | null} */
  let map = null;
  linkWithKey(root, "studio");
  /** @param {boolean} on */
  const showMap = (on) => {
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("#choices, .map"))) part.hidden = !on;
  };
  showMap(false);

  /** @param {() => Promise<unknown>} work */
  async function trying(work) {
    $("problem").hidden = true;
    $("draw").disabled = true;
    try {
      await work();
    } catch (error) {
      $("problem").textContent = error instanceof Error ? error.message : String(error);
      $("problem").hidden = false;
    }
    $("state").textContent = "";
    $("draw").disabled = false;
  }
  async function draw() {
    const wanted = textsOf($("texts").value);
    if (!wanted.texts.length) throw new Error("There is no text to draw; paste some, one in each line, or choose a file.");
    $("state").textContent = `${wanted.texts.length.toLocaleString("en")} texts are read …`;
    // Relative to `studio/`, the folder of this page.
    const { head, bytes, rest } = headAndRest(await fetchedBytes("../map/points", { model: $("model").value, ...wanted }, key));
    /** @type {number[]} where each part begins */
    const places = [rest];
    for (const length of head.lengths) places.push(places[places.length - 1] + length);
    map?.unmount();
    showMap(true);
    $("about").textContent = head.about;
    map = await mount(root, { data: async () => head, levels: async (index) => inflated(bytes.slice(places[index], places[index + 1])) });
    Object.assign(window, { regard: map });
  }

  $("ask").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    trying(draw);
  });
  $("file").addEventListener("change", () => trying(async () => {
    const file = $("file").files[0];
    if (file) $("texts").value = await file.text();
  }));
  await trying(async () => {
    const cards = (await models(key, "../")).filter((card) => card.routes.includes("feature-extraction"));
    if (!cards.length) throw new Error("None of the models here makes vectors of texts; serve one that does, such as a folder of sentence-transformers.");
    $("model").replaceChildren(...cards.map((card) => new Option(card.id)));
  });
  $("ask").dataset.ready = "";
}
