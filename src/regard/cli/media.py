"""Models of pictures and music: `regard caption`, `regard classify` where it reads pictures, `regard compose`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import generation_options as options
from regard.cli.console import NewFile, envelope, print_json, say
from regard.cli.inputs import Device, NamedPicture, opened, pictures_named, words_of
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.captioning import Caption, Captioner
    from regard.tasks.few_shot import FewShotClassifier
    from regard.tasks.language_modelling import Composition
    from regard.tasks.picture_classification import PictureClassifierPredictor
    from regard.tasks.pictures import Picture, PictureClassification


MOST_SHOWN = 64
"""Pictures that one page shows; a batch is as large."""


@options.decoding_options()
def caption(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    pictures: Annotated[
        list[str],
        typer.Argument(
            metavar="PICTURE",
            help="A file, or a folder or zip of them; or scenes, builtin pictures as the model was trained on, scenes:4 for one.",
            show_default=False,
        ),
    ],
    frames: Annotated[
        bool, typer.Option("--frames", help="The pictures are the frames of one sequence, in this order.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a line for each picture.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a page (.html) that shows where the model looked for each word."),
    ] = None,
    decoding: options.Decoding = options.NOTHING,
    device: Device = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures read together.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with scores.")] = False,
) -> None:
    """Write captions of pictures: a line for each, its name, a tab and the caption.

    Several captions of a picture (--n-best) follow in the same line with tabs between them, the best first. Pictures are JPEG,
    PNG and what else Pillow reads; sizes may differ. Settings that are not given are the model's own.

    \b
    Example:
      regard caption runs/scenes scenes
      regard caption runs/scenes scenes:4 --page overlay.html
      regard caption runs/flickr8k dog.jpg beach.jpg --beam 5
      regard caption runs/flickr8k photos.zip --output captions.tsv
      regard caption runs/moving 1.png 2.png 3.png 4.png --frames --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{page}: the page is HTML; give a name that ends in .html")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        captioner: Captioner = opened(model, device, "captioning")
        named = pictures_named(pictures, captioner)
        if frames:
            named = [NamedPicture(" ".join(each.name for each in named), [each.picture for each in named])]
        settings = options.with_options(captioner.task.generation, decoding)
        record = None if page is None else stack.enter_context(_looking(captioner, len(named)))
        objects: list[dict[str, Any]] = []
        size = batch_size if page is None else MOST_SHOWN
        for start in range(0, len(named), size):
            some = named[start : start + size]
            found = captioner.caption_batch([each.picture for each in some], settings, batch_size=size)
            for each, told in zip(some, found, strict=True):
                if as_json:
                    objects.append(_caption_object(each, told))
                elif file is None:
                    sys.stdout.write(_caption_line(each, told))
                else:
                    file.write(_caption_line(each, told))
            sys.stdout.flush()
        if as_json:
            print_json(envelope("caption") | {"model": str(model), "captions": objects}, file)
    if page is not None and record is not None:
        from regard.inspection.record import save_view

        save_view(record.view(), page)
        say(f"{page}: where the model looked in {len(named)} picture{'s' if len(named) > 1 else ''}")


def _looking(captioner: Captioner, count: int) -> Any:
    """A record of all that the model looks at."""
    from regard.inspection import look

    if count > MOST_SHOWN:
        raise InputError(f"--page shows up to {MOST_SHOWN} pictures, and there are {count}; name some of them")
    return look(captioner)


def _caption_line(named: NamedPicture, found: Caption) -> str:
    texts = (named.name, found.text, *(text for text, _ in found.alternatives))
    return "\t".join(" ".join(text.split()) for text in texts) + "\n"


def _caption_object(named: NamedPicture, found: Caption) -> dict[str, Any]:
    return {
        "picture": named.name,
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "alternatives": [{"text": text, "score": score} for text, score in found.alternatives],
        **({"reference": named.caption} if named.caption else {}),
    }


# `regard classify`, for models that tell the class of a picture.


TOGETHER = 256
"""Pictures read at once."""


def classify_pictures(
    model: Path,
    places: Sequence[str],
    file: NewFile | None,
    as_json: bool,
    device: str,
    *,
    shown: Path | None,
    unfit: Sequence[str],
) -> None:
    """Tell the class of pictures: a line for each, its name, the class and its probability.

    Arguments:
        places: picture files, folders or zip archives of them, or `digits`, builtin ones.
        file: where the lines go instead of standard output.
        as_json: whether one object is printed, with the probability of every class.
        shown: for a model that learns from a few labelled pictures, where these are: CLASS/PICTURE in a folder or zip archive.
        unfit: options that were given and are only for models of texts.

    Raises:
        InputError: for such an option, no picture, one that cannot be read, or labelled ones that the model does not want, or
            needs and does not get.
    """
    if unfit:
        raise InputError(f"{unfit[0]} is for models that read texts; this one reads pictures, name them instead")
    if not places:
        raise InputError(
            "this model reads pictures, and there is none; name files, a folder or a zip archive, or digits:0"
        )
    predictor = opened(model, device)
    named = pictures_named(places, predictor)
    objects: list[dict[str, Any]] = []
    for each, found in _told(named, _ask(predictor, shown)):
        line = f"{' '.join(each.name.split())}\t{' '.join(found.label.split())}\t{found.probability:.4f}\n"
        if as_json:
            right = {"reference": each.caption} if each.caption else {}
            objects.append({"picture": each.name, "label": found.label, "probabilities": found.probabilities, **right})
        elif file is None:
            sys.stdout.write(line)
        else:
            file.write(line)
    if as_json:
        print_json(envelope("classify") | {"classifications": objects}, file)


