"""The newcomer's demonstration: a real BERT in ten seconds; then train an attention model in half a minute, use it, look inside.

make demo                 a real BERT; builtin dates, human-written in dozens of languages, to ISO dates
make demo PAIRS=my.tsv    your own pairs: source, tab, target, one pair in each line
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.machine import bound_spinning

bound_spinning()  # before PyTorch is imported

import torch
from real_bert import first_act, has_display
from torch import nn

import regard
from regard.data.dates import LANGUAGES, DateExample, Dates, written_forms
from regard.data.token_store import TokenStore
from regard.machine import keep_freed_memory
from regard.tasks import Translator
from regard.training.callbacks import ProgressBar
from regard.training.checkpoint import Progress
from regard.training.run import Trained

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
HELD_OUT = 2_000


class Clock:
    """Starts with the first training step."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def started(self, model: nn.Module, progress: Progress, total_steps: int | None) -> None:
        """The first step follows at once."""
        self.began = time.monotonic()

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        """Nothing."""

    def logged(self, event: Mapping[str, Any]) -> None:
        """Nothing."""

    def ended(self, progress: Progress) -> None:
        """Nothing."""

    def seconds(self) -> float:
        """Since the first step."""
        return time.monotonic() - self.began


def main() -> None:
    """A real one; then train, judge, show, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="your own pairs instead of builtin dates")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="where to put the model and the figures")
    parser.add_argument("overrides", nargs="*", help="settings of the recipe, as key=value")
    arguments = parser.parse_args()
    keep_freed_memory()
    try:
        if arguments.pairs is None:
            if first_act(arguments.output / "bert"):
                print("Now train your own.\n")
            dates(arguments.output / "dates", arguments.overrides)
        else:
            own_pairs(arguments.pairs, arguments.output / "pairs", arguments.overrides)
    except regard.InputError as error:
        print(f"demo: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def dates(folder: Path, overrides: Sequence[str]) -> None:
    """Builtin dates."""
    print(f"Learning to read dates in {len(LANGUAGES)} languages.")
    clock = Clock()
    trained = _train(RECIPES / "dates.yaml", folder, overrides, clock)
    model = trained.load()
    examples = list(Dates("test", size=HELD_OUT, seed=20))
    exact, aligned, wrong = judge(model, examples)
    languages = len({example.locale for example in examples})
    print(f"\nExact match on {HELD_OUT:,} days never seen in training, in {languages} languages: {exact:.2%}")
    print(f"Of the output's digits, read from the right place in the text (largest weight): {aligned:.2%}")
    typos, _, _ = judge(model, list(Dates("test", size=HELD_OUT, seed=21, typo_rate=1.0)))
    print(f"Exact match with one typo in the letters of each: {typos:.2%}")
    for example, text in wrong[:8]:
        print(f"  wrong: {example.source!r} ({example.locale}) is {example.target}, read as {text}")
    day = examples[0].day
    shown = [written_forms(day, locale)[0].source for locale in ("en", "fr", "de", "pl", "el", "ar", "hi", "ja")]
    print("\nA few of them:")
    for translation in model.translate_batch(shown):
        print(f"  {translation.source}  →  {translation.text}")
    figures(model, shown[1], shown, folder)
    seconds = clock.seconds()
    print(f"From the first training step to the figure: {seconds:.1f} s")
    ask(model, "A date in your own language (empty to end): ")
    result = {"task": "dates", "exact_match": round(exact, 4), "n": HELD_OUT, "seconds": round(seconds, 1)}
    print("RESULT " + json.dumps({**result, "typo_exact_match": round(typos, 4), "alignment": round(aligned, 4)}))
    next_command(folder, shown[1])


def own_pairs(path: Path, folder: Path, overrides: Sequence[str]) -> None:
    """The reader's pairs."""
    print(f"Learning from {path}.")
    clock = Clock()
    trained = _train(RECIPES / "pairs.yaml", folder, [f"data.train={json.dumps(str(path))}", *overrides], clock)
    model = trained.load()
    store = TokenStore.open(folder / "data" / "validation")
    pairs = model.task.texts(store, range(min(HELD_OUT, len(store))))
    found = regard.evaluate(model, pairs)
    print(f"\nOn {len(pairs):,} pairs held out: exact match {found.metrics['exact_match']:.2%}", end="")
    print(f", BLEU {found.metrics['bleu']:.1f}" if "bleu" in found.metrics else "")
    for (source, target), translation in list(zip(pairs, found.translations, strict=True))[:6]:
        print(f"  {source}  →  {translation.text}   ({target})")
    shown = [source for source, _ in pairs[:6]]
    figures(model, shown[0], shown, folder)
    seconds = clock.seconds()
    print(f"From the first training step to the figure: {seconds:.1f} s")
    ask(model, "A source of your own (empty to end): ")
    exact = round(found.metrics["exact_match"], 4)
    print(
        "RESULT " + json.dumps({"task": "pairs", "exact_match": exact, "n": len(pairs), "seconds": round(seconds, 1)})
    )
    next_command(folder, shown[0])


def _train(recipe: Path, folder: Path, overrides: Sequence[str], clock: Clock) -> Trained:
    if (folder / "recipe.yaml").is_file():  # an earlier demonstration
        shutil.rmtree(folder)
    bar = ProgressBar()
    return regard.train(recipe, overrides, output=folder, say=print, callbacks=[bar, clock])


def judge(model: Translator, examples: Sequence[DateExample]) -> tuple[float, float, list[tuple[DateExample, str]]]:
    """Share of dates read exactly; share of digits whose largest weight is in the true span; what was read wrong."""
    with regard.look(model) as seen:
        texts = [t.text for t in model.translate_batch([e.source for e in examples], batch_size=len(examples))]
    weights = seen.weights("decoder.attention")[:, 0]
    order = {prediction.source: row for row, prediction in enumerate(seen.runs[-1].predictions or [])}
    hits = digits = 0
    for example in examples:
        looked = weights[order[example.source]].argmax(dim=-1).tolist()
        for place, span in enumerate(example.alignment):
            if span is not None and place < len(looked):
                digits += 1
                hits += span[0] <= looked[place] < span[1]
    wrong = [(example, text) for example, text in zip(examples, texts, strict=True) if text != example.target]
    return 1 - len(wrong) / len(examples), hits / max(1, digits), wrong


def figures(model: Translator, one: str, several: Sequence[str], folder: Path) -> None:
    """A heatmap of one text, and a page with several to choose from."""
    with torch.no_grad(), regard.look(model) as seen:
        model.translate(one)
        model.translate_batch(several)
    print()
    seen.show(run=0)
    for path, run, row in ((folder / "heatmap.png", 0, 0), (folder / "attention.html", 1, None)):
        seen.show(path, run=run, row=row)
        print(f"Written: {path.resolve()}")
    if has_display() and webbrowser.open((folder / "attention.html").resolve().as_uri()):
        print("The page opens in your browser.")


def next_command(folder: Path, text: str) -> None:
    """What to type next: the command of the environment that this runs in."""
    command = Path(sys.executable).with_name("regard")
    here = Path.cwd()
    shortest = command.relative_to(here) if command.is_relative_to(here) else command
    print(f"\nNext: {shlex.quote(str(shortest))} translate {shlex.quote(str(folder))} {shlex.quote(text)}")


def ask(model: Translator, question: str) -> None:
    """On a terminal, let the reader try."""
    if not sys.stdin.isatty():
        return
    while True:
        try:
            text = input(question)
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not text.strip():
            return
        with regard.look(model) as seen:
            print(f"  →  {model.translate(text).text}")
        seen.show()


if __name__ == "__main__":
    main()
