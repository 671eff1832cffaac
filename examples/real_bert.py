"""A real BERT in ten seconds: search Python's own reference by meaning, and see what its heads look at.

python examples/real_bert.py                                      the first act of make demo
python examples/real_bert.py "how do I read a file line by line"  questions of your own
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.text import Text

import regard
from regard.data.running_text import python_docs
from regard.embeddings import packaged
from regard.inspection import AttentionMap, AttentionView
from regard.inspection.analysis import HeadStatistics
from regard.inspection.terminal import colour_of
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.training.precision import resolve

QUESTIONS = ("how do I read a file line by line", "glue strings together", "delete a folder and everything in it")
SENTENCE = "The animal didn't cross the street because it was too tired"
ASKING, MEANT = "it", "animal"
OTHER = ("tired", "wide")
MODULES = ("builtins", "io", "pathlib", "shutil", "itertools")
LEFT_OUT = (
    "bytes",
    "bytearray",
    "io.Bytes",
    "io.Buffered",
    "io.File",
    "io.Raw",
    "io.Inc",
    "pathlib.Pure",
    "pathlib.Posix",
)
"""What says again what something else says: text's methods on bytes, a file's on other kinds of file."""
LENGTH = 200  # characters of an entry that are read


def main() -> None:
    """The first act, or the reader's questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", help="in any words")
    parser.add_argument("--output", type=Path, default=Path("demo") / "bert", help="where to put the page")
    arguments = parser.parse_args()
    if not first_act(arguments.output, arguments.questions or QUESTIONS):
        raise SystemExit(1)


