"""Inside a model: `regard look` shows its attention, `walk` walks through one attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import print_rich, say
from regard.cli.inputs import MOTIFS, Support, images_named, labelled_images, words_of
from regard.cli.settings import Model, To
from regard.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.inspection import AttentionMap, AttentionView
    from regard.tasks.language_modelling import LanguageModel


PLOT_SUFFIXES = (".png", ".svg")
DOTS_PER_INCH = 130
VIEW_SUFFIXES = (".html", ".htm", ".png", ".svg", ".json")
EVENTS_SHOWN = 128
"""The most events of a piece of music that are read where its file is given."""


def look(
    model: Model,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Input of the model: a text; an image file for a captioner or image classifier; vectors of bits for a "
            "copying model.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Use this output text in place of the model's own.")
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The second text, for a model of text pairs.", show_default=False),
    ] = None,
    to: To = None,
    support: Support = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Output: a page (.html), plot (.png, .svg) or numbers (.json)."
        ),
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            "--layer", metavar="ADDRESS", help="Only layers with this address; * matches anything; may be repeated."
        ),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="[LAYER.]HEAD",
            help="Only this head, from 0: 3 is head 3 of every layer shown, 0.3 head 3 of layer 0; LAYER may be an address. "
            "May be repeated, to compare heads.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the weights as one JSON object.")] = False,
) -> None:
    """Show a model's attention on a text, as heatmaps, a page, a plot or numbers.

    Without --output, the terminal shows heatmaps: rows are queries (for a translator the generated tokens), columns are keys.
    For an encoder or language model it shows the last layer, for a han the text with the weights of its sentences and words.
    A plot (.png, .svg) of an ntm, han, lstmn, reformer or lambda_network is the figure of its paper; with --layer it shows
    heatmaps. `regard info MODEL` lists the addresses of layers. An encoder may come from another library, with a head or
    without; [MASK] in the text is a mask if the model was trained with masks.

    \b
    Example:
      regard look runs/dates "mardi 9 mai 2017"
      regard look runs/dates "mardi 9 mai 2017" --target 2017-05-09 -o attention.html
      regard look runs/en-de "A dog runs." --layer "decoder.layers.*.cross_attention" -o heads.png
      regard look hub:bert-base-uncased "The animal didn't cross the street because it was too tired" -o heads.html
      regard look hub:gpt2 "The animal was tired" --head 4.11 --head 5.1 -o two-heads.png
      regard look runs/lstmn "The FBI is chasing a criminal on the run ." -o fbi.html
      regard look runs/imdb "The first half drags. The end is wonderful." -o review.html
      regard look runs/scenes scenes:4 -o overlay.html
      regard look runs/digits digits:4 -o patches.html
      regard look runs/copying "10110010 01101100" -o memory.html
      regard look runs/few-shot asked.png --support shown/ -o episode.html
      regard look runs/paraphrases "It rains." --pair "Rain is falling." --layer "layers.2.*"
    """  # noqa: D301  # \b keeps the lines of the example apart
    if output is not None and output.suffix.lower() not in VIEW_SUFFIXES:
        raise InputError(
            f"{output}: the ending selects the format; give a name that ends in .html, .png, .svg or .json"
        )
    view = _seen(model, text, target, pair, to, layer, support)
    if head:
        view = view.with_heads(head)
    if output is not None:
        figure = (
            None if layer or head or output.suffix.lower() not in PLOT_SUFFIXES else _as_in_paper(model, text, view)
        )
        if figure is None:
            from regard.inspection.record import save_view

            save_view(view, output)
            say(f"{output}: {len(view.maps)} attention maps of {view.title!r}")
        else:
            from regard.inspection.plots import write_figure

            write_figure(figure, output, {"Title": view.title}, dots_per_inch=DOTS_PER_INCH)
            say(f"{output}: the figure of the model's paper, for {view.title!r}; --layer '*' shows the attention maps")
    if as_json:
        print(view.to_json())
    elif output is None:
        _show(view, every=bool(layer) or any("." in each for each in head or ()))


def _seen(
    model: Path,
    text: str,
    target: str | None,
    pair: str | None,
    to: str | None,
    layers: list[str] | None,
    support: Path | None,
) -> AttentionView:
    from regard.checkpoints import read_config
    from regard.machine import keep_freed_memory
    from regard.models import MODELS
    from regard.tasks.loading import model_folder, task_of

    keep_freed_memory()
    place = model_folder(model)
    family = MODELS[read_config(place).model_type]
    kind = family.interface
    if kind not in UNFIT:
        kind = "encoder" if family.serves("whole_text") else task_of(model)
    unfit = UNFIT.get(kind, UNFIT["translation"])
    for name, given in (("--pair", pair), ("--target", target), ("--to", to)):
        if given is not None and name in unfit:
            raise InputError(f"{name} is for models that {unfit[name]}")
    if kind == "few_shot":
        return _learning(model, text, layers, support)
    if support is not None:
        raise InputError("--support is for few-shot models; this one is not; leave it out")
    if kind in ONE_TEXT:
        return ONE_TEXT[kind](model, text, layers)
    if kind != "encoder":
        return _writing(kind, model, text, target, to, layers)
    if pair is not None and target is not None:
        raise InputError("--pair and --target are both the second text here; give one of them")
    return _reading(place, text, pair if target is None else target, layers)


def _as_in_paper(model: Path, text: str, view: AttentionView) -> Figure | None:
    """The figure of the model's paper, where it is not a heatmap; None for other models."""
    from regard.checkpoints import read_config
    from regard.inspection.papers import FIGURES, document_figure
    from regard.tasks.loading import load, model_folder

    family = read_config(model_folder(model)).model_type
    if family == "ntm":
        from regard.inspection.memory import memory_figure, memory_trace

        return memory_figure(memory_trace(load(model, task="copying"), text), title=view.title)
    if family == "han":
        if len(view.examples) > 1:  # two compared documents have no predicted class
            return None
        predicted: Any = load(model)
        label = predicted.classify(text).label if hasattr(predicted, "classify") else ""
        return document_figure(view, predicted=label)
    if family == "reformer" and not any(one.marks is not None and one.marks.buckets for one in view.maps):
        return None  # within one chunk nothing is hashed, so there are only maps
    return FIGURES[family](view) if family in FIGURES else None


