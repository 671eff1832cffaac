"""Check a folder: every file there, whole and of the digest recorded, and what each reader makes of it."""

from __future__ import annotations

import os
from pathlib import Path

from regard.checking.files import INDEX, Listed
from regard.checking.model import check_model, is_model
from regard.checking.others import check_index, check_tokens, check_vectors, is_tokens, is_vectors
from regard.checking.report import Report
from regard.checking.run import check_run, is_run
from regard.errors import InputError
from regard.parts import Code, load_code


def check(folder: str | os.PathLike[str], *, code: Code | None = None) -> Report:
    """Look at every file of a folder that Regard or `transformers` wrote, and try to open it.

    Nothing is changed. Damage is listed in the report and raises no error.

    Arguments:
        folder: of a model, a run, vectors of words, a token store, or of texts with an index.
        code: your own Python file, or files, with the parts that a model was made with.

    Raises:
        InputError: where there is no such folder, or nothing in it that is known.

    >>> check("no-such-folder")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: no-such-folder: no such folder; give the folder of a model, a run, vectors, tokens or an index
    """
    load_code(code)
    place = Path(folder)
    if not place.is_dir():
        what = "is a file" if place.exists() else "no such folder"
        raise InputError(f"{place}: {what}; give the folder of a model, a run, vectors, tokens or an index")
    listed = Listed(place)
    for known, checked in (
        (is_tokens, check_tokens),
        (is_vectors, check_vectors),
        (is_run, check_run),
        (is_model, check_model),
        (lambda listed: INDEX in listed.names, check_index),
    ):
        if known(listed):
            return checked(listed)
    raise InputError(f"{place}: holds nothing that Regard or transformers writes; give a folder that one of them wrote")
