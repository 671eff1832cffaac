// The controls above the picture, and the keys that work everywhere.

function options(id, entries, chosen) {
  const name = entries.map(String).join("\n");
  if ($(id).dataset.entries !== name) {
    $(id).dataset.entries = name;
    $(id).replaceChildren(...entries.map(([value, text]) => {
      const option = element("option", text);
      option.value = value;
      return option;
    }));
  }
  $(id).value = chosen;
  return entries.length > 1;
}
const showControl = (id, wanted) => ($(id + "-label").hidden = !wanted);

function fillControls() {
  const { map, view } = state, shown = VIEWS[view];
  for (const tab of $("views").children) {
    const name = tab.dataset.view;
    tab.hidden = !VIEWS[name].usable(map);
    tab.setAttribute("aria-selected", String(name === view));
    tab.tabIndex = name === view ? 0 : -1;
  }
  $("panel").setAttribute("aria-labelledby", "tab-" + view);
  document.body.dataset.view = view;
  showControl("example", options("example", data.examples.map((label, i) => [String(i), label]), String(map.example)));
  showControl("address", options("address", mapsOf(map.example).map((one) => [one.address, one.address]), map.address));
  const heads = map.heads > 1 ? [["mean", "mean of heads"]] : [];
  for (let i = 0; i < map.heads; i++) heads.push([String(i), "head " + i]);
  const several = options("head", view === "model" && map.heads > 1 ? heads.slice(1) : heads,
    String(view === "model" && state.head === "mean" ? 0 : state.head));
  showControl("head", several && shown.heads !== "many");
  $("head-switches").hidden = shown.heads !== "many" || map.heads < 2;
  showControl("merge", canMerge(map) && view !== "model");
  $("merge").checked = state.merge;
  $("merge-note").hidden = !(state.merge && canMerge(map) && view !== "model");
  showControl("scale", view !== "model");
  $("scale").value = state.scale;
  showControl("text-mode", view === "text");
  $("text-mode").value = state.text;
  const both = Boolean(map.key.patches && map.query.patches);
  showControl("picture-mode", view === "image" && !both);
  $("picture-mode").value = state.picture;
  showControl("overlay", view === "image");
  $("overlay").value = state.overlay;
  showControl("smooth", view === "image");
  $("smooth").checked = state.smooth;
  $("text").hidden = view !== "text";
  $("where").textContent = whereText();
  $("keys-hint").textContent = HINTS[view];
  const [, asked] = sideNames(map);
  for (const part of document.querySelectorAll(".key-name")) part.textContent = asked;
}
const HINTS = {
  heatmap: "Arrow keys move over the cells, Enter says the strongest weights of a row. ? shows all keys.",
  heads: "Up and down choose a token, left and right the side, Escape shows all lines. Shift and a click on a head shows it alone. ? shows all keys.",
  model: "Arrow keys move over the heads, Enter opens one. Each small picture is coloured up to its own largest weight. ? shows all keys.",
  text: "Choose a token by a click or with the arrow keys. ? shows all keys.",
  image: "Arrow keys move over the patches, Page Up and Page Down change the token. ? shows all keys.",
};

function legendTexts() {
  const { map, scale, view, matrix } = state;
  const own = view === "image" || (view === "text" && state.text !== "lines");
  const end = scale === "unit" ? 1
    : view === "text" && own ? largest(VIEWS.text.values()) || 1
    : view === "image" ? largest(VIEWS.image.values(VIEWS.image.index()).part) || 1 : state.limit;
  const each = scale === "row" && !own, every = view === "image" && VIEWS.image.many && scale !== "unit";
  const high = each ? "the row's largest" : every ? "each token's largest" : short(end);
  return { low: map.zero ? (each ? "the row's largest, negative" : "-" + high) : "0", high };
}
function legend() {
  const bare = state.view === "model" || !state.matrix;
  $("legend").hidden = bare;
  if (bare) return;
  const { low, high } = legendTexts(), lines = state.view === "heads";
  const dark = state.view === "image" && (state.overlay === "light" ? ["000000", "ffffff"] : state.map.zero ? SIGNED.dark : SCALES.dark);
  const stops = (dark || stopsOf(state.map)).map((stop) => "#" + stop);
  $("ramp").style.background = lines ? `linear-gradient(to right, transparent, ${inks().ink})` : `linear-gradient(to right, ${stops})`;
  $("low").textContent = lines ? "0" : low;
  $("high").textContent = high;
  $("legend").setAttribute("aria-label", `${lines ? "Lines" : "Colours"} from ${$("low").textContent} to ${high}`);
}

