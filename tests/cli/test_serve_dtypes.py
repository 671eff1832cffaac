"""`regard serve --dtype`: of all models, and of single ones."""

from __future__ import annotations

import pytest

from regard.cli.serving import _dtypes
from regard.errors import InputError

FOLDERS = {"writer": "a", "x=y": "b"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], ("float32", {})),
        (["int8"], ("int8", {})),
        (["writer=int8"], ("float32", {"writer": "int8"})),
        (["writer=int8", "bfloat16", "x=y=int4"], ("bfloat16", {"writer": "int8", "x=y": "int4"})),
    ],
)
def test_what_each_model_has(given: list[str], found: tuple[str, dict[str, str]]) -> None:
    assert _dtypes(given, FOLDERS) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["writr=int8"], "no model is called 'writr'.*writer"),
        (["int8", "int4"], "all models is given twice"),
        (["writer=int8", "writer=int4"], "writer is given twice"),
        (["writer="], "has no dtype"),
    ],
)
def test_what_names_no_model_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _dtypes(given, FOLDERS)
