// An image to look at: dropped, pasted, or chosen as a file.

import { base64Of } from "../source.js";

/** Bytes of a file of text that is read into the field. */
const LONGEST = 100000;
const READS = ["image-classification", "image-to-text"];
/** Whether a model reads an image in place of a text. @param {any} card */
export const readsImages = (card) => Boolean(card?.routes.some((/** @type {string} */ route) => READS.includes(route)));

/** @param {import("./types").Studio} studio */
export function addImage(studio) {
  const { $, root } = studio;
  /** @param {File | null | undefined} file */
  async function take(file) {
    if (!file) return;
    if (!file.type.startsWith("image/")) return studio.problem(`${file.name} is no image (${file.type || "of no known type"}); choose a PNG, JPEG, WebP, GIF, BMP or TIFF.`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    studio.image = base64Of(bytes);
    $("file-name").textContent = file.name;
    await studio.ask();
  }
  $("file").addEventListener("change", () => take($("file").files[0]));
  /** Of a model that reads text: a file of text is read into its field, any other is refused. @param {File | null | undefined} file */
  async function takeText(file) {
    if (!file) return;
    const text = await file.text().catch(() => "\ufffd"), { id } = studio.model();
    if (file.size > LONGEST) return studio.problem(`${file.name} has ${file.size.toLocaleString("en")} bytes; a text of at most ${LONGEST.toLocaleString("en")} is read.`);
    if (/[\0\ufffd]/.test(text)) return studio.problem(`${file.name} is no text in UTF-8, and ${id} reads text; drop a file of text, or choose a model that reads images.`);
    $("reads").value = text.trim();
    studio.typed = true;
    await studio.ask();
  }
  const hasFiles = (/** @type {DragEvent} */ event) => Boolean(event.dataTransfer?.types.includes("Files"));
  root.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return; // a text that is dragged into a field is the browser's
    event.preventDefault();
    if (readsImages(studio.model())) $("image-drop").classList.add("over");
  });
  root.addEventListener("dragleave", () => $("image-drop").classList.remove("over"));
  root.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    $("image-drop").classList.remove("over");
    const file = event.dataTransfer?.files[0];
    if (readsImages(studio.model())) take(file);
    else takeText(file);
  });
  addEventListener("paste", (event) => {
    if (readsImages(studio.model())) take(event.clipboardData?.files[0]);
  });
}
