// The numbers of a view: inflated when first needed, merged into words, with their errors.

/**
 * @typedef {import("./types").Side} Side
 * @typedef {import("./types").AttentionMap} AttentionMap
 * @typedef {Uint8Array | Uint16Array} Levels
 * @typedef {ArrayLike<number>} Numbers
 */

const HELD = 3e8; // bytes of inflated weights to hold
const HELD_NUMBERS = 2e7; // weights held as numbers

/** The weights of all maps of a view; how they are stored is in `regard/inspection/viewer.py`. */
export class Weights {
  /** @param {import("../source.js").Source} source */
  constructor(source) {
    this.source = source;
    /** @type {Map<AttentionMap, Levels>} the latest used last */
    this.levels = new Map();
    /** @type {Map<AttentionMap, Promise<void>>} */
    this.loading = new Map();
    /** @type {Map<string, Matrix>} */
    this.made = new Map();
  }
  /** Holds the weights of another view from now on. @param {import("../source.js").Source} source */
  reset(source) {
    this.source = source;
    for (const held of [this.levels, this.loading, this.made]) held.clear();
  }
  /** @param {AttentionMap} map */
  isLoaded(map) {
    return this.levels.has(map);
  }
  loadingBytes() {
    return [...this.loading.keys()].reduce((sum, map) => sum + sizeOf(map) * map.heads * map.size, 0);
  }
  /** @param {AttentionMap} map @returns {Promise<void>} */
  load(map) {
    const held = this.levels.get(map);
    if (held) {
      this.levels.delete(map);
      this.levels.set(map, held);
      return Promise.resolve();
    }
    let started = this.loading.get(map);
    if (!started) {
      started = this.source.levels(map.index).then((stored) => {
        const made = numbersIn(map, stored);
        this.loading.delete(map);
        this.levels.set(map, made);
        let bytes = [...this.levels.values()].reduce((sum, one) => sum + one.byteLength, 0);
        for (const [old, one] of this.levels) {
          if (bytes <= HELD || old === map) break;
          this.levels.delete(old);
          bytes -= one.byteLength;
        }
      });
      this.loading.set(map, started);
    }
    return started;
  }
  /** The levels of a map that is loaded. @param {AttentionMap} map */
  of(map) {
    return /** @type {Levels} */ (this.levels.get(map));
  }
  /** @param {AttentionMap} map @param {number | "mean"} head @param {boolean} merge word pieces into words */
  matrixOf(map, head, merge) {
    const name = [map.index, head, merge].join();
    const found = this.made.get(name) || new Matrix(this, map, head, merge);
    this.made.delete(name);
    this.made.set(name, found);
    return found;
  }
  /** Forgets the numbers of the matrices used longest ago, where there are too many. @param {Matrix} latest */
  trim(latest) {
    let numbers = 0;
    for (const one of this.made.values()) numbers += one.held ? one.held.length : 0;
    for (const old of this.made.values()) {
      if (numbers <= HELD_NUMBERS) break;
      if (old === latest || !old.held) continue;
      numbers -= old.held.length;
      old.held = null;
    }
  }
}

/** @param {AttentionMap} map @param {Uint8Array} bytes @returns {Levels} */
function numbersIn(map, bytes) {
  if (map.size === 1) return bytes;
  // Of each head first the lower bytes, then the upper ones.
  const size = sizeOf(map), both = new Uint16Array(bytes.length / 2);
  for (let head = 0; head < map.heads; head++) {
    const low = 2 * head * size;
    for (let i = 0; i < size; i++) both[head * size + i] = bytes[low + i] | (bytes[low + size + i] << 8);
  }
  return both;
}
/** @param {AttentionMap} map */
const sizeOf = (map) => map.query.tokens.length * map.key.tokens.length;

/** The weight of each level, and its largest error. @param {AttentionMap} map */
export function scaleOf(map) {
  if (!map.scale) {
    const count = map.size === 1 ? 256 : 65536, half = Math.expm1(map.step / 2) * 1.0001;
    map.scale = { values: new Float32Array(count), errors: new Float32Array(count) };
    for (let i = 0; i < count; i++) {
      const level = Math.abs(i - map.zero);
      const value = map.knee * Math.expm1(map.step * Math.max(level - 1, 0));
      map.scale.values[i] = i < map.zero ? -value : value;
      map.scale.errors[i] = level ? (value + map.knee) * half : 0;
    }
  }
  return map.scale;
}

