"""The strict readers: regular files alone, bounded JSON and YAML, and everything else one sentence."""

from __future__ import annotations

import datetime
import json
import os
import socket
import time

import pytest

from regard import InputError
from regard.reading import (
    DEEPEST,
    LARGEST_YAML,
    check_regular,
    json_value,
    json_value_at,
    parse_yaml,
    read_json,
    read_json_object,
    read_text,
    read_yaml,
    yaml_value,
)

NESTED = "[" * DEEPEST + "]" * DEEPEST


def bomb(levels: int, width: int = 10) -> str:
    """Aliases of aliases: a few hundred bytes that are `width ** levels` values."""
    lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("{", "Expecting property name"),
        ("{} {}", "Extra data"),
        (b"\xff", "byte 0 is not UTF-8"),
        ("[NaN]", "NaN is no number"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ("[1e999]", "too large to be finite"),
        ("1" * 400, "hundreds of digits"),
        ("[-" + "1" * 5000 + "]", "hundreds of digits"),
        ('{"a": {"b": 1, "c": 2, "b": 1}}', "the key 'b' is there twice"),
        (f"[{NESTED}]", "nested too deeply"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested too deeply"),
        ("[" * 1_000_000, "nested too deeply"),
        ('{"a":' * 1_000_000, "nested too deeply"),
        ('["\\ud800"]', "half of a surrogate pair"),
        ('{"\\uDFFF": 1}', "half of a surrogate pair"),
    ],
)
def test_json_is_read_strictly(text, said):
    with pytest.raises(ValueError, match=said) as caught:
        json_value(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_json_that_is_right_is_read_as_by_the_library():
    value = {"a": [1, -2.5, True, None, "\u00e9\U0001f600"], "b": {"": {}}, "model_max_length": 10**30}
    assert json_value(json.dumps(value)) == value
    assert json_value(json.dumps(value, ensure_ascii=False).encode()) == value
    assert json_value(b"\xef\xbb\xbf[1]") == [1]
    assert json_value('"\\\\ud800"') == "\\ud800"  # a backslash, and no surrogate
    assert json_value(NESTED) == json.loads(NESTED)
    assert json_value_at(" [1] 2", 1) == ([1], 4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "while parsing a flow sequence"),
        ("a: 1\nb: 2\na: 3", "the key 'a' is there twice, again in line 3"),
        ("--- 1\n--- 2", "single document"),
        ("a: 2020-13-45", "month must be in"),
        ("a: !!int b", "invalid literal"),
        ("a: !!bool b", "not of its kind"),
        ("a: !!timestamp b", "not of its kind"),
        ("a: !!set {b}", "line 1 has a value of the kind 'set'"),
        ("\na: !!binary eA==", "line 2 has a value of the kind 'binary'"),
        ("a: !!python/object:os.system {}", "of the kind 'os.system'"),
        ("\x07", "special characters"),
        ("0x" + "f" * 300, "hundreds of digits"),
        ("1" * 5000, "hundreds of digits"),
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
        ("a: &x [*x]", "an alias names what it stands in"),
        ("a: &x {b: {c: *x}}", "an alias names what it stands in"),
        (bomb(9), "with its aliases replaced it holds more than 200,000 values"),
        ("\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 102))]), "nested too deeply"),
        (
            "a0: &a0 {x: 1}\n" + "\n".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 30)),
            "200,000",
        ),
        ("x" * (LARGEST_YAML + 1), "longer than 1 MiB"),
    ],
)
def test_yaml_is_read_strictly(text, said):
    began = time.process_time()
    with pytest.raises(ValueError, match=said) as caught:
        yaml_value(text)
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 2


@pytest.mark.slow
def test_a_text_of_too_many_values_is_refused():
    with pytest.raises(ValueError, match="more than 50,000 values"):
        yaml_value("[" + "1," * 50_001 + "]")


def test_yaml_that_is_right_is_read_as_by_the_library():
    assert yaml_value("a: &a {x: 1, y: no}\nb: {<<: *a, x: 2}\nc: *a\nd: 2020-01-02") == {
        "a": {"x": 1, "y": False},
        "b": {"x": 2, "y": False},
        "c": {"x": 1, "y": False},
        "d": datetime.date(2020, 1, 2),
    }
    assert yaml_value("") is None
    assert yaml_value(bomb(3))["a1"][9] == ["x"] * 10
    with pytest.raises(InputError, match=r"^here: is not YAML .*; quote it$"):
        parse_yaml("[", "here", "quote it")


def odd_file(kind: str, folder):
    place = folder / kind
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.fspath(place))
        server.close()
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "loop":
        place.symlink_to(place)
    elif kind == "not UTF-8":
        place.write_bytes(b"\xff\xfe")
    elif kind == "large":
        with place.open("wb") as file:
            file.truncate(1 << 40)  # takes no room on the disk
    return place


@pytest.mark.parametrize("read", [read_json, read_yaml, read_text], ids=["json", "yaml", "text"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "no such file; give another"),
        ("folder", "is a folder, not a file; give another"),
        ("pipe", "is a pipe, and a regular file is needed; write what it gives to a file first"),
        ("socket", "is a socket, not a regular file; give another"),
        ("device", "is a device, not a regular file; give another"),
        ("loop", "cannot be read (too many levels of symbolic links); give another"),
        ("not UTF-8", "is not UTF-8 text (byte 0); give another"),
        ("large", "MiB, the most that is read here; give another"),
    ],
)
def test_what_is_no_text_file_is_refused_at_once(read, kind, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    place = odd_file(kind, tmp_path) if kind != "socket" else odd_file(kind, type(tmp_path)())
    with pytest.raises(InputError) as caught:
        read(place, "give another")
    assert str(caught.value).startswith(f"{place}: ")
    assert str(caught.value).endswith(said)


def test_a_pipe_will_do_only_where_it_is_asked_for(tmp_path):
    place = odd_file("pipe", tmp_path)
    check_regular(place, "", pipes=True)
    with pytest.raises(InputError, match="is a pipe"):
        check_regular(place, "")
    with pytest.raises(InputError, match="null"):
        check_regular("a\0b", "")


@pytest.mark.parametrize(
    ("text", "kind"),
    [("[1]", "a list"), ("3", "a number"), ('"a"', "text"), ("null", "null"), ("true", "true or false")],
)
def test_an_object_is_asked_for_by_name(text, kind, tmp_path):
    place = tmp_path / "a.json"
    place.write_text(text)
    with pytest.raises(InputError, match=f"a.json: holds {kind}, not a JSON object; copy it$"):
        read_json_object(place, "copy it")
