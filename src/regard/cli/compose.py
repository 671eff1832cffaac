"""`regard compose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import generation_options as options
from regard.cli.console import print_json, say
from regard.cli.inputs import Device, opened, words_of
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.language_modelling import Composition


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
        print_json(_object(found, model, piece))
    elif output is None:
        print(" ".join(found.continuation))


def _check_suffixes(output: Path | None, picture: Path | None) -> None:
    """Refuse now what could not be written after minutes of work."""
    for path, suffixes in ((output, (".mid", ".midi")), (picture, (".png", ".svg"))):
        if path is not None and path.suffix.lower() not in suffixes:
            raise InputError(f"{path}: give a name that ends in {' or '.join(suffixes)}")


def _write(found: Composition, output: Path | None, picture: Path | None, *, title: str) -> None:
    from regard.data.music.files import write_midi

    border = found.border if found.prompt else None
    if output is not None:
        write_midi(found.piece, output, border=border)
        counts = f"{len(found.prompt):,} events of the prompt and {len(found.continuation):,} that follow"
        say(f"{output}: {counts}, {found.piece.length:.1f} seconds")
    if picture is not None:
        from regard.inspection.drawings import save_roll

        save_roll(found.piece, picture, border=border, title=title)
        say(f"{picture}: the piano roll of {len(found.piece.notes):,} notes")


def _object(found: Composition, model: Path, piece: str | None) -> dict[str, Any]:
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
