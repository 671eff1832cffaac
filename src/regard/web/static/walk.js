// The page of a walk: from step to step by key, and single numbers out of strips. All pictures are in the page without it.

import { finder, startShell } from "./shell.js";

/** @typedef {{ name: string, labels: string[] | null, values: (number | null)[][] }} Strips */

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

  // From step to step.

  const nav = /** @type {HTMLElement} */ (root.querySelector("nav"));
  const sections = [...root.querySelectorAll("section")], links = [...nav.querySelectorAll("a")];
  /** Where a step has to have come to be the one that is read. */
  const line = () => nav.getBoundingClientRect().bottom + 40;
  function current() {
    let found = 0;
    sections.forEach((section, index) => { if (section.getBoundingClientRect().top <= line()) found = index; });
    return found;
  }
  function follow() {
    const here = current();
    links.forEach((link, index) => {
      if (index === here) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    });
  }
  addEventListener("scroll", follow, { passive: true, signal });
  follow();
  /** @param {number} by */
  function go(by) {
    const above = sections[0].getBoundingClientRect().top > line();
    const next = above && by > 0 ? 0 : Math.min(Math.max(current() + by, 0), sections.length - 1);
    sections[next].scrollIntoView({ block: "start" });
    follow();
  }
  /** @param {KeyboardEvent} event */
  function keys(event) {
    if (event.key === "n") go(1);
    else if (event.key === "p") go(-1);
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
  function tell(strips, row, column) {
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
  for (const strips of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".strips"))) {
    const item = data[Number(strips.dataset.item)];
    const place = () => [Number(strips.dataset.row) || 0, Number(strips.dataset.column) || 0];
    strips.addEventListener("pointermove", (event) => {
      const strip = /** @type {Element} */ (event.target).closest(".strip");
      if (!strip) return leave();
      const row = [...strips.querySelectorAll(".strip")].indexOf(strip), box = strip.getBoundingClientRect();
      const width = item.values[row].length;
      tell(strips, row, Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * width), 0), width - 1));
    }, { signal });
    strips.addEventListener("pointerleave", leave, { signal });
    strips.addEventListener("focus", () => {
      if (strips.matches(":focus-visible")) tell(strips, place()[0], place()[1]);
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
      tell(strips, row, column);
    }, { signal });
  }
  for (const details of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("details[data-item]"))) {
    details.addEventListener("toggle", () => {
      const place = /** @type {HTMLElement} */ (details.querySelector("pre"));
      if (place.textContent) return;
      const item = data[Number(details.dataset.item)];
      place.textContent = item.values
        .map((row, index) => (item.labels ? item.labels[index] + "\t" : "") + row.map(number).join("  ")).join("\n");
    }, { signal });
  }
  return { unmount: () => signal.stop?.() };
}
