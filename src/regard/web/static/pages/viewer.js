// The page of the viewer. Whoever steers it from outside, or from the console, finds it as `regard`.

import { inlineSource } from "../source.js";
import { framedView } from "../viewer/framed.js";
import { mount } from "../viewer/viewer.js";

/** A page without data of its own is the frame of a widget, which gives them. */
async function start() {
  const framed = document.getElementById("data") ? null : await framedView();
  Object.assign(window, { regard: await mount(document.body, framed?.source ?? inlineSource()) });
  await framed?.follow(/** @type {any} */ (window).regard);
}
start();
