// What the modules of the viewer share. Nothing of this file is in a page.

import type { Matrix, Weights } from "./weights.js";

/** The tokens of one side of a map, with the words and the patches they make. */
export interface Side {
  tokens: string[];
  /** What the tokenizer itself calls them, where they are shown otherwise. */
  raw?: string[];
  words: number[] | null;
  texts: string[] | null;
  /** Rows, columns, and the number of the first token that is a patch. */
  patches: [number, number, number] | null;
  groups?: [number, number][];
}
/** One layer's attention over one example, all heads. */
export interface AttentionMap {
  index: number;
  address: string;
  /** What people call the layer; the address is for machines. */
  name: string;
  kind: string;
  /** Whether no query sees a later key. */
  causal: boolean;
  /** Of each head what it does, where it does one thing. */
  kinds: (string | null)[];
  /** How informative each head is about the text, lowered by 1 where it attends to a sink; see `regard/inspection/naming.py`. */
  telling: number[];
  /** The most informative cell of each head: query and key. */
  cells: [number, number][];
  example: number;
  heads: number;
  query: Side;
  key: Side;
  /** What was decided before there were scores; see `regard/inspection/marks.py`. */
  marks: { centres: number[][]; window: number; buckets: number[][][]; chunk: number; borders: number[] } | null;
  zero: number;
  knee: number;
  step: number;
  size: number;
  scale?: { values: Float32Array; errors: Float32Array };
}
/** Numbers of each step; see `regard/inspection/tracks.py`. */
export interface Track {
  name: string;
  example: number;
  unit: string;
  first: number;
  signed: boolean;
  border: number | null;
  values: (number | null)[][];
}
/** The table next to the figure: a title, the names of three columns, and rows of three texts and the number whose size the bar has. */
export interface Strongest {
  title: string;
  heads: string[];
  rows: any[][];
  signed?: boolean;
}
export interface ViewData {
  title: string;
  note: string;
  examples: string[];
  images: (string | null)[];
  maps: AttentionMap[];
  /** Of each example the numbers of the maps of its words and of its sentences, where it is a document. */
  documents?: ([number, number] | null)[];
  tracks?: Track[];
}
/** A position in a figure: a query and a key, or a token of one side, or a head of a layer. */
export interface Spot {
  row: number;
  column: number;
  side?: "query" | "key" | null;
  layer?: number;
  head?: number;
}
export interface State {
  view: string;
  map: AttentionMap;
  head: number | "mean";
  on: Set<number>;
  row: number;
  column: number;
  /** Lines: the side of the one token that is chosen. */
  side: "query" | "key" | null;
  merge: boolean;
  /** Empty where it follows the map: rows for themselves where later keys cannot be seen. */
  scale: string;
  text: string;
  image: string;
  overlay: string;
  smooth: boolean;
  /** Of a place that is pointed at alone. */
  layer?: undefined;
  zoom: number;
  hover: Spot | null;
  matrix: Matrix;
  limit: number;
  opened?: string;
  asked: { row: number | null; column: number | null };
}
/** What is in sight of a figure; `whole` where all of it is drawn into a file. */
export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
  whole?: boolean;
}
export interface TextStyle {
  size?: number;
  colour: string;
  align?: "left" | "center" | "right";
  bold?: boolean;
  turned?: boolean;
  width?: number;
}
/** The strokes of a figure. `y` of a text is its middle; turned text runs upwards from (x, y). */
export interface Surface {
  rect(x: number, y: number, width: number, height: number, colour: string, alpha?: number): void;
  frame(x: number, y: number, width: number, height: number, colour: string, thick?: number, alpha?: number): void;
  line(x1: number, y1: number, x2: number, y2: number, colour: string, thick?: number, alpha?: number, dash?: number): void;
  text(text: string, x: number, y: number, style: TextStyle): void;
  image(source: CanvasImageSource, from: number[], to: number[], smooth?: boolean): void;
  within(x: number, y: number, width: number, height: number, draw: () => void): void;
  shift(x: number, y: number, draw: () => void): void;
}
export interface Size {
  width: number;
  height: number;
}
/** One way to look. Views with `draw` are figures on the canvas. */
export interface View {
  name: string;
  role: string;
  /** Whether it shows one head, those that are switched on, or no choice. */
  heads: "one" | "many" | "none";
  cursor?: string;
  usable(map: AttentionMap): boolean;
  /** The only map that it shows, where there is no choice. */
  map?(): AttentionMap | null;
  /** The heading above it, in place of the layer and the head. */
  where?(): string;
  /** What has the last colour, where no scale is chosen. */
  end?(): number;
  strongest?(): Strongest;
  /** What is saved as a table, its header first. */
  rows?(): (string | number)[][];
  needs(): AttentionMap[];
  show(): unknown;
  say?(): string;
  moved?(): void;
  label?(): string;
  prepare?(space: Size): Size;
  draw?(surface: Surface, frame: Frame): void;
  at?(x: number, y: number, frame: Frame): Spot | null;
  tip?(spot: Spot): (Node | string)[];
  pick?(spot: Spot): void;
  sight?(): (Size & { x: number; y: number; margin?: { left: number; top: number } }) | null | false | "";
  key?(event: KeyboardEvent): boolean;
  // What only some of them have.
  [own: string]: any;
}

