"""Captions in files: Flickr8k's layout, the table with a header, and rows that are broken."""

from __future__ import annotations

import pytest

from regard.data.labelled_images import read_captions
from regard.data.malformed import MalformedRows
from regard.errors import InputError


def captions(tmp_path, text: str, name: str = "captions.tsv", **options):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return [(found.image, found.text, found.line) for found in read_captions(path, **options)]


def test_flickrs_own_layout(tmp_path):
    assert captions(tmp_path, "a.jpg#0\tA dog .\na.jpg#1\tThe  dog runs .\nb#2.jpg#4\tA cat .\n") == [
        ("a.jpg", "A dog .", 1),
        ("a.jpg", "The dog runs .", 2),
        ("b#2.jpg", "A cat .", 3),
    ]


@pytest.mark.parametrize("name", ["captions.txt", "captions.csv"])
def test_a_table_with_a_header_and_quotes(tmp_path, name):
    assert captions(tmp_path, 'image,caption\na.jpg,"A dog, and a cat ."\nb.jpg,A bird .\n', name) == [
        ("a.jpg", "A dog, and a cat .", 2),
        ("b.jpg", "A bird .", 3),
    ]


def test_broken_rows_are_counted(tmp_path):
    malformed = MalformedRows()
    found = captions(tmp_path, "a.jpg\tA dog .\nb.jpg\n\tno name\nc.jpg\t \n", malformed=malformed)
    assert found == [("a.jpg", "A dog .", 1)]
    assert malformed.total == 3
    with pytest.raises(InputError, match="line 2"):
        captions(tmp_path, "a.jpg\tA dog .\nb.jpg\n", on_error="stop")
