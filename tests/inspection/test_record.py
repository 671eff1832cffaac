"""Reading a record: rows, heads, queries, hypotheses; labels; images."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.inspection.record import Record
from regard.layers import Tokens

CROSS = {"bahdanau": "decoder.attention", "transformer": "decoder.layers.1.cross_attention"}
SELF = "decoder.layers.0.attention"
ENCODER = "encoder.layers.0.attention"


@pytest.fixture
def forced(model, batch) -> Record:
    """A teacher-forced pass of three rows through the Transformer."""
    looked_at = model("transformer")
    with regard.look(looked_at) as seen, torch.no_grad():
        looked_at(*batch)
    return seen


def test_what_is_printed_of_a_record_is_short_and_has_no_numbers_of_tensors(forced, model, batch):
    text = repr(forced.runs)
    assert text.startswith(f"[Run(forward pass; {ENCODER}: 1 x (3, ")
    assert f"{SELF}: 1 x (3, 3, 6, 6)" in text
    assert "tensor" not in text
    call = forced.runs[0].calls[SELF][0]
    assert (
        repr(call) == f"Call({SELF}, (B, H, L, S) = (3, 3, 6, 6), query (3, 3, 6, 4) float32, key (3, 3, 6, 4) float32)"
    )
    assert repr(call.query) == "Kept((3, 3, 6, 4) float32)"
    assert repr(forced).startswith(f"Record(1 run of {ENCODER}, ")
    looked_at = model("transformer")
    with regard.look(looked_at, [], hidden=["encoder.layers.*"]) as seen, torch.no_grad():
        looked_at(*batch)
    assert repr(seen.runs[0]).startswith("Run(forward pass; encoder.layers.0: 1 x (3, 5, 12) float32")


@pytest.mark.parametrize(
    "rows", [0, 2, -1, [1], [2, 0], [0, 0], slice(1, None), slice(None, None, 2), torch.tensor([1, 2])]
)
def test_parts_are_parts_of_the_whole(rows, forced):
    whole = forced.weights(CROSS["transformer"])
    assert whole.shape == (3, 3, 6, 5)
    listed = [rows] if isinstance(rows, int) else rows
    assert torch.equal(forced.weights(CROSS["transformer"], rows=rows), whole[listed])
    assert torch.equal(forced.weights(CROSS["transformer"], heads=rows), whole[:, listed])
    if not isinstance(rows, slice):
        assert torch.equal(forced.weights(CROSS["transformer"], queries=rows), whole[:, :, listed])
    both = forced.weights(CROSS["transformer"], rows=rows, heads=[2], queries=slice(0, 2))
    assert torch.equal(both, whole[listed][:, [2], :2])


def test_parts_of_a_search_are_parts_of_the_whole(translator):
    for family in CROSS:
        looked_at = translator(family)
        with regard.look(looked_at) as seen:
            looked_at.translate_batch(["abcd", "gh", "k"], GenerationSettings(beam=3, n_best=3, maximum_length=6))
        for hypothesis in range(3):
            whole = seen.weights(CROSS[family], hypothesis=hypothesis)
            assert whole.shape[0] == 3
            part = seen.weights(CROSS[family], rows=[2, 0], heads=-1, hypothesis=hypothesis)
            assert torch.equal(part, whole[[2, 0]][:, -1:, : part.shape[2]])
            assert not whole[[2, 0]][:, :, part.shape[2] :].any()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"address": "decoder.layers.0.atention"}, r"did you mean 'decoder\.layers\.0\.attention'"),
        ({"rows": 3}, r"index \[3\] is outside 0 to 2"),
        ({"heads": [-4]}, "outside 0 to 2"),
        ({"queries": 6}, "outside 0 to 5"),
        ({"run": 1}, "run 1 of 1 recorded"),
        ({"run": -2}, "run -2 of 1 recorded"),
    ],
)
def test_what_is_not_there_is_one_sentence(question, words, forced):
    with pytest.raises(InputError, match=words):
        forced.weights(**({"address": CROSS["transformer"]} | question))


def test_a_hypothesis_that_is_not_there(translator):
    looked_at = translator("bahdanau")
    with regard.look(looked_at) as seen:
        looked_at.translate("abc", GenerationSettings(beam=3, n_best=2))
    for ask in (seen.view, lambda **question: seen.weights("decoder.attention", **question)):
        with pytest.raises(InputError, match="hypothesis 2 of 2 found for row 0; search with a larger n_best"):
            ask(hypothesis=2)


def test_nothing_recorded_is_one_sentence(model):
    with regard.look(model("bahdanau")) as seen:
        pass
    for ask in (seen.view, seen.show, lambda: seen.weights("decoder.attention")):
        with pytest.raises(InputError, match=r"nothing was recorded; use the model inside the block"):
            ask()


def test_a_layer_that_was_not_called(model, batch):
    looked_at = model("transformer")
    with regard.look(looked_at) as seen, torch.no_grad():
        looked_at.start(batch[0])
    assert seen.weights(ENCODER).shape == (3, 3, 5, 5)
    with pytest.raises(InputError, match="was not called in this run"):
        seen.weights(SELF)
    with pytest.raises(InputError, match="was not called in this run"):
        seen.view(0, addresses=[SELF])


# --- labels --------------------------------------------------------------------------------------------------


def map_of(record: Record, address: str, row: int, **question):
    (found,) = record.view(row, addresses=[address], **question).maps
    return found


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_trimmed_on_either_side(side, model):
    looked_at = model("transformer")
    sources, targets = [[3, 9, 5, 16], [7, 2]], [[1, 4], [1, 12, 3, 5]]
    with regard.look(looked_at) as seen, torch.no_grad():
        looked_at(Tokens.pad(sources, side=side), Tokens.pad(targets, side=side))
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        with regard.look(looked_at) as alone, torch.no_grad():
            looked_at(Tokens.pad([source]), Tokens.pad([target]))
        read, written = [str(i) for i in source], [str(i) for i in target]
        for address, queries, keys in (
            (ENCODER, read, read),
            (SELF, written, written),
            (CROSS["transformer"], [*written[1:], "end"], read),
        ):
            found = map_of(seen, address, row)
            assert (list(found.query_tokens), list(found.key_tokens)) == (queries, keys)
            np.testing.assert_allclose(found.weights, alone.weights(address)[0].numpy(), rtol=1e-4, atol=1e-5)
            assert found.kind == ("cross" if "cross" in address else "self")


@pytest.mark.parametrize("family", CROSS)
def test_tokens_stand_beside_their_weights(family, translator):
    looked_at = translator(family)
    with regard.look(looked_at) as seen:
        answer = looked_at.translate("ab hg")
    found = map_of(seen, CROSS[family], 0)
    assert found.key_tokens == answer.source_tokens
    assert found.query_tokens == answer.target_tokens
    assert found.weights.shape[1:] == (len(answer.target_tokens), len(answer.source_tokens))
    assert seen.view(0).title == f"ab hg → {answer.text}"
    if family == "transformer":
        inner = map_of(seen, SELF, 0)
        assert inner.query_tokens == inner.key_tokens == ("<pad>", *answer.target_tokens[:-1])


def test_every_answer_of_an_n_best_list_has_its_own_title_and_tokens(translator):
    looked_at = translator("transformer")
    with regard.look(looked_at) as seen:
        answer = looked_at.translate("abc", GenerationSettings(beam=4, n_best=3, maximum_length=6))
    texts = [answer.text, *(text for text, _ in answer.alternatives)]
    for rank, text in enumerate(texts):
        assert seen.view(0, hypothesis=rank).title == f"abc → {text}"
        tokens = map_of(seen, CROSS["transformer"], 0, hypothesis=rank).query_tokens
        assert looked_at.task.target_tokenizer.decode(
            [i for token in tokens if token != "</s>" for i in looked_at.task.target_tokenizer.encode(token)]
        ).replace(" ", "") == text.replace(" ", "")


def test_every_sample_has_its_own_title(translator):
    """Each source is searched once for each sample, so there are more rows than texts."""
    looked_at = translator("bahdanau")
    settings = GenerationSettings(sample=True, n_best=3, temperature=2.0, maximum_length=6, seed=2)
    with regard.look(looked_at) as seen:
        answers = looked_at.translate_batch(["abc", "ghk"], settings)
    titles = [
        f"{answer.source} → {text}"
        for answer in answers
        for text in [answer.text, *(t for t, _ in answer.alternatives)]
    ]
    assert list(seen.view().examples) == titles
    assert len(set(titles)) > 3


def test_a_teacher_forced_pair_is_labelled_by_its_text(translator):
    looked_at = translator("transformer")
    batch = looked_at.teacher_forced([("abc", "GA"), ("k", "B")])
    with regard.look(looked_at) as seen, torch.no_grad():
        looked_at.model(batch.source, batch.target)
    found = map_of(seen, CROSS["transformer"], 0)
    assert (found.query_tokens, found.key_tokens) == (("G", "A", "</s>"), ("a", "b", "c", "</s>"))
    assert seen.view().examples == ("abc", "k")


def test_a_view_holds_every_layer_of_every_row(forced):
    view = forced.view()
    assert len(view.maps) == 3 * 6
    assert [found.example for found in view.maps] == [0] * 6 + [1] * 6 + [2] * 6
    assert len(forced.view(1).maps) == 6
    assert forced.view(-1).title == forced.view(2).title
    with pytest.raises(InputError, match="outside 0 to 2"):
        forced.view(3)


# --- images ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", CROSS)
def test_show_writes_what_the_suffix_says(family, translator, tmp_path):
    pytest.importorskip("matplotlib")
    looked_at = translator(family)
    with regard.look(looked_at, [CROSS[family]]) as seen:
        answer = looked_at.translate("abc")
    for suffix in ("html", "json", "png", "svg"):
        seen.show(tmp_path / f"map.{suffix}")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "map.svg").read_text(encoding="utf-8")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert CROSS[family] in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page), "the page must need nothing from outside"
    assert len(page) < 200_000
    numbers = json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))
    (found,) = numbers["maps"]
    assert tuple(found["query_tokens"]) == answer.target_tokens
    np.testing.assert_allclose(found["weights"], seen.weights(CROSS[family])[0].numpy(), atol=1e-4)


def test_show_prints_heatmaps(translator, capsys):
    looked_at = translator("bahdanau")
    with regard.look(looked_at) as seen:
        looked_at.translate("abc")
    seen.show()
    assert "decoder.attention" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["map.gif", "map"])
def test_another_suffix_is_refused(name, forced, tmp_path):
    with pytest.raises(InputError):
        forced.show(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_notebook_shows_the_page(translator):
    looked_at = translator("bahdanau")
    with regard.look(looked_at) as seen:
        looked_at.translate_batch(["abc", "gh"])
    html = seen._repr_html_()
    assert html.lstrip().startswith("<iframe")
    assert "decoder.attention" in html