def _writing(
    kind: str, model: Path, text: str, target: str | None, to: str | None, layers: list[str] | None
) -> AttentionView:
    """The attention of a translator, a captioner or a text-to-text model, while it generates or reads a given target."""
    import torch

    from regard.inspection import look as recording
    from regard.tasks.loading import load

    task = "captioning" if kind == "captioner" else kind if kind in WRITING else "translation"
    writer = load(model, task=task)
    source: Any = images_named([text], writer)[0].image if kind == "captioner" else text
    if task == "translation":
        writer.task.check_language(to)
    for name, given in (("TEXT", text if task == "translation" and target is not None else None), ("--target", target)):
        if given is not None and not given.strip():
            raise InputError(f"{name} is empty; give a text")
    with recording(writer, layers or None) as record, torch.no_grad():
        if target is None:
            options = {"to": to} if task == "translation" else {}
            getattr(writer, WRITING[task])(source, **options)
        elif task not in ("translation", "captioning"):
            batch = writer.task.batch([writer.encode_source(text, None)], [writer.encode_target(target)])
            batch = batch.to(writer.device)
            writer.model(batch.source, batch.target)
        else:
            batch = writer.teacher_forced([(source, target)], **({"to": to} if task == "translation" else {}))
            writer.model(batch.images if task == "captioning" else batch.source, batch.target)
    return record.view(0)


def _classifying(model: Path, image: str, layers: list[str] | None) -> AttentionView:
    """The attention of an image classifier; where it has a class token, with the rollout over all layers."""
    from regard.inspection import look as recording
    from regard.inspection.analysis.rollout import with_rollout
    from regard.tasks.loading import load

    classifier = load(model, task="image_classification")
    asked = _one_image(image, classifier)
    with recording(classifier, layers or None) as record:
        classifier.classify(asked)
    view = record.view(0)
    return view if layers else with_rollout(view)


