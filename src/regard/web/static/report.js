// The page of a report: of several figures in one place the buttons above choose. All is in the page without it.

import { startShell } from "./shell.js";

/**
 * Brings a report to life in an element that holds its markup (`templates/report.html`); it needs no other data.
 *
 * @param {HTMLElement} root
 * @returns {Promise<{ unmount(): void }>}
 */
export async function mount(root) {
  const signal = startShell(root);
  for (const choice of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".choice"))) {
    const place = /** @type {HTMLElement} */ (choice.parentElement), buttons = [...choice.querySelectorAll("button")];
    const figures = /** @type {HTMLElement[]} */ ([...place.querySelectorAll("[data-shows]")]);
    /** @param {string} wanted */
    const choose = (wanted) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === wanted));
      for (const figure of figures) figure.hidden = figure.dataset.shows !== wanted;
    };
    for (const button of buttons) button.addEventListener("click", () => choose(button.value), { signal });
    choice.hidden = false;
    choose(buttons[0].value);
  }
  return { unmount: () => signal.stop?.() };
}
