// The data of a view from a server: `URL/data` is JSON, `URL/weights/0` the deflated weights of the first map.

import { inflated } from "./source.js";

/** @param {string} address @returns {Promise<Response>} */
async function answer(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status} ${response.statusText}`);
  return response;
}

/** @param {string} url @returns {import("./source.js").Source} */
export function fetchedSource(url) {
  return {
    data: async () => (await answer(`${url}/data`)).json(),
    levels: async (index) => inflated(new Uint8Array(await (await answer(`${url}/weights/${index}`)).arrayBuffer())),
  };
}