def _learning(model: Path, image: str, layers: list[str] | None, support: Path | None) -> AttentionView:
    """The attention of a few-shot model on the labelled images and the query image of an episode."""
    from regard.inspection.episodes import learnt_view

    classifier, shown, asked = _episode(model, image, support)
    return learnt_view(classifier, shown, asked, layers or None)


def _episode(model: Path, image: str, support: Path | None) -> tuple[Any, list[Any], Any]:
    """A few-shot classifier, its labelled images, and the query image."""
    from regard.tasks.loading import load

    classifier = load(model, task="few_shot")
    return classifier, labelled_images(support, classifier), _one_image(image, classifier)


def _one_image(place: str, model: Any) -> Any:
    """The image at a place.

    Raises:
        InputError: for several images, or none.
    """
    found = images_named([place], model)
    if len(found) > 1:
        raise InputError(f"{place}: there are {len(found)} images; give one of them, such as {found[0].content}")
    return found[0].image


def _copying(model: Path, text: str, layers: list[str] | None) -> AttentionView:
    """The memory locations that a model reads and writes while it copies vectors of bits, one row per step."""
    from regard.inspection.memory import copied_view
    from regard.tasks.loading import load

    return copied_view(load(model, task="copying"), text, layers or None)


def _following(model: Path, text: str, layers: list[str] | None) -> AttentionView:
    """The attention of a language model that reads a text as a prompt."""
    from dataclasses import replace

    import torch

    from regard.inspection import look as recording
    from regard.tasks.loading import load

    if not text.strip():
        raise InputError("TEXT is empty; give a text")
    reader = load(model, task="language_modelling")
    tokenizer = reader.task.tokenizer
    ids = reader.task.prompted(tokenizer.encode(_music(text, reader)))
    batch = reader.task.batch([[*ids, tokenizer.end_id]])
    with recording(reader, layers or None) as record, torch.no_grad():
        reader.model(batch.tokens)
    return replace(record.view(0), title=text, examples=(text,))  # the text itself, with unknown words


def _music(text: str, model: LanguageModel) -> str:
    """The text itself; for a model of music that is given the place of a piece, its first events."""
    from regard.tasks.composing import writing_of
    from regard.text.events import EVENTS

    place = text.strip()
    named = place.partition(":")[0] == MOTIFS or ".json" in place or Path(place).suffix.lower() in (".mid", ".midi")
    if model.task.tokenizer.kind not in EVENTS or not named:
        return text
    words = words_of(place, model, writing_of(model))
    if len(words) > EVENTS_SHOWN:
        say(f"{place}: the first {EVENTS_SHOWN} of {len(words):,} events; give events as TEXT for others")
    return " ".join(words[:EVENTS_SHOWN])


def _reading(place: Path, text: str, second: str | None, layers: list[str] | None) -> AttentionView:
    """The attention of a text encoder with any head, from a folder of Regard or another library."""
    from regard.inspection.text_reader import TextReader

    for name, given in (("TEXT", text), ("the second text", second)):
        if given is not None and not given.strip():
            raise InputError(f"{name} is empty; give a text")
    return TextReader.load(place).view(text, second, addresses=layers or None)


_IMAGE = "read or write texts; this one reads an image; leave it out"
_NO_TEXT = "read or write texts; this one does not; leave it out"
_ONE_TEXT = "read a second text; a language model reads one; give TEXT only"
_FILLS = "translate; this one fills in what is missing"
_WRITES = "read two texts; this one generates text; give its target with --target"
UNFIT: Mapping[str, Mapping[str, str]] = {
    "captioner": dict.fromkeys(("--pair", "--to"), "read texts; this one reads an image; leave it out"),
    "image_classifier": dict.fromkeys(("--pair", "--target", "--to"), _IMAGE),
    "transducer": dict.fromkeys(("--pair", "--target", "--to"), _NO_TEXT),
    "few_shot": dict.fromkeys(("--pair", "--target", "--to"), _NO_TEXT),
    "language_model": dict.fromkeys(("--pair", "--target", "--to"), _ONE_TEXT),
    "encoder": {"--to": "write in several languages; this one only reads"},
    "text_to_text": {"--pair": _WRITES, "--to": "translate; for this one, the prefix of TEXT selects the task"},
    "denoising": {"--pair": _WRITES, "--to": _FILLS},
    "span_corruption": {"--pair": _WRITES, "--to": _FILLS},
    "translation": {"--pair": _WRITES},
}
"""By kind of model: options that it does not have, and which models have them."""

