// The attention of watched examples in a training: a slider over the steps, and the viewer with the map of the one that is chosen.

import { finder } from "../shell.js";
import { mount } from "../viewer/viewer.js";
import { see, sourceOf } from "./look.js";

/**
 * @param {HTMLElement} root the element that holds the page's markup
 * @param {{ key: string, address: () => [string, string][], keys: (event: KeyboardEvent) => boolean, choose: (step: number | null) => void, run: () => string | null, mounted: () => void }} page
 *     its key, the parameters of its URL, its keys, how a step is chosen in its curves, which run it shows, and what is called when the
 *     viewer takes over the keys
 */
export function addWatched(root, page) {
  const $ = finder(root), slider = $("watched"), asked = Number(new URLSearchParams(location.hash.slice(1)).get("step"));
  /** @type {number[]} */
  let steps = [];
  /** @type {import("../viewer/types").Viewer | null} */
  let viewer = null;
  /** @type {number | null} the step that is shown, or that is being asked for */
  let wanted = null;
  let following = !asked, showing = false;
  root.classList.add("unwatched");

  /** @returns {[string, string][]} */
  const more = () => [...page.address(), .../** @type {[string, string][]} */ (following || wanted === null ? [] : [["step", String(wanted)]])];
  function keep() {
    if (viewer) viewer.keepAddress();
    else history.replaceState(null, "", "#" + new URLSearchParams(more()));
  }
  /** Names the step next to the slider. */
  function name() {
    const text = wanted === null ? "" : `step ${wanted.toLocaleString("en")}${following ? ", the newest" : ""}`;
    $("watched-step").textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }
  /** Shows the wanted step; one that is chosen meanwhile is shown afterwards. */
  async function show() {
    if (showing) return;
    showing = true;
    try {
      for (let shown = null; shown !== wanted && wanted !== null; ) {
        shown = wanted;
        const source = sourceOf(await see("../training/attention", { run: page.run(), step: shown }, page.key));
        if (viewer) await viewer.replace(source);
        else {
          root.classList.remove("unwatched");
          page.mounted();
          viewer = await mount(root, source);
          const own = viewer.keys;
          // What is pressed in the viewer is the viewer's; its arrows would move the curves too.
          viewer.keys = (event) => (/** @type {Element} */ (event.target).closest?.(".bar, .controls, #panel") ? own(event) : page.keys(event) || own(event));
          viewer.more = more;
          Object.assign(window, { regard: viewer });
        }
        root.dataset.step = String(shown);
        $("watched-problem").textContent = "";
      }
    } catch (error) {
      $("watched-problem").textContent = error instanceof Error ? error.message : String(error);
    }
    showing = false;
    if (viewer) keep();
  }
  slider.addEventListener("input", () => {
    following = Number(slider.value) === steps.length - 1;
    wanted = steps[Number(slider.value)];
    name();
    page.choose(following ? null : wanted);
    show();
  });

  /** Which steps there are now. @param {number[]} found @param {boolean} anew whether those from before are of another run */
  function update(found, anew) {
    if (!anew && found.length === steps.length && found[found.length - 1] === steps[steps.length - 1]) return;
    steps = found;
    $("watching").hidden = !steps.length;
    root.classList.toggle("unwatched", !steps.length || (!viewer && !showing));
    if (!steps.length) {
      wanted = null;
      return;
    }
    const before = wanted ?? asked, last = steps.length - 1;
    const nearest = steps.reduce((best, step, place) => (Math.abs(step - before) < Math.abs(steps[best] - before) ? place : best), 0);
    const place = following ? last : nearest;
    slider.max = String(last);
    slider.value = String(place);
    wanted = steps[place];
    name();
    show();
  }
  return { update, keep };
}