def _ask(
    predictor: PictureClassifierPredictor | FewShotClassifier, shown: Path | None
) -> Callable[[Sequence[Picture]], Sequence[PictureClassification]]:
    """What tells the classes of some pictures; a few-shot learner has seen the labelled ones already."""
    from regard.tasks.few_shot import FewShotClassifier

    if not isinstance(predictor, FewShotClassifier):
        if shown is not None:
            raise InputError(
                "--shown is for models that learn from a few pictures; this one knows its classes, leave it out"
            )
        return predictor.classify_batch
    if shown is None:
        task = predictor.task
        raise InputError(
            f"this model learns classes from a few pictures, and is shown none; give {task.ways} classes with {task.shots} "
            "picture(s) of each as CLASS/PICTURE in a folder: --shown FOLDER"
        )
    return partial(predictor.classify_batch, _labelled(shown))


def _labelled(place: Path) -> list[tuple[Picture, str]]:
    """The pictures in a folder or archive, each with the name of the folder it lies in."""
    from regard.data.pictures import open_pictures

    pictures = open_pictures(place)
    bare = [name for name in pictures if "/" not in name]
    if bare:
        raise InputError(f"{place}: {bare[0]} lies in no folder; put each picture in a folder named as its class")
    return [(pictures.read(name, colour=False), PurePosixPath(name).parent.name) for name in pictures]


def _told(
    named: Sequence[NamedPicture], ask: Callable[[Sequence[Picture]], Sequence[PictureClassification]]
) -> Iterator[tuple[NamedPicture, PictureClassification]]:
    for start in range(0, len(named), TOGETHER):
        some = named[start : start + TOGETHER]
        yield from zip(some, ask([each.picture for each in some]), strict=True)


# `regard compose`.


@options.decoding_options("beam", "n_best", "length_penalty", "coverage_penalty", maximum_length=256, sample=True)
def compose(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    piece: Annotated[
        str | None,
        typer.Argument(
            metavar="PIECE",
            help="What to go on with: a MIDI file; chorales.json:3; motifs:3, builtin. A new piece where left out.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="How many events of the piece to take; all of them unless given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a MIDI file (.mid).")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw the piano roll, as .png or .svg.")
    ] = None,
    tempo: Annotated[
        float | None, typer.Option(min=1, max=1000, help="Quarters a minute, where events are steps of a grid.")
    ] = None,
    decoding: options.Decoding = options.NOTHING,
    device: Device = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with events, notes and scores.")
    ] = False,
) -> None:
    """Go on with a piece of music, with a language model of events: the prompt and its continuation as a MIDI file.

    In the file a marker says where the continuation begins, in the picture a line and another colour. Without --output the
    events of the continuation are printed, in one line. The same seed draws the same music.

    \b
    Example:
      regard compose runs/motifs motifs:0 --first 40 -o melody.mid --picture melody.png
      regard compose runs/chorales jsb-chorales.json:3 --first 128 --tempo 80 -o chorale.mid --picture chorale.svg
      regard compose runs/piano prelude.mid --first 300 --maximum-length 1000 --temperature 0.9 --top-p 0.95 --seed 3 -o out.mid
      regard compose runs/piano --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    _check_suffixes(output, picture)
    from regard.tasks.language_modelling import COMPOSING, writing_of
    from regard.tasks.language_modelling import compose as composed

    composer = opened(model, device, "language_modelling")
    writing = writing_of(composer, tempo=tempo)
    words = [] if piece is None else words_of(piece, composer, writing)
    if first is not None:
        if piece is None:
            raise InputError("--first is how much of a piece to take, and there is none; name one, or leave it out")
        words = words[: writing.whole(first)]
    settings = options.with_options(COMPOSING, decoding)
    found = composed(composer, words, settings, writing=writing)
    _write(found, output, picture, title=Path(piece or model).name)
    if as_json:
        print_json(envelope("compose") | _composition_object(found, model, piece))
    elif output is None:
        print(" ".join(found.continuation))


def _check_suffixes(output: Path | None, picture: Path | None) -> None:
    """Refuse now what could not be written after minutes of work."""
    for path, suffixes in ((output, (".mid", ".midi")), (picture, (".png", ".svg"))):
        if path is not None and path.suffix.lower() not in suffixes:
            raise InputError(f"{path}: give a name that ends in {' or '.join(suffixes)}")


def _write(found: Composition, output: Path | None, picture: Path | None, *, title: str) -> None:
    from regard.data.music import write_midi

    border = found.border if found.prompt else None
    if output is not None:
        write_midi(found.piece, output, border=border)
        counts = f"{len(found.prompt):,} events of the prompt and {len(found.continuation):,} that follow"
        say(f"{output}: {counts}, {found.piece.length:.1f} seconds")
    if picture is not None:
        from regard.inspection.drawings import save_roll

        save_roll(found.piece, picture, border=border, title=title)
        say(f"{picture}: the piano roll of {len(found.piece.notes):,} notes")


def _composition_object(found: Composition, model: Path, piece: str | None) -> dict[str, Any]:
    return {
        "model": str(model),
        "piece": piece,
        "prompt": list(found.prompt),
        "continuation": list(found.continuation),
        "log_probabilities": list(found.log_probabilities),
        "finished": found.finished,
        "border": found.border,
        "seconds": found.piece.length,
        "notes": [
            {
                "start": note.start,
                "end": note.end,
                "pitch": note.pitch,
                "velocity": note.velocity,
                "voice": note.voice,
            }
            for note in found.piece.notes
        ],
    }