// A control was used, by hand or by a key.
function choose(id, value) {
  const held = { row: state.row, column: state.column };
  if (id === "view") {
    if (!VIEWS[value] || !VIEWS[value].usable(state.map)) return Promise.resolve();
    state.view = value;
    if (value !== "model") state.opened = value;
    pane.scrollTo(0, 0);
  } else if (id === "head") {
    state.head = value === "mean" ? "mean" : Number(value);
  } else if (id === "address") {
    changeMap(mapsOf(state.map.example).find((map) => map.address === value));
  } else if (id === "example") {
    const maps = mapsOf(Number(value));
    if (!maps.length) return Promise.resolve();
    changeMap(maps.find((map) => map.address === state.map.address) || maps[0]);
    Object.assign(state, { row: 0, column: 0, side: null });
  } else if (id === "merge") {
    const at = (side, index) => {
      if (!side.words) return index;
      return value ? groupsOf(side, true).findIndex(([start, stop]) => index >= start && index < stop) : groupsOf(side, true)[index][0];
    };
    if (canMerge(state.map)) {
      Object.assign(state, { row: at(state.map.query, held.row), column: at(state.map.key, held.column), merge: value });
    }
  } else {
    state[{ scale: "scale", "text-mode": "text", "picture-mode": "picture", overlay: "overlay", smooth: "smooth" }[id]] = value;
  }
  return show().then(() => {
    if (!state.matrix && state.view !== "model") return;
    const list = $(id === "view" ? "tab-" + value : id);
    const name = list.selectedOptions ? list.selectedOptions[0].text : id === "view" ? VIEWS[value].name : `${list.parentNode.textContent.trim()} ${value ? "on" : "off"}`;
    say(`${apart(name)}. ${state.view === "model" || state.view === "heads" ? VIEWS[state.view].say() : cellText()}`);
  });
}
function changeMap(map) {
  const all = state.on.size === state.map.heads;
  state.map = map;
  if (map.heads < 2) state.head = 0;
  else if (state.head !== "mean" && state.head >= map.heads) state.head = "mean";
  state.on = all ? new Set(Array(map.heads).keys()) : new Set([...state.on].filter((head) => head < map.heads));
  if (!canMerge(map)) state.merge = false;
  if (!VIEWS[state.view].usable(map)) state.view = isPicture(map) ? "image" : "heatmap";
}
function next(id, by) {
  if (id === "head" && state.view === "heads") {
    const alone = state.on.size === 1 ? [...state.on][0] + by : by > 0 ? 0 : -1;
    return switchHead((alone + state.map.heads) % state.map.heads, true);
  }
  const list = $(id);
  if (list.options.length < 2) return;
  choose(id, list.options[(list.selectedIndex + by + list.options.length) % list.options.length].value);
}
function zoom(by) {
  state.zoom = clamp(state.zoom * by, 0.1, 20);
  if (state.view === "text") VIEWS.text.show();
  layout();
  keepInSight();
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  show();
}
let chosenTheme = null;
function switchTheme() {
  chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  setTheme(chosenTheme);
}
function goTo(by) {
  const usable = [...$("views").children].filter((tab) => !tab.hidden), at = usable.findIndex((tab) => tab.dataset.view === state.view);
  const tab = usable[(at + by + usable.length) % usable.length];
  tab.focus();
  choose("view", tab.dataset.view);
}

for (const id of ["example", "address", "head", "scale", "text-mode", "picture-mode", "overlay"]) {
  $(id).addEventListener("change", () => choose(id, $(id).value));
}
for (const id of ["merge", "smooth"]) $(id).addEventListener("change", () => choose(id, $(id).checked));
$("smaller").addEventListener("click", () => zoom(0.8));
$("larger").addEventListener("click", () => zoom(1.25));
$("theme").addEventListener("click", switchTheme);
$("help-open").addEventListener("click", () => $("help").showModal());
$("views").addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) choose("view", tab.dataset.view);
});
$("views").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  goTo(by);
});
document.addEventListener("keydown", (event) => {
  // AltGr, which many keyboards need for brackets, reports itself as Ctrl and Alt together.
  if (event.metaKey || (event.ctrlKey && !event.altKey) || $("help").open) return;
  const views = Object.keys(VIEWS).filter((name) => VIEWS[name].usable(state.map));
  const act = {
    "[": () => next("head", -1), "]": () => next("head", 1),
    ",": () => next("address", -1), ".": () => next("address", 1),
    "{": () => next("example", -1), "}": () => next("example", 1),
    "-": () => zoom(0.8), "−": () => zoom(0.8), "+": () => zoom(1.25), "=": () => zoom(1.25),
    "?": () => $("help").showModal(), t: switchTheme, m: () => choose("merge", !state.merge),
  }[event.key] || (/^[1-9]$/.test(event.key) && views[event.key - 1] && (() => choose("view", views[event.key - 1])));
  if (!act) return;
  event.preventDefault();
  act();
});
