// The widget of a notebook (anywidget's `render`): the viewer's page in a frame of its own, and what goes between it and Python.
// The frame's side is viewer/framed.js.

/** What Python and the page report to each other, by its name in the page's address (URL) and in the widget. */
const PLACE = ["view", "layer", "head", "query", "key"];

/** @param {DataView} view @returns {Uint8Array} */
const bytesIn = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();

/** @param {{ model: any, el: HTMLElement }} given @returns {() => void} ends what listens */
function render({ model, el }) {
  const frame = document.createElement("iframe"), ending = new AbortController();
  frame.title = model.get("data").title || "attention";
  frame.setAttribute("sandbox", "allow-scripts allow-downloads allow-modals");
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 1px solid #8884; border-radius: 8px`;
  /** @type {string} what the page reported last: it is not sent back to the page */
  let reported = "";
  let waiting = 0;
  const chosen = () => Object.fromEntries(PLACE.map((name) => [name, model.get(name)]).filter(([, value]) => value !== null && value !== undefined));
  /** @param {any} message */
  const post = (message) => frame.contentWindow?.postMessage({ regard: message }, "*");
  const send = () => {
    clearTimeout(waiting);
    // Traits that are set together arrive one by one.
    waiting = window.setTimeout(() => JSON.stringify(chosen()) !== reported && post({ place: chosen() }));
  };
  addEventListener("message", ({ source, data }) => {
    const message = source === frame.contentWindow && data?.regard;
    if (!message) return;
    if (message.ready) return post({ data: model.get("data"), levels: model.get("levels").map(bytesIn), place: chosen() });
    for (const name of PLACE) model.set(name, message.place[name]);
    reported = JSON.stringify(chosen());
    model.save_changes();
  }, { signal: ending.signal });
  for (const name of PLACE) model.on(`change:${name}`, send);
  frame.srcdoc = model.get("page");
  el.append(frame);
  // The page that is in the saved notebook for those who have no kernel: the live one replaces it.
  const saved = document.getElementById(model.get("saved"));
  if (saved) saved.hidden = true;
  return () => {
    ending.abort();
    for (const name of PLACE) model.off(`change:${name}`, send);
    if (saved) saved.hidden = false;
  };
}

export default { render };