/** One mounted viewer: its data, its state, and the functions that its modules share. */
export interface Viewer {
  root: HTMLElement;
  signal: AbortSignal;
  data: ViewData;
  weights: Weights;
  state: State;
  VIEWS: Record<string, View>;
  canvas: HTMLCanvasElement;
  pane: HTMLElement;
  whole: Size;
  thumbs: Map<string, { bitmap: HTMLCanvasElement; peak: number }>;
  /** An element of the viewer by its id. */
  $(id: string): any;
  load(map: AttentionMap): Promise<void>;
  isLoaded(map: AttentionMap): boolean;
  matrixOf(map: AttentionMap, head: number | "mean", merge: boolean): Matrix;
  /** Shows another view in place of this one: the same layer, head and way to look where it has them. */
  replace(source: import("../source.js").Source): Promise<void>;
  /** Shows what the parameters of a URL describe; those of the page's own URL where none are given. */
  open(parts?: URLSearchParams): Promise<void>;
  /** Further parameters of the page's address (URL). */
  more?(): [string, string][];
  /** Called when what is shown or chosen is another. */
  chosen?(): void;
  /** Ends the viewer: nothing listens any more. */
  unmount(): void;

  // state.js
  mapsOf(example: number): AttentionMap[];
  place(): Spot | State;
  /** The heads of the layer that are chosen: of the lines those that are on, else one, or the mean of all. */
  chosenHeads(): (number | "mean")[];
  scale(): string;
  isHidden(row: number, column: number): boolean;
  valueText(row: number, column: number): string;
  whereText(): string;
  tokenName(side: Side, index: number): string;
  endOf(row: number): number;
  /** What is shown, as the parameters after the # of an address (URL). */
  address(): URLSearchParams;
  keepAddress(): void;
  mostInformative(maps: AttentionMap[]): AttentionMap;
  readAddress(parts: URLSearchParams): void;
  show(): Promise<void>;

  // pane.js
  room(): Size;
  frameNow(): Frame;
  layout(): void;
  redraw(): void;
  keepInSight(): void;
  say(text: string): void;
  tip(event: PointerEvent, parts: (Node | string)[] | null): void;
  cellTip(row: number, column: number): (Node | string)[];
  cellText(): string;
  move(row: number, column: number, quietly?: boolean): void;

  // text.js
  sameSides(): boolean;
  listQueries(): void;
  markQuery(): void;

  // strongest.js
  listStrongest(): void;
  strongestText(): string;

  // controls.js
  fillControls(): void;
  legendTexts(): { low: string; high: string; hidden: string };
  legend(): void;
  choose(id: string, value: any): Promise<void>;
  present(on: boolean): void;
  switchHead(head: number, alone?: boolean): void;
  keys(event: KeyboardEvent): boolean;
}
