"""Head statistics against plain loops over single queries, and the edge cases of masks, padding and names."""

from __future__ import annotations

import io
import itertools
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.errors import InputError
from regard.inspection import AttentionMap
from regard.inspection.analysis import Criteria, HeadStatistics


def drawn(
    batch: int, heads: int, length: int, *, causal: bool = False, seed: int = 0, sharp: float = 2.0
) -> torch.Tensor:
    scores = torch.randn(batch, heads, length, length, generator=torch.Generator().manual_seed(seed)).double() * sharp
    if causal:
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(dim=-1)


def looped(
    weights: torch.Tensor, tokens: list[list[str]], valid: torch.Tensor, *, causal: bool, head: int
) -> dict[str, float]:
    """The definitions, one query at a time; self-attention with padding on the right."""
    found: dict[str, list[float]] = {}
    for row in range(len(weights)):
        length = int(valid[row].sum())
        for i in range(length):
            sees = i + 1 if causal else length
            if sees < 2:
                continue
            a = weights[row, head, i, :sees].tolist()
            entropy = -sum(p * math.log(p) for p in a if p > 0)
            add = {"entropy": entropy, "relative": entropy / math.log(sees), "largest": max(a)}
            add["distance"] = sum(p * abs(i - j) for j, p in enumerate(a))
            best = a.index(max(a))
            places = {
                "previous-token": [i - 1],
                "next-token": [i + 1],
                "diagonal": [i],
                "first-token": [0] if i else [],
            }
            places["delimiter"] = [j for j in range(sees) if tokens[row][j] in (".", "</s>") and j != i]
            places["sink"] = [j for j in range(sees) if (j == 0 or tokens[row][j] == "</s>") and j != i]
            for place, there in places.items():
                there = [j for j in there if 0 <= j < sees]
                if there:
                    add[place] = sum(a[j] for j in there)
                    add[place + " largest"] = float(best in there)
            for name, value in add.items():
                found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()} | {
        "queries": len(found["entropy"]),
        **{f"{name} queries": len(values) for name, values in found.items()},
    }


@pytest.mark.parametrize("causal", [False, True])
def test_every_number_is_that_of_a_loop_over_queries(causal):
    weights = drawn(3, 2, 6, causal=causal)
    valid = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
    weights = weights.masked_fill(~valid[:, None, None, :], 0.0)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    tokens = [[*"ab.cd", "</s>"], ["a", ".", "b", "</s>", "pad", "pad"], ["a", *["pad"] * 5]]
    marked = [
        [f"▁{text}" if text == "." else text for text in row] for row in tokens
    ]  # a space mark makes no difference
    found = HeadStatistics.of({"layers.0": weights}, queries=valid, query_tokens=marked)
    assert [head.head for head in found] == [0, 1]
    for head in found:
        wanted = looped(weights, tokens, valid, causal=causal, head=head.head)
        assert head.queries == wanted["queries"]
        assert head.entropy == pytest.approx(wanted["entropy"], rel=1e-5)
        assert head.relative_entropy == pytest.approx(wanted["relative"], rel=1e-5)
        assert head.largest == pytest.approx(wanted["largest"], rel=1e-5)
        assert head.distance == pytest.approx(wanted["distance"], rel=1e-5)
        assert ("next-token" in head.shares) is not causal
        for place, share in head.shares.items():
            assert share.attention == pytest.approx(wanted[place], rel=1e-5)
            assert share.largest == pytest.approx(wanted[f"{place} largest"])
            assert share.queries == wanted[f"{place} queries"]


def test_padding_on_either_side_changes_nothing():
    weights = drawn(1, 3, 5)
    alone = HeadStatistics.of({"a": weights}, query_tokens=[list("ab.cd")])
    for left in (0, 2):
        wide = torch.rand(1, 3, 7, 7).double()  # what stands at padding is not looked at
        place = slice(left, left + 5)
        wide[:, :, place] = 0
        wide[:, :, place, place] = weights
        valid = torch.zeros(1, 7, dtype=torch.bool)
        valid[:, place] = True
        tokens = [["."] * left + list("ab.cd") + ["."] * (2 - left)]
        assert HeadStatistics.of({"a": wide}, keys=valid, key_tokens=tokens) == alone


@pytest.mark.parametrize(
    ("shift", "name", "causal"),
    [(-1, "previous-token", False), (1, "next-token", False), (0, "diagonal", False), (-1, "previous-token", True)],
)
def test_heads_that_do_one_thing_are_called_so(shift, name, causal):
    length = 7
    weights = torch.zeros(1, 1, length, length)
    for i in range(length):
        weights[0, 0, i, min(max(i + shift, 0), length - 1)] = 1.0
    found = HeadStatistics.of({"a": weights}, causal=causal)
    assert found.head("a", 0).names() == (name,)
    assert found.named(name) == found.heads
    assert found.head("a", 0).entropy == 0.0
    assert found.head("a", 0).largest == 1.0


