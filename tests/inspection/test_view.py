from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regard.errors import InputError
from regard.inspection.tracks import Track
from regard.inspection.view import AttentionMap, AttentionView, Patches
from regard.inspection.words import readable, visible

QUERY, KEY = ["la", "maison"], ["the", "white", "house"]


def a_map(**changes) -> AttentionMap:
    fields = {
        "address": "decoder.attention",
        "kind": "cross",
        "query_tokens": QUERY,
        "key_tokens": KEY,
        "weights": np.full((4, 2, 3), 0.25),
    }
    return AttentionMap(**(fields | changes))


def test_weights_become_read_only_float32_of_their_own():
    given_weights = np.ones((1, 2, 3), dtype=np.float64)
    seen = a_map(weights=given_weights)
    given_weights[:] = 7
    assert seen.weights.dtype == np.float32
    assert seen.weights.max() == 1
    with pytest.raises(ValueError, match="read-only"):
        seen.weights[0, 0, 0] = 2


def test_mean_is_over_heads():
    weights = np.random.default_rng(0).random((4, 2, 3)).astype(np.float32)
    np.testing.assert_allclose(a_map(weights=weights).mean(), sum(weights) / 4, rtol=1e-6)


@pytest.mark.parametrize("shape", [(4, 3, 2), (2, 3), (4, 2, 2), (0, 2, 3), (1, 4, 2, 3)])
def test_a_wrong_shape_names_both_shapes(shape):
    with pytest.raises(InputError) as caught:
        a_map(weights=np.ones(shape))
    assert str(shape) in str(caught.value)
    assert "(heads, 2, 3)" in str(caught.value)


def test_a_weight_that_is_not_finite_is_named():
    weights = np.ones((4, 2, 3))
    weights[3, 1, 2] = np.nan
    with pytest.raises(InputError, match="head 3, query 1, key 2 is nan"):
        a_map(weights=weights)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": ""}, "address"),
        ({"kind": "both"}, "'self' or 'cross'"),
        ({"example": -1}, "example"),
        ({"query_tokens": "la"}, "list of strings"),
        ({"query_tokens": [3, 4]}, r"query_tokens\[0\]: 3 is not a string"),
        ({"weights": [[["a"] * 3] * 2]}, "real numbers"),
        ({"weights": [[[1.0, 2.0], [3.0]]]}, "real numbers"),
        ({"weights": None}, "real numbers"),
        ({"query_tokens": [], "weights": np.ones((1, 0, 3))}, "at least 1"),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    with pytest.raises(InputError, match=message):
        a_map(**changes)


def test_of_takes_matrices_heads_and_tensors():
    matrix = torch.rand(2, 3, dtype=torch.bfloat16, requires_grad=True)
    view = AttentionView.of(matrix, QUERY, KEY, title="t")
    assert view.title == "t"
    assert view.maps[0].weights.shape == (1, 2, 3)
    np.testing.assert_array_equal(view.maps[0].weights[0], matrix.detach().float().numpy())
    assert AttentionView.of(np.ones((5, 2, 3)), QUERY, KEY).maps[0].heads == 5
    with pytest.raises(InputError, match=r"\(1, 5, 2, 3\).*\(2, 3\) or \(heads, 2, 3\)"):
        AttentionView.of(np.ones((1, 5, 2, 3)), QUERY, KEY)


def test_of_tells_self_from_cross_by_the_tokens():
    assert AttentionView.of(np.eye(2), QUERY, list(QUERY)).maps[0].kind == "self"
    assert AttentionView.of(np.ones((2, 3)), QUERY, KEY).maps[0].kind == "cross"
    assert AttentionView.of(np.eye(2), QUERY, QUERY, kind="cross").maps[0].kind == "cross"


def test_a_map_is_found_by_address_and_example():
    maps = (a_map(), a_map(example=1), a_map(address="encoder.attention"))
    view = AttentionView(title="", maps=maps, examples=("one", "two"))
    assert view.map("decoder.attention", 1) is maps[1]
    assert view.addresses == ("decoder.attention", "encoder.attention")
    with pytest.raises(InputError, match=r"did you mean 'decoder\.attention'"):
        view.map("decoder.atention")
    with pytest.raises(InputError, match=r"no attention map at 'encoder\.attention' in example 1"):
        view.map("encoder.attention", 1)
    with pytest.raises(InputError, match="examples 0 to 1"):
        view.map("decoder.attention", 2)


