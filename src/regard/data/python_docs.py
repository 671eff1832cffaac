"""Python's own reference text, which every installation of Python carries: real prose and code that is always there."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from regard.errors import InputError, nearest

_SALT = bytes([54])  # topics are of very different lengths; with this one each split has about its share of the text
_SHARES = {0: "validation", 1: "test"}  # of twenty; the others are for training


def python_docs(split: str) -> Iterator[str]:
    """The topics of Python's language reference, as `help("assert")` shows them, one text each, in the order of their names.

    About 80 topics, half a million characters. They are those of the Python that runs, so another version of Python has slightly
    other ones. Which topic is in which split depends on its name alone.

    Arguments:
        split: `train`, `validation` or `test`; no topic is in two of them.

    Raises:
        InputError: for another split, or a Python that was installed without its topics.

    >>> "assertions" in next(python_docs("train"))
    True
    """
    splits = ("train", "validation", "test")
    if split not in splits:
        raise InputError(f"split is {split!r}; {nearest(split, splits)}")
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError(
            "this Python was installed without the texts of help(); name files under data.train instead"
        ) from error
    seen: set[str] = set()
    for name in sorted(topics):
        text = topics[name]
        if text not in seen and _split_of(name) == split:
            yield text
        seen.add(text)  # a few topics have one text, and it must not be in two splits


def _split_of(name: str) -> str:
    twentieth = int.from_bytes(blake2b(name.encode(), digest_size=8, salt=_SALT).digest(), "big") % 20
    return _SHARES.get(twentieth, "train")