def first_act(folder: Path, questions: Sequence[str] = QUESTIONS) -> bool:
    """Search and look; False, and a line, where the model cannot be had."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    began = time.monotonic()
    try:
        place = packaged()
        encoder: SentenceEncoder = regard.load(place, task="sentence_embedding")
    except regard.InputError as error:
        console.print(f"(A real BERT would come first, but {error})\n", markup=False, soft_wrap=True)
        return False
    config: Any = encoder.model.config
    count = sum(parameter.numel() for parameter in encoder.model.parameters())
    console.print("[bold]A real BERT in ten seconds[/bold]")
    console.print(f"all-MiniLM-L6-v2: {count:,} parameters, {config.layers} layers of {config.heads} heads")
    console.print(f"{place}\n", style="dim", markup=False, soft_wrap=True)
    _search(encoder, questions, console)
    _look(encoder, folder, console)
    console.print(f"That took {time.monotonic() - began:.1f} s.\n")
    return True


# --- search by meaning ------------------------------------------------------------------------------------------


def _search(encoder: SentenceEncoder, questions: Sequence[str], console: Console) -> None:
    entries = list(reference())
    began = time.monotonic()
    dtype, _ = resolve("auto", encoder.device)
    read = [*(f"{name}: {text}" for name, text in entries), *questions]
    vectors = encoder.embed(read, precision=str(dtype).removeprefix("torch."))
    cosines = vectors[len(entries) :] @ vectors[: len(entries)].T  # they have length one
    seconds = time.monotonic() - began
    console.print(
        f"Each of {len(entries)} entries of your Python's own help() became a vector of {vectors.shape[1]} numbers "
        f"({seconds:.1f} s).\nThe nearest to a question, whatever its words:\n"
    )
    for question, row in zip(questions, cosines, strict=True):
        console.print(Text(f"  {question}", style="bold"))
        best = np.argsort(-row)[:3]
        width = max(len(entries[place][0]) for place in best)
        for place in best:
            name, text = entries[place]
            line = Text.assemble(f"    {row[place]:.2f}  ", (f"{name:<{width}}", "cyan"), f"  {_first_sentence(text)}")
            if console.is_terminal:
                console.print(line, no_wrap=True, overflow="ellipsis")
            else:
                console.print(line, soft_wrap=True)
        console.print()


def reference() -> Iterator[tuple[str, str]]:
    """Names and beginnings of what `help()` says: of the topics of the language, and of functions, classes and methods."""
    known: set[str] = set()
    for name, text in (*_topics(), *_documented_parts()):
        if text not in known:  # a method that several classes have is one entry
            yield name, text[:LENGTH]
        known.add(text)


def _topics() -> Iterator[tuple[str, str]]:
    try:
        topics = [topic for split in ("train", "validation", "test") for topic in python_docs(split)]
    except regard.InputError:  # a Python without its topics has its functions all the same
        return
    for topic in topics:
        title, *paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", topic))
        prose = [part for part in paragraphs if part[:1].isupper() and "::=" not in part]
        if prose:
            yield title.rstrip("* "), prose[0]


def _documented_parts() -> Iterator[tuple[str, str]]:
    for name in MODULES:
        module = importlib.import_module(name)
        for part, value in _public(module):
            home = str(getattr(value, "__module__", "")).lstrip("_").split(".")[0]
            if home not in (name, "io"):  # imported from elsewhere
                continue
            called = part if name == "builtins" else f"{name}.{part}"
            if called.startswith(LEFT_OUT) or (inspect.isclass(value) and issubclass(value, BaseException)):
                continue
            yield from _text_of(called, value)
            if inspect.isclass(value):
                for method, function in _public(value):
                    yield from _text_of(f"{called}.{method}", function)


def _public(thing: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(thing):
        value = getattr(thing, name, None)
        if not name.startswith("_") and callable(value):
            yield name, value


def _text_of(name: str, thing: Any) -> Iterator[tuple[str, str]]:
    summary = re.split(r"\n\s*\n", inspect.getdoc(thing) or "")[0]
    if summary.strip():
        yield name, " ".join(summary.split())


def _first_sentence(text: str) -> str:
    sentence = re.split(r"(?<=[.!?])\s", text)[0]
    return sentence if len(sentence) < len(text) or text.endswith(".") else text + " …"


# --- what its heads look at -------------------------------------------------------------------------------------


def _look(encoder: SentenceEncoder, folder: Path, console: Console) -> None:
    with regard.look(encoder) as seen:
        encoder.embed([SENTENCE])
        encoder.embed([SENTENCE.replace(*OTHER)])
    view, other = seen.view(0, run=0), seen.view(0, run=1)
    tokens = view.maps[0].query_tokens
    asking = tokens.index(ASKING)
    spans = encoder.task.tokenizer.encode_with_spans(SENTENCE)[1]
    chosen = chosen_heads(view)
    count = sum(item.heads for item in view.maps)
    console.print(f'What "{ASKING}" looks at, as {len(chosen)} of its {count} heads see it:\n')
    coloured = console.color_system is not None and not console.no_color
    for item, head, remark in chosen:
        weights = item.weights[head, asking]
        best = int(weights.argmax())
        line = Text("    ")
        line.append_text(_coloured(SENTENCE, spans, weights[1:-1], coloured))  # [CLS] and [SEP] have no place in it
        line.append(f"    {tokens[best]} {100 * weights[best]:.0f} %", style="bold")
        console.print(Text(f"  layer {_layer(item)}, head {head}, {remark}"))
        console.print(line)
    first, head, _ = chosen[0]
    then = other.map(first.address).weights[head, asking]
    shares = " and ".join(f"{100 * then[tokens.index(word)]:.0f}\u00a0% to {word}" for word in (MEANT, "street"))
    console.print(
        f'\nWith "{OTHER[1]}" in place of "{OTHER[0]}" the street is meant; the first of these heads then gives {shares}.'
    )
    page = folder / "attention.html"
    folder.mkdir(parents=True, exist_ok=True)
    seen.show(page, run=0)
    console.print(f"Written, with every layer and head: {page.resolve()}", markup=False)
    place = f"#view=text&layer={first.address}&head={head}&query={asking}"
    if has_display() and webbrowser.open(page.resolve().as_uri() + place):
        console.print("The page opens in your browser.")


def chosen_heads(view: AttentionView) -> list[tuple[AttentionMap, int, str]]:
    """Some heads, each for something that heads do, found in the weights: the map, the head, and what it does."""
    tokens = view.maps[0].query_tokens
    asking, meant = tokens.index(ASKING), tokens.index(MEANT)
    heads = [
        (item, head) for item in view.maps[:-1] for head in range(item.heads)
    ]  # of the last, all look for the same
    item, head = max(heads, key=lambda each: each[0].weights[each[1], asking, meant])
    found = [(item, head, "finds what is meant")]
    statistics = HeadStatistics.of_maps(view)
    for kind, what in (("previous-token", "the word before"), ("next-token", "the word after")):
        found += [(view.map(each.address), each.head, f"looks at {what}") for each in statistics.named(kind)[:1]]
    resting = max(statistics.heads, key=lambda each: each.shares["delimiter"].attention)
    return [*found, (view.map(resting.address), resting.head, "rests on a delimiter, as many do that find nothing")]


def _coloured(text: str, spans: Sequence[tuple[int, int]], weights: np.ndarray, coloured: bool) -> Text:
    """The sentence, each token in the colour of its weight."""
    shown = Text(text)
    if coloured:
        for (start, end), weight in zip(spans, weights.tolist(), strict=True):
            if weight >= 0.02:  # of less nobody would say that it is looked at
                shade = colour_of(weight**0.5, signed=False)
                shown.stylize(Style(bgcolor=shade, color="black" if weight > 0.25 else "white"), start, end)
    return shown


def _layer(item: AttentionMap) -> str:
    return re.sub(r"\D", "", item.address)


def has_display() -> bool:
    """Whether somebody sits before a screen that a browser can open on."""
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


if __name__ == "__main__":
    main()