def test_first_delimiter_and_broad_heads_are_called_so():
    first, mark, broad = (torch.zeros(1, 1, 6, 6) for _ in range(3))
    first[..., 0] = 1
    mark[..., 3] = 1
    broad[:] = 1 / 6
    tokens = [["[CLS]", "a", "b", "[SEP]", "c", "d"]]
    found = HeadStatistics.of({"a": torch.cat([first, mark, broad], dim=1)}, query_tokens=tokens, causal=False)
    # The first token is a delimiter too.
    assert [head.names() for head in found] == [
        ("first-token", "delimiter", "sink"),
        ("delimiter", "sink"),
        ("broad",),
    ]
    other = {"query_tokens": tokens, "delimiters": ["x"], "causal": False}
    assert HeadStatistics.of({"a": mark}, **other).heads[0].names() == ("sink",)
    assert HeadStatistics.of({"a": mark}, **other, specials=["x"]).heads[0].names() == ()
    assert "delimiter" not in HeadStatistics.of({"a": mark}, causal=False).heads[0].shares


def test_the_first_query_of_a_causal_head_is_left_out():
    """It can only look at itself: counted, every causal head would seem a bit diagonal, and sharper than it is."""
    even = torch.ones(4, 4).tril()
    even = (even / even.sum(dim=-1, keepdim=True)).expand(1, 1, 4, 4)
    head = HeadStatistics.of({"a": even}).heads[0]
    assert head.queries == 3
    assert head.relative_entropy == pytest.approx(1.0)
    assert head.shares["diagonal"].attention == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert head.shares["diagonal"].largest == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)  # ties share
    assert head.names() == ("broad",)
    assert HeadStatistics.of({"a": even}, causal=False).heads[0].queries == 4


def test_thresholds_are_reached_at_their_value():
    half = torch.full((1, 1, 3, 3), 0.25)
    half[0, 0].fill_diagonal_(0.5)
    head = HeadStatistics.of({"a": half}).heads[0]
    assert "diagonal" in head.names(Criteria(attention=0.5))
    assert "diagonal" in head.names(Criteria(attention=0.51))  # the largest weight is always there
    half[0, 0, 0] = torch.tensor([0.2, 0.0, 0.8])
    head = HeadStatistics.of({"a": half}).heads[0]
    assert head.names(Criteria(attention=0.51, largest=0.7)) == ()
    assert "diagonal" in head.names(Criteria(attention=0.51, largest=2 / 3))
    with pytest.raises(InputError, match=r"criteria\.largest is 1\.5"):
        Criteria(largest=1.5)


def test_queries_after_a_cache_are_the_last_of_the_keys():
    """A causal sequence read at once, and in two parts, the second with the first in its cache."""
    weights = drawn(1, 2, 7, causal=True)
    tokens = tuple("ab.cdef")
    whole = HeadStatistics.of({"a": weights}, query_tokens=[tokens])

    def part(start: int, stop: int) -> AttentionMap:
        return AttentionMap(
            address="a",
            kind="self",
            query_tokens=tokens[start:stop],
            key_tokens=tokens[:stop],
            weights=weights[0, :, start:stop, :stop].numpy(),
        )

    for cuts in ((0, 4, 7), (0, 3, 5, 7)):
        joined = HeadStatistics.of_maps(part(a, b) for a, b in itertools.pairwise(cuts))
        for one, other in zip(whole, joined, strict=True):
            assert one.queries == other.queries
            assert one.entropy == pytest.approx(other.entropy)
            assert one.relative_entropy == pytest.approx(other.relative_entropy)
            assert one.distance == pytest.approx(other.distance)
            assert one.shares["previous-token"].attention == pytest.approx(other.shares["previous-token"].attention)
            assert one.shares["delimiter"].attention == pytest.approx(other.shares["delimiter"].attention)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=25, deadline=None)
def test_numbers_stay_in_their_ranges_and_tables_of_batches_join(seed, causal):
    weights = drawn(4, 2, 5, causal=causal, seed=seed, sharp=1 + seed % 40)
    whole = HeadStatistics.of({"a": weights})
    for head in whole:
        assert 0 <= head.entropy <= math.log(5) + 1e-6
        assert -1e-9 <= head.relative_entropy <= 1 + 1e-6
        assert 0 < head.largest <= 1 + 1e-6
        assert all(0 <= share.attention <= 1 + 1e-6 for share in head.shares.values())
    parts = HeadStatistics.joined(HeadStatistics.of({"a": part}, causal=causal) for part in weights.split([1, 3]))
    for one, other in zip(whole, parts, strict=True):
        assert one.queries == other.queries
        assert one.entropy == pytest.approx(other.entropy)
        assert one.distance == pytest.approx(other.distance)
        for place, share in one.shares.items():
            assert share.attention == pytest.approx(other.shares[place].attention)