ONE_TEXT: Mapping[str, Callable[[Path, str, list[str] | None], AttentionView]] = {
    "image_classifier": _classifying,
    "transducer": _copying,
    "language_model": _following,
}
"""The functions for models with a single input, by interface."""

WRITING = {
    "translation": "translate",
    "captioning": "caption",
    "text_to_text": "generate",
    "denoising": "fill",
    "span_corruption": "fill",
}
"""The predictor's method for each task that generates text."""


def _show(view: AttentionView, *, every: bool) -> None:
    """Print heatmaps: of every map; else of cross-attention where there is any, else of the last layer."""
    from dataclasses import replace

    from regard.inspection.terminal import render
    from regard.inspection.text_reader import DocumentText, is_document

    if is_document(view) and not every:
        for number, title in enumerate(view.examples):
            if number:
                print()
            print_rich(title, DocumentText(view, number))
        return
    crossed: tuple[AttentionMap, ...] = tuple(item for item in view.maps if item.kind == "cross")
    maps = view.maps if every else crossed or view.maps[-1:]
    print_rich(view.title, render(replace(view, maps=maps)))
    left = len(view.maps) - len(maps)
    if left:
        which = "of self-attention" if crossed else "of the layers below"
        say(f"{left} further maps, {which}; --layer '*' shows all")


# `regard walk`.


def walk(
    model: Model,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Input of the model: a text; an image file for a captioner or image classifier; vectors of bits for a "
            "copying model.",
            show_default=False,
        ),
    ],
    query: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="The word whose query to follow.", show_default=False),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            help="Index of the query token, from 0; in place of --query, or if its word occurs twice.",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The attention layer; by default the last cross-attention."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="[LAYER.]HEAD",
            help="Head, from 0, such as 3, or 5.3 for head 3 of layer 5; by default the one with the largest weight.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Use this output text in place of the model's own.")
    ] = None,
    to: To = None,
    support: Support = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output: a page (.html) or all numbers (.json)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as one JSON object.")] = False,
) -> None:
    """Show one attention computation step by step, with the model's own numbers.

    Queries, keys and values; scores; scale; softmax; weighted sum: each step with the line of code that computes it. In
    cross-attention the queries are tokens of the output; with --layer encoder.layers.0.attention they are tokens of the
    source.

    \b
    Example:
      regard walk runs/en-de "A dog runs." --query Hund
      regard walk runs/en-de "A dog runs." --query dog --layer encoder.layers.0.attention -o walk.html
      regard walk runs/copying "10110010 01101100" --query 01101100 --head 1
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.inspection.walk import walk as walking
    from regard.inspection.walk.steps import query_text
    from regard.inspection.walk.walking import is_page
    from regard.machine import keep_freed_memory
    from regard.tasks.loading import load

    if output is not None:
        is_page(output)  # refuses a wrong name before the model is loaded
    keep_freed_memory()
    opened = load(model)
    read: Any = text
    if opened.task.name == "few_shot":
        _, shown, asked = _episode(model, text, support)
        read = (shown, asked)
    elif support is not None:
        raise InputError("--support is for few-shot models; this one is not; leave it out")
    elif opened.task.name in ("image_classification", "captioning"):
        read = _one_image(text, opened)
    seen = walking(opened, read, query, position=position, layer=layer, head=head, target=target, to=to)
    if output is not None:
        seen.show(output)
        say(f"{output}: {len(seen.steps)} steps of {query_text(seen)!r} through {seen.address}")
    if as_json:
        print(seen.to_json())
    elif output is None:
        from regard.inspection.walk.terminal import render

        print_rich(render(seen))
