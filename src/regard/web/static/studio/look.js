// What the studio asks its server: the models there are, and what one of them looks at.

/** @typedef {{ label: string, probability?: number, log_probability?: number }} Bar */
/** @typedef {{ what: string, text?: string, bars?: Bar[] }} Told */
/** @typedef {{ kind: "scale", address: string, heads: number[], factor: number }} Change */

/** @param {string} key of the server; empty where it has none @returns {Record<string, string>} */
const headers = (key) => ({ "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) });

/** @param {Response} response @returns {Promise<Response>} */
async function answered(response) {
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  throw new Error(said?.error?.message ?? said?.error ?? `the server answered ${response.status}`);
}

/** @param {string} key @returns {Promise<any[]>} */
export async function models(key) {
  return (await (await answered(await fetch("v1/models", { headers: headers(key) }))).json()).data;
}

/**
 * The attention of a model to a text.
 *
 * @param {{ model: string, text: string, second: string | null, interventions: Change[] }} wanted
 * @param {string} key
 * @returns {Promise<{ answer: Told, plain: Told | null, source: import("../source.js").Source }>}
 */
export async function look(wanted, key) {
  const response = await answered(await fetch("studio/look", { method: "POST", headers: headers(key), body: JSON.stringify(wanted) }));
  const bytes = new Uint8Array(await response.arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  /** @type {number[]} where the numbers of each map begin */
  const places = [4 + length];
  for (const map of head.maps) {
    const size = map.heads * head.sides[map.query].tokens.length * head.sides[map.key].tokens.length * map.size;
    places.push(places[places.length - 1] + size);
  }
  return {
    answer: head.answer,
    plain: head.plain,
    source: { data: async () => head, levels: async (index) => bytes.subarray(places[index], places[index + 1]) },
  };
}