def test_a_view_checks_its_maps():
    with pytest.raises(InputError, match="at least one"):
        AttentionView(title="", maps=())
    with pytest.raises(InputError, match="occurs twice in example 0"):
        AttentionView(title="", maps=(a_map(), a_map()))
    with pytest.raises(InputError, match="1 labels for 3 examples"):
        AttentionView(title="", maps=(a_map(example=2),), examples=("only",))
    with pytest.raises(InputError, match="not an AttentionMap"):
        AttentionView(title="", maps=(np.eye(2),))  # type: ignore[arg-type]
    assert AttentionView(title="", maps=(a_map(example=1),)).examples == ("example 0", "example 1")


any_float = st.floats(width=32, allow_nan=False, allow_infinity=False)
any_weights = hnp.arrays(np.float32, hnp.array_shapes(min_dims=3, max_dims=3, max_side=4), elements=any_float)


@settings(max_examples=60, deadline=None)
@given(any_weights, st.data())
def test_json_gives_back_every_weight_and_token(weights, data):
    tokens = [data.draw(st.lists(st.text(max_size=4), min_size=n, max_size=n)) for n in weights.shape[1:]]
    item = a_map(query_tokens=tokens[0], key_tokens=tokens[1], weights=weights, example=1)
    view = AttentionView(title=data.draw(st.text(max_size=5)), maps=(item,), note="a note")
    again = AttentionView.from_json(view.to_json())
    assert again == view
    assert again.maps[0].weights.tobytes() == weights.tobytes()


def test_equality_sees_every_weight():
    changed = np.full((4, 2, 3), 0.25, dtype=np.float32)
    changed[3, 1, 2] = np.nextafter(np.float32(0.25), np.float32(1))
    assert a_map() == a_map()
    assert a_map() != a_map(weights=changed)
    assert a_map() != a_map(key_tokens=["a", "b", "c"])


TRACK = Track(
    name="read", values=[[0.25, float("nan")], [1.5, -2.0], [0, 1]], unit="slot", signed=True, border=1
).to_json()


def test_tracks_are_kept_bit_for_bit_and_have_a_step_for_each_query():
    own = a_map()
    steps = len(own.query_tokens)
    values = np.random.default_rng(0).normal(size=(steps, 4)).astype(np.float32)
    values[0, 1] = np.nan
    track = Track(name="read", values=values, unit="slot", first=1, signed=True, border=0)
    view = AttentionView(title="", maps=(own,), tracks=(track,))
    again = AttentionView.from_json(view.to_json())
    assert again == view
    assert again.tracks[0].values.tobytes() == values.tobytes()
    assert again != replace(view, tracks=(replace(track, first=0),))
    with pytest.raises(InputError, match="'read' has"):
        AttentionView(title="", maps=(own,), tracks=(replace(track, values=values[1:]),))


def spoilt(**changes) -> str:
    return json.dumps(json.loads(AttentionView(title="", maps=(a_map(),)).to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "format_version is None"),
        (spoilt(format_version=5), "format_version is 5"),
        (spoilt(more=1), "has .*more"),
        (spoilt(maps={}), "'maps' is not a list"),
        (spoilt(maps=[]), "at least one"),
        (spoilt(tracks={}), "'tracks' is not a list"),
        (spoilt(tracks=[3]), "track 0: has int"),
        (spoilt(tracks=[TRACK | {"values": [["a"]]}]), "not finite numbers"),
        (spoilt(tracks=[TRACK | {"values": [[1.0]] * 9}]), "has 9 steps"),
        (spoilt(maps=[3]), "map 0: has int"),
        (spoilt(title=None), "title"),
    ],
)
def test_json_that_is_not_a_view_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        AttentionView.from_json(text)


@given(st.text(st.characters(codec=None), max_size=6))
def test_visible_tokens_can_be_printed_anywhere(token):
    shown = visible(token)
    assert shown.strip("\u200c\u200d")
    shown.encode()  # no half of a surrogate pair is left
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp", "Zs") for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def test_visible_leaves_ordinary_words_alone():
    for word in ["maison", "été", "日本語", "مرحبا", "क्षमा", "▁the", "Ġthe", "می\u200cخواهم", "👩\u200d👧"]:
        assert visible(word) == word
    assert visible("\u200d") == "\\u200d"
    assert visible("\u200ca\u200db\u200d") == "\\u200ca\u200db\\u200d"
    assert readable(" two \t words ") == "two words"