/** Word pieces: over the keys of a word weights are summed, over its queries averaged. @param {Side} side @param {boolean} merge */
export function groupsOf(side, merge) {
  if (!merge || !side.words) return null;
  if (!side.groups) {
    /** @type {[number, number][]} */
    const groups = [];
    side.words.forEach((word, i) => {
      if (i && word === side.words?.[i - 1]) groups[groups.length - 1][1] = i + 1;
      else groups.push([i, i + 1]);
    });
    side.groups = groups;
  }
  return side.groups;
}
/** @param {AttentionMap} map */
export const canMerge = (map) => Boolean(map.query.words || map.key.words);
/** @param {Side} side @param {boolean} merge @returns {string[]} */
export const labelsOf = (side, merge) => (merge && side.texts ? side.texts : side.tokens);

/**
 * The weights of one head, or the mean of them: the input of every figure. Rows and columns of a head are read where they
 * are stored; all of it is turned into numbers only for a figure that shows all of it.
 */
export class Matrix {
  /** @param {Weights} weights @param {AttentionMap} map @param {number | "mean"} head @param {boolean} merge */
  constructor(weights, map, head, merge) {
    this.weights = weights;
    this.map = map;
    this.head = head;
    this.merge = merge;
    /** @type {Float32Array | null} */
    this.held = null;
    this.query = labelsOf(map.query, merge);
    this.key = labelsOf(map.key, merge);
    this.rows = this.query.length;
    this.columns = this.key.length;
    this.rowGroups = groupsOf(map.query, merge);
    this.columnGroups = groupsOf(map.key, merge);
    /** @type {number | undefined} */
    this.most = undefined;
    /** @type {{ count: number, places: number[] } | undefined} */
    this.top = undefined;
    /** @type {Float32Array | undefined} */
    this.mean = undefined;
    /** @type {{ name: string, canvas: HTMLCanvasElement } | undefined} */
    this.bitmap = undefined;
  }
  /** Whether single weights are read where they are stored. */
  get isStored() {
    return !this.held && this.head !== "mean";
  }
  get values() {
    if (!this.held) {
      const values = numbersOf(this.weights, this.map, this.head), width = this.map.key.tokens.length;
      this.held = this.rowGroups || this.columnGroups ? this.merged((i, j) => values[i * width + j]) : values;
      this.weights.trim(this);
    }
    return this.held;
  }
  /** @param {(i: number, j: number) => number} read */
  merged(read) {
    const values = new Float32Array(this.rows * this.columns);
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < this.columns; column++) values[row * this.columns + column] = this.sum(row, column, read);
    }
    return values;
  }
  /** @param {number} row @param {number} column @param {(i: number, j: number) => number} read */
  sum(row, column, read) {
    const [top, bottom] = this.rowGroups ? this.rowGroups[row] : [row, row + 1];
    const [left, right] = this.columnGroups ? this.columnGroups[column] : [column, column + 1];
    let sum = 0;
    for (let i = top; i < bottom; i++) for (let j = left; j < right; j++) sum += read(i, j);
    return sum / (bottom - top);
  }
  /** @param {number} row @param {number} column */
  at(row, column) {
    if (!this.isStored) return this.values[row * this.columns + column];
    const { values } = scaleOf(this.map), all = this.weights.of(this.map), width = this.map.key.tokens.length;
    const from = Number(this.head) * sizeOf(this.map);
    if (!this.rowGroups && !this.columnGroups) return values[all[from + row * width + column]];
    return this.sum(row, column, (i, j) => values[all[from + i * width + j]]);
  }
  /** @param {number} row */
  row(row) {
    if (!this.isStored) return this.values.subarray(row * this.columns, (row + 1) * this.columns);
    return Float32Array.from({ length: this.columns }, (_, column) => this.at(row, column));
  }
  /** @param {number} column */
  column(column) {
    return Float32Array.from({ length: this.rows }, (_, row) => this.at(row, column));
  }
  /**
   * Calls `add` for the weights of a row that are not below `least`, fast where they are few of many.
   *
   * @param {number} row @param {number} least @param {(column: number, value: number) => void} add
   */
  over(row, least, add) {
    if (!this.isStored || this.rowGroups || this.columnGroups) {
      this.row(row).forEach((value, column) => Math.abs(value) >= least && add(column, value));
      return;
    }
    const { zero, knee, step } = this.map, { values } = scaleOf(this.map), all = this.weights.of(this.map);
    const level = least > 0 ? Math.max(1, Math.floor(Math.log1p(least / knee) / step)) : 0;
    const from = Number(this.head) * sizeOf(this.map) + row * this.columns;
    for (let column = 0; column < this.columns; column++) {
      const at = all[from + column];
      if (at - zero >= level || zero - at >= level) add(column, values[at]);
    }
  }
  /** The size of the largest weight. */
  get peak() {
    if (this.most === undefined) {
      if (!this.isStored || this.rowGroups || this.columnGroups) this.most = largest(this.values);
      else {
        const { map } = this, all = this.weights.of(map), from = Number(this.head) * sizeOf(map), to = from + sizeOf(map);
        let most = 0;
        for (let i = from; i < to; i++) if (Math.abs(all[i] - map.zero) > most) most = Math.abs(all[i] - map.zero);
        this.most = scaleOf(map).values[map.zero + most];
      }
    }
    return this.most;
  }
  /** The places of the largest weights, as [row, column]. @param {number} count @returns {[number, number][]} */
  strongest(count) {
    if (!this.top || this.top.count < count) this.top = { count, places: strongest(this.values, count) };
    return this.top.places.slice(0, count).map((i) => [Math.floor(i / this.columns), i % this.columns]);
  }
  /** By how much a weight may be off. @param {number} row @param {number} column */
  errorAt(row, column) {
    const { map, head } = this, { errors } = scaleOf(map), all = this.weights.of(map), size = sizeOf(map), width = map.key.tokens.length;
    const heads = head === "mean" ? [...Array(map.heads).keys()] : [head];
    let sum = 0;
    for (const one of heads) sum += this.sum(row, column, (i, j) => errors[all[one * size + i * width + j]]);
    return sum / heads.length;
  }
  /** The mean of all rows. */
  get meanRow() {
    if (!this.mean) {
      const { values } = this;
      this.mean = new Float32Array(this.columns);
      for (let i = 0; i < values.length; i++) this.mean[i % this.columns] += values[i] / this.rows;
    }
    return this.mean;
  }
  /** @param {number} column */
  meanError(column) {
    let sum = 0;
    for (let row = 0; row < this.rows; row++) sum += this.errorAt(row, column);
    return sum / this.rows;
  }
}

