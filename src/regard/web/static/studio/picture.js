// A picture to look at: dropped, pasted, or chosen as a file.

import { base64Of } from "../source.js";

const READS = ["image-classification", "image-to-text"];
/** Whether a model reads a picture in place of a text. @param {any} card */
export const readsPictures = (card) => Boolean(card?.routes.some((/** @type {string} */ route) => READS.includes(route)));

/** @param {import("./types").Studio} studio */
export function addPicture(studio) {
  const { $, root } = studio;
  /** @param {File | null | undefined} file */
  async function take(file) {
    if (!file) return;
    if (!file.type.startsWith("image/")) return studio.problem(`${file.name} is no picture (${file.type || "of no known type"}); choose a PNG, JPEG, WebP, GIF, BMP or TIFF.`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    studio.image = base64Of(bytes);
    $("file-name").textContent = file.name;
    await studio.ask();
  }
  $("file").addEventListener("change", () => take($("file").files[0]));
  root.addEventListener("dragover", (event) => {
    if (!readsPictures(studio.model())) return;
    event.preventDefault();
    $("picture-drop").classList.add("over");
  });
  root.addEventListener("dragleave", () => $("picture-drop").classList.remove("over"));
  root.addEventListener("drop", (event) => {
    if (!readsPictures(studio.model())) return;
    event.preventDefault();
    $("picture-drop").classList.remove("over");
    take(event.dataTransfer?.files[0]);
  });
  addEventListener("paste", (event) => {
    if (readsPictures(studio.model())) take(event.clipboardData?.files[0]);
  });
}
