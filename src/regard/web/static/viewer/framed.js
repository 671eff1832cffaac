// A viewer in the frame of a notebook's widget (../widget.js): it receives its data as messages, and reports what it shows.

import { inflated } from "../source.js";

/** @param {any} message */
const post = (message) => parent.postMessage({ regard: message }, "*");

/**
 * Asks the page around this frame for a view.
 *
 * @returns {Promise<{ source: import("../source.js").Source, follow: (viewer: import("./types").Viewer) => Promise<void> }>} `follow`
 *     shows what the other side chose, and from then on reports to it what is shown
 */
export function framedView() {
  return new Promise((given) => {
    /** @param {MessageEvent} event */
    const first = ({ source, data }) => {
      const message = source === parent && data?.regard;
      if (!message?.data) return;
      removeEventListener("message", first);
      given({
        source: { data: async () => message.data, levels: (index) => inflated(message.levels[index]) },
        follow: (viewer) => follow(viewer, message.place),
      });
    };
    addEventListener("message", first);
    post({ ready: true });
  });
}

/** @param {import("./types").Viewer} viewer @param {Record<string, any>} begin */
async function follow(viewer, begin) {
  let waiting = 0;
  const report = () => {
    clearTimeout(waiting);
    waiting = window.setTimeout(() => {
      const { view, map, head, row, column } = viewer.state;
      post({ place: { view, layer: map.address, head, query: row, key: column } });
    }, 30);
  };
  /** Shows another place, and leaves what it does not name as it is. @param {Record<string, any>} place */
  const go = async (place) => {
    const parts = viewer.address();
    for (const [name, value] of Object.entries(place)) parts.set(name, String(value));
    // Lines show the heads that are on; one that is asked for is on alone.
    if ("head" in place && place.head !== "mean" && place.head !== viewer.state.head) parts.set("heads", String(place.head));
    await viewer.open(parts);
    report();
  };
  viewer.chosen = report;
  addEventListener("message", ({ source, data }) => {
    const place = source === parent && data?.regard?.place;
    if (place) go(place);
  }, { signal: viewer.signal });
  await go(begin);
}
