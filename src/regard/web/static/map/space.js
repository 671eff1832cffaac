// Where the points are: the part of the plane that is in sight, what is near a place, and what a line is drawn around.

const FURTHEST = 5000, CELLS = 512;

/** Numbers whose bytes came in planes: the first bytes of all, then the second ones. @param {Uint8Array} planes @param {number} size */
export function joined(planes, size) {
  const count = planes.length / size, bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < size; plane++)
    for (let i = 0, from = plane * count, to = plane; i < count; i++, to += size) bytes[to] = planes[from + i];
  return bytes.buffer;
}

/** The sight: its middle in the units of the points, and pixels for each unit; y grows upwards. */
export class Space {
  /** @param {Float32Array} xs @param {Float32Array} ys */
  constructor(xs, ys) {
    this.xs = xs;
    this.ys = ys;
    this.width = this.height = 1;
    this.x = this.y = 0;
    this.scale = this.fitting = 1;
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < xs.length; i++) {
      left = Math.min(left, xs[i]);
      right = Math.max(right, xs[i]);
      low = Math.min(low, ys[i]);
      high = Math.max(high, ys[i]);
    }
    this.bounds = { left, right, low, high };
    // A grid over all points, each cell a stretch of `order`.
    this.cells = Math.max(1, Math.min(CELLS, Math.ceil(Math.sqrt(xs.length / 2))));
    this.unitX = (right - left) / this.cells || 1;
    this.unitY = (high - low) / this.cells || 1;
    const starts = new Int32Array(this.cells ** 2 + 1), own = new Int32Array(xs.length);
    for (let i = 0; i < xs.length; i++) starts[(own[i] = this.row(ys[i]) * this.cells + this.column(xs[i])) + 1]++;
    for (let cell = 0; cell < this.cells ** 2; cell++) starts[cell + 1] += starts[cell];
    const next = starts.slice();
    this.order = new Int32Array(xs.length);
    for (let i = 0; i < xs.length; i++) this.order[next[own[i]]++] = i;
    this.starts = starts;
  }
  /** @param {number} x */
  column(x) {
    return Math.max(0, Math.min(this.cells - 1, Math.floor((x - this.bounds.left) / this.unitX)));
  }
  /** @param {number} y */
  row(y) {
    return Math.max(0, Math.min(this.cells - 1, Math.floor((y - this.bounds.low) / this.unitY)));
  }
  /** The pixels there are. @param {number} width @param {number} height */
  resize(width, height) {
    const whole = this.scale === this.fitting;
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    const { left, right, low, high } = this.bounds;
    const room = Math.min(this.width, this.height) > 160 ? 56 : 8;
    this.fitting = Math.min((this.width - room) / (right - left || 1), (this.height - room) / (high - low || 1));
    if (whole) this.showAll();
  }
  showAll() {
    const { left, right, low, high } = this.bounds;
    this.x = (left + right) / 2;
    this.y = (low + high) / 2;
    this.scale = this.fitting;
  }
  /** @param {number} i */
  toX(i) {
    return (this.xs[i] - this.x) * this.scale + this.width / 2;
  }
  /** @param {number} i */
  toY(i) {
    return this.height / 2 - (this.ys[i] - this.y) * this.scale;
  }
  /** The place in the plane under a pixel. @param {number} px @param {number} py */
  under(px, py) {
    return { x: this.x + (px - this.width / 2) / this.scale, y: this.y - (py - this.height / 2) / this.scale };
  }
  /** The middle stays among the points. @param {number} dx pixels @param {number} dy */
  pan(dx, dy) {
    const { left, right, low, high } = this.bounds;
    this.x = Math.max(left, Math.min(right, this.x - dx / this.scale));
    this.y = Math.max(low, Math.min(high, this.y + dy / this.scale));
  }
  /** What is under the pixel stays there. @param {number} by @param {number} [px] @param {number} [py] */
  zoom(by, px = this.width / 2, py = this.height / 2) {
    const before = this.under(px, py);
    this.scale = Math.max(this.fitting / 2, Math.min(this.fitting * FURTHEST, this.scale * by));
    const after = this.under(px, py);
    this.x += before.x - after.x;
    this.y += before.y - after.y;
    this.pan(0, 0);
  }
  /** The view moves to a point, near enough to distinguish it from others. @param {number} point */
  goTo(point) {
    this.scale = Math.max(this.scale, this.fitting * Math.max(1.5, Math.min(12, Math.sqrt(this.xs.length / 250))));
    this.x = this.xs[point];
    this.y = this.ys[point];
  }
  /** @param {number} i @param {number} [margin] */
  sees(i, margin = 0) {
    const x = this.toX(i), y = this.toY(i);
    return x >= -margin && x <= this.width + margin && y >= -margin && y <= this.height + margin;
  }
  /** The points in sight, in their order. */
  inSight() {
    return Int32Array.from(this.order.filter((i) => this.sees(i))).sort();
  }
  /** The point nearest to a pixel, within some pixels; -1 for none. @param {number} px @param {number} py @param {number} within */
  nearest(px, py, within) {
    const { x, y } = this.under(px, py), far = within / this.scale;
    let best = -1, least = far * far;
    const [from, to] = [this.column(x - far), this.column(x + far)];
    for (let row = this.row(y - far); row <= this.row(y + far); row++) {
      // The cells of a row lie one after another.
      for (let at = this.starts[row * this.cells + from]; at < this.starts[row * this.cells + to + 1]; at++) {
        const i = this.order[at], distance = (this.xs[i] - x) ** 2 + (this.ys[i] - y) ** 2;
        if (distance < least || (distance === least && i < best)) {
          best = i;
          least = distance;
        }
      }
    }
    return best;
  }
  /** The points inside a closed line of pixels, in their order. @param {number[]} path x, y, x, y */
  within(path) {
    const corners = [];
    for (let i = 0; i < path.length; i += 2) corners.push(this.under(path[i], path[i + 1]));
    const xs = corners.map((c) => c.x), ys = corners.map((c) => c.y);
    const [left, right] = [Math.min(...xs), Math.max(...xs)], [low, high] = [Math.min(...ys), Math.max(...ys)];
    const found = [];
    for (let i = 0; i < this.xs.length; i++) {
      const x = this.xs[i], y = this.ys[i];
      if (x < left || x > right || y < low || y > high) continue;
      let inside = false;
      for (let a = 0, b = xs.length - 1; a < xs.length; b = a++)
        if (ys[a] > y !== ys[b] > y && x < ((xs[b] - xs[a]) * (y - ys[a])) / (ys[b] - ys[a]) + xs[a]) inside = !inside;
      if (inside) found.push(i);
    }
    return Int32Array.from(found);
  }
}

/** A map from its source. @param {import("../source.js").Source} source @returns {Promise<import("./types").MapData>} */
export async function readMap(source) {
  const header = await source.data();
  const points = new Float32Array(joined(await source.levels(0), 4));
  const labels = JSON.parse(new TextDecoder().decode(await source.levels(1)));
  const rows = new Int32Array(header.neighbours ? joined(await source.levels(2), 4) : []);
  const near = new Int16Array(header.neighbours ? joined(await source.levels(3), 2) : []);
  const columns = await Promise.all(header.columns.map(async (/** @type {any} */ column) => {
    const bytes = await source.levels(column.part);
    const of = column.kind === "number" ? new Float32Array(joined(bytes, 4)) : new Uint16Array(joined(bytes, 2));
    return { values: [], counts: [], ends: [0, 0], ...column, of };
  }));
  return {
    ...header, labels, rows, columns, xs: points.subarray(0, header.count), ys: points.subarray(header.count),
    cosines: Float32Array.from(near, (value) => value / header.cosine),
  };
}
