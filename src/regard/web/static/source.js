// Where a view's data come from: the page itself, or (fetched.js) a server.

/**
 * @typedef {object} Source
 * @property {() => Promise<any>} data what the view shows, as its Python page describes it
 * @property {(index: number) => Promise<Uint8Array>} levels what is packed with the data: the weights of a map of the viewer, as
 *     numbers of one or two bytes; the points of a map of vectors, and the values shown for them
 */

/** @param {string} text base64 @returns {Uint8Array} */
export function bytesOf(text) {
  if (/** @type {any} */ (Uint8Array).fromBase64) return /** @type {any} */ (Uint8Array).fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array} bytes @returns {string} base64 */
export function base64Of(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}

/** What deflated bytes hold. @param {Uint8Array} packed @returns {Promise<Uint8Array>} */
export async function inflated(packed) {
  const stream = new Blob([/** @type {any} */ (packed)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The data that lie in a page. @param {ParentNode} [page] @returns {Source} */
export function inlineSource(page = document) {
  /** @param {string} id */
  const text = (id) => page.querySelector("#" + id)?.textContent ?? "";
  return {
    data: async () => JSON.parse(text("data")),
    levels: async (index) => inflated(bytesOf(text(`weights-${index}`))),
  };
}
