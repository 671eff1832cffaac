"""`regard caption`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import generation_options as options
from regard.cli.console import NewFile, print_json, say
from regard.cli.inputs import Device, NamedPicture, opened, pictures_named
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.captioning import Caption, Captioner

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
                    objects.append(_object(each, told))
                elif file is None:
                    sys.stdout.write(_line(each, told))
                else:
                    file.write(_line(each, told))
            sys.stdout.flush()
        if as_json:
            print_json({"model": str(model), "captions": objects}, file)
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


def _line(named: NamedPicture, found: Caption) -> str:
    texts = (named.name, found.text, *(text for text, _ in found.alternatives))
    return "\t".join(" ".join(text.split()) for text in texts) + "\n"


def _object(named: NamedPicture, found: Caption) -> dict[str, Any]:
    return {
        "picture": named.name,
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "alternatives": [{"text": text, "score": score} for text, score in found.alternatives],
        **({"reference": named.caption} if named.caption else {}),
    }
