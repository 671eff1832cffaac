"""JSON documents read as a whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.objects import read_document
from regard.errors import InputError


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_plain_and_packed(tmp_path: Path, mark: bytes, pack) -> None:
    value = {"a": ["é", 1, None], "b": "x" * 3_000_000}
    (tmp_path / "a").write_bytes(pack(mark + json.dumps(value, ensure_ascii=False).encode()))
    assert read_document(tmp_path / "a") == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n", "is empty"),
        (b"{'a': 1}", "is not JSON"),
        (b'{"a": "\xe9"}', "is not UTF-8 .* iconv"),
        (b'{"a": "\0"}', "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (gzip.compress(b"{}" * 5000, mtime=0)[:30], "ends too early"),
        (gzip.compress(b"{}", mtime=0)[:-8] + b"12345678", "is corrupt"),
    ],
)
def test_faults_are_one_sentence_each(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_document(tmp_path / "a")
    assert str(caught.value).startswith(str(tmp_path / "a"))
    assert "\n" not in str(caught.value)
