"use strict";
// The numbers of the page: inflated when first needed, merged into words, with their errors.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
data.maps.forEach((map, i) => {
  map.index = i;
  map.query = data.sides[map.query];
  map.key = data.sides[map.key];
});

const HELD = 3e8; // bytes of inflated weights to hold
const levels = new Map(); // map -> its levels, the latest used last
const loading = new Map();

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}
async function inflated(map) {
  const packed = bytesOf($("weights-" + map.index).textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (map.size === 1) return bytes;
  // Of each head first the lower bytes, then the upper ones.
  const size = sizeOf(map), both = new Uint16Array(bytes.length / 2);
  for (let head = 0; head < map.heads; head++) {
    const low = 2 * head * size;
    for (let i = 0; i < size; i++) both[head * size + i] = bytes[low + i] | (bytes[low + size + i] << 8);
  }
  return both;
}
const sizeOf = (map) => map.query.tokens.length * map.key.tokens.length;
const isLoaded = (map) => levels.has(map);
const loadingBytes = () => [...loading.keys()].reduce((sum, map) => sum + sizeOf(map) * map.heads * map.size, 0);
function load(map) {
  if (levels.has(map)) {
    const held = levels.get(map);
    levels.delete(map);
    levels.set(map, held);
    return Promise.resolve();
  }
  if (!loading.has(map)) {
    loading.set(map, inflated(map).then((made) => {
      loading.delete(map);
      levels.set(map, made);
      let bytes = [...levels.values()].reduce((sum, one) => sum + one.byteLength, 0);
      for (const [old, one] of levels) {
        if (bytes <= HELD || old === map) break;
        levels.delete(old);
        bytes -= one.byteLength;
      }
    }));
  }
  return loading.get(map);
}

// What each level stands for, and by how much that may be off.
function scaleOf(map) {
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

// Word pieces: over the keys of a word weights are summed, over its queries averaged.
function groupsOf(side, merge) {
  if (!merge || !side.words) return null;
  if (!side.groups) {
    side.groups = [];
    side.words.forEach((word, i) => {
      if (i && word === side.words[i - 1]) side.groups.at(-1)[1] = i + 1;
      else side.groups.push([i, i + 1]);
    });
  }
  return side.groups;
}
const canMerge = (map) => Boolean(map.query.words || map.key.words);
const labelsOf = (side, merge) => (merge && side.words ? side.texts : side.tokens);

// The weights of one head, or the mean of them: what every picture is drawn from. Rows and columns of a head are read
// where they are stored; all of it is turned into numbers only for a picture that shows all of it.
class Matrix {
  constructor(map, head, merge) {
    Object.assign(this, { map, head, merge, held: null });
    this.query = labelsOf(map.query, merge);
    this.key = labelsOf(map.key, merge);
    this.rows = this.query.length;
    this.columns = this.key.length;
    this.above = groupsOf(map.query, merge);
    this.beside = groupsOf(map.key, merge);
  }
  get values() {
    if (!this.held) {
      const values = numbersOf(this.map, this.head), width = this.map.key.tokens.length;
      this.held = this.above || this.beside ? this.merged((i, j) => values[i * width + j]) : values;
      for (const old of made.values()) {
        if (heldNumbers() <= HELD_NUMBERS) break;
        if (old !== this) old.held = null;
      }
    }
    return this.held;
  }
  merged(read) {
    const values = new Float32Array(this.rows * this.columns);
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < this.columns; column++) values[row * this.columns + column] = this.sum(row, column, read);
    }
    return values;
  }
  sum(row, column, read) {
    const [top, bottom] = this.above ? this.above[row] : [row, row + 1];
    const [left, right] = this.beside ? this.beside[column] : [column, column + 1];
    let sum = 0;
    for (let i = top; i < bottom; i++) for (let j = left; j < right; j++) sum += read(i, j);
    return sum / (bottom - top);
  }
  at(row, column) {
    if (this.held || this.head === "mean") return this.values[row * this.columns + column];
    const { values } = scaleOf(this.map), all = levels.get(this.map), width = this.map.key.tokens.length, from = this.head * sizeOf(this.map);
    if (!this.above && !this.beside) return values[all[from + row * width + column]];
    return this.sum(row, column, (i, j) => values[all[from + i * width + j]]);
  }
  row(row) {
    if (this.held || this.head === "mean") return this.values.subarray(row * this.columns, (row + 1) * this.columns);
    return Float32Array.from({ length: this.columns }, (_, column) => this.at(row, column));
  }
  column(column) {
    return Float32Array.from({ length: this.rows }, (_, row) => this.at(row, column));
  }
  // Calls `add(column, value)` for the weights of a row that are not below `least`, fast where they are few of many.
  over(row, least, add) {
    const plain = !this.held && this.head !== "mean" && !this.above && !this.beside;
    if (!plain) return this.row(row).forEach((value, column) => Math.abs(value) >= least && add(column, value));
    const { zero, knee, step } = this.map, { values } = scaleOf(this.map), all = levels.get(this.map);
    const level = least > 0 ? Math.max(1, Math.floor(Math.log1p(least / knee) / step)) : 0;
    const from = this.head * sizeOf(this.map) + row * this.columns;
    for (let column = 0; column < this.columns; column++) {
      const at = all[from + column];
      if (at - zero >= level || zero - at >= level) add(column, values[at]);
    }
  }
  get peak() {
    if (this.most === undefined) {
      if (this.held || this.head === "mean" || this.above || this.beside) this.most = largest(this.values);
      else {
        const { map } = this, all = levels.get(map), from = this.head * sizeOf(map), to = from + sizeOf(map);
        let most = 0;
        for (let i = from; i < to; i++) if (Math.abs(all[i] - map.zero) > most) most = Math.abs(all[i] - map.zero);
        this.most = scaleOf(map).values[map.zero + most];
      }
    }
    return this.most;
  }
  // The places of the largest weights, as [row, column].
  strongest(count) {
    if (!this.top || this.top.count < count) this.top = { count, places: strongest(this.values, count) };
    return this.top.places.slice(0, count).map((i) => [Math.floor(i / this.columns), i % this.columns]);
  }
}
const HELD_NUMBERS = 2e7;
const made = new Map();
const heldNumbers = () => [...made.values()].reduce((sum, one) => sum + (one.held ? one.held.length : 0), 0);
function matrixOf(map, head, merge) {
  const name = [map.index, head, merge].join();
  const found = made.get(name) || new Matrix(map, head, merge);
  made.delete(name);
  made.set(name, found);
  return found;
}
function numbersOf(map, head) {
  const { values } = scaleOf(map), all = levels.get(map), size = sizeOf(map);
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
const weightAt = (matrix, row, column) => matrix.at(row, column);
function errorAt(matrix, row, column) {
  const { map, head } = matrix, { errors } = scaleOf(map), all = levels.get(map), size = sizeOf(map), width = map.key.tokens.length;
  const heads = head === "mean" ? [...Array(map.heads).keys()] : [head];
  let sum = 0;
  for (const one of heads) sum += matrix.sum(row, column, (i, j) => errors[all[one * size + i * width + j]]);
  return sum / heads.length;
}
function meanError(matrix, column) {
  let sum = 0;
  for (let row = 0; row < matrix.rows; row++) sum += errorAt(matrix, row, column);
  return sum / matrix.rows;
}
function largest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) if (Math.abs(values[i]) > most) most = Math.abs(values[i]);
  return most;
}
const rowOf = (matrix, row) => matrix.row(row);
const columnOf = (matrix, column) => matrix.column(column);
function meanOfRows(matrix) {
  const mean = new Float32Array(matrix.columns);
  for (let i = 0; i < matrix.values.length; i++) mean[i % matrix.columns] += matrix.values[i] / matrix.rows;
  return mean;
}
// The places of the largest values, largest first; without a sort of everything.
function strongest(values, count) {
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