def test_a_sink_is_named_from_its_threshold_on():
    length = 12
    for share, named in ((0.29, False), (0.31, True)):
        weights = torch.zeros(1, 1, length, length)
        weights[0, 0, 0, 0] = 1
        for i in range(1, length):  # the rest goes to the token itself
            weights[0, 0, i, 0], weights[0, 0, i, i] = share, 1 - share
        found = HeadStatistics.of({"a": weights}, causal=True)
        assert found.heads[0].shares["sink"].attention == pytest.approx(share)
        assert ("sink" in found.heads[0].names()) is named
        assert ("sink" in found.heads[0].names(Criteria(sink=0.5))) is False
        assert (found.named("sink") == found.heads) is named


def test_special_tokens_are_sinks_wherever_they_stand():
    weights = torch.zeros(1, 1, 4, 4)
    weights[..., 2] = 1
    tokens = [["a", "b", "<|im_end|>", "c"]]
    assert HeadStatistics.of({"a": weights}, query_tokens=tokens).heads[0].names() == ("sink",)
    assert HeadStatistics.of({"a": weights}).heads[0].names() == ()


def test_cross_attention_has_an_order_and_no_distance():
    forwards, backwards = torch.eye(4), torch.eye(4).flip(0)
    one_place = torch.zeros(4, 4)
    one_place[:, 2] = 1
    weights = torch.stack([forwards, backwards, one_place]).unsqueeze(0)
    found = HeadStatistics.of({"a": weights}, kind="cross", key_tokens=[["a", "b", ".", "c"]])
    assert [head.order for head in found] == [1.0, -1.0, None]
    assert [head.sentences for head in found] == [1, 1, 0]
    assert all(head.distance is None for head in found)
    assert set(found.heads[0].shares) == {"first-token", "delimiter", "sink"}
    assert found.heads[2].names() == ("delimiter",)
    assert found.heads[0].shares["first-token"].queries == 4  # the first output may look at the first source token too


def test_order_is_gamma_over_pairs_that_differ():
    places = [0, 2, 1, 1, 3]  # of ten pairs: 8 forwards, 1 (2 to 1) twice backwards less one tie
    weights = torch.zeros(1, 1, 5, 4)
    weights[0, 0, range(5), places] = 1
    later = [places[k] > places[i] for i in range(5) for k in range(i + 1, 5) if places[k] != places[i]]
    head = HeadStatistics.of({"a": weights}, kind="cross").heads[0]
    assert head.order == pytest.approx((later.count(True) - later.count(False)) / len(later))


def test_order_joins_as_a_mean_over_sentences():
    monotone, reverse, one_place = torch.eye(3), torch.eye(3).flip(0), torch.zeros(3, 3)
    one_place[:, 1] = 1
    batches = [torch.stack([monotone, reverse, monotone]), torch.stack([monotone]), torch.stack([one_place])]
    tables = [HeadStatistics.of({"a": batch.unsqueeze(1)}, kind="cross") for batch in batches]
    head = HeadStatistics.joined(tables).heads[0]
    assert head.sentences == 4
    assert head.order == pytest.approx((1 - 1 + 1 + 1) / 4)
    assert HeadStatistics.joined(tables[2:]).heads[0].order is None


def test_weights_that_are_no_distribution_are_taken_as_shares_of_their_sum():
    weights = drawn(1, 1, 4)
    scaled = weights * torch.tensor([0.1, 1.0, 3.0, 0.5]).view(1, 1, 4, 1)
    one, other = (HeadStatistics.of({"a": each}).heads[0] for each in (weights, scaled))
    assert one.entropy == pytest.approx(other.entropy, rel=1e-5)
    assert one.distance == pytest.approx(other.distance, rel=1e-5)


def test_a_query_that_sees_nothing_is_not_counted():
    weights = drawn(1, 2, 4)
    weights[:, :, 1] = 0
    assert [head.queries for head in HeadStatistics.of({"a": weights})] == [3, 3]


