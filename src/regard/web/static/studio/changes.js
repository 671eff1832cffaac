// What is changed in the model: heads scaled, vectors of another text put in.

import { element } from "../viewer/names.js";

/** @param {import("./types").Studio} studio */
export function addChanges(studio) {
  const { $ } = studio;

  /** The heads that the viewer has chosen; none where there is no answer to look at. */
  function chosen() {
    if (!studio.viewer || !studio.seen) return [];
    const { map } = studio.viewer.state, heads = studio.viewer.chosenHeads();
    return heads.flatMap((head) => (head === "mean" ? [...Array(map.heads).keys()] : [head]));
  }
  function label() {
    const heads = chosen();
    $("switch-off").disabled = !heads.length;
    $("switch-off").textContent = studio.viewer && heads.length ? `switch off: ${studio.nameOf(studio.viewer.state.map.address, heads)}` : "switch off: no head is chosen";
  }
  function list() {
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
          if (factor.value === "") return studio.problem("factor: give a number, such as 0.5; 0 switches off.");
          change.factor = Number(factor.value);
          studio.ask();
        });
        item.append(`${change.heads ? studio.nameOf(change.address, change.heads) : change.address} ×`, factor);
      } else if (change.kind === "weights") {
        item.append(`${studio.nameOf(change.address, [change.head])}, row ${change.row} set by hand`);
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
  /** Numbers of tokens as they are written between commas or spaces. @param {string} id @param {string} name of the field */
  function numbers(id, name) {
    const words = $(id).value.split(/[\s,;]+/).filter(Boolean), wrong = words.find((/** @type {string} */ word) => !/^\d+$/.test(word));
    if (wrong !== undefined) throw new Error(`${name}: “${wrong}” is no number of a token; give numbers from 0, such as 3, 4.`);
    return words.map(Number);
  }
  $("patch").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const { second } = studio.wanted(), routes = studio.model().routes, text = $("patch-text").value;
    const from = !second ? text : routes.includes("question-answering") ? { question: text, context: second } : { text, text_pair: second };
    if (!text.trim()) return studio.problem("Type the other text, of which vectors are put in.");
    let positions, theirs;
    try {
      [positions, theirs] = [numbers("patch-positions", "for tokens"), numbers("patch-from", "from tokens")];
    } catch (error) {
      return studio.problem(/** @type {Error} */ (error).message);
    }
    if (theirs.length && theirs.length !== (positions.length || 1)) return studio.problem(`from tokens: ${theirs.length} for ${positions.length || 1} of this text; give as many.`);
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
    studio.changes.push({ kind: "scale", address: studio.viewer.state.map.address, heads: chosen(), factor: 0 });
    studio.ask();
  });
  studio.chosen.push(label);
  studio.answered.push(list, label);
  studio.kept.push(() => (studio.changes.length ? [["changes", JSON.stringify(studio.changes)]] : []));
  studio.opened.push((parts) => {
    try {
      studio.changes = JSON.parse(parts.get("changes") ?? "[]");
    } catch {
      studio.changes = [];
    }
  });
}