/** @param {Weights} weights @param {AttentionMap} map @param {number | "mean"} head */
function numbersOf(weights, map, head) {
  const { values } = scaleOf(map), all = weights.of(map), size = sizeOf(map);
  const numbers = new Float32Array(size);
  if (head !== "mean") {
    for (let i = 0, from = head * size; i < size; i++) numbers[i] = values[all[from + i]];
    return numbers;
  }
  const shares = values.map((value) => value / map.heads);
  for (let h = 0; h < map.heads; h++) {
    for (let i = 0, from = h * size; i < size; i++) numbers[i] += shares[all[from + i]];
  }
  return numbers;
}
/** The largest size among numbers. @param {Numbers} values */
export function largest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) if (Math.abs(values[i]) > most) most = Math.abs(values[i]);
  return most;
}
/** The places of the largest values, largest first; without a sort of everything. @param {Numbers} values @param {number} count */
export function strongest(values, count) {
  /** @type {number[]} */
  const found = [];
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if ((size === 0 && found.length) || (found.length === count && size <= Math.abs(values[found[count - 1]]))) continue;
    let place = found.length;
    while (place && size > Math.abs(values[found[place - 1]])) place--;
    found.splice(place, 0, i);
    if (found.length > count) found.pop();
  }
  return found.filter((i, n) => n === 0 || values[i] !== 0);
}

/** A weight with its error: as many digits as the error leaves meaning to. @param {number} value @param {number} error */
export function written(value, error) {
  if (!error) return String(Number(value.toPrecision(7)));
  if (Math.abs(value) >= 1e5 || error < 1e-7) return `${value.toExponential(3)} ± ${error.toExponential(1)}`;
  const digits = Math.max(0, Math.min(9, 1 - Math.floor(Math.log10(error))));
  return `${value.toFixed(digits)} ± ${error.toFixed(digits)}`;
}
/** Three digits, zeros among them: for columns. @param {number} value */
export const three = (value) => (value === 0 ? "0" : Math.abs(value) < 1e-4 ? value.toExponential(2) : value.toPrecision(3));
/** @param {number} value */
export const short = (value) => String(Number(value.toPrecision(3)));
/** A token keeps its own direction among other text. @param {string} text */
export const apart = (text) => "\u2068" + text + "\u2069";
