// A text as it is written: play, pause, step, back; of a language model another token may be taken at any place.

import { download } from "../saving.js";
import { clamp, element } from "../viewer/names.js";
import { barRows, shown } from "./bars.js";
import { cut, writtenIn } from "./cut.js";
import { deckFile } from "./deck.js";
import { see, fetchedJson } from "./look.js";
import { matrixOf } from "./matrix.js";

/** @typedef {import("./look.js").Bar & { top?: import("./look.js").Bar[] }} Step */
/** @typedef {{ packed: import("./look.js").Packed, before: number, steps: Step[], taken: [number, number][], places: any[], addresses: string[] }} Play `before`: tokens in the map when the first is chosen */

/** @param {import("./types").Studio} studio */
export function addPlayback(studio) {
  const { $ } = studio;
  /** @type {Play | null} */
  let play = null;
  let at = 0, timer = 0, asked = 0;
  const writes = () => studio.model()?.task === "language_modelling";

  function pause() {
    clearInterval(timer);
    timer = 0;
    $("play").textContent = "▶ play";
  }
  function reset() {
    pause();
    asked++;
    play = null;
    draw();
  }
  /** @param {number} to */
  async function go(to) {
    if (!play) return;
    at = clamp(to, 0, play.steps.length - 1);
    draw();
    const count = play.before + at;
    await studio.show(cut(play.packed, count), count - 1);
  }

  function settings() {
    /** @param {string} id */
    const number = (id) => ($(id).value === "" ? null : Number($(id).value));
    const temperature = number("temperature") ?? 0;
    return { tokens: number("tokens") ?? 24, temperature, seed: number("seed") ?? 0, ...(temperature ? { top_k: number("top-k"), top_p: number("top-p") } : {}) };
  }
  /** At temperature 0 nothing is sampled, so the settings of sampling are disabled. */
  function grey() {
    for (const id of ["top-k", "top-p", "seed"]) $(id).disabled = !Number($("temperature").value);
  }
  /** Writes on after the steps that are given. @param {Step[]} steps @param {[number, number][]} taken where another token was taken */
  async function write(steps, taken) {
    const turn = ++asked, { model, text, interventions } = studio.wanted();
    const written = steps.map((step) => step.id);
    $("write").setAttribute("aria-busy", "true");
    await studio.trying(async () => {
      const packed = await see("write", { model, text, written, interventions, top: studio.top(), ...settings() }, studio.key);
      if (turn !== asked) return;
      play = { packed, before: packed.head.prompt, steps: [...steps, ...packed.head.steps], taken, places: [], addresses: [] };
      askLens(turn, { model, text, interventions, written: play.steps.slice(0, -1).map((step) => step.id) });
    });
    $("write").removeAttribute("aria-busy");
  }
  /** @param {number} turn @param {any} wanted */
  async function askLens(turn, wanted) {
    $("lens-note").textContent = "";
    try {
      const { addresses, places } = await fetchedJson("lens", wanted, studio.key);
      if (turn !== asked || !play) return;
      Object.assign(play, { addresses, places });
      drawLens();
    } catch (error) {
      if (turn === asked) $("lens-note").textContent = error instanceof Error ? error.message : String(error);
    }
  }
  /** Begins to play what is there, or what is written for it. */
  async function begin() {
    await studio.settled(); // the answer to what was just typed would end what is played of it
    if (play) return true;
    if (writes()) await write([], []);
    else if (studio.seen) {
      const { count, tokens, crosses } = writtenIn(studio.seen.packed.head);
      if (crosses) play = { packed: studio.seen.packed, before: 1, steps: tokens.slice(0, count).map((label) => ({ label })), taken: [], places: [], addresses: [] };
    }
    if (play) {
      $("playback").open = true; // what it wrote is in there
      await go(0);
    }
    return Boolean(play);
  }
  /** @param {import("./look.js").Bar} bar */
  async function take(bar) {
    if (!play || bar.id === play.steps[at].id) return;
    pause();
    const { steps, taken } = play, here = at;
    await write([...steps.slice(0, here), { ...steps[here], ...bar }], [...taken.filter(([place]) => place < here), [here, bar.id ?? 0]]);
    await go(here);
  }

  function draw() {
    const crosses = !writes() && studio.seen && writtenIn(studio.seen.packed.head).crosses;
    $("playback").hidden = $("transport").hidden = !writes() && !crosses;
    $("playback-title").textContent = writes() ? "Write, token by token" : "Written, token by token";
    for (const id of ["write", "sampling"]) $(id).hidden = !writes();
    $("playing").hidden = !play;
    $("steps").hidden = !play || !writes();
    studio.root.classList.toggle("plays", Boolean(play) && writes());
    $("place").max = String(play ? play.steps.length - 1 : 0);
    $("place").value = String(at);
    if (!play) return $("written").replaceChildren();
    const step = play.steps[at];
    $("place").setAttribute("aria-valuetext", `token ${at + 1} of ${play.steps.length}: ${shown(step.label)}`);
    const held = $("written").contains(document.activeElement);
    $("written").replaceChildren(...play.steps.map((each, place) => {
      const one = Object.assign(element("button", shown(each.label), place < at ? "" : place === at ? "now" : "later"), { type: "button" });
      if (place === at) one.setAttribute("aria-current", "true");
      one.addEventListener("click", () => go(place));
      return one;
    }));
    if (held) $("written").children[at].focus();
    if (!step.top) return;
    const bars = step.top.some((bar) => bar.id === step.id) ? step.top : [...step.top, step];
    $("step-title").textContent = `token ${at + 1}: ${shown(step.label)}`;
    $("step-bars").tBodies[0].replaceChildren(...barRows(bars, { chosen: (bar) => bar.id === step.id, take }));
    drawLens();
  }
  function drawLens() {
    const layers = play?.places[at];
    $("lens").hidden = !layers;
    if (!layers || !play) return;
    $("lens").tBodies[0].replaceChildren(...layers.map((/** @type {any} */ layer, /** @type {number} */ n) => {
      const [row] = barRows([layer.top[0]]);
      row.prepend(element("th", play?.addresses[n]));
      row.append(element("td", layer.rank + 1));
      row.title = layer.top.map((/** @type {any} */ bar) => `${shown(bar.label)} ${bar.probability.toPrecision(3)}`).join(", ");
      return row;
    }));
  }

  $("sampling").addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    pause();
    play = null;
    if (await begin()) $("play").focus();
  });
  $("play").addEventListener("click", async () => {
    if (timer) return pause();
    if (!(await begin()) || !play) return;
    if (at === play.steps.length - 1) await go(0);
    $("play").textContent = "⏸ pause";
    let drawing = false; // a figure that takes longer than its turn is not overtaken by the next
    timer = setInterval(async () => {
      if (drawing) return;
      drawing = true;
      await go(at + 1);
      drawing = false;
      if (!play || at === play.steps.length - 1) pause();
    }, Number($("speed").value));
  });
  for (const [id, to] of /** @type {[string, () => number][]} */ ([["first", () => 0], ["back", () => at - 1], ["step", () => at + 1], ["last", () => Infinity]])) {
    $("play-" + id).addEventListener("click", async () => {
      pause();
      if (play) await go(to());
      else await begin();
    });
  }
  $("place").addEventListener("input", () => {
    pause();
    go(Number($("place").value));
  });
  $("save-slides").addEventListener("click", async () => {
    if (!(await begin()) || !play || !studio.viewer) return;
    const { packed, before, steps } = play, { map, head } = studio.viewer.state;
    await studio.trying(async () => {
      const shownHead = await matrixOf(packed, map.address, map.index, head), { model, text } = studio.wanted();
      const summary = `${steps.length} tokens that ${model} wrote`;
      const written = writes() ? steps.map((step) => step.label).join("") : studio.seen?.answer.text ?? "";
      const file = await deckFile({ ...shownHead, title: text || model, written, where: shownHead.name, summary, before, steps });
      download(new Blob([file], { type: "text/html;charset=utf-8" }), "slides.html");
    });
  });
  $("temperature").addEventListener("input", grey);
  grey();
  for (const id of ["tokens", "temperature", "top-k", "top-p", "seed"]) $(id).addEventListener("change", reset);

  studio.answered.push(reset);
  studio.kept.push(() => (play && writes() ? [["write", JSON.stringify({ ...settings(), taken: play.taken, at })]] : []));
  studio.opened.push(async (parts) => {
    /** @type {any} */
    let kept;
    try {
      kept = JSON.parse(parts.get("write") ?? "null");
    } catch {
      kept = null;
    }
    if (!kept || !writes()) return;
    for (const [id, value] of [["tokens", kept.tokens], ["temperature", kept.temperature], ["top-k", kept.top_k], ["top-p", kept.top_p], ["seed", kept.seed]]) {
      $(id).value = value ?? "";
    }
    grey();
    $("playback").open = true;
    await write([], []);
    for (const [place, id] of kept.taken ?? []) {
      const bar = play?.steps[place]?.top?.find((one) => one.id === id);
      at = place;
      if (bar) await take(bar);
    }
    await go(kept.at ?? 0);
  });
}
