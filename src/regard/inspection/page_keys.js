// What the reader does: keys, pointer, theme; and the first picture.

for (const id of ["example", "address", "head", "scale"]) $(id).addEventListener("change", () => choose(id, $(id).value));
$("smaller").addEventListener("click", () => zoom(0.8));
$("larger").addEventListener("click", () => zoom(1.25));
$("theme").addEventListener("click", switchTheme);
$("help-open").addEventListener("click", () => $("help").showModal());
$("heat").addEventListener("focus", () => {
  if ($("heat").matches(":focus-visible")) sayCell();
});
$("field").addEventListener("pointermove", (event) => {
  const spot = cellAt(event, $("heat"));
  hover(spot);
  const { query, key } = state.map;
  tip(event, query[spot.row], key[spot.column], weight(spot.row, spot.column), positions(spot.row, spot.column));
});
$("field").addEventListener("pointerleave", () => {
  $("tip").hidden = true;
  hover(null);
});
$("field").addEventListener("click", (event) => {
  const spot = cellAt(event, $("heat"));
  move(spot.row, spot.column);
});
const indexOf = (event, holder) => [...holder.children].indexOf(event.target.closest(`#${holder.id} > *`));
for (const id of ["side", "output"]) {
  $(id).addEventListener("click", (event) => {
    const row = indexOf(event, $(id));
    if (row < 0) return;
    move(row, strongest(row, 1)[0]);
    if (id === "output") $("output").children[row].focus();
  });
  $(id).addEventListener("pointerover", (event) => {
    const row = indexOf(event, $(id));
    if (row >= 0) hover({ row, column: strongest(row, 1)[0] });
  });
  $(id).addEventListener("pointerleave", () => hover(null));
}
$("heat").addEventListener("keydown", (event) => {
  const { row, column } = state, end = state.map.key.length - 1, bottom = state.map.query.length - 1;
  const steps = {
    ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
    Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? bottom : row, end],
    PageUp: [row - 10, column], PageDown: [row + 10, column],
  };
  if (event.key in steps) {
    event.preventDefault();
    move(...steps[event.key]);
    keepInSight();
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    const list = strongest(row, 3).map((i) => `${apart(state.map.key[i])} ${number(weight(row, i))}`);
    say(`${apart(state.map.query[row])}: strongest ${list.join(", ")}`);
  }
});
$("output").addEventListener("keydown", (event) => {
  const forward = $("output").dir === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
  const last = state.map.query.length - 1;
  const rows = { [forward]: state.row + 1, ArrowDown: state.row + 1, [backward]: state.row - 1, ArrowUp: state.row - 1, Home: 0, End: last };
  if (!(event.key in rows)) return;
  event.preventDefault();
  const row = Math.max(0, Math.min(last, rows[event.key]));
  move(row, strongest(row, 1)[0]);
  $("output").children[row].focus();
  keepInSight();
});
document.addEventListener("keydown", (event) => {
  // AltGr, which many keyboards need for brackets, reports itself as Ctrl and Alt together.
  if (event.metaKey || (event.ctrlKey && !event.altKey) || $("help").open) return;
  const act = {
    "[": () => next("head", -1), "]": () => next("head", 1),
    ",": () => next("address", -1), ".": () => next("address", 1),
    "{": () => next("example", -1), "}": () => next("example", 1),
    "-": () => zoom(0.8), "−": () => zoom(0.8), "+": () => zoom(1.25), "=": () => zoom(1.25),
    "?": () => $("help").showModal(), t: switchTheme,
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
window.addEventListener("resize", () => (state.head === "all" ? drawHeads() : fit()));
for (const [name, value] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(name, () => {
    printing = value;
    setTheme(value ? "light" : chosenTheme || preferred());
  });
}
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const preferred = () => (dark.matches ? "dark" : "light");
dark.addEventListener("change", () => chosenTheme || setTheme(preferred()));

document.documentElement.dataset.theme = preferred();
options("example", data.examples.map((label, i) => [String(i), label]), String(state.map.example));
showMap(state.map);
// Begin where there is something to see.
move(0, strongest(0, 1)[0]);
