"""Models of images and music: `regard caption` and `regard compose`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import envelope, print_json, say
from regard.cli.inputs import ImageText, Text, images_named, opened, words_of
from regard.cli.run import Answers, Run, verb
from regard.cli.settings import (
    DECODING,
    NOTHING,
    BatchSize,
    Decoding,
    Device,
    Given,
    Json,
    Model,
    grouped,
    with_options,
)
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.captioning import Caption, Captioner
    from regard.tasks.composing import Composition


MOST_SHOWN = 64
"""The most images on one page, which are one batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Images(Run):
    """The options of `regard caption`."""

    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE",
            help="Image files, folders or zips of them; or scenes, the builtin images the model was trained on, scenes:4 for "
            "one.",
            show_default=False,
        ),
    ]
    frames: Annotated[
        bool, typer.Option("--frames", help="The images are the frames of one sequence, in this order.")
    ] = False

    def named(self, captioner: Captioner) -> list[ImageText]:
        """The images; with --frames, a single one with all frames."""
        found = images_named(self.images, captioner)
        if not self.frames:
            return found
        name = " ".join(each.content for each in found)
        return [ImageText(name, name, [each.image for each in found])]


@verb(
    "captioning",
    output="Output file, one line per image.",
    batch_size="Images per batch.",
    as_json="Print one JSON object, with scores.",
)
def caption(
    run: Images,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a page (.html) with the attention map of each word."),
    ] = None,
    decoding: Decoding = NOTHING,
    batch_size: BatchSize = 64,
) -> None:
    """Caption images: one output line per image, with its name, a tab and the caption.

    With --n-best, the captions of an image are on one line, separated by tabs, best first. Images are JPEG, PNG or any format
    Pillow reads; sizes may differ. Defaults are the model's own settings.

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
    with run.file() as file:
        captioner: Captioner = run.load("captioning")
        named = run.named(captioner)
        settings = with_options(captioner.task.generation, decoding)
        if page is not None and len(named) > MOST_SHOWN:
            raise InputError(f"--page shows up to {MOST_SHOWN} images, and there are {len(named)}; give fewer")
        size = batch_size if page is None else MOST_SHOWN

        def answer(chunk: list[Text]) -> list[Caption]:
            images = [each.image for each in chunk if isinstance(each, ImageText)]
            return captioner.caption_batch(images, settings, batch_size=size)

        def write() -> None:
            run.write(CAPTIONS, iter(named), answer, file=file, together=size, model=str(run.model))

        if page is None:
            write()
            return
        from regard.inspection import look
        from regard.inspection.record import save_view

        with look(captioner) as record:
            write()
    save_view(record.view(), page)
    say(f"{page}: attention on {len(named)} image{'s' if len(named) > 1 else ''}")


def _caption_line(text: Text, found: Caption | None) -> str:
    answers = () if found is None else (found.text, *(each for each, _ in found.alternatives))
    return "\t".join(" ".join(each.split()) for each in (text.content, *answers)) + "\n"


def _caption_values(text: Text, found: Caption | None) -> dict[str, Any]:
    values: dict[str, Any] = {"image": text.content}
    if found is not None:
        values |= {
            "text": found.text,
            "score": found.score,
            "log_probability": found.log_probability,
            "alternatives": [{"text": each, "score": score} for each, score in found.alternatives],
        }
    return values | ({"reference": text.caption} if isinstance(text, ImageText) and text.caption else {})


CAPTIONS = Answers(command="caption", name="captions", line=_caption_line, values=_caption_values)


# `regard compose`.


COMPOSING = DECODING.without(*("beam", "n_best", "length_penalty", "coverage_penalty"), maximum_length=256, sample=True)


@grouped()
def compose(
    model: Model,
    piece: Annotated[
        str | None,
        typer.Argument(
            metavar="PIECE",
            help="The piece to continue: a MIDI file, chorales.json:3, or motifs:3 (builtin). By default a new piece is "
            "composed.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Use only the first N events of the piece."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file, MIDI (.mid).")
    ] = None,
    piano_roll: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also plot the piano roll, as .png or .svg.")
    ] = None,
    tempo: Annotated[
        float | None,
        typer.Option(metavar="N", min=1, max=1000, help="Quarter notes per minute, if events are steps of a grid."),
    ] = None,
    decoding: Annotated[Given, COMPOSING] = NOTHING,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Continue a piece of music with a language model of events, as a MIDI file.

    The MIDI file has the prompt and its continuation, with a marker between them; in the plot a line and another colour mark
    it. Without --output the events of the continuation are printed on one line. The same seed gives the same music.

    \b
    Example:
      regard compose runs/motifs motifs:0 --first 40 -o melody.mid --piano-roll melody.png
      regard compose runs/chorales jsb-chorales.json:3 --first 128 --tempo 80 -o chorale.mid --piano-roll chorale.svg
      regard compose runs/piano prelude.mid --first 300 --maximum-length 1000 --temperature 0.9 --top-p 0.95 --seed 3 -o out.mid
      regard compose runs/piano --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    _check_suffixes(output, piano_roll)
    from regard.tasks.composing import COMPOSING as OWN
    from regard.tasks.composing import compose as composed
    from regard.tasks.composing import writing_of

    composer = opened(model, device, "language_modelling")
    writing = writing_of(composer, tempo=tempo)
    words = [] if piece is None else words_of(piece, composer, writing)
    if first is not None:
        if piece is None:
            raise InputError("--first limits PIECE, and none is given; give one, or leave it out")
        words = words[: writing.whole(first)]
    settings = with_options(OWN, decoding)
    found = composed(composer, words, settings, writing=writing)
    _write(found, output, piano_roll, title=Path(piece or model).name)
    if as_json:
        print_json(envelope("compose") | _composition_object(found, model, piece))
    elif output is None:
        print(" ".join(found.continuation))


def _check_suffixes(output: Path | None, piano_roll: Path | None) -> None:
    """Refuse wrong file names before minutes of work."""
    for path, suffixes in ((output, (".mid", ".midi")), (piano_roll, (".png", ".svg"))):
        if path is not None and path.suffix.lower() not in suffixes:
            raise InputError(f"{path}: give a name that ends in {' or '.join(suffixes)}")


def _write(found: Composition, output: Path | None, piano_roll: Path | None, *, title: str) -> None:
    from regard.data.music import write_midi

    border = found.border if found.prompt else None
    if output is not None:
        write_midi(found.piece, output, border=border)
        counts = f"{len(found.prompt):,} events of the prompt and {len(found.continuation):,} that follow"
        say(f"{output}: {counts}, {found.piece.length:.1f} seconds")
    if piano_roll is not None:
        from regard.inspection.drawings import save_roll

        save_roll(found.piece, piano_roll, border=border, title=title)
        say(f"{piano_roll}: the piano roll of {len(found.piece.notes):,} notes")


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
