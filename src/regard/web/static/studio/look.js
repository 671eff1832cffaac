// What the studio asks its server: the models there are, what one of them looks at, what it writes, what its layers would predict.

/** @typedef {{ label: string, probability?: number, log_probability?: number, id?: number }} Bar */
/** @typedef {{ what: string, text?: string, bars?: Bar[] }} Answer */
/** @typedef {{ kind: "scale", address: string, heads: number[], factor: number }} Scale */
/** @typedef {{ kind: "patch", address: string, from: any, positions: number[], from_positions?: number[] }} Patch */
/** @typedef {{ kind: "weights", address: string, head: number, row: number, weights: number[] }} Weigh */
/** @typedef {Scale | Patch | Weigh} Change */
/** @typedef {{ model: string, text: string, second?: string | null, image?: string, language?: string | null, top?: number, interventions: Change[] }} Wanted */
/** @typedef {{ head: any, bytes: Uint8Array, places: number[] }} Packed what a view is made of: see `packed` in `regard/inspection/viewer.py` */
/** @typedef {import("../source.js").Source} Source */

/** The language that a model translates into: the one that is wanted, where it has it; none where it has no choice. @param {any} model @param {string | null | undefined} wanted @returns {string | null} */
export const languageOf = ({ languages = [] }, wanted) => (languages.includes(wanted) ? wanted : languages[0]) ?? null;

/** @param {string} key of the server; empty where it has none @returns {Record<string, string>} */
const headers = (key) => ({ "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) });

/** @param {Response} response @returns {Promise<Response>} */
async function answered(response) {
  if (response.ok) return response;
  if (response.status === 401) throw new Error("This page has no key, or not the one of this server: open the link that the terminal printed when the server was started.");
  const body = await response.json().catch(() => null);
  throw new Error(body?.error?.message ?? body?.error ?? `the server answered ${response.status}`);
}

/** @param {string} path @param {RequestInit} request @returns {Promise<Response>} */
async function fetched(path, request) {
  let response;
  try {
    response = await fetch(path, request);
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw new Error("The server does not answer; is it still running?");
  }
  return answered(response);
}

/** @param {string} key @param {string} [up] from the page to the server's root @returns {Promise<any[]>} */
export const models = async (key, up = "") => (await (await fetched(`${up}v1/models`, { headers: headers(key) })).json()).data;

/** @param {string} path @param {any} wanted @param {string} key @param {AbortSignal} [signal] */
async function posted(path, wanted, key, signal) {
  return fetched(`studio/${path}`, { method: "POST", headers: headers(key), body: JSON.stringify(wanted), signal });
}

/** An answer of JSON alone. @param {string} path @param {any} wanted @param {string} key @param {AbortSignal} [signal] @returns {Promise<any>} */
export const fetchedJson = async (path, wanted, key, signal) => (await posted(path, wanted, key, signal)).json();

/** An answer of bytes. @param {string} path @param {any} wanted @param {string} key @param {AbortSignal} [signal] */
export const fetchedBytes = async (path, wanted, key, signal) => new Uint8Array(await (await posted(path, wanted, key, signal)).arrayBuffer());

/** The JSON at the beginning of an answer of bytes, and where the rest begins. @param {Uint8Array} bytes */
export function headAndRest(bytes) {
  const rest = 4 + new DataView(bytes.buffer).getUint32(0, true);
  return { head: JSON.parse(new TextDecoder().decode(bytes.subarray(4, rest))), bytes, rest };
}

/** An answer with maps. @param {string} path @param {any} wanted @param {string} key @param {AbortSignal} [signal] @returns {Promise<Packed>} */
export async function see(path, wanted, key, signal) {
  const { head, bytes, rest } = headAndRest(await fetchedBytes(path, wanted, key, signal));
  /** @type {number[]} where the numbers of each map begin */
  const places = [rest];
  for (const map of head.maps) places.push(places[places.length - 1] + map.heads * map.size * sizeOf(head, map));
  return { head, bytes, places };
}
/** @param {any} head @param {any} map */
const sizeOf = (head, map) => head.sides[map.query].tokens.length * head.sides[map.key].tokens.length;

/** The numbers of one map. @param {Packed} packed @param {number} index */
export const numbersOf = ({ bytes, places }, index) => bytes.subarray(places[index], places[index + 1]);

/** All of a view, for the viewer, which changes what it is given. @param {Packed} packed @returns {Source} */
export const sourceOf = (packed) => ({ data: async () => structuredClone(packed.head), levels: async (index) => numbersOf(packed, index) });
