// The controls above the figure, and the keys that work everywhere.

import { DASHES, SCALES, SIGNED, dashOf, headColour, stopsOf } from "../colours.js";
import { clamp, element, headText, headTitle, isImage, isSigned, onIn, sideNames } from "./names.js";
import { apart, canMerge, groupsOf, largest, short } from "./weights.js";

/** @param {import("./types").Viewer} viewer */
export function addControls(viewer) {
  const { $, signal, state, VIEWS, data } = viewer;
  /** Fills a list; whether there is a choice. @param {string} id @param {string[][]} entries @param {string} chosen */
  function options(id, entries, chosen) {
    const name = entries.map(String).join("\n");
    if ($(id).dataset.entries !== name) {
      $(id).dataset.entries = name;
      $(id).replaceChildren(...entries.map(([value, text, title]) => {
        const option = element("option", text);
        option.value = value;
        if (title) option.title = title;
        return option;
      }));
    }
    $(id).value = chosen;
    return entries.length > 1;
  }
  /** @param {string} id @param {boolean} wanted */
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
    viewer.root.dataset.view = view;
    showControl("example", options("example", data.examples.map((label, i) => [String(i), label]), String(map.example)));
    const free = !shown.map;
    showControl("address", free && options("address", viewer.mapsOf(map.example).map((one) => [one.address, one.name, one.address]), map.address));
    $("address").title = $("where").title = map.address;
    const heads = map.heads > 1 ? [["mean", "mean of heads"]] : [];
    for (let i = 0; i < map.heads; i++) heads.push([String(i), headTitle(map, i)]);
    const several = options("head", view === "model" && map.heads > 1 ? heads.slice(1) : heads,
      String(view === "model" && state.head === "mean" ? 0 : state.head));
    showControl("head", free && several && shown.heads !== "many");
    $("head-switches").hidden = shown.heads !== "many" || map.heads < 2;
    showControl("merge", free && canMerge(map) && view !== "model");
    $("merge").checked = state.merge;
    $("merge-note").hidden = !(state.merge && canMerge(map) && view !== "model");
    showControl("scale", free && view !== "model");
    $("scale").value = viewer.scale();
    showControl("text-mode", view === "text");
    $("text-mode").value = state.text;
    const both = Boolean(map.key.patches && map.query.patches);
    showControl("image-mode", view === "image" && !both);
    $("image-mode").value = state.image;
    showControl("overlay", view === "image" && !isSigned(state.map));
    $("overlay").value = state.overlay;
    showControl("smooth", view === "image");
    $("smooth").checked = state.smooth;
    $("text").hidden = view !== "text";
    $("where").textContent = viewer.whereText();
    $("keys-hint").textContent = HINTS[view];
    const [, asked] = sideNames(map);
    for (const part of viewer.root.querySelectorAll(".key-name")) part.textContent = asked;
  }
  /** @type {Record<string, string>} */
  const HINTS = {
    heatmap: "Arrow keys move over the cells, Enter reads out the strongest weights of a row. ? shows all keys.",
    heads: "Up and down choose a token, left and right the side, Escape shows all lines. Shift and a click on a head shows it alone. ? shows all keys.",
    model: "Arrow keys move over the heads, Enter opens one. Each small figure is coloured up to its own largest weight. ? shows all keys.",
    text: "Choose a token by a click or with the arrow keys. ? shows all keys.",
    image: "Arrow keys move over the patches, Page Up and Page Down change the token. ? shows all keys.",
    document: "Left and right move over the words, up and down over the sentences, Enter reads out the strongest. ? shows all keys.",
    memory: "Left and right move over the steps, up and down over the numbers of a panel, Page Up and Page Down over the panels. ? shows all keys.",
  };

  function legendTexts() {
    const { map, view } = state, scale = viewer.scale();
    const fixed = VIEWS[view].end?.(), own = fixed || view === "image" || (view === "text" && state.text !== "lines");
    const end = fixed ? fixed : scale === "unit" ? 1
      : view === "text" && own ? largest(VIEWS.text.values()) || 1
      : view === "image" ? largest(VIEWS.image.values(VIEWS.image.index()).part) || 1 : state.limit;
    const each = scale === "row" && !own, every = view === "image" && VIEWS.image.many && scale !== "unit";
    const high = each ? "the row's largest" : every ? "each token's largest" : short(end);
    const hidden = view === "heatmap" && viewer.isHidden(0, state.matrix.columns - 1) ? "a later token, which cannot be attended" : "";
    return { low: isSigned(map) ? (each ? "the row's largest, negative" : "-" + high) : "0", high, hidden };
  }
  function legend() {
    const bare = state.view === "model" || state.view === "memory" || !state.matrix;
    $("legend").hidden = bare;
    if (bare) return;
    const { low, high, hidden } = legendTexts(), lines = state.view === "heads" && !isSigned(state.map);
    const dark = state.view === "image" && (isSigned(state.map) ? SIGNED.light : state.overlay === "light" ? ["000000", "ffffff"] : SCALES.dark);
    const stops = (dark || stopsOf(isSigned(state.map))).map((stop) => "#" + stop);
    const heads = lines && state.on.size > 0;
    $("ramp").hidden = heads;
    $("ramp").style.background = `linear-gradient(to right, ${stops})`;
    $("low").textContent = heads ? "" : low;
    $("high").textContent = heads ? `from pale, 0, to full colour, ${high}` : high;
    // Each head's line in its own colour and dash, from pale to full.
    $("line-heads").replaceChildren(...(heads ? [...state.on].sort((a, b) => a - b) : []).map((head) => {
      const chip = element("span"), ramp = element("i");
      ramp.style.borderTop = `4px ${DASHES[dashOf(head, state.on)][0]} ${headColour(head)}`;
      chip.append(ramp, headText(state.map, head) + (state.map.kinds[head] ? " · " + state.map.kinds[head] : ""));
      return chip;
    }));
    $("hidden-cells").hidden = !hidden;
    $("hidden-text").textContent = hidden;
    $("legend").setAttribute("aria-label", `${lines ? "Lines" : "Colours"} from ${low} to ${high}${hidden && "; hatched: " + hidden}`);
  }

  /** A control was used, by hand or by a key. @param {string} id @param {any} value @returns {Promise<void>} */
  function choose(id, value) {
    const held = { row: state.row, column: state.column };
    if (id === "view") {
      if (!VIEWS[value] || !VIEWS[value].usable(state.map)) return Promise.resolve();
      state.view = value;
      if (value !== "model") state.opened = value;
      viewer.pane.scrollTo(0, 0);
    } else if (id === "head") {
      state.head = value === "mean" ? "mean" : Number(value);
    } else if (id === "address") {
      changeMap(/** @type {import("./types").AttentionMap} */ (viewer.mapsOf(state.map.example).find((map) => map.address === value)));
    } else if (id === "example") {
      const maps = viewer.mapsOf(Number(value));
      if (!maps.length) return Promise.resolve();
      changeMap(maps.find((map) => map.address === state.map.address) || maps[0]);
      Object.assign(state, { row: 0, column: 0, side: null });
    } else if (id === "merge") {
      /** @param {import("./types").Side} side @param {number} index */
      const at = (side, index) => {
        const groups = groupsOf(side, true);
        if (!groups) return index;
        return value ? groups.findIndex(([start, stop]) => index >= start && index < stop) : groups[index][0];
      };
      if (canMerge(state.map)) {
        Object.assign(state, { row: at(state.map.query, held.row), column: at(state.map.key, held.column), merge: value });
      }
    } else {
      Object.assign(state, { [{ "text-mode": "text", "image-mode": "image" }[id] ?? id]: value });
    }
    return viewer.show().then(() => {
      if (!state.matrix && state.view !== "model") return;
      const list = $(id === "view" ? "tab-" + value : id);
      const name = list.selectedOptions ? list.selectedOptions[0].text : id === "view" ? VIEWS[value].name : `${list.parentNode.textContent.trim()} ${value ? "on" : "off"}`;
      viewer.say(`${apart(name)}. ${state.view === "model" || state.view === "heads" ? VIEWS[state.view].say?.() : viewer.cellText()}`);
    });
  }
  /** @param {import("./types").AttentionMap} map */
  function changeMap(map) {
    state.on = onIn(state.on, state.map, map);
    state.map = map;
    if (map.heads < 2) state.head = 0;
    else if (state.head !== "mean" && state.head >= map.heads) state.head = "mean";
    if (!canMerge(map)) state.merge = false;
    if (!VIEWS[state.view].usable(map)) state.view = isImage(map) ? "image" : "heatmap";
  }
  /** @param {string} id @param {number} by */
  function next(id, by) {
    if (id === "head" && state.view === "heads") {
      const alone = state.on.size === 1 ? [...state.on][0] + by : by > 0 ? 0 : -1;
      return viewer.switchHead((alone + state.map.heads) % state.map.heads, true);
    }
    const list = $(id);
    if (list.options.length < 2) return;
    choose(id, list.options[(list.selectedIndex + by + list.options.length) % list.options.length].value);
  }
  /** @param {number} by */
  function zoom(by) {
    state.zoom = clamp(state.zoom * by, 0.1, 20);
    if (state.view === "text") VIEWS.text.show();
    viewer.layout();
    viewer.keepInSight();
  }
  /** @param {number} by */
  function goTo(by) {
    const usable = [...$("views").children].filter((tab) => !tab.hidden), at = usable.findIndex((tab) => tab.dataset.view === state.view);
    const tab = usable[(at + by + usable.length) % usable.length];
    tab.focus();
    choose("view", tab.dataset.view);
  }

  for (const id of ["example", "address", "head", "scale", "text-mode", "image-mode", "overlay"]) {
    $(id).addEventListener("change", () => choose(id, $(id).value), { signal });
  }
  for (const id of ["merge", "smooth"]) $(id).addEventListener("change", () => choose(id, $(id).checked), { signal });
  function fit() {
    state.zoom = 1;
    zoom(1);
  }
  $("fit").addEventListener("click", fit, { signal });
  $("smaller").addEventListener("click", () => zoom(0.8), { signal });
  $("larger").addEventListener("click", () => zoom(1.25), { signal });
  $("views").replaceChildren(...Object.entries(VIEWS).map(([name, view]) => {
    const tab = element("button", view.name);
    Object.assign(tab, { type: "button", id: "tab-" + name });
    tab.dataset.view = name;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "panel");
    return tab;
  }));
  $("views").addEventListener("click", (/** @type {any} */ event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose("view", tab.dataset.view);
  }, { signal });
  $("views").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    goTo(by);
  }, { signal });
  /** The keys that work everywhere on the page; whether this was one. @param {KeyboardEvent} event */
  function keys(event) {
    const usable = Object.keys(VIEWS).filter((name) => VIEWS[name].usable(state.map));
    /** @type {Record<string, () => unknown>} */
    const acts = {
      "[": () => next("head", -1), "]": () => next("head", 1),
      ",": () => next("address", -1), ".": () => next("address", 1),
      "{": () => next("example", -1), "}": () => next("example", 1),
      "-": () => zoom(0.8), "−": () => zoom(0.8), "+": () => zoom(1.25), "=": () => zoom(1.25),
      m: () => choose("merge", !state.merge), 0: fit,
      f: () => viewer.present(!viewer.root.classList.contains("present")),
    };
    if (event.key === "Escape" && viewer.root.classList.contains("present")) return viewer.present(false), true;
    usable.forEach((name, i) => (acts[String(i + 1)] = () => choose("view", name)));
    if (!Object.hasOwn(acts, event.key)) return false;
    acts[event.key]();
    return true;
  }
  Object.assign(viewer, /** @satisfies {Partial<import("./types").Viewer>} */ ({ fillControls, legendTexts, legend, choose, keys }));
}
