// The studio: type, and see what a model looks at; write with it token by token; change it, and see what becomes of its answer.

import { finder } from "../shell.js";
import { element } from "../viewer/names.js";
import { mount } from "../viewer/viewer.js";
import { strongest } from "../viewer/weights.js";
import { barRows } from "./bars.js";
import { addBeam } from "./beam.js";
import { addChanges } from "./changes.js";
import { addCompare } from "./compare.js";
import { addEffects } from "./effects.js";
import { languageOf, models, see, sourceOf } from "./look.js";
import { addImage, readsImages } from "./image.js";
import { addPlayback } from "./playback.js";

const READS_TWO = ["question-answering", "text-classification"];
/** Routes whose answers are lists of candidates; a language model lists the next tokens. */
const LISTS = ["text-classification", "fill-mask", "image-classification"];
const TOP = 10;
/** What is of the answer; the changes are not, so that one that the model refuses can be undone. */
const OF_ANSWER = ".bar, .controls, #panel, #effects, #beam, #compare";

/** @param {HTMLElement} root the element that holds the page's markup */
export async function startStudio(root) {
  const $ = finder(root), address = () => new URLSearchParams(location.hash.slice(1));
  let waiting = 0; // since when a change waits to be asked for
  /** @type {Promise<void> | null} */
  let asking = null;
  /** @type {import("./types").Studio} */
  const studio = {
    $, root, key: address().get("token") ?? "", viewer: null, models: [], changes: [], seen: null, image: null, typed: false, took: [],
    answered: [], chosen: [], kept: [], opened: [],
    model: () => studio.models.find((one) => one.id === $("model").value),
    wanted: () => {
      const asked = { model: $("model").value, text: "", language: $("language").value || null, top: studio.top(), interventions: studio.changes };
      if (readsImages(studio.model())) return { ...asked, image: studio.image ?? "" };
      return { ...asked, text: $("reads").value, second: $("second-label").hidden || !$("second").value.trim() ? null : $("second").value };
    },
    top: () => {
      const top = Number($("top").value);
      return Number.isInteger(top) && top >= 1 && top <= 100 ? top : TOP;
    },
    nameOf(address, heads) {
      const map = studio.viewer?.data.maps.find((one) => one.address === address), name = map?.name ?? address;
      if (map?.heads === 1) return name;
      return `${name}, ${map?.heads === heads.length ? "all heads" : `head${heads.length > 1 ? "s" : ""} ${heads.join(", ")}`}`;
    },
    async choose(address, head) {
      await studio.viewer?.choose("address", address);
      await studio.viewer?.choose("head", head);
    },
    problem(text) {
      $("problem").textContent = text;
      $("problem").hidden = !text;
    },
    async trying(work) {
      try {
        await work();
        studio.problem("");
      } catch (error) {
        studio.problem(error instanceof Error ? error.message : String(error));
      }
    },
    async show(source, row) {
      if (studio.viewer) await studio.viewer.replace(source);
      else {
        studio.viewer = await mount(root, source);
        studio.viewer.more = more;
        studio.viewer.chosen = () => studio.chosen.forEach((listener) => listener());
        studio.viewer.keepAddress();
        Object.assign(window, { regard: studio.viewer, studio });
      }
      const { state } = studio.viewer;
      if (row === undefined || !state.matrix) return;
      const last = Math.min(row, state.matrix.rows - 1);
      studio.viewer.move(last, strongest(state.matrix.row(last), 1)[0], true);
    },
    ask(since = performance.now()) {
      waiting ||= since;
      return (asking ??= Promise.resolve().then(answer));
    },
    settled: async () => asking ?? undefined,
  };

  async function answer() {
    while (waiting) {
      const since = waiting;
      waiting = 0;
      try {
        const wanted = studio.wanted();
        if (wanted.image === "") throw new Error("Drop an image on this page, paste one, or choose a file.");
        if (wanted.image === undefined && !wanted.text.trim()) throw new Error("Type a text for the model to read.");
        const packed = await see("look", wanted, studio.key);
        studio.seen = { wanted, packed, answer: packed.head.answer, plain: packed.head.plain };
        await studio.show(sourceOf(packed));
        studio.problem("");
        // A timer that is set in a frame is called when that frame is painted.
        requestAnimationFrame(() => setTimeout(() => {
          studio.took.push(performance.now() - since);
          $("took").textContent = `${Math.round(studio.took[studio.took.length - 1])} ms`;
        }));
      } catch (error) {
        studio.seen = null;
        studio.problem(error instanceof Error ? error.message : String(error));
      }
      showAnswer();
      for (const listener of studio.answered) listener();
    }
    asking = null;
  }

  /** The parameters of the page's address (URL) besides those of the viewer. @returns {[string, string][]} */
  const more = () => {
    /** @type {[string, string][]} */
    const parts = [["model", $("model").value], ["text", $("reads").value]];
    if (!$("second-label").hidden) parts.push(["second", $("second").value]);
    if ($("language").value) parts.push(["language", $("language").value]);
    if (studio.top() !== TOP) parts.push(["top", String(studio.top())]);
    for (const kept of studio.kept) parts.push(...kept());
    if (studio.key) parts.push(["token", studio.key]);
    return parts;
  };
  async function open() {
    const parts = address(), wanted = parts.get("model");
    studio.key = parts.get("token") ?? studio.key;
    if (studio.models.some((one) => one.id === wanted)) $("model").value = wanted;
    studio.typed ||= parts.has("text");
    const [text = "", second = ""] = studio.model()?.first_texts ?? [];
    $("reads").value = parts.get("text") ?? ($("reads").value || text);
    $("second").value = parts.get("second") ?? ($("second").value || second);
    $("top").value = parts.get("top") ?? TOP;
    fill(parts.get("language"));
    const [changes, ...later] = studio.opened;
    changes(parts);
    await studio.ask();
    for (const opened of later) await opened(parts);
    // The cell may be one that the input before, or an input on the way to this one, did not have.
    if (studio.seen && parts.has("query")) await studio.viewer?.open(parts);
  }
  /** Shows the fields that the model has. @param {string | null} [language] that is translated into; the one that was chosen before, where it has it */
  function fill(language) {
    const { routes = [], languages = [] } = studio.model() ?? {}, images = readsImages(studio.model()), before = language ?? $("language").value;
    $("language-label").hidden = !languages.length;
    $("language").replaceChildren(...languages.map((/** @type {string} */ one) => Object.assign(element("option", one), { value: one })));
    $("language").value = languageOf({ languages }, before) ?? "";
    $("top-label").hidden = studio.model()?.task !== "language_modelling" && !routes.some((/** @type {string} */ route) => LISTS.includes(route));
    $("reads-label").hidden = images;
    $("image-drop").hidden = !images;
    $("second-label").hidden = !routes.some((/** @type {string} */ route) => READS_TWO.includes(route));
  }

  /** Shows the answer. Where there is none, what was there is of something else: the figure is pale, and cannot be saved. */
  function showAnswer() {
    root.classList.toggle("stale", !studio.seen);
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(OF_ANSWER))) part.inert = !studio.seen;
    $("answer").hidden = !studio.seen?.answer.text && !studio.seen?.answer.bars;
    if (!studio.seen) return;
    const { answer, plain } = studio.seen;
    $("answer-title").textContent = answer.what + (plain ? ", with the changes" : "");
    const before = plain?.text !== undefined && plain.text !== answer.text ? ` (without the changes: ${plain.text})` : "";
    $("answer-text").textContent = (answer.text ?? "") + before;
    $("answer-bars").tBodies[0].replaceChildren(...barRows((answer.bars ?? []).slice(0, studio.top()), { old: plain?.bars }));
  }

  $("ask").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
  for (const name of ["reads", "second"]) {
    $(name).addEventListener("input", () => {
      studio.typed = true;
      studio.ask();
    });
  }
  $("language").addEventListener("change", () => studio.ask());
  $("top").addEventListener("change", () => {
    $("top").value = studio.top();
    studio.ask();
  });
  $("model").addEventListener("change", () => {
    const [text = "", second = ""] = studio.model().first_texts;
    // A text that nobody wrote gives way to one that suits the model.
    if (!studio.typed) $("reads").value = text;
    if (!studio.typed || !$("second").value) $("second").value = second;
    studio.changes = [];
    fill();
    studio.ask();
  });
  addChanges(studio); // first: what follows is asked for under the changes
  addImage(studio);
  addPlayback(studio);
  addBeam(studio);
  addEffects(studio);
  addCompare(studio);
  addEventListener("hashchange", open);
  await studio.trying(async () => {
    studio.models = (await models(studio.key)).filter((one) => one.attention.length);
    $("model").replaceChildren(...studio.models.map((one) => Object.assign(element("option", `${one.id} (${one.task})`), { value: one.id })));
  });
  if (studio.models.length) await open();
}