def an_image_view(**changes) -> AttentionView:
    item = a_map(
        key_tokens=["[CLS]", *"pppppp"],
        weights=np.full((1, 2, 7), 1 / 7),
        key_patches=Patches(rows=2, columns=3, first=1),
        query_words=(0, 0),
    )
    fields = {"title": "seen", "maps": (item,), "images": (np.full((4, 6, 3), 9, dtype=np.uint8),)}
    return AttentionView(**(fields | changes))


def test_json_keeps_words_patches_and_images():
    view = an_image_view()
    again = AttentionView.from_json(view.to_json())
    assert again == view
    assert again.maps[0].key_patches == Patches(rows=2, columns=3, first=1)
    assert again.maps[0].query_words == (0, 0)
    assert again.images[0] == view.images[0] != b""
    assert an_image_view(images=()) != view


def test_json_of_the_first_version_is_still_read():
    text = json.dumps(
        {
            "format_version": 1,
            "title": "t",
            "note": "",
            "examples": ["one"],
            "maps": [
                {
                    "address": "a",
                    "kind": "cross",
                    "example": 0,
                    "query_tokens": ["la"],
                    "key_tokens": ["the", "house"],
                    "weights": [[[0.25, 0.75]]],
                }
            ],
        }
    )
    view = AttentionView.from_json(text)
    assert view.examples == ("one",)
    assert view.map("a").weights.tolist() == [[[0.25, 0.75]]]
    assert view.images == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": [5]}, "image 0: this is not base64"),
        ({"images": ["aGVsbG8="]}, "not a PNG"),
        ({"images": "aGVsbG8="}, "'images' is not a list"),
    ],
)
def test_json_with_a_spoilt_image_is_refused(change, message):
    text = json.dumps(json.loads(an_image_view().to_json()) | change)
    with pytest.raises(InputError, match=message):
        AttentionView.from_json(text)


@pytest.mark.parametrize("words", [(0,), (1, 0), (0.0, 1.0), "ab", ((0, 1), (2,)), (0, 0, 0)])
def test_words_have_to_fit_the_tokens(words):
    with pytest.raises(InputError, match="query_words: give a whole number for each of the 2 tokens"):
        a_map(query_words=words)


def test_an_image_for_each_example_or_none():
    image = np.zeros((2, 2, 3), dtype=np.uint8)
    maps = (a_map(), a_map(example=1))
    assert AttentionView(title="", maps=maps, images=(None, image)).images[0] is None
    assert AttentionView(title="", maps=maps, images=(None, None)).images == ()
    with pytest.raises(InputError, match="1 for 2 examples"):
        AttentionView(title="", maps=maps, images=(image,))
    with pytest.raises(InputError, match="give a list"):
        AttentionView(title="", maps=maps, images=image)  # type: ignore[arg-type]


def heads_view() -> AttentionView:
    maps = [
        AttentionMap(
            address=f"{name}.layers.{i}.attention", kind="self", query_tokens=["a"], key_tokens=["b"],
            weights=np.arange(3).reshape(3, 1, 1) + 10 * i,
        )
        for name in ("encoder", "decoder")
        for i in range(2)
    ]  # fmt: skip
    return AttentionView(title="t", maps=tuple(maps))


@pytest.mark.parametrize(
    ("heads", "found"),
    [
        (["1.2", "0.1"], {"encoder.layers.1.attention, head 2": 12, "decoder.layers.1.attention, head 2": 12,
                          "encoder.layers.0.attention, head 1": 1, "decoder.layers.0.attention, head 1": 1}),
        (["decoder.layers.1.attention.0"], {"decoder.layers.1.attention, head 0": 10}),
        (["encoder.*.2"], {"encoder.layers.0.attention, head 2": 2, "encoder.layers.1.attention, head 2": 12}),
        (["2", "0.2"], {f"{name}.layers.{i}.attention, head 2": 2 + 10 * i for name in ("encoder", "decoder") for i in (0, 1)}),
    ],
)  # fmt: skip
def test_heads_of_layers_stand_beside_each_other(heads, found):
    maps = heads_view().with_heads(heads).maps
    assert [(item.address, item.weights.item()) for item in maps] == list(found.items())


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        (["3"], "'3': encoder.layers.0.attention has heads 0 to 2"),
        (["7.1"], "'7.1': there is no layer '7' among encoder.layers.0.attention"),
        (["last"], "'last' is no head; give a number, such as 3, or with its layer, such as 0.3"),
        (["0.-1"], "is no head"),
        ([], "list is empty"),
    ],
)
def test_a_head_that_is_not_there(heads, said):
    with pytest.raises(InputError, match=said):
        heads_view().with_heads(heads)
