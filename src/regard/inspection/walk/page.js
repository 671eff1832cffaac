// Theme, steps by key, and the reading of single numbers out of strips. All pictures are in the page without it.

"use strict";
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);

// Light or dark.

const root = document.documentElement;
const media = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
const dress = () => { root.dataset.theme = chosen || (media.matches ? "dark" : "light"); };
const change = () => { chosen = root.dataset.theme === "dark" ? "light" : "dark"; dress(); };
media.addEventListener("change", dress);
$("theme").addEventListener("click", change);
dress();
addEventListener("beforeprint", () => { root.dataset.theme = "light"; });
addEventListener("afterprint", dress);

// From step to step.

const sections = [...document.querySelectorAll("section")];
const links = [...document.querySelectorAll("nav a")];
function current() {
  const line = document.querySelector("nav").getBoundingClientRect().bottom + 40;
  let found = 0;
  sections.forEach((section, index) => { if (section.getBoundingClientRect().top <= line) found = index; });
  return found;
}
function follow() {
  const here = current();
  links.forEach((link, index) => {
    if (index === here) link.setAttribute("aria-current", "step");
    else link.removeAttribute("aria-current");
  });
}
addEventListener("scroll", follow, { passive: true });
follow();
function go(by) {
  const above = sections[0].getBoundingClientRect().top > document.querySelector("nav").getBoundingClientRect().bottom + 40;
  const next = above && by > 0 ? 0 : Math.min(Math.max(current() + by, 0), sections.length - 1);
  sections[next].scrollIntoView({ block: "start" });
  follow();
}
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "n") go(1);
  else if (event.key === "p") go(-1);
  else if (event.key === "t") change();
  else if (event.key === "Escape") leave();
});

// Numbers out of strips.

const readout = $("readout");
const number = (value) => (value === null ? "not a finite number" : String(value));
let marked = null;
function leave() {
  readout.hidden = true;
  if (marked) marked.remove();
  marked = null;
}
function tell(strips, row, column) {
  const item = data[strips.dataset.item];
  const values = item.values[row];
  const strip = strips.querySelectorAll(".strip")[row];
  leave();
  marked = document.createElement("div");
  marked.className = "cell";
  marked.style.left = (100 * column) / values.length + "%";
  marked.style.width = 100 / values.length + "%";
  strip.append(marked);
  const label = item.labels ? `, ${item.labels[row]}` : "";
  readout.textContent = `${item.name}${label}, entry ${column} of 0 to ${values.length - 1}: ${number(values[column])}`;
  readout.hidden = false;
  strips.dataset.row = row;
  strips.dataset.column = column;
}
for (const strips of document.querySelectorAll(".strips")) {
  const item = data[strips.dataset.item];
  strips.addEventListener("pointermove", (event) => {
    const strip = event.target.closest(".strip");
    if (!strip) return leave();
    const row = [...strips.querySelectorAll(".strip")].indexOf(strip);
    const box = strip.getBoundingClientRect();
    const width = item.values[row].length;
    tell(strips, row, Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * width), 0), width - 1));
  });
  strips.addEventListener("pointerleave", leave);
  strips.addEventListener("focus", () => { if (strips.matches(":focus-visible")) tell(strips, +strips.dataset.row || 0, +strips.dataset.column || 0); });
  strips.addEventListener("blur", leave);
  strips.addEventListener("keydown", (event) => {
    let row = +strips.dataset.row || 0, column = +strips.dataset.column || 0;
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
  });
}
for (const details of document.querySelectorAll("details[data-item]")) {
  details.addEventListener("toggle", () => {
    const place = details.querySelector("pre");
    if (place.textContent) return;
    const item = data[details.dataset.item];
    place.textContent = item.values
      .map((row, index) => (item.labels ? item.labels[index] + "\t" : "") + row.map(number).join("  ")).join("\n");
  });
}
