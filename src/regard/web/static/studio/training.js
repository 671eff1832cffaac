// The page of a training: curves of what a run's log holds. While the run goes on, the page asks for the lines it does not know yet.

import { download } from "../saving.js";
import { finder, startShell } from "../shell.js";
import { addPlot, charts, csv, withThroughput } from "./curves.js";
import { fetchedJson } from "./look.js";
import { addWatched } from "./watched.js";

/** @typedef {import("./curves.js").Event} Event */
/** @typedef {{ runs: string[], run: string, again: boolean, until: number, mark: string, more: boolean, events: Event[], age: number | null, finished: string, checkpoint: number | null, best: number | null, watched: number[] }} LogResponse */

/** Milliseconds between two looks at the log: of a run that goes on, and of one that has ended or cannot be read. */
const OFTEN = 1500, RARELY = 10000;

/** Names the key of the server to the page that a link leads to. @param {HTMLElement} root @param {string} id of the link */
export function linkWithKey(root, id) {
  const link = root.querySelector("#" + id), key = new URLSearchParams(location.hash.slice(1)).get("token");
  if (link instanceof HTMLAnchorElement && key) link.hash = new URLSearchParams({ token: key }).toString();
}

/** @param {HTMLElement} root the element that holds the page's markup */
export function startTraining(root) {
  const $ = finder(root), given = new URLSearchParams(location.hash.slice(1)), key = given.get("token") ?? "";
  /** @type {{ run: string | null, since: number, mark: string }} */
  let asked = { run: given.get("run"), since: 0, mark: "" };
  /** @type {Event[]} */
  let events = [];
  /** @type {import("./curves.js").Shown} */
  const shown = { log: given.has("log"), step: null, best: null };
  /** @type {Map<string, ReturnType<typeof addPlot>>} */
  const plots = new Map();
  let timer = 0, turns = 0;
  $("log").checked = shown.log;
  linkWithKey(root, "studio");

  function draw() {
    const all = charts(events), titles = all.map(({ title }) => title);
    for (const [title, { figure }] of plots) {
      if (titles.includes(title)) continue;
      figure.remove();
      plots.delete(title);
    }
    for (const chart of all) {
      const plot = plots.get(chart.title) ?? addPlot(chart.title, choose);
      if (!plots.has(chart.title)) $("plots").append(plot.figure);
      plots.set(chart.title, plot);
      plot.draw(chart, shown);
    }
  }
  /** @param {number | null} step */
  function choose(step) {
    if (shown.step === step) return;
    shown.step = step;
    draw();
  }
  /** The parameters of the page's address (URL). @returns {[string, string][]} */
  const address = () => Object.entries({ ...(key && { token: key }), ...(asked.run !== null && { run: asked.run }), ...(shown.log && { log: "1" }) });
  /** @param {LogResponse} response */
  function showState({ age, finished, checkpoint }) {
    const last = events[events.length - 1], parts = [];
    if (finished) parts.push(`finished: ${finished}`);
    else if (age === null || !last) parts.push("the log has no line yet");
    else parts.push(`not finished; last line, of step ${last.step.toLocaleString("en")}, ${duration(age)} ago`);
    if (checkpoint !== null) parts.push(`last checkpoint: step ${checkpoint.toLocaleString("en")}`);
    if (shown.best !== null) parts.push(`best: step ${shown.best.toLocaleString("en")}`);
    $("state").textContent = parts.join(" · ");
  }
  async function look() {
    clearTimeout(timer);
    let pause = RARELY;
    const { run } = asked, turn = ++turns;
    try {
      /** @type {LogResponse} */
      let response;
      do {
        response = await fetchedJson("../training/log", asked, key); // relative to `studio/`, the folder of this page
        if (turn !== turns) return; // another look has begun meanwhile
        if (response.again) events = [];
        if (response.events.length) events = withThroughput([...events, ...response.events]);
        asked = { run, since: response.until, mark: response.mark };
        if (response.again || response.events.length || shown.best !== response.best) {
          shown.best = response.best;
          draw();
        }
      } while (response.more);
      $("run").replaceChildren(...response.runs.map((name) => new Option(name, name, false, name === response.run)));
      $("run-label").hidden = response.runs.length < 2;
      document.title = `Training of ${response.run}`;
      showState(response);
      watched.update(response.watched, response.again);
      $("problem").hidden = true;
      root.dataset.ready = "";
      if (!response.finished) pause = OFTEN;
    } catch (error) {
      if (turn !== turns) return;
      $("problem").textContent = error instanceof Error ? error.message : String(error);
      $("problem").hidden = false;
      if (!("ready" in root.dataset)) pause = OFTEN; // a run that begins now
    }
    timer = setTimeout(() => document.hidden || look(), pause);
  }

  /** The keys of the curves; whether this was one. @param {KeyboardEvent} event */
  function keys(event) {
    const steps = [...new Set(events.map(({ step }) => step))].sort((one, other) => one - other), last = steps.length - 1;
    const place = shown.step === null ? last : steps.indexOf(shown.step);
    const moved = /** @type {Record<string, number>} */ ({ ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: last })[event.key];
    if (event.target instanceof HTMLSelectElement) return false;
    if (moved !== undefined && steps.length) choose(steps[Math.max(0, Math.min(last, moved))]);
    else if (event.key === "Escape") choose(null);
    else if (event.key === "l") $("log").click();
    else return false;
    return true;
  }
  const shell = startShell(root, { keys });
  const watched = addWatched(root, { key, address, keys, choose, run: () => asked.run, mounted: () => shell.stop?.() });
  $("log").addEventListener("change", () => {
    shown.log = $("log").checked;
    watched.keep();
    draw();
  });
  $("run").addEventListener("change", () => {
    asked = { run: $("run").value, since: 0, mark: "" };
    events = [];
    shown.step = null;
    watched.update([], true);
    watched.keep();
    draw();
    look();
  });
  $("save").addEventListener("click", () => {
    download(new Blob([csv(events)], { type: "text/csv;charset=utf-8" }), "training.csv");
  });
  $("choices").addEventListener("submit", (/** @type {SubmitEvent} */ event) => event.preventDefault());
  document.addEventListener("visibilitychange", () => document.hidden || look());
  look();
}

/** @param {number} seconds */
function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}
