// How well what is written on a page stands out, as WCAG 2 defines contrast: texts of the document, and those drawn on a canvas.
// axe-core judges neither what is drawn nor, in many cases, what is partly transparent. Exempt are, as in WCAG, controls that cannot
// be used just now.

/** Notes what is drawn on canvases from now on, with the colours that lie under it. */
function watch() {
  if (window.drawnTexts) return;
  window.drawnTexts = [];
  const draw = CanvasRenderingContext2D.prototype.fillText, pixel = document.createElement("canvas");
  pixel.width = pixel.height = 1;
  const probe = pixel.getContext("2d", { willReadFrequently: true });
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    if (this.canvas.isConnected && String(text).trim()) {
      // The colours that lie under it, along its middle; a label on paper has paper there.
      const width = this.measureText(text).width, start = { left: 0, start: 0, center: -width / 2, right: -width, end: -width }[this.textAlign];
      const size = parseFloat(/([\d.]+)px/.exec(this.font)[1]), form = this.getTransform(), under = new Map();
      const middle = this.textBaseline === "alphabetic" ? -size / 3 : 0;
      for (let part = 0.5; part < 8; part++) {
        const point = form.transformPoint(new DOMPoint(x + start + (width * part) / 8, y + middle));
        if (point.x < 0 || point.y < 0 || point.x >= this.canvas.width || point.y >= this.canvas.height) continue;
        probe.clearRect(0, 0, 1, 1);
        probe.drawImage(this.canvas, Math.floor(point.x), Math.floor(point.y), 1, 1, 0, 0, 1, 1);
        const name = [...probe.getImageData(0, 0, 1, 1).data].join();
        under.set(name, (under.get(name) ?? 0) + 1);
      }
      const [most] = [...under].sort((one, other) => other[1] - one[1])[0] ?? [];
      const bold = /\b(bold|[6-9]\d\d)\b/.test(this.font);
      if (most) window.drawnTexts.push({ text: String(text), colour: this.fillStyle, alpha: this.globalAlpha, under: most, size, bold, canvas: this.canvas });
    }
    return draw.call(this, text, x, y, ...more);
  };
}

/** What does not stand out, in words: less than 4.5, or 3 where it is large. */
async function low() {
  const parsed = (colour) => {
    const hex = /^#([0-9a-f]{6})$/i.exec(colour);
    if (hex) return [...[0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16)), 1];
    const srgb = /^color\(srgb ([^)]*)\)/.exec(colour);
    if (srgb) { const [r, g, b, a = 1] = srgb[1].split(/[\s/]+/).map(Number); return [255 * r, 255 * g, 255 * b, a]; }
    const [r, g, b, a = 1] = (/\(([^)]*)\)/.exec(colour)?.[1] ?? "0,0,0,0").split(/[\s,/]+/).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const paper = parsed(getComputedStyle(document.body).backgroundColor), lacking = [];
  const check = (what, colour, under, size, bold) => {
    const found = ratio(colour, under), isSign = /“[■●▲▶◀|]+”$/.test(what); // a sign, no text
    const least = isSign || size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    if (found < least - 0.005) lacking.push(`${what}: ${found.toFixed(2)} of ${least}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement, style = getComputedStyle(own);
    if (!node.textContent.trim() || !own.checkVisibility({ visibilityProperty: true })) continue;
    if (own.closest("script, style, [inert], :disabled, option, noscript")) continue;
    range.selectNodeContents(node);
    if (!range.getBoundingClientRect().width) continue;
    const chain = [];
    for (let one = own; one; one = one.parentElement) chain.unshift(getComputedStyle(one));
    let under = paper, opacity = 1;
    for (const each of chain) {
      opacity *= Number(each.opacity);
      const [r, g, b, a] = parsed(each.backgroundColor);
      under = over([r, g, b, a * opacity], under);
    }
    const [r, g, b, a] = parsed(own instanceof SVGElement ? style.fill : style.color);
    const name = `${own.tagName.toLowerCase()}${own.id ? "#" + own.id : own.className?.baseVal ?? (own.className ? "." + own.className : "")} “${node.textContent.trim().slice(0, 24)}”`;
    check(name, over([r, g, b, a * opacity], under), under, parseFloat(style.fontSize), Number(style.fontWeight) >= 600);
  }
  // Everything is drawn once more, and looked at as it is drawn.
  window.drawnTexts.length = 0;
  dispatchEvent(new Event("resize"));
  window.regard?.layout?.();
  for (const canvas of document.querySelectorAll("#compared canvas")) canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
  await new Promise((ready) => requestAnimationFrame(() => setTimeout(ready, 30)));
  for (const { text, colour, alpha, under, size, bold, canvas } of window.drawnTexts) {
    if (!canvas.isConnected || canvas.closest("[inert]")) continue;
    const [r, g, b, a] = parsed(colour), ground = over([...under.split(",").slice(0, 3).map(Number), Number(under.split(",")[3]) / 255], paper);
    const density = canvas.width / (canvas.clientWidth || canvas.width) || 1;
    check(`canvas “${text}”`, over([r, g, b, a * alpha], ground), ground, size / (density > 3 ? density : 1), bold);
  }
  return [...new Set(lacking)];
}