@pytest.mark.parametrize(
    ("layers", "options", "message"),
    [
        ({}, {}, "layers is empty"),
        ({"a": torch.ones(2, 3, 3)}, {}, r"weights are \(2, 3, 3\); give a float tensor"),
        ({"a": torch.ones(1, 2, 3, 4) / 4}, {}, "3 queries look at 4 keys"),
        ({"a": -torch.ones(1, 1, 2, 2)}, {}, "negative"),
        ({"a": torch.full((1, 1, 2, 2), 0.5)}, {"causal": True}, "not causal"),
        ({"a": torch.ones(1, 1, 1, 1)}, {}, "no query sees more than one key"),
        ({"a": torch.ones(1, 1, 2, 2)}, {"queries": torch.ones(1, 3, dtype=torch.bool)}, r"give bool \(1, 2\)"),
        ({"a": torch.ones(1, 1, 2, 2)}, {"query_tokens": [["a"]]}, "row 0 does not have 2 strings"),
    ],
)
def test_what_cannot_be_counted_is_refused(layers, options, message):
    with pytest.raises(InputError, match=message):
        HeadStatistics.of(layers, **options)


def test_unknown_heads_names_and_tables_are_refused():
    found = HeadStatistics.of({"layers.0": drawn(1, 2, 3)})
    with pytest.raises(InputError, match=r"did you mean 'layers\.0'"):
        found.head("layer.0", 0)
    with pytest.raises(InputError, match="has heads 0 to 1"):
        found.head("layers.0", 2)
    with pytest.raises(InputError, match="did you mean 'diagonal'"):
        found.named("diagonl")
    with pytest.raises(InputError, match="no table"):
        HeadStatistics.joined([])
    crossed = HeadStatistics.of({"layers.0": drawn(1, 2, 3)}, kind="cross")
    with pytest.raises(InputError, match="self-attention in one table"):
        HeadStatistics.joined([found, crossed])


def test_maps_of_one_address_must_be_alike():
    def item(heads: int, example: int) -> AttentionMap:
        return AttentionMap(
            address="a",
            kind="self",
            query_tokens=("x", "y"),
            key_tokens=("x", "y"),
            weights=np.full((heads, 2, 2), 0.5),
            example=example,
        )

    with pytest.raises(InputError, match="differ in kind or in number of heads"):
        HeadStatistics.of_maps([item(2, 0), item(3, 1)])
    with pytest.raises(InputError, match="no attention maps"):
        HeadStatistics.of_maps([])


def test_a_record_is_counted_over_all_its_runs(translator):
    model = translator("transformer")
    pairs = [("abc", "ABC"), ("fedcba hk", "GF"), ("ij", "AHJB")]
    with regard.look(model.model) as together, torch.no_grad():
        batch = model.teacher_forced(pairs)
        model.model(batch.source, batch.target)
    with regard.look(model.model) as apart, torch.no_grad():
        for pair in pairs:
            batch = model.teacher_forced([pair])
            model.model(batch.source, batch.target)
    one, other = HeadStatistics.of_record(together), HeadStatistics.of_record(apart)
    assert len(one.heads) == 3 * len(together.addresses)
    for a, b in zip(one, other, strict=True):
        assert (a.address, a.head, a.kind, a.queries) == (b.address, b.head, b.kind, b.queries)
        assert a.entropy == pytest.approx(b.entropy, rel=1e-4)
        assert a.relative_entropy == pytest.approx(b.relative_entropy, rel=1e-4)
    # From plain weights, padding told by masks.
    address = "encoder.layers.1.attention"
    source = together.runs[0].source
    assert source is not None
    plain = HeadStatistics.of({address: together.weights(address)}, queries=source.valid)
    assert plain.head(address, 2).entropy == pytest.approx(one.head(address, 2).entropy, rel=1e-5)


def test_a_search_is_counted_along_its_hypotheses(translator):
    model = translator("transformer")
    with regard.look(model) as seen:
        answers = model.translate_batch(["abc", "hgfedc"])
    found = HeadStatistics.of_record(seen)
    head = found.head("decoder.layers.0.cross_attention", 0)
    assert head.queries == sum(len(answer.target_tokens) for answer in answers)
    assert found.head("decoder.layers.0.attention", 0).queries == head.queries - 2  # the first ones see themselves only


def test_the_table_and_the_json_say_the_same():
    from rich.console import Console

    found = HeadStatistics.of({"layers.0": torch.eye(5).expand(1, 1, 5, 5)}, causal=False)
    console = Console(width=150, file=io.StringIO())
    with console.capture() as shown:
        console.print(found)
    text = shown.get()
    assert "diagonal" in text
    assert "means over 5 queries" in text
    value = json.loads(json.dumps(found.to_json()))
    assert value["heads"][0]["names"] == ["diagonal"]
    assert value["heads"][0]["shares"]["diagonal"] == {"attention": 1.0, "largest": 1.0, "queries": 5}
    assert value["criteria"] == {"attention": 0.5, "largest": 0.9, "relative_entropy": 0.9, "sink": 0.3}
