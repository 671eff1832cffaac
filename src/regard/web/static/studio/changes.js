// What is changed in the model: heads scaled, weights set by hand, vectors of another text put in.

import { element, headOf } from "../viewer/names.js";
import { apart, short } from "../viewer/weights.js";

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
        const sum = change.weights.reduce((all, one) => all + one, 0);
        item.append(`${studio.nameOf(change.address, [change.head])}, row ${change.row} set by hand, its sum ${short(sum)}`);
      } else {
        const text = element("span", `${change.address} at ${change.positions} from `);
        text.append(element("bdi", `“${change.from.question ?? change.from.text ?? change.from}”`));
        if (change.from_positions) text.append(` at ${change.from_positions}`);
        item.append(text);
      }
      item.append(away);
      return item;
    }));
  }
  /** The cell of one head that is chosen, and its row; a sentence where there is none whose weights can be set. */
  function cell() {
    if (!studio.viewer || !studio.seen) return "no cell is chosen";
    const { map, head, row, column, merge, view } = studio.viewer.state;
    if (view === "model" || !studio.viewer.isLoaded(map)) return "open a head to set a weight";
    const one = view === "heads" ? (studio.viewer.state.on.size === 1 ? [...studio.viewer.state.on][0] : "mean") : map.heads < 2 ? 0 : head;
    if (one === "mean") return "choose one head to set a weight";
    if (merge) return "leave whole words to set a weight";
    if (studio.viewer.isHidden(row, column)) return "a later token cannot be attended";
    const matrix = studio.viewer.matrixOf(map, one, false), end = map.causal ? row + 1 + matrix.columns - matrix.rows : matrix.columns;
    // The map shows what the head itself attends to. What was set before is what counts, and exact.
    const place = studio.changes.findIndex((change) => change.kind === "weights" && change.address === map.address && change.head === one && change.row === row);
    const set = /** @type {import("./look.js").Weigh | undefined} */ (studio.changes[place]);
    return { map, head: one, row, column, place, weights: set?.weights ?? Array.from(matrix.row(row)).slice(0, end) };
  }
  function offer() {
    const here = cell(), none = typeof here === "string";
    for (const id of ["weigh-value", "weigh-rest", "weigh-set"]) $(id).disabled = none;
    if (none) return ($("weigh-where").textContent = here);
    const { map, head, row, column, weights } = here, { tokenName } = /** @type {import("../viewer/types").Viewer} */ (studio.viewer);
    $("weigh-where").textContent = `${headOf(map, head)}: ${apart(tokenName(map.query, row))} → ${apart(tokenName(map.key, column))}`;
    $("weigh-value").placeholder = short(weights[column]);
  }
  $("weigh").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const here = cell(), value = Number($("weigh-value").value), shares = $("weigh-rest").value === "share";
    if (typeof here === "string") return studio.problem(here);
    if ($("weigh-value").value === "" || !Number.isFinite(value)) return studio.problem("Give a weight, such as 0.5.");
    if (shares && (value < 0 || value > 1)) return studio.problem(`${value} leaves nothing of 1 for the rest of the row: give a weight from 0 to 1, or let the rest stay as it is.`);
    const { map, head, row, column, place, weights: kept } = here;
    const rest = kept.reduce((all, one, key) => (key === column ? all : all + one), 0), others = kept.length - 1;
    if (shares && !others && value !== 1) return studio.problem("This row has one weight, which is 1 alone; let the rest stay as it is to set another.");
    const weights = kept.map((one, key) => (key === column ? value : !shares ? one : rest > 0 ? (one * (1 - value)) / rest : (1 - value) / others));
    studio.changes.splice(place < 0 ? studio.changes.length : place, place < 0 ? 0 : 1, { kind: "weights", address: map.address, head, row, weights });
    $("weigh-value").value = "";
    studio.ask();
  });
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
  studio.chosen.push(label, offer);
  studio.answered.push(list, label, offer);
  studio.kept.push(() => (studio.changes.length ? [["changes", JSON.stringify(studio.changes)]] : []));
  studio.opened.push((parts) => {
    try {
      studio.changes = JSON.parse(parts.get("changes") ?? "[]");
    } catch {
      studio.changes = [];
    }
  });
}
