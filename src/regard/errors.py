"""The one exception a user's input can cause."""

from __future__ import annotations

import os
import re


class InputError(ValueError):
    """What the user gave cannot be used: the message says what is wrong, where, and what to do.

    The command line prints the message as one sentence and exits with code 2; from Python it is an ordinary `ValueError`.

    >>> raise InputError("data.path: no file 'pairs.tsv'; give the path of a TSV, CSV or JSONL file")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: data.path: no file 'pairs.tsv'; give the path of a TSV, CSV or JSONL file

    What was given is quoted, and may be long: of a message of more than 2,000 characters the middle is left out.

    >>> len(str(InputError("seed is '" + "9" * 100_000 + "'; it must be a whole number")))
    2000
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_shortened(message))


LONGEST = 2_000
"""Characters of a message that anybody reads."""


def _shortened(message: str) -> str:
    """Beginning and end, which say where and what to do, of what is too long."""
    end = LONGEST // 4
    return message if len(message) <= LONGEST else f"{message[: LONGEST - end - 5]} ... {message[-end:]}"


def nearest(word: str, choices: list[str] | tuple[str, ...]) -> str:
    """A hint naming the closest of `choices` to a misspelt `word`, or the whole list where none is close.

    >>> nearest("atention", ["attention", "width"])
    "did you mean 'attention'?"
    >>> nearest("zzz", ["attention", "width"])
    'choose from attention, width'
    """
    import difflib

    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else "choose from " + ", ".join(choices)


HUB_NAME = r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?"
"""What a repository of the Hugging Face hub is called: `name`, or `owner/name`."""


def no_model(place: str | os.PathLike[str]) -> InputError:
    """That there is no such folder, and how to write it if it was meant as a model of the hub.

    >>> str(no_model("runs/last year"))
    'runs/last year: no such folder; give the folder of a trained model'
    """
    text = os.fspath(place)
    said = f"{text}: no such folder; give the folder of a trained model"
    if re.fullmatch(HUB_NAME, text):
        said += f"; hub:{text} would be the model of that name on the Hugging Face hub"
    return InputError(said)
