// Two views side by side: of two texts, two models, or the changed model and the one without changes; and their difference.

import { bitmapOf, context2d, FONT, inks } from "../colours.js";
import { clamp, element, isSigned } from "../viewer/names.js";
import { labelsOf, largest as largestOf, short } from "../viewer/weights.js";
import { barRows } from "./bars.js";
import { languageOf, see } from "./look.js";
import { matrixOf } from "./matrix.js";

/** @typedef {{ title: string, rows: string[], columns: string[], values: Float32Array, signed: boolean, causal: boolean, end: (row: number) => number, largest: number }} Plot `end`: what has the last colour of a row */

/** @param {import("./types").Studio} studio */
export function addCompare(studio) {
  const { $ } = studio;
  /** @type {{ packed: import("./look.js").Packed } | null} */
  let other = null;
  /** @type {Plot[]} */
  let plots = [];
  let turn = 0, signature = "", place = { row: 0, column: 0 };

  async function ask() {
    const mine = ++turn;
    other = null;
    if (!studio.seen) return clear("");
    if (!$("compare").open) return;
    const card = studio.models.find((one) => one.id === $("other-model").value), { wanted: own } = studio.seen;
    const wanted = { ...own, model: card.id, language: languageOf(card, own.language) };
    studio.viewer?.keepAddress();
    if (!wanted.image) wanted.text = $("other-text").value.trim() ? $("other-text").value : wanted.text;
    if ($("other-changes").value === "without") wanted.interventions = [];
    try {
      const packed = await see("look", wanted, studio.key);
      if (mine !== turn) return;
      $("compare-note").textContent = "";
      other = { packed };
      const { answer } = packed.head;
      $("other-answer").textContent = answer.text ?? "";
      $("other-bars").tBodies[0].replaceChildren(...barRows((answer.bars ?? []).slice(0, studio.top()), { old: studio.seen.answer.bars }));
      await draw();
    } catch (error) {
      if (mine === turn) clear(error instanceof Error ? error.message : String(error));
    }
  }
  /** Takes away what is of something else. @param {string} note */
  function clear(note) {
    other = null;
    plots = [];
    for (const id of ["compared", "other-answer", "compare-readout"]) $(id).replaceChildren();
    $("other-bars").tBodies[0].replaceChildren();
    $("compare-note").textContent = note;
  }

  async function draw() {
    if (!other || !studio.seen || !studio.viewer) return;
    const { map, head } = studio.viewer.state, index = studio.viewer.data.maps.indexOf(map);
    signature = `${map.address} ${head}`;
    const [a, b] = await Promise.all([studio.seen, other].map(({ packed }) => matrixOf(packed, map.address, index, head)));
    const common = $("other-scale").value === "one" ? Math.max(a.largest, b.largest) || 1 : 0;
    plots = [["A: this page", a], ["B: the other", b]].map(([title, one]) => {
      const { name, values, map, largest } = /** @type {typeof a} */ (one);
      const columns = labelsOf(map.key, false), width = columns.length;
      // The first row of a causal map sees itself alone: on the scale of that 1 every other would be pale.
      const own = (/** @type {number} */ row) => (map.causal ? largestOf(values.subarray(row * width, (row + 1) * width)) : largest) || 1;
      return { title: `${title} · ${name}`, rows: labelsOf(map.query, false), columns, values, signed: isSigned(map), causal: map.causal, end: common ? () => common : own, largest };
    });
    const [{ rows, columns }, { rows: theirs, columns: keys }] = plots;
    if (rows.length === theirs.length && columns.length === keys.length) {
      const values = a.values.map((value, i) => b.values[i] - value);
      const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      plots.push({ title: "B − A", rows: theirs, columns: keys, values, signed: true, causal: a.map.causal && b.map.causal, end: () => largest || 1, largest });
      $("compare-note").textContent = `Largest difference ${short(largest)}. Violet: B looks there less than A; orange: more.`;
    } else {
      $("compare-note").textContent = `A has ${rows.length} queries and ${columns.length} keys, B ${theirs.length} and ${keys.length}: there is no difference of the two.`;
    }
    $("compared").replaceChildren(...plots.map(figure));
    read();
  }

  /** @param {Plot} one @param {number} number */
  function figure(one, number) {
    const whole = element("figure"), canvas = element("canvas"), title = element("figcaption", one.title);
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${one.title}; arrow keys move over the cells`);
    const { cell, left, top } = sizesOf(one);
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      const box = canvas.getBoundingClientRect(), scale = canvas.offsetWidth / (left + cell * one.columns.length);
      move(Math.floor(((event.clientY - box.top) / scale - top) / cell), Math.floor(((event.clientX - box.left) / scale - left) / cell));
    });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const by = /** @type {Record<string, [number, number]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      move(place.row + by[0], place.column + by[1]);
    });
    whole.append(title, canvas);
    paint(canvas, one, number);
    return whole;
  }
  /** @param {Plot} one */
  function sizesOf({ rows, columns }) {
    const longest = Math.min(12, Math.max(...rows.map((row) => row.length), ...columns.map((column) => column.length)));
    const room = $("compared").clientWidth, wide = room > 800 ? (room - 60) / 3 : room - 4, labels = 8 + 6.5 * longest;
    const count = Math.max(rows.length, columns.length), letters = (wide - labels) / count >= 9, margin = letters ? labels : 0;
    const cell = clamp((wide - margin) / count, 1, 22);
    return { cell, left: margin, top: margin, letters };
  }
  /** @param {HTMLCanvasElement} canvas @param {Plot} one @param {number} number */
  function paint(canvas, one, number) {
    const { cell, left, top, letters } = sizesOf(one), { ink, hatch: lines, mark } = inks(), dense = devicePixelRatio || 1;
    const width = left + cell * one.columns.length, height = top + cell * one.rows.length;
    Object.assign(canvas, { width: width * dense, height: height * dense });
    Object.assign(canvas.style, { width: `${width}px` });
    const pen = context2d(canvas);
    pen.scale(dense, dense);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(bitmapOf(one.signed, one.values, one.rows.length, one.columns.length, one.end), left, top, width - left, height - top);
    if (one.causal) hatch(pen, one, cell, left, top, lines);
    Object.assign(pen, { fillStyle: ink, font: `${Math.min(12, cell * 0.9)}px ${FONT}`, textBaseline: "middle", textAlign: "right" });
    if (letters) {
      one.rows.forEach((label, row) => pen.fillText(label.slice(0, 12), left - 5, top + (row + 0.5) * cell));
      pen.textAlign = "left";
      one.columns.forEach((label, column) => {
        pen.save();
        pen.translate(left + (column + 0.5) * cell, top - 5);
        pen.rotate(-Math.PI / 2);
        pen.fillText(label.slice(0, 12), 0, 0);
        pen.restore();
      });
    }
    pen.strokeStyle = mark;
    pen.lineWidth = 1.5;
    pen.strokeRect(left + place.column * cell, top + place.row * cell, cell, cell);
    canvas.dataset.number = String(number);
  }
  /** The cells of later keys, which cannot be attended. @param {CanvasRenderingContext2D} pen @param {Plot} one @param {number} cell @param {number} left @param {number} top @param {string} colour */
  function hatch(pen, { rows, columns }, cell, left, top, colour) {
    const first = (/** @type {number} */ row) => Math.min(row + 1 + columns.length - rows.length, columns.length), width = columns.length * cell, height = rows.length * cell;
    pen.save();
    pen.beginPath();
    rows.forEach((_, row) => pen.rect(left + first(row) * cell, top + row * cell, width - first(row) * cell, cell));
    pen.clip();
    pen.beginPath();
    for (let x = 0; x < width + height; x += 7) {
      pen.moveTo(left + x, top);
      pen.lineTo(left + x - height, top + height);
    }
    Object.assign(pen, { strokeStyle: colour, lineWidth: 1 });
    pen.stroke();
    pen.restore();
  }
  /** @param {number} row @param {number} column */
  function move(row, column) {
    const [{ rows, columns }] = plots;
    place = { row: clamp(row, 0, rows.length - 1), column: clamp(column, 0, columns.length - 1) };
    for (const canvas of $("compared").querySelectorAll("canvas")) paint(canvas, plots[canvas.dataset.number], Number(canvas.dataset.number));
    read();
  }
  function read() {
    const { row, column } = place;
    $("compare-readout").textContent = plots.map(({ title, rows, columns, values }, number) => {
      if (row >= rows.length || column >= columns.length) return "";
      const value = values[row * columns.length + column], sign = number === 2 && value > 0 ? "+" : "";
      return `${["A", "B", "B − A"][number]}: ${number < 2 ? `${rows[row]} → ${columns[column]} ` : ""}${sign}${short(value)}`;
    }).filter(Boolean).join("; ");
  }

  for (const [id, kind] of [["compare", "toggle"], ["other-model", "change"], ["other-text", "input"], ["other-changes", "change"]]) $(id).addEventListener(kind, ask);
  $("other-scale").addEventListener("change", () => {
    studio.viewer?.keepAddress();
    draw();
  });
  // Another layer or head was chosen, by hand or by a key.
  studio.chosen.push(() => {
    const state = studio.viewer?.state;
    if (state && other && signature !== `${state.map.address} ${state.head}`) draw();
  });
  const FIELDS = ["model", "text", "changes", "scale"];
  studio.kept.push(() => ($("compare").open ? [["compare", JSON.stringify(Object.fromEntries(FIELDS.map((name) => [name, $("other-" + name).value])))]] : []));
  studio.opened.push((parts) => {
    try {
      const kept = JSON.parse(parts.get("compare") ?? "null");
      if (!kept || !studio.models.some((one) => one.id === kept.model)) return;
      for (const name of FIELDS) if (typeof kept[name] === "string") $("other-" + name).value = kept[name];
    } catch {
      return; // an address that somebody changed by hand
    }
    if ($("compare").open) ask();
    $("compare").open = true; // which asks
  });
  new MutationObserver(() => plots.length && draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  studio.answered.push(() => {
    const models = studio.models.map((one) => one.id), now = $("other-model").value;
    if (!$("other-model").options.length) $("other-model").replaceChildren(...models.map((id) => Object.assign(element("option", id), { value: id })));
    if (!now || $("other-model").dataset.of !== studio.model().id) Object.assign($("other-model"), { value: studio.model().id }).dataset.of = studio.model().id;
    $("other-text-label").hidden = Boolean(studio.image && studio.seen?.wanted.image);
    ask();
  });
}
