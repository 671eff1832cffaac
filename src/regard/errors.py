"""The one exception a user's input can cause."""

from __future__ import annotations


class InputError(ValueError):
    """What the user gave cannot be used: the message says what is wrong, where, and what to do.

    The command line prints the message as one sentence and exits with code 2; from Python it is an ordinary `ValueError`.

    >>> raise InputError("data.path: no file 'pairs.tsv'; give the path of a TSV, CSV or JSONL file")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: data.path: no file 'pairs.tsv'; give the path of a TSV, CSV or JSONL file
    """


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
