// A document as the paper on hierarchical attention draws it (Yang et al. 2016, figures 5 and 6): a line for each sentence with a bar
// for its weight, its words shaded by sqrt(p_s) p_w, so that words of sentences that count little can be read too.

import { colourOf, inkOn, inks } from "../colours.js";
import { clamp, element } from "./names.js";
import { widthOf } from "./surface.js";
import { apart, short, strongest, written } from "./weights.js";

/** @typedef {import("./types").Spot} Spot */
/** @typedef {{ place: number, text: string, x: number, y: number, width: number }} Word */
/** @typedef {{ row: number, y: number, height: number, words: Word[] }} Sentence */

/** Of the scale of weights, the colour of the bars. */
const BAR = 0.72;

/** Adds the view. @param {import("./types").Viewer} viewer */
export function addDocument(viewer) {
  const { state, VIEWS, data } = viewer;
  /** The numbers of the maps of words and of sentences of the example; null where it is no document. */
  const pair = () => data.documents?.[state.map.example] ?? null;
  const words = () => data.maps[/** @type {[number, number]} */ (pair())[0]], sentences = () => data.maps[/** @type {[number, number]} */ (pair())[1]];
  const wordWeights = () => viewer.matrixOf(words(), 0, false), sentenceWeights = () => viewer.matrixOf(sentences(), 0, false);
  /** @param {number} row @param {number} place */
  const shareOf = (row, place) => Math.sqrt(sentenceWeights().at(0, row)) * wordWeights().at(row, place);
  /** The tokens of a sentence: those that it looks at. @param {number} row */
  const placesOf = (row) => {
    /** @type {number[]} */
    const places = [];
    wordWeights().over(row, 0, (place, value) => value !== 0 && places.push(place));
    return places;
  };
  /** Whether a token goes on the word before it, in its sentence. @param {number} place @param {number[]} own */
  const isGlued = (place, own) => {
    const numbers = words().key.words;
    return Boolean(numbers && own.includes(place - 1) && numbers[place] === numbers[place - 1]);
  };
  /** @param {number} place @param {boolean} glued */
  const bare = (place, glued) => {
    const token = words().key.tokens[place], mark = glued ? "##" : "␣";
    return (token.startsWith(mark) && token.slice(mark.length)) || token;
  };
  const sentenceText = (/** @type {number} */ row) => `${apart(words().query.tokens[row])}: weight ${written(sentenceWeights().at(0, row), sentenceWeights().errorAt(0, row))}`;

  VIEWS.document = {
    name: "Document", role: "sentences and their words", heads: "one", cursor: "pointer",
    usable: (map) => Boolean(data.documents?.[map.example]),
    map: () => (pair() ? words() : null),
    needs: () => [words(), sentences()],
    show() {},
    where: () => "words shaded by √(weight of the sentence) · weight of the word, a bar for each sentence's weight",
    label: () => `document of ${words().query.tokens.length} sentences and ${words().key.tokens.length} tokens`,
    /** The size of the largest shade. */
    end() {
      return this.largest;
    },
    prepare(space) {
      const count = Math.min(words().query.tokens.length, sentences().key.tokens.length), font = clamp(17 * state.zoom, 8, 48), line = Math.round(font * 1.75);
      const left = Math.ceil(widthOf("0.000", font * 0.85) + 5 * font), gap = font * 0.42, wide = Math.max(left + 12 * font, space.width - 8);
      this.largest = 0;
      /** @type {Sentence[]} */
      this.lines = [];
      let y = 6;
      for (let row = 0; row < count; row++) {
        const own = placesOf(row), top = y;
        /** @type {Word[]} */
        const found = [];
        let x = left;
        for (const place of own) {
          const glued = isGlued(place, own), text = bare(place, glued), width = widthOf(text, font) + font * 0.3, space = glued || !found.length ? 0 : gap;
          if (found.length && x + space + width > wide) {
            x = left;
            y += line;
          } else x += space;
          found.push({ place, text, x, y, width });
          x += width;
          this.largest = Math.max(this.largest, shareOf(row, place));
        }
        y += line + Math.round(font * 0.3);
        this.lines.push({ row, y: top, height: y - top - Math.round(font * 0.3), words: found });
      }
      Object.assign(this, { font, line, left, largest: this.largest || 1 });
      return { width: wide, height: y + 4 };
    },
    draw(surface, frame) {
      const { font, line, left, largest } = this, ink = inks(), weights = sentenceWeights(), most = weights.peak || 1, here = viewer.place();
      for (const { row, y, height, words: found } of /** @type {Sentence[]} */ (this.lines)) {
        if (y - frame.y > frame.height || y + height < frame.y) continue;
        const weight = weights.at(0, row), marked = row === here.row && !frame.whole, top = y - frame.y;
        surface.rect(4 - frame.x, top + 3, (left - 8 - widthOf("0.000", font * 0.85) - 10) * (weight / most), line - 6, `rgb(${colourOf(false, BAR, 1)})`);
        surface.text(short(weight), left - 10 - frame.x, top + line / 2, { size: font * 0.85, colour: marked ? ink.mark : ink.ink, bold: marked, align: "right" });
        for (const { place, text, x, y: at, width } of found) {
          const share = shareOf(row, place), colour = colourOf(false, share, largest), from = x - frame.x, above = at - frame.y;
          surface.rect(from, above + 2, width, line - 4, `rgb(${colour})`);
          surface.text(text, from + font * 0.15, above + line / 2, { size: font, colour: inkOn(colour), width: width + 1 });
          if (marked && place === here.column) surface.frame(from - 0.5, above + 1.5, width + 1, line - 3, ink.mark, 2);
        }
      }
    },
    at(x, y, frame) {
      const down = y + frame.y, across = x + frame.x;
      const sentence = /** @type {Sentence[]} */ (this.lines).find((one) => down >= one.y && down < one.y + one.height);
      if (!sentence) return null;
      if (across < this.left - 6) return { row: sentence.row, column: this.first(sentence.row), side: "query" };
      const word = sentence.words.find((one) => across >= one.x && across < one.x + one.width && down >= one.y && down < one.y + this.line);
      return word ? { row: sentence.row, column: word.place, side: null } : null;
    },
    /** The word of a sentence that counts most. @param {number} row */
    first: (row) => strongest(wordWeights().row(row), 1)[0] ?? 0,
    /** @param {number} row @param {number} place */
    describe(row, place) {
      const one = wordWeights(), sentence = sentenceWeights();
      return {
        word: words().key.tokens[place], weight: written(one.at(row, place), one.errorAt(row, place)),
        sentence: `${words().query.tokens[row]} ${written(sentence.at(0, row), sentence.errorAt(0, row))}`, share: short(shareOf(row, place)),
      };
    },
    tip({ row, column, side }) {
      if (side === "query") return [sentenceText(row)];
      const { word, weight, sentence, share } = this.describe(row, column);
      return [element("bdi", word), `: ${weight} of its sentence`, element("small", `${sentence}; shade ${share}, key ${column}`)];
    },
    pick: (spot) => viewer.move(spot.row, spot.column),
    text() {
      const { word, weight, sentence, share } = this.describe(state.row, state.column);
      return `${apart(word)}: ${weight} of its sentence (${apart(sentence)}; shade ${share})`;
    },
    say() {
      return this.text();
    },
    strongest() {
      const { row } = viewer.place(), one = wordWeights();
      return {
        title: sentenceText(row), heads: ["token", "position", "weight"], signed: false,
        rows: strongest(one.row(row), 8).map((place) => [viewer.tokenName(words().key, place), String(place), written(one.at(row, place), one.errorAt(row, place)), one.at(row, place)]),
      };
    },
    /** What is saved as a table, its header first. */
    rows() {
      const one = wordWeights(), weights = sentenceWeights();
      /** @type {(string | number)[][]} */
      const table = [["sentence", "weight of the sentence", "token", "weight of the token", "shade"]];
      for (let row = 0; row < one.rows; row++) {
        const own = placesOf(row);
        for (const place of own) table.push([words().query.tokens[row], weights.at(0, row), bare(place, isGlued(place, own)), one.at(row, place), shareOf(row, place)]);
      }
      return table;
    },
    sight() {
      const sentence = /** @type {Sentence[]} */ (this.lines)[state.row], word = sentence?.words.find((one) => one.place === state.column) ?? sentence?.words[0];
      return word && { x: word.x, y: word.y, width: word.width, height: this.line, margin: { left: this.left, top: 0 } };
    },
    key(event) {
      const { lines } = this, row = Math.min(state.row, lines.length - 1);
      const all = /** @type {Sentence[]} */ (lines).flatMap((one) => one.words.map(({ place }) => /** @type {[number, number]} */ ([one.row, place])));
      const at = Math.max(0, all.findIndex(([one, place]) => one === row && place === state.column));
      /** @param {number} to */
      const sentence = (to) => [clamp(to, 0, lines.length - 1), this.first(clamp(to, 0, lines.length - 1))];
      /** @type {Record<string, number[]>} */
      const steps = {
        ArrowLeft: all[Math.max(at - 1, 0)], ArrowRight: all[Math.min(at + 1, all.length - 1)], ArrowUp: sentence(row - 1), ArrowDown: sentence(row + 1),
        PageUp: sentence(row - 10), PageDown: sentence(row + 10), Home: all[0], End: all[all.length - 1],
      };
      if (event.key in steps && all.length) viewer.move(steps[event.key][0], steps[event.key][1]);
      else if (event.key === "Enter" || event.key === " ") viewer.say(`${sentenceText(row)}; ${viewer.strongestText()}`);
      else return false;
      return true;
    },
  };
}
