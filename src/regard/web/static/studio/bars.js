// Answers as rows of bars: classes, candidates, the next tokens.

import { element } from "../viewer/names.js";

/** @typedef {import("./look.js").Bar} Bar */

/** @param {Bar} bar */
export const share = (bar) => bar.probability ?? Math.exp(bar.log_probability ?? -Infinity);
/** A token as it can be read: spaces at its ends are seen. @param {string} text */
export const shown = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵") || "∅";

/**
 * Rows of a table, a bar each; where there are old ones, those are thin bars below.
 *
 * @param {Bar[]} bars @param {{ old?: Bar[], chosen?: (bar: Bar) => boolean, take?: (bar: Bar) => void }} [more] `take` makes buttons of their names
 */
export function barRows(bars, { old, chosen, take } = {}) {
  return bars.map((bar) => {
    const row = element("tr"), cell = element("td", undefined, "share"), line = element("span"), name = element("td");
    const before = old?.find((one) => one.label === bar.label);
    line.style.width = 100 * share(bar) + "%";
    cell.append(line);
    if (before) {
      const mark = element("span", undefined, "plain");
      mark.style.width = 100 * share(before) + "%";
      cell.append(mark);
    }
    const mine = chosen?.(bar) ?? false;
    if (take) {
      const button = Object.assign(element("button", shown(bar.label)), { type: "button" });
      button.setAttribute("aria-label", mine ? `${shown(bar.label)}, which was taken` : `take ${shown(bar.label)} here`);
      button.addEventListener("click", () => take(bar));
      name.append(button);
    } else name.textContent = shown(bar.label);
    row.classList.toggle("chosen", mine);
    row.append(name, cell, element("td", share(bar).toPrecision(3) + (before ? ` (was ${share(before).toPrecision(3)})` : "")));
    return row;
  });
}
