// What is changed in the model: heads scaled, vectors of another text put in.

import { element } from "../viewer/names.js";

/** @param {import("./types").Studio} studio */
export function addChanges(studio) {
  const { $ } = studio;

  function list() {
    const state = studio.viewer?.state, head = state && state.head !== "mean" ? state.head : null;
    $("switch-off").textContent = !state ? "switch a head off" : head === null ? `switch all heads of ${state.map.address} off` : `switch head ${head} of ${state.map.address} off`;
    $("changed").replaceChildren(...studio.changes.map((change, place) => {
      const item = element("li"), away = element("button", "×");
      Object.assign(away, { type: "button" });
      away.setAttribute("aria-label", "undo");
      away.addEventListener("click", () => {
        studio.changes.splice(place, 1);
        studio.ask();
      });
      if (change.kind === "scale") {
        const factor = Object.assign(element("input"), { type: "number", step: "0.1", value: String(change.factor) });
        factor.setAttribute("aria-label", "factor");
        factor.addEventListener("change", () => {
          change.factor = Number(factor.value);
          studio.ask();
        });
        item.append(`${change.address}${change.heads ? " head " + change.heads : ""} ×`, factor);
      } else if (change.kind === "weights") {
        item.append(`${change.address} head ${change.head}, row ${change.row} set by hand`);
      } else {
        const said = element("span", `${change.address} at ${change.positions} from `);
        said.append(element("bdi", `“${change.from.question ?? change.from.text ?? change.from}”`));
        if (change.from_positions) said.append(` at ${change.from_positions}`);
        item.append(said);
      }
      item.append(away);
      return item;
    }));
  }
  /** Numbers as they are written between commas or spaces. @param {string} id */
  const numbers = (id) => $(id).value.split(/[\s,;]+/).filter(Boolean).map(Number);
  $("patch").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const { second } = studio.wanted(), routes = studio.model().routes, text = $("patch-text").value;
    const from = !second ? text : routes.includes("question-answering") ? { question: text, context: second } : { text, text_pair: second };
    const positions = numbers("patch-positions"), theirs = numbers("patch-from");
    if (!text.trim()) return studio.problem("Type the other text, of which vectors are put in.");
    if (!positions.length && studio.viewer) positions.push(studio.viewer.state.row);
    studio.changes.push({ kind: "patch", address: $("patch-address").value, from, positions, ...(theirs.length ? { from_positions: theirs } : {}) });
    studio.ask();
  });
  studio.answered.push(() => {
    $("patching").hidden = Boolean(studio.seen?.wanted.image);
    const modules = [...new Set(studio.model().attention.map((/** @type {string} */ one) => one.split(".").slice(0, -1).join(".")).filter(Boolean))];
    $("patch-modules").replaceChildren(...modules.map((value) => Object.assign(element("option"), { value })));
    if (!modules.includes($("patch-address").value)) $("patch-address").value = modules[Math.floor(modules.length / 2)] ?? "";
  });
  $("switch-off").addEventListener("click", () => {
    if (!studio.viewer) return;
    const { map, head } = studio.viewer.state;
    studio.changes.push({ kind: "scale", address: map.address, heads: head === "mean" ? [...Array(map.heads).keys()] : [head], factor: 0 });
    studio.ask();
  });
  studio.root.addEventListener("change", list);
  studio.answered.push(list);
  studio.kept.push(() => (studio.changes.length ? [["changes", JSON.stringify(studio.changes)]] : []));
  studio.opened.push((parts) => {
    try {
      studio.changes = JSON.parse(parts.get("changes") ?? "[]");
    } catch {
      studio.changes = [];
    }
  });
}
