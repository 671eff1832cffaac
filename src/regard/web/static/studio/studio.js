// The studio: type, and see what a model looks at; switch heads off, and see what becomes of its answer.

import { finder } from "../shell.js";
import { element } from "../viewer/names.js";
import { mount } from "../viewer/viewer.js";
import { look, models } from "./look.js";

/** @param {HTMLElement} root the element that holds the page's markup */
export async function startStudio(root) {
  const $ = finder(root);
  /** @type {{ viewer: import("../viewer/types").Viewer | null, models: any[], changes: import("./look.js").Change[], typed: boolean, asking: boolean, again: boolean, took: number[] }} */
  const studio = { viewer: null, models: [], changes: [], typed: false, asking: false, again: false, took: [] };
  const address = () => new URLSearchParams(location.hash.slice(1));
  let key = address().get("key") ?? "";

  const problem = (/** @type {string} */ text) => {
    $("problem").textContent = text;
    $("problem").hidden = !text;
  };
  const model = () => studio.models.find((one) => one.id === $("model").value);

  /** What the address says beside what the viewer keeps there. @returns {[string, string][]} */
  const more = () => {
    /** @type {[string, string][]} */
    const parts = [["model", $("model").value], ["text", $("reads").value]];
    if (!$("second-label").hidden) parts.push(["second", $("second").value]);
    if (studio.changes.length) parts.push(["changes", JSON.stringify(studio.changes)]);
    if (key) parts.push(["key", key]);
    return parts;
  };
  function readAddress() {
    const parts = address(), wanted = parts.get("model");
    key = parts.get("key") ?? key;
    if (studio.models.some((one) => one.id === wanted)) $("model").value = wanted;
    studio.typed ||= parts.has("text");
    const [text = "", second = ""] = model()?.first_texts ?? [];
    $("reads").value = parts.get("text") ?? ($("reads").value || text);
    $("second").value = parts.get("second") ?? ($("second").value || second);
    try {
      studio.changes = JSON.parse(parts.get("changes") ?? "[]");
    } catch {
      studio.changes = [];
    }
  }
  function fill() {
    const routes = model()?.routes ?? [];
    $("second-label").hidden = !routes.some((/** @type {string} */ route) => ["question-answering", "text-classification"].includes(route));
  }

  /** Asks for what stands in the page now; what changes meanwhile is asked for afterwards. @param {number} [since] when it changed */
  async function ask(since = performance.now()) {
    if (!$("reads").value.trim()) return problem("Type a text for the model to read.");
    if (studio.asking) {
      studio.again = true;
      return;
    }
    studio.asking = true;
    try {
      const second = $("second-label").hidden || !$("second").value.trim() ? null : $("second").value;
      const found = await look({ model: $("model").value, text: $("reads").value, second, interventions: studio.changes }, key);
      problem("");
      tell(found.answer, found.plain);
      if (studio.viewer) await studio.viewer.replace(found.source);
      else {
        studio.viewer = await mount(root, found.source);
        studio.viewer.more = more;
        studio.viewer.keepAddress();
        Object.assign(window, { regard: studio.viewer, studio });
      }
      listChanges();
      requestAnimationFrame(() => {
        studio.took.push(performance.now() - since);
        $("took").textContent = `${Math.round(studio.took[studio.took.length - 1])} ms`;
      });
    } catch (error) {
      problem(error instanceof Error ? error.message : String(error));
    }
    studio.asking = false;
    if (studio.again) {
      studio.again = false;
      await ask();
    }
  }

  /** @param {import("./look.js").Told} answer @param {import("./look.js").Told | null} plain */
  function tell(answer, plain) {
    const share = (/** @type {import("./look.js").Bar} */ bar) => bar.probability ?? Math.exp(bar.log_probability ?? -Infinity);
    $("answer").hidden = !answer.text && !answer.bars;
    $("answer-title").textContent = answer.what + (plain ? ", with the changes" : "");
    const before = plain?.text !== undefined && plain.text !== answer.text ? ` (without the changes: ${plain.text})` : "";
    $("answer-text").textContent = (answer.text ?? "") + before;
    $("answer-bars").tBodies[0].replaceChildren(...(answer.bars ?? []).slice(0, 10).map((bar) => {
      const row = element("tr"), cell = element("td", undefined, "bar"), line = element("span");
      const old = plain?.bars?.find((one) => one.label === bar.label);
      line.style.width = 100 * share(bar) + "%";
      cell.append(line);
      if (old) {
        const mark = element("span", undefined, "plain");
        mark.style.width = 100 * share(old) + "%";
        cell.append(mark);
      }
      row.append(element("td", bar.label.replaceAll(" ", "␣")), cell, element("td", share(bar).toPrecision(3) + (old ? ` (was ${share(old).toPrecision(3)})` : "")));
      return row;
    }));
  }

  function listChanges() {
    const state = studio.viewer?.state, head = state && state.head !== "mean" ? state.head : null;
    $("switch-off").textContent = !state ? "switch a head off" : head === null ? `switch all heads of ${state.map.address} off` : `switch head ${head} of ${state.map.address} off`;
    $("changed").replaceChildren(...studio.changes.map((change, place) => {
      const item = element("li"), factor = element("input"), away = element("button", "×");
      Object.assign(factor, { type: "number", step: "0.1", value: String(change.factor) });
      factor.setAttribute("aria-label", "factor");
      factor.addEventListener("change", () => {
        change.factor = Number(factor.value);
        ask();
      });
      Object.assign(away, { type: "button" });
      away.setAttribute("aria-label", "undo");
      away.addEventListener("click", () => {
        studio.changes.splice(place, 1);
        ask();
      });
      item.append(`${change.address}${change.heads ? " head " + change.heads : ""} ×`, factor, away);
      return item;
    }));
  }

  $("ask").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
  for (const name of ["reads", "second"]) {
    $(name).addEventListener("input", () => {
      studio.typed = true;
      ask();
    });
  }
  $("model").addEventListener("change", () => {
    const [text = "", second = ""] = model().first_texts;
    // A text that nobody wrote gives way to one that suits the model.
    if (!studio.typed) Object.assign($("reads"), { value: text });
    if (!studio.typed || !$("second").value) $("second").value = second;
    studio.changes = [];
    fill();
    ask();
  });
  $("switch-off").addEventListener("click", () => {
    if (!studio.viewer) return;
    const { map, head } = studio.viewer.state;
    studio.changes.push({ kind: "scale", address: map.address, heads: head === "mean" ? [...Array(map.heads).keys()] : [head], factor: 0 });
    ask();
  });
  root.addEventListener("change", listChanges);
  addEventListener("hashchange", () => {
    readAddress();
    fill();
    ask();
  });
  try {
    studio.models = (await models(key)).filter((one) => one.attention.length);
    $("model").replaceChildren(...studio.models.map((one) => Object.assign(element("option", `${one.id} (${one.task})`), { value: one.id })));
    readAddress();
    fill();
    await ask();
  } catch (error) {
    problem(error instanceof Error ? error.message : String(error));
  }
}
