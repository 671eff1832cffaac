// Next to the map: what the colours mean, the chosen point with its neighbours, the selection and its table.

import { context2d } from "../colours.js";
import { neighboursOf, short } from "./overlay.js";
import { DISTINCT_CLASSES, classLook, scaleOf } from "./painter.js";

const LISTED = 200, LONG = 60;
const MARKS = ["M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10z", "M1.5 1.5h9v9h-9z", "M6 .5L11.5 6L6 11.5L.5 6z", "M6 1.5L11 10.5H1z"];
const SVG = "http://www.w3.org/2000/svg";

/** @param {string} name @param {Record<string, string>} [attributes] @param {(Node | string)[]} parts */
function element(name, attributes = {}, ...parts) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...parts);
  return made;
}
/** @param {number} value */
export const number = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "–");
/** @param {number} count @param {string} name */
const counted = (count, name) => `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;

/** @param {import("./types").VectorMap} map */
export function addPanels(map) {
  const { $, data, state } = map;

  /** A point in a list, which goes to it. @param {number} point @param {string} [value] @param {string} [first] */
  function entry(point, value = "", first = "") {
    const button = element("button", { type: "button", "data-point": String(point) }, element("b", {}, first), element("span", { title: short(data.labels[point]) }, data.labels[point]), element("b", {}, value));
    button.addEventListener("click", () => {
      map.choose(point, true);
      $("chosen-title").focus();
    });
    return element("li", {}, button);
  }
  /** @param {import("./types").Column} column @param {number} point */
  const valueText = (column, point) => (column.kind === "number" ? number(column.of[point]) : column.values[column.of[point]]);

  map.showChosen = () => {
    const point = state.chosen;
    if (point < 0) {
      $("chosen-title").textContent = "No point is chosen";
      $("chosen").replaceChildren(element("p", { class: "quiet", id: "how" },
        "Click a point, or search. With the map in focus, arrow keys move it and Enter chooses the point nearest to its middle."));
      return;
    }
    const label = data.labels[point], long = label.length > LONG;
    $("chosen-title").textContent = (long ? short(label) : label) || "(empty text)";
    const facts = element("dl", { class: "facts" });
    for (const [name, value] of [
      ["row", String(point + 1)], ["place", `${number(data.xs[point])}, ${number(data.ys[point])}`],
      ...data.columns.map((column) => [column.name, valueText(column, point)]),
    ]) facts.append(element("dt", {}, name), element("dd", {}, value));
    const near = neighboursOf(data, point), list = element("ol", { "aria-label": "nearest neighbours" });
    near.forEach((each, place) => list.append(entry(each.point, each.cosine.toFixed(3), String(place + 1))));
    const note = near.length ? "Nearest in the space itself, with their cosines; positions in the plot are an approximation of it:"
      : data.neighbours ? "A vector of zeros is in no direction: it has no neighbours by cosine." : "No neighbours are on this page.";
    // What can be scrolled can be reached by key.
    const whole = long ? [element("p", { class: "text", tabindex: "0", dir: "auto" }, label)] : [];
    $("chosen").replaceChildren(...whole, facts, element("p", { class: "quiet", id: "how" }, note), list);
  };

  map.showSelected = () => {
    const some = state.selected;
    $("selected-part").hidden = !some.length;
    $("selected-title").textContent = `${counted(some.length, "point")} selected`;
    const list = [...some.subarray(0, LISTED)].map((point) => entry(point));
    if (some.length > LISTED) list.push(element("li", { class: "quiet" }, `and ${(some.length - LISTED).toLocaleString("en")} more, which are in the CSV`));
    $("selected").replaceChildren(...list);
  };

  map.showLegend = () => {
    const column = state.colour;
    $("legend-part").hidden = !column;
    if (!column) return;
    $("legend-title").textContent = column.name;
    if (column.kind === "number") {
      const { colours, low, high } = scaleOf(column), bar = /** @type {HTMLCanvasElement} */ (element("canvas", { "aria-hidden": "true" }));
      Object.assign(bar, { width: 256, height: 1 });
      colours.forEach(([r, g, b], i) => {
        context2d(bar).fillStyle = `rgb(${r} ${g} ${b})`;
        context2d(bar).fillRect(i, 0, 1, 1);
      });
      const unknown = [...column.of].filter((value) => value !== value).length;
      $("legend").replaceChildren(element("li", { class: "scale" }, element("b", {}, number(low)), bar, element("b", {}, number(high))),
        ...(unknown ? [element("li", { class: "quiet" }, `${counted(unknown, "point")} without a number, grey`)] : []));
      return;
    }
    /** @param {number} place @param {string} name @param {number} count @param {(value: number) => boolean} has */
    const item = (place, name, count, has) => {
      const icon = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path"), look = classLook(place);
      icon.setAttribute("viewBox", "0 0 12 12");
      icon.setAttribute("aria-hidden", "true");
      path.setAttribute("d", MARKS[look.mark]);
      path.setAttribute("fill", look.colour);
      icon.append(path);
      const button = element("button", { type: "button", title: "select these" }, icon, element("span", {}, name || "(empty)"), element("b", {}, count.toLocaleString("en")));
      button.addEventListener("click", () => map.select(Int32Array.from(data.labels.keys()).filter((i) => has(column.of[i]))));
      return element("li", {}, button);
    };
    const list = column.values.slice(0, DISTINCT_CLASSES).map((name, place) => item(place, name, column.counts[place], (value) => value === place));
    const others = column.counts.slice(DISTINCT_CLASSES);
    if (others.length) list.push(item(DISTINCT_CLASSES, `${others.length.toLocaleString("en")} others`, others.reduce((a, b) => a + b), (value) => value >= DISTINCT_CLASSES));
    $("legend").replaceChildren(...list);
  };

  map.csv = (points) => {
    /** @param {string} text */
    const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [["row", "text", "x", "y", ...data.columns.map((column) => column.name)]];
    for (const i of points)
      lines.push([String(i + 1), data.labels[i], String(data.xs[i]), String(data.ys[i]),
        ...data.columns.map((column) => (column.kind === "category" ? column.values[column.of[i]] : Number.isNaN(column.of[i]) ? "" : String(column.of[i])))]);
    return lines.map((line) => line.map(cell).join(",") + "\n").join("");
  };

  $("save").addEventListener("click", () => {
    const link = document.createElement("a"), address = URL.createObjectURL(new Blob([map.csv(state.selected)], { type: "text/csv" }));
    link.href = address;
    link.download = `${data.title.replace(/[^\w.-]+/g, "_") || "map"}-selection.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    map.say(`saved ${link.download}`);
  }, { signal: map.signal });
}
