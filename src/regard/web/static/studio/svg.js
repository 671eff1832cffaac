// Elements of a drawing.

/** @param {string} name @param {Record<string, string | number>} given @param {string} [text] @returns {SVGElement} */
export function svgElement(name, given, text) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(given)) one.setAttribute(key, String(value));
  if (text !== undefined) one.textContent = text;
  return one;
}
