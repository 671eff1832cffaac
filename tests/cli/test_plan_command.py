from __future__ import annotations

import json


def test_a_published_model(command):
    answer = command("plan", "gpt3-175b", "--device", "v100-32", "--utilisation", "0.224", "--price", "1.5")
    assert (answer.code, answer.err) == (0, "")
    for text in ("174,604,259,328", "6 N D", "3.14e23", "(by the rule 4,676,900)", "does not fit"):
        assert text in answer.out


def test_json_has_all_of_it(command):
    found = json.loads(command("plan", "bert-base", "--count", "8", "--json").out)
    assert found["parameters"]["total"] == 110_106_428
    assert sum(found["parameters"]["parts"].values()) == found["parameters"]["total"]
    assert [each["parallel"] for each in found["memory"]] == ["ddp", "ddp", "fsdp", "fsdp"]
    assert found["cost"]["money"] is None
    assert found["operations"]["training"] == 3 * found["operations"]["forward"]


def test_mistakes_are_one_sentence(command):
    for arguments, text in (
        (("bert-bass",), "did you mean 'bert-base'"),
        (("bert-base", "--device", "h10"), "did you mean 'h100-80'"),
        (("bert-base", "--dtype", "float61"), "did you mean 'float16'"),
    ):
        answer = command("plan", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert text in answer.err
        assert "Traceback" not in answer.err
