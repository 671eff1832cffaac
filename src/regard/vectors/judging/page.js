// One question at a time; answers are kept in the browser and saved as a file of JSON lines.

"use strict";
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const items = data.items;
const store = "regard-judging-" + data.page;

// Light or dark.

const root = document.documentElement;
const media = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
const dress = () => { root.dataset.theme = chosen || (media.matches ? "dark" : "light"); };
const change = () => { chosen = root.dataset.theme === "dark" ? "light" : "dark"; dress(); };
media.addEventListener("change", dress);
$("theme").addEventListener("click", change);
dress();

// What is known so far. A store that is closed, or holds something else, is as good as none.

let state = { judge: "", place: 0, answers: {} };
let kept = true;
try {
  const found = JSON.parse(localStorage.getItem(store));
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
function answered(item) { return Object.hasOwn(state.answers, item.name); }

// The question.

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
    key.textContent = number + 1;
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
  $("told").textContent = `question ${state.place + 1} of ${items.length}; ${count} answered`
    + (kept ? "" : "; this browser keeps nothing, so save before you close the page");
  $("back").disabled = state.place === 0;
  $("forth").disabled = state.place === items.length - 1;
  $("open").disabled = count === items.length;
  if (focus) asked.focus({ preventScroll: true });
}
function go(place) {
  state.place = Math.min(Math.max(place, 0), items.length - 1);
  $("said").textContent = "";
  show(true);
}
function open() {
  const order = [...items.keys()].map((step) => (state.place + 1 + step) % items.length);
  const next = order.find((place) => !answered(items[place]));
  if (next === undefined) {
    show(true);
    $("said").textContent = "All questions are answered: save the answers.";
  } else go(next);
}
function answer(choice) {
  const item = items[state.place];
  if (choice !== null && choice >= item.options.length) return;
  state.answers[item.name] = { choice, at: new Date().toISOString() };
  keep();
  if (state.place === items.length - 1) open();
  else go(state.place + 1);
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
    $("said").textContent = "Give a name or a sign first, so that your answers can be told from those of others.";
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
  $("said").textContent = `${items.filter(answered).length} answers saved as ${link.download}.`;
}

$("judge").value = state.judge;
$("judge").addEventListener("input", () => { state.judge = $("judge").value.trim(); keep(); });
$("unknown").addEventListener("click", () => answer(null));
$("back").addEventListener("click", () => go(state.place - 1));
$("forth").addEventListener("click", () => go(state.place + 1));
$("open").addEventListener("click", open);
$("save").addEventListener("click", save);
addEventListener("beforeunload", (event) => { if (unsaved && !kept) event.preventDefault(); });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === $("judge")) return;
  if (/^[1-9]$/.test(event.key)) answer(Number(event.key) - 1);
  else if (event.key === "0") answer(null);
  else if (event.key === "ArrowLeft") go(state.place - 1);
  else if (event.key === "ArrowRight") go(state.place + 1);
  else if (event.key === "n") open();
  else if (event.key === "s") save();
  else if (event.key === "t") change();
  else return;
  event.preventDefault();
});
document.querySelector("main").hidden = false;
show(false);
