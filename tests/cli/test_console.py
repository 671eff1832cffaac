from __future__ import annotations

import json

from regard.cli.console import one_line, print_json, print_table, say


def test_json_stays_json_where_numbers_do_not(capsys):
    print_json({"loss": float("nan"), "rows": [1.5, float("inf")], "text": "día"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"loss": None, "rows": [1.5, None], "text": "día"}
    assert "día" in out


def test_only_the_first_of_several_workers_speaks(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    say("a sentence")
    print_json({})
    print_table([("name", "text")])
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("RANK", "0")
    say("a sentence")
    print_table([("name", "text"), ("longer name", "")])
    assert capsys.readouterr() == ("name         text\nlonger name\n", "a sentence\n")


def test_text_of_any_language_stays_as_it_is():
    assert one_line("файл «день», 日付.tsv, line 3") == "файл «день», 日付.tsv, line 3"
