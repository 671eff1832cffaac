"""Captions from a file, with the pictures they are of."""

from __future__ import annotations

from regard.data.captions import read_captions
from regard.data.malformed import MalformedRows
from regard.data.pictures import open_pictures
from regard.errors import InputError
from regard.tasks.captioning.examples import CaptionExample


def examples_in(captions: str, place: str, *, colour: bool, on_error: str, notes: list[str]) -> list[CaptionExample]:
    """The captions of a file, together by picture; no picture is read yet.

    Arguments:
        captions: the file; see `regard.data.captions`.
        place: the folder or zip archive of its pictures. Captions of pictures that are not there are left out and counted.
        colour: how the pictures are to be read.
        on_error: what a malformed row does.
        notes: gets sentences for the user about what was left out.

    Raises:
        InputError: for a file or a place that cannot be read, or where none of the pictures is there.
    """
    pictures, malformed = open_pictures(place), MalformedRows()
    texts: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    for caption in read_captions(captions, on_error=on_error, malformed=malformed):
        name = pictures.found(caption.picture)
        if name is None:
            missing[caption.picture] = missing.get(caption.picture, 0) + 1
        else:
            texts.setdefault(name, []).append(caption.text)
    if not texts:
        raise InputError(
            f"{captions}: none of its pictures is in {place}, such as {next(iter(missing))!r}; there are such as "
            f"{pictures.names[0]!r}, so give the folder or archive that belongs to the captions"
        )
    if malformed.total:
        notes.append(" ".join(malformed.summary().split()))
    if missing:
        notes.append(
            f"{captions}: {sum(missing.values()):,} captions are of {len(missing):,} pictures that {place} does not hold, and "
            f"were left out; {len(texts):,} pictures are there."
        )
    return [
        CaptionExample(picture=lambda name=name: pictures.read(name, colour=colour), captions=tuple(own))
        for name, own in texts.items()
    ]
