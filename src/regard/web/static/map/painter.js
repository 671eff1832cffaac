// All points at once: by WebGL in one call, or, where there is none, on an ordinary canvas.

import { HEADS, SCALES, SIGNED, coloursOf, context2d, inks } from "../colours.js";
import { theme } from "../shell.js";

/** @typedef {import("./types").Column} Column */
/** @typedef {import("./types").Painter} Painter */

/** Of so many classes each has a colour and a mark of its own: seven colours as discs, then as squares, diamonds and triangles. */
export const DISTINCT_CLASSES = 28;
/** The level of a point: behind the others, level with them, or in front of them. */
export const BEHIND = 0, PLAIN = 1, BEFORE = 2;

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour; in vec2 mark;
uniform vec2 centre, zoom; uniform float size;
out vec4 ink; flat out float shape;
void main() {
  gl_Position = vec4((place - centre) * zoom, 0.5 - 0.25 * mark.y, 1.0);
  gl_PointSize = mark.y > 1.5 ? max(size * 1.7, 5.0) : size;
  ink = colour;
  shape = mark.x;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 ink; flat in float shape;
out vec4 result;
void main() {
  vec2 at = gl_PointCoord * 2.0 - 1.0;
  float far = shape < 0.5 ? length(at) : shape < 1.5 ? max(abs(at.x), abs(at.y)) * 1.15
    : shape < 2.5 ? abs(at.x) + abs(at.y) : max(at.y * 1.1, abs(at.x) * 1.6 - at.y * 0.9 - 0.1);
  float soft = fwidth(far);
  float cover = ink.a * (1.0 - smoothstep(1.0 - soft, 1.0, far));
  if (cover < 0.02) discard;
  result = vec4(ink.rgb * cover, cover);
}`;

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} xs
 * @param {Float32Array} ys
 * @param {() => void} again draws once more, after the browser took the graphics away for a time
 * @returns {Painter}
 */
export function painterOf(canvas, xs, ys, again) {
  const gl = canvas.getContext("webgl2", { antialias: false });
  if (!gl) return canvasPainter(canvas, xs.length);
  /** @type {import("./types").Looks | null} */
  let looks = null;
  let set = started(gl, xs, ys);
  canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
  canvas.addEventListener("webglcontextrestored", () => {
    set = started(gl, xs, ys);
    if (looks) set.dress(looks);
    again();
  });
  return {
    kind: "webgl",
    dress: (given) => set.dress((looks = given)),
    draw(space, size) {
      const { ratio } = sized(canvas, space);
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniform2f(set.centre, space.x, space.y);
      gl.uniform2f(set.zoom, (2 * space.scale) / space.width, (2 * space.scale) / space.height);
      gl.uniform1f(set.size, size * ratio);
      gl.drawArrays(gl.POINTS, 0, xs.length);
    },
  };
}

/** @param {WebGL2RenderingContext} gl @param {Float32Array} xs @param {Float32Array} ys */
function started(gl, xs, ys) {
  const program = /** @type {WebGLProgram} */ (gl.createProgram());
  for (const [kind, text] of /** @type {[number, string][]} */ ([[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]])) {
    const shader = /** @type {WebGLShader} */ (gl.createShader(kind));
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  gl.useProgram(program);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  gl.enable(gl.DEPTH_TEST);
  gl.depthFunc(gl.LEQUAL);
  /** @param {string} name @param {number} size @param {number} kind @param {boolean} shares */
  const buffer = (name, size, kind, shares) => {
    const made = gl.createBuffer(), at = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, made);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, kind, shares, 0, 0);
    return made;
  };
  const places = new Float32Array(2 * xs.length);
  for (let i = 0; i < xs.length; i++) {
    places[2 * i] = xs[i];
    places[2 * i + 1] = ys[i];
  }
  buffer("place", 2, gl.FLOAT, false);
  gl.bufferData(gl.ARRAY_BUFFER, places, gl.STATIC_DRAW);
  const colours = buffer("colour", 4, gl.UNSIGNED_BYTE, true), marks = buffer("mark", 2, gl.UNSIGNED_BYTE, false);
  return {
    centre: gl.getUniformLocation(program, "centre"),
    zoom: gl.getUniformLocation(program, "zoom"),
    size: gl.getUniformLocation(program, "size"),
    /** @param {import("./types").Looks} looks */
    dress(looks) {
      gl.bindBuffer(gl.ARRAY_BUFFER, colours);
      gl.bufferData(gl.ARRAY_BUFFER, looks.colours, gl.DYNAMIC_DRAW);
      gl.bindBuffer(gl.ARRAY_BUFFER, marks);
      gl.bufferData(gl.ARRAY_BUFFER, looks.marks, gl.DYNAMIC_DRAW);
    },
  };
}

/** Squares instead of the marks, those behind first. @param {HTMLCanvasElement} canvas @param {number} count @returns {Painter} */
function canvasPainter(canvas, count) {
  /** @type {import("./types").Looks} */
  let looks = { colours: new Uint8Array(4 * count), marks: new Uint8Array(2 * count) };
  const context = context2d(canvas);
  return {
    kind: "canvas",
    dress: (given) => void (looks = given),
    draw(space, size) {
      const { ratio } = sized(canvas, space);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, space.width, space.height);
      for (const level of [BEHIND, PLAIN, BEFORE]) {
        const side = level === BEFORE ? Math.max(size * 1.5, 5) : size * 0.9;
        for (let i = 0; i < count; i++) {
          if (looks.marks[2 * i + 1] !== level || !space.sees(i, side)) continue;
          const [r, g, b, a] = looks.colours.subarray(4 * i, 4 * i + 4);
          context.fillStyle = `rgb(${r} ${g} ${b} / ${a / 255})`;
          context.fillRect(space.toX(i) - side / 2, space.toY(i) - side / 2, side, side);
        }
      }
    },
  };
}

/** Gives a canvas as many pixels as the screen has in its place. @param {HTMLCanvasElement} canvas @param {{ width: number, height: number }} space */
export function sized(canvas, space) {
  const ratio = devicePixelRatio || 1, width = Math.round(space.width * ratio), height = Math.round(space.height * ratio);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  return { ratio };
}

/** How large a point is, in pixels: larger where there are few, and from near. @param {number} count @param {number} closer */
export const pointSize = (count, closer) =>
  Math.min(14, Math.max(2.2, 9 - 1.35 * Math.log10(Math.max(10, count))) * Math.max(0.8, closer) ** 0.3);

/** @param {string} hex @returns {[number, number, number]} */
const rgbOf = (hex) => /** @type {any} */ ([1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
/** Colours of numbers; where both signs occur the middle is grey, which shows on paper. @param {Column} column */
export function scaleOf(column) {
  const [low, high] = column.ends;
  if (low < 0 && high > 0) {
    const stops = [...SIGNED[theme()]], end = Math.max(-low, high);
    stops[3] = theme() === "dark" ? "6b7280" : "a3a3ab";
    return { colours: coloursOf(stops), low: -end, high: end };
  }
  return { colours: coloursOf(SCALES[theme()].slice(2)), low, high };
}
/** The colour and the mark of a class; classes after the first DISTINCT_CLASSES are grey. @param {number} place */
export function classLook(place) {
  return place < DISTINCT_CLASSES ? { colour: HEADS[theme()][place % 7], mark: Math.floor(place / 7) } : { colour: inks().faint, mark: 0 };
}
/**
 * How every point looks now.
 *
 * @param {number} count
 * @param {Column | null} column
 * @param {Iterable<number>} before points in front of the others; where there are any, the others are pale
 */
export function looksOf(count, column, before) {
  const colours = new Uint8Array(4 * count), marks = new Uint8Array(2 * count);
  const ink = inks(), usual = rgbOf(HEADS[theme()][0]), faint = rgbOf(ink.faint), asked = rgbOf(ink.mark);
  let some = false;
  for (const i of before) {
    marks[2 * i + 1] = BEFORE;
    some = true;
  }
  const classes = column?.kind === "category" ? column.values.slice(0, DISTINCT_CLASSES).map((_, place) => classLook(place)) : [];
  const known = classes.map((look) => rgbOf(look.colour)), scale = column?.kind === "number" ? scaleOf(column) : null;
  const opacity = count > 20000 ? 170 : count > 3000 ? 205 : 235;
  for (let i = 0; i < count; i++) {
    const front = marks[2 * i + 1] === BEFORE;
    let rgb = front ? asked : usual;
    if (scale && column) {
      const share = (column.of[i] - scale.low) / (scale.high - scale.low || 1);
      rgb = share === share ? scale.colours[Math.round(255 * Math.max(0, Math.min(1, share)))] : faint;
    } else if (column) {
      rgb = known[column.of[i]] ?? faint;
      marks[2 * i] = classes[column.of[i]]?.mark ?? 0;
    }
    colours.set(rgb, 4 * i);
    colours[4 * i + 3] = front ? 255 : some ? 60 : opacity;
    marks[2 * i + 1] = front ? BEFORE : some ? BEHIND : PLAIN;
  }
  return { colours, marks };
}
