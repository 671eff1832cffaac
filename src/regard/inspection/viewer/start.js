// The first picture, and what changes from outside: theme, size, address, printing.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const preferred = () => (dark.matches ? "dark" : "light");
dark.addEventListener("change", () => chosenTheme || setTheme(preferred()));
document.documentElement.dataset.theme = preferred();

$("views").replaceChildren(...Object.entries(VIEWS).map(([name, view]) => {
  const tab = element("button", view.name);
  Object.assign(tab, { type: "button", id: "tab-" + name });
  tab.dataset.view = name;
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", "panel");
  return tab;
}));
async function open() {
  readAddress();
  await show();
  // Begin where there is something to see.
  const { row, column } = state.asked;
  if (!state.matrix) return;
  const from = row ?? 0;
  move(from, column ?? strongest(rowOf(state.matrix, from), 1)[0], true);
  legend();
}
if (typeof DecompressionStream === "undefined") {
  $("where").textContent = "This browser is too old for this page: it cannot inflate the weights (DecompressionStream).";
} else {
  open().then(() => (document.body.dataset.ready = "yes"));
}
window.addEventListener("hashchange", open);
window.addEventListener("resize", layout);
for (const [name, value] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(name, () => {
    printing = value;
    document.documentElement.dataset.theme = value ? "light" : chosenTheme || preferred();
    if (state.view === "text" && state.matrix) VIEWS.text.show();
    layout();
  });
}
