// What the modules of the studio share. Nothing of this file is in a page.

import type { Change, Packed, Answer, Wanted } from "./look.js";
import type { Source } from "../source.js";
import type { Viewer } from "../viewer/types";

/** What a model answered to the input in the page. */
export interface Answered {
  wanted: Wanted;
  answer: Answer;
  plain: Answer | null;
  packed: Packed;
}
/** One studio: the contents of its page, and the functions that its modules share. */
export interface Studio {
  /** An element of the page by its id. */
  $(id: string): any;
  root: HTMLElement;
  key: string;
  viewer: Viewer | null;
  models: any[];
  changes: Change[];
  /** The answer to the input in the page; null where there is none. */
  seen: Answered | null;
  /** An image in base64; null without one. */
  image: string | null;
  /** Whether somebody wrote the text. */
  typed: boolean;
  /** Milliseconds from a change to the figure, of each. */
  took: number[];
  /** The card of the model that is chosen. */
  model(): any;
  /** The input that is in the page now. */
  wanted(): Wanted;
  /** How many candidates are listed. */
  top(): number;
  /** Asks for it; what changes meanwhile is asked for afterwards. */
  ask(since?: number): Promise<void>;
  /** Ends when all that was asked for is answered. */
  settled(): Promise<void>;
  /** Shows a view in place of the one before, its row chosen where one is given. */
  show(source: Source, row?: number): Promise<void>;
  /** Heads of a layer as the viewer names them. */
  nameOf(address: string, heads: number[]): string;
  /** Chooses a layer and a head in the viewer. */
  choose(address: string, head: number): Promise<void>;
  /** Shows what is wrong; nothing where the text is empty. */
  problem(text: string): void;
  /** Runs what may fail, and shows the error where it does. */
  trying(work: () => Promise<unknown>): Promise<void>;
  /** Further parameters of the page's address (URL), a function for each module that has some. */
  kept: (() => [string, string][])[];
  /** Called when there is another answer in `seen`, or none. */
  answered: (() => void)[];
  /** Called when a layer, a head or a cell is chosen in the viewer. */
  chosen: (() => void)[];
  /** Called when the page is opened or its address is another. */
  opened: ((parts: URLSearchParams) => unknown)[];
}
