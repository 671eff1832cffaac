// What the modules of a map of vectors share. Nothing of this file is in a page.

import type { Space } from "./space.js";

/** What is known of the points besides their text: names of classes, or numbers. */
export interface Column {
  name: string;
  kind: "category" | "number";
  /** Of categories, the commonest first: what they are, and how many points have each. */
  values: string[];
  counts: number[];
  /** Of numbers the least and the largest. */
  ends: [number, number];
  /** Of each point the place in `values`, or the number; NaN where it is not known. */
  of: Uint16Array | Float32Array;
}
/** A map as its Python page describes it, unpacked. */
export interface MapData {
  title: string;
  method: string;
  count: number;
  labels: string[];
  xs: Float32Array;
  ys: Float32Array;
  /** How many neighbours of each point are known; 0 for none. */
  neighbours: number;
  /** (count, neighbours): rows, -1 for none, and cosines. */
  rows: Int32Array;
  cosines: Float32Array;
  columns: Column[];
}
/** How the points look: colours (r, g, b, opacity) and (mark, level) of each. */
export interface Looks {
  colours: Uint8Array;
  marks: Uint8Array;
}
/** Draws all points at once. */
export interface Painter {
  kind: "webgl" | "canvas";
  /** The looks are others. */
  dress(looks: Looks): void;
  draw(space: Space, size: number): void;
}
export interface State {
  /** The point that is chosen, and the one under the pointer; -1 for none. */
  chosen: number;
  hover: number;
  /** What the search found, those that are the text first, and which of them was gone to last. */
  hits: Int32Array;
  hit: number;
  search: string;
  selected: Int32Array;
  /** The column that defines the colours; null for none. */
  colour: Column | null;
  lasso: boolean;
  /** The lasso that is drawn, in pixels: x, y, x, y. */
  path: number[];
}
/** One mounted map, and the functions that its modules share. */
export interface VectorMap {
  $(id: string): any;
  root: HTMLElement;
  signal: AbortSignal;
  data: MapData;
  state: State;
  space: Space;
  painter: Painter;
  /** Draws in the next frame; the colours anew where they are others. */
  redraw(colours?: boolean): void;
  choose(point: number, go?: boolean): void;
  select(points: Int32Array): void;
  find(text: string): void;
  /** Goes to the next hit, or one before. */
  goHit(by: number): void;
  go(point: number): void;
  say(text: string): void;
  unmount(): void;

  // panels.js
  showChosen(): void;
  showSelected(): void;
  showLegend(): void;
  csv(points: Int32Array): string;
}
