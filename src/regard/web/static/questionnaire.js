// The page of a questionnaire: one question at a time; answers are kept in the browser and saved as a file of JSON lines.

import { finder, startShell } from "./shell.js";

/** @typedef {{ name: string, kind: string, query: string, options: string[] }} Item */

/**
 * Brings a questionnaire to life in an element that holds its markup (`templates/questionnaire.html`).
 *
 * @param {HTMLElement} root
 * @param {import("./source.js").Source} source gives the items and the name of the page
 * @returns {Promise<{ unmount(): void }>}
 */
export async function mount(root, source) {
  const data = await source.data(), items = /** @type {Item[]} */ (data.items), $ = finder(root);
  const store = "regard-judging-" + data.page, signal = startShell(root, { keys });

  // What is known so far. A store that is closed, or holds something else, is as good as none.

  /** @type {{ judge: string, place: number, answers: Record<string, { choice: number | null, at: string }> }} */
  let state = { judge: "", place: 0, answers: {} };
  let kept = true;
  try {
    const found = JSON.parse(localStorage.getItem(store) ?? "null");
    if (found && typeof found.judge === "string" && typeof found.answers === "object" && found.answers) {
      state = { judge: found.judge, place: 0, answers: found.answers };
      const place = items.findIndex((item) => !answered(item));
      state.place = place < 0 ? items.length - 1 : place;
    }
  } catch { kept = false; }
  let unsaved = false;
  function keep() {
    unsaved = true;
    try { localStorage.setItem(store, JSON.stringify(state)); } catch { kept = false; }
  }
  /** @param {Item} item */
  function answered(item) { return Object.hasOwn(state.answers, item.name); }

  // The question.

  /** @param {boolean} [focus] */
  function show(focus) {
    const item = items[state.place];
    const asked = $("asked");
    asked.textContent = "";
    if (item.kind === "intruder") asked.append("Which of these words does not belong to the others?");
    else {
      const word = document.createElement("em");
      word.dir = "auto";
      word.textContent = item.query;
      asked.append("Which word is nearest in meaning to ", word, "?");
    }
    const given = answered(item) ? state.answers[item.name].choice : undefined;
    $("options").replaceChildren(...item.options.map((text, number) => {
      const line = document.createElement("li"), button = document.createElement("button");
      const key = document.createElement("kbd"), word = document.createElement("span");
      button.type = "button";
      key.textContent = String(number + 1);
      word.dir = "auto";
      word.textContent = text;
      button.append(key, word);
      button.setAttribute("aria-pressed", String(given === number));
      button.addEventListener("click", () => answer(number));
      line.append(button);
      return line;
    }));
    $("unknown").setAttribute("aria-pressed", String(given === null));
    const count = items.filter(answered).length;
    $("bar").setAttribute("aria-valuemax", items.length);
    $("bar").setAttribute("aria-valuenow", count);
    $("bar").firstElementChild.style.width = (100 * count) / items.length + "%";
    $("progress").textContent = `question ${state.place + 1} of ${items.length}; ${count} answered`
      + (kept ? "" : "; this browser keeps nothing, so save before you close the page");
    $("back").disabled = state.place === 0;
    $("forth").disabled = state.place === items.length - 1;
    $("open").disabled = count === items.length;
    if (focus) asked.focus({ preventScroll: true });
  }
  /** @param {number} place */
  function go(place) {
    state.place = Math.min(Math.max(place, 0), items.length - 1);
    $("status").textContent = "";
    show(true);
  }
  function open() {
    const order = [...items.keys()].map((step) => (state.place + 1 + step) % items.length);
    const next = order.find((place) => !answered(items[place]));
    if (next === undefined) {
      show(true);
      $("status").textContent = "All questions are answered: save the answers.";
    } else go(next);
  }
  /** @param {number | null} choice */
  function answer(choice) {
    const item = items[state.place];
    if (choice !== null && choice >= item.options.length) return;
    state.answers[item.name] = { choice, at: new Date().toISOString() };
    keep();
    if (state.place === items.length - 1) open();
    else go(state.place + 1);
  }

  /** @param {KeyboardEvent} event */
  function keys(event) {
    if (/^[1-9]$/.test(event.key)) answer(Number(event.key) - 1);
    else if (event.key === "0") answer(null);
    else if (event.key === "ArrowLeft") go(state.place - 1);
    else if (event.key === "ArrowRight") go(state.place + 1);
    else if (event.key === "n") open();
    else if (event.key === "s") save();
    else return false;
    return true;
  }

  // The file.

  function lines() {
    return items.filter(answered).map((item) => {
      const { choice, at } = state.answers[item.name];
      const word = choice === null ? null : item.options[choice];
      return JSON.stringify({ page: data.page, judge: state.judge, item: item.name, choice, word, at }) + "\n";
    }).join("");
  }
  function save() {
    state.judge = $("judge").value.trim();
    if (!state.judge) {
      $("status").textContent = "Give a name or a sign first, so that your answers can be distinguished from those of others.";
      $("judge").focus();
      return;
    }
    keep();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines()], { type: "application/x-ndjson" }));
    link.download = `answers-${data.page}-${state.judge.replace(/[^\p{L}\p{N}]+/gu, "_")}.jsonl`;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    unsaved = false;
    $("status").textContent = `${items.filter(answered).length} answers saved as ${link.download}.`;
  }

  $("judge").value = state.judge;
  $("judge").addEventListener("input", () => { state.judge = $("judge").value.trim(); keep(); }, { signal });
  $("unknown").addEventListener("click", () => answer(null), { signal });
  $("back").addEventListener("click", () => go(state.place - 1), { signal });
  $("forth").addEventListener("click", () => go(state.place + 1), { signal });
  $("open").addEventListener("click", open, { signal });
  $("save").addEventListener("click", save, { signal });
  addEventListener("beforeunload", (event) => { if (unsaved && !kept) event.preventDefault(); }, { signal });
  /** @type {HTMLElement} */ (root.querySelector("main")).hidden = false;
  show();
  return { unmount: () => signal.stop?.() };
}
