// The page of a walk: from step to step by key or as slides, from query to query by a click, and single numbers out of strips. The
// first walk is in the page without it.

import { fillScreen, finder, startShell } from "./shell.js";

/** @typedef {{ name: string, labels: string[] | null, values: (number | null)[][], largest: number | null }} Strips */

/**
 * Brings the page of a walk to life in an element that holds its markup (`templates/walk.html`).
 *
 * @param {HTMLElement} root
 * @param {import("./source.js").Source} source gives the numbers of every block of strips
 * @returns {Promise<{ unmount(): void }>}
 */
export async function mount(root, source) {
  const data = /** @type {Strips[]} */ (await source.data()), $ = finder(root);
  const signal = startShell(root, { keys });

  const walked = $("walked"), heading = /** @type {HTMLElement} */ (root.querySelector("h1 em"));
  /** @type {Map<string, { word: string, nodes: Node[] }>} what is shown of each query; that of the one shown now is on the page */
  const walks = new Map([[String(walked.dataset.position), { word: heading.textContent ?? "", nodes: [...walked.childNodes] }]]);
  for (const one of /** @type {NodeListOf<HTMLTemplateElement>} */ (root.querySelectorAll("template[data-position]"))) {
    walks.set(String(one.dataset.position), { word: one.dataset.word ?? "", nodes: [...one.content.childNodes] });
  }

  // From step to step.

  const sections = () => /** @type {HTMLElement[]} */ ([...walked.querySelectorAll("section")]);
  const links = () => /** @type {HTMLElement[]} */ ([...walked.querySelectorAll("nav a")]);
  const slides = () => root.classList.contains("slides");
  let shown = 0;
  /** Where a step has to have come to be the one that is read. */
  const line = () => walked.querySelector("nav").getBoundingClientRect().bottom + 40;
  function current() {
    if (slides()) return shown;
    let found = 0;
    sections().forEach((section, index) => { if (section.getBoundingClientRect().top <= line()) found = index; });
    return found;
  }
  function follow() {
    const here = current();
    links().forEach((link, index) => {
      if (index === here) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    });
  }
  addEventListener("scroll", () => { if (!slides()) follow(); }, { passive: true, signal });
  /** The step of a number on the screen; of slides it alone. @param {number} index */
  function show(index) {
    const before = slides() ? sections()[shown] : null, from = before?.classList.contains("now") ? placesOf(before) : null;
    shown = Math.min(Math.max(index, 0), sections().length - 1);
    sections().forEach((section, place) => section.classList.toggle("now", place === shown));
    fit();
    if (slides()) scrollTo(0, 0);
    else sections()[shown].scrollIntoView({ block: "start" });
    follow();
    if (from && before !== sections()[shown]) handOver(from, sections()[shown]);
    keepAddress();
  }
  /** What a step shows, by name: the strips of a vector, or the cells of a table's column. @param {HTMLElement} section */
  function named(section) {
    /** @type {[string, HTMLElement[]][]} */
    const found = [];
    for (const block of /** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll("[data-names]"))) {
      const table = block.querySelector("table"), names = String(block.dataset.names).split("|");
      if (!table) found.push([names[0], [block]]);
      else names.forEach((name, i) => found.push([name, [...table.rows].map((row) => row.cells[i + 1])]));
    }
    return found;
  }
  /** Where they are on the screen. @param {HTMLElement} section @returns {Map<string, DOMRect>} */
  const placesOf = (section) => new Map(named(section).map(([name, parts]) => [name, parts[0].getBoundingClientRect()]));
  /**
   * Numbers that both steps show move from their old position to their new one; the style sheet defines how, and whether they do.
   *
   * @param {Map<string, DOMRect>} from @param {HTMLElement} section
   */
  function handOver(from, section) {
    for (const [name, parts] of named(section)) {
      const was = from.get(name), is = parts[0].getBoundingClientRect();
      for (const part of parts) {
        part.classList.remove("handed", "new");
        if (was) {
          part.style.setProperty("--from-x", `${was.left - is.left}px`);
          part.style.setProperty("--from-y", `${was.top - is.top}px`);
        }
        part.classList.add(was ? "handed" : "new");
        part.onanimationend = () => part.classList.remove("handed", "new");
      }
    }
  }
  /** The numbers of a slide, made smaller where they are more than its height has room for. */
  function fit() {
    sections().forEach((section, place) => {
      const { style } = /** @type {HTMLElement} */ (section.querySelector(".numbers"));
      style.zoom = "";
      if (!slides() || place !== shown) return;
      const room = innerHeight - section.getBoundingClientRect().top - scrollY - 40, high = section.scrollHeight;
      if (high > room) style.zoom = String(Math.max(0.45, room / high));
    });
  }
  addEventListener("resize", fit, { signal });
  /** @param {number} by */
  function go(by) {
    const above = !slides() && sections()[0].getBoundingClientRect().top > line();
    show(above && by > 0 ? 0 : current() + by);
  }
  /** One step a screen, in letters for a projector. @param {boolean} on */
  function present(on) {
    if (on === slides()) return;
    const here = current();
    root.classList.toggle("slides", on);
    $("slides").setAttribute("aria-pressed", String(on));
    fillScreen(on);
    show(here);
  }
  $("slides").addEventListener("click", () => present(!slides()), { signal });
  document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement) present(false); }, { signal });

  // From query to query.

  /** @param {string} position */
  function ask(position) {
    const walk = walks.get(position), here = current(), focused = root.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement).dataset.position;
    if (!walk || position === walked.dataset.position) return;
    leave();
    walked.replaceChildren(...walk.nodes);
    walked.dataset.position = position;
    heading.textContent = walk.word;
    bind();
    if (slides()) show(here);
    else follow();
    keepAddress();
    if (focused) walked.querySelector(`button[data-position="${position}"]`)?.focus();
  }

  // What is shown is in the address (URL), so that a link or another load shows it again.

  const first = String(walked.dataset.position);
  function keepAddress() {
    const parts = new URLSearchParams();
    if (walked.dataset.position !== first) parts.set("query", String(walked.dataset.position));
    if (slides() || shown) parts.set("step", String(shown));
    if (slides()) parts.set("slides", "1");
    try {
      history.replaceState(null, "", "#" + parts);
    } catch {
      // A frame of a notebook may not change its address.
    }
  }
  function readAddress() {
    const parts = new URLSearchParams(location.hash.slice(1)), query = parts.get("query") ?? first, step = parts.get("step");
    if (location.hash.startsWith("#step-")) return; // an anchor, which the browser follows
    if (parts.get("slides") && !slides()) {
      shown = 0;
      root.classList.add("slides"); // without the full screen, which browsers give on a key or a click alone
      $("slides").setAttribute("aria-pressed", "true");
      show(0);
    }
    ask(query);
    if (step !== null && /^\d+$/.test(step)) show(Number(step));
  }
  addEventListener("hashchange", readAddress, { signal });

  /** @param {KeyboardEvent} event */
  function keys(event) {
    const onStrips = /** @type {Element} */ (event.target).closest?.(".strips"), onButton = /** @type {Element} */ (event.target).closest?.("button, summary");
    if (event.key === "n" || (slides() && ((event.key === "ArrowRight" && !onStrips) || event.key === "PageDown" || (event.key === " " && !onButton)))) go(1);
    else if (event.key === "p" || (slides() && ((event.key === "ArrowLeft" && !onStrips) || event.key === "PageUp"))) go(-1);
    else if (event.key === "f") present(!slides());
    else if (event.key === "Escape" && slides() && readout.hidden) present(false);
    else if (event.key === "Escape") leave();
    else return false;
    return true;
  }

  // Numbers out of strips.

  const readout = $("readout");
  /** @param {number | null} value */
  const number = (value) => (value === null ? "not a finite number" : String(value));
  /** @type {HTMLElement | null} */
  let marked = null;
  function leave() {
    readout.hidden = true;
    marked?.remove();
    marked = null;
  }
  /** @param {HTMLElement} strips @param {number} row @param {number} column */
  function showNumber(strips, row, column) {
    const item = data[Number(strips.dataset.item)], values = item.values[row];
    leave();
    marked = document.createElement("div");
    marked.className = "cell";
    marked.style.left = (100 * column) / values.length + "%";
    marked.style.width = 100 / values.length + "%";
    strips.querySelectorAll(".strip")[row].append(marked);
    const label = item.labels ? `, ${item.labels[row]}` : "";
    readout.textContent = `${item.name}${label}, entry ${column} of 0 to ${values.length - 1}: ${number(values[column])}`;
    readout.hidden = false;
    strips.dataset.row = String(row);
    strips.dataset.column = String(column);
  }
  /** What listens in the walk that is shown, and the colours of strips that had none yet. */
  function bind() {
    for (const strips of /** @type {NodeListOf<HTMLElement>} */ (walked.querySelectorAll(".strips"))) {
      const item = data[Number(strips.dataset.item)];
      if (strips.dataset.bound) continue; // it listens since it was first shown
      strips.dataset.bound = "yes";
      strips.querySelectorAll(".strip").forEach((strip, row) => {
        const { style } = /** @type {HTMLElement} */ (strip);
        if (!style.background) style.background = gradient(item.values[row], item.largest ?? 1);
      });
      const place = () => [Number(strips.dataset.row) || 0, Number(strips.dataset.column) || 0];
      strips.addEventListener("pointermove", (event) => {
        const strip = /** @type {Element} */ (event.target).closest(".strip");
        if (!strip) return leave();
        const row = [...strips.querySelectorAll(".strip")].indexOf(strip), box = strip.getBoundingClientRect();
        const width = item.values[row].length;
        showNumber(strips, row, Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * width), 0), width - 1));
      }, { signal });
      strips.addEventListener("pointerleave", leave, { signal });
      strips.addEventListener("focus", () => {
        if (strips.matches(":focus-visible")) showNumber(strips, place()[0], place()[1]);
      }, { signal });
      strips.addEventListener("blur", leave, { signal });
      strips.addEventListener("keydown", (event) => {
        let [row, column] = place();
        const rows = item.values.length, width = item.values[0].length;
        if (event.key === "ArrowRight") column = Math.min(column + 1, width - 1);
        else if (event.key === "ArrowLeft") column = Math.max(column - 1, 0);
        else if (event.key === "ArrowDown" && rows > 1) row = Math.min(row + 1, rows - 1);
        else if (event.key === "ArrowUp" && rows > 1) row = Math.max(row - 1, 0);
        else if (event.key === "Home") column = 0;
        else if (event.key === "End") column = width - 1;
        else return;
        event.preventDefault();
        showNumber(strips, row, column);
      }, { signal });
    }
    for (const details of /** @type {NodeListOf<HTMLElement>} */ (walked.querySelectorAll("details[data-item]"))) {
      details.addEventListener("toggle", () => {
        const place = /** @type {HTMLElement} */ (details.querySelector("pre"));
        if (place.textContent) return;
        const item = data[Number(details.dataset.item)];
        place.textContent = item.values
          .map((row, index) => (item.labels ? item.labels[index] + "\t" : "") + row.map(number).join("  ")).join("\n");
      }, { signal });
    }
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (walked.querySelectorAll("button[data-position]"))) {
      button.onclick = () => ask(button.dataset.position ?? "");
    }
    links().forEach((link, index) => {
      link.onclick = (event) => {
        event.preventDefault();
        show(index);
      };
    });
  }
  /** A row of numbers as hard stops of one gradient, as the page's own are. @param {(number | null)[]} values @param {number} largest */
  function gradient(values, largest) {
    const width = 100 / values.length;
    return `linear-gradient(to right,${values.map((value, i) => {
      const share = Math.min(1, Math.abs(value ?? 0) / (largest || 1));
      const colour = ((value ?? 0) > 0 ? walked.dataset.positive : walked.dataset.negative) + Math.round(255 * share).toString(16).padStart(2, "0");
      return `${colour} ${i * width}% ${(i + 1) * width}%`;
    })})`;
  }
  bind();
  follow();
  readAddress();
  return { unmount: () => signal.stop?.() };
}
