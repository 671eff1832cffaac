// What all pages share: light and dark, printing, and the keys that every page has.

/** @typedef {"light" | "dark"} Theme */

const page = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
/** @type {{ chosen: Theme | null, printing: boolean, listeners: Set<() => void> }} */
const held = { chosen: null, printing: false, listeners: new Set() };

/** The theme that is shown; paper is light. @returns {Theme} */
export const theme = () => (held.printing ? "light" : held.chosen || (dark.matches ? "dark" : "light"));
export const isPrinting = () => held.printing;

function dress() {
  page.dataset.theme = theme();
  for (const listener of held.listeners) listener();
}
export function switchTheme() {
  held.chosen = theme() === "dark" ? "light" : "dark";
  dress();
}

/** An element of a view by its id: a view's markup may lie anywhere, in a shadow root too. */
/** @param {ParentNode} root @returns {(id: string) => any} */
export const finder = (root) => (id) => root.querySelector("#" + id);

/** The screen for the page, or back; where the browser refuses, the page has its window. @param {boolean} on */
export function fillScreen(on) {
  if (on && !document.fullscreenElement) document.documentElement.requestFullscreen?.().catch(() => {});
  else if (!on && document.fullscreenElement) document.exitFullscreen().catch(() => {});
}

/**
 * Starts what a page's shell offers around a view.
 *
 * @param {HTMLElement} root the element that holds the view's markup
 * @param {{ keys?: (event: KeyboardEvent) => boolean, changed?: () => void }} [view] `keys` handles a key and returns whether
 *     it did; `changed` is called when the theme changes, and before and after printing
 * @returns {AbortSignal & { stop?: () => void }} ends with the view: pass it to `addEventListener`
 */
export function startShell(root, { keys, changed } = {}) {
  const $ = finder(root), ending = new AbortController(), { signal } = ending;
  const help = /** @type {HTMLDialogElement | null} */ ($("help"));
  page.dataset.theme = theme();
  if (changed) held.listeners.add(changed);
  dark.addEventListener("change", dress, { signal });
  $("theme")?.addEventListener("click", switchTheme, { signal });
  $("help-open")?.addEventListener("click", () => help?.showModal(), { signal });
  for (const [name, value] of /** @type {const} */ ([["beforeprint", true], ["afterprint", false]])) {
    addEventListener(name, () => {
      held.printing = value;
      dress();
    }, { signal });
  }
  document.addEventListener("keydown", (event) => {
    // AltGr, which many keyboards need for brackets, reports itself as Ctrl and Alt together.
    const asked = /** @type {HTMLElement} */ (event.target);
    if (event.metaKey || (event.ctrlKey && !event.altKey) || (event.altKey && !event.ctrlKey) || help?.open) return;
    if (asked.matches?.("input:not([type=checkbox]), textarea")) return;
    if (keys?.(event)) event.preventDefault();
    else if (event.key === "t") switchTheme();
    else if (event.key === "?") help?.showModal();
    else return;
    event.preventDefault();
  }, { signal });
  signal.addEventListener("abort", () => changed && held.listeners.delete(changed));
  return Object.assign(signal, { stop: () => ending.abort() });
}
