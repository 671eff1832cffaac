from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from regard.errors import InputError
from regard.inspection.plots import figure, save_plot
from regard.inspection.view import AttentionMap, AttentionView

QUERY, KEY = ["la", "maison", "blanche"], ["the", "house"]


def a_view(heads: int = 1, layers: int = 1, **changes) -> AttentionView:
    rng = np.random.default_rng(0)
    maps = [
        AttentionMap(
            address=f"layer.{i}",
            kind="cross",
            query_tokens=changes.get("query", QUERY),
            key_tokens=changes.get("key", KEY),
            weights=rng.random((heads, len(changes.get("query", QUERY)), len(changes.get("key", KEY)))),
        )
        for i in range(layers)
    ]
    title, note = changes.get("title", "A title"), changes.get("note", "")
    return AttentionView(title=title, maps=tuple(maps), note=note)


def panels(drawing):
    return [axes for axes in drawing.axes if axes.images]


def words(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_png_and_svg_are_plots(tmp_path):
    image = pytest.importorskip("PIL.Image")
    save_plot(a_view(), tmp_path / "a.png")
    with image.open(tmp_path / "a.png") as plot:
        pixels = np.asarray(plot.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 20
    save_plot(a_view(), tmp_path / "a.SVG")
    assert ElementTree.parse(tmp_path / "a.SVG").getroot().tag.endswith("svg")
    assert sorted(os.listdir(tmp_path)) == ["a.SVG", "a.png"]


def test_json_is_exact(tmp_path):
    save_plot(a_view(heads=2), tmp_path / "a.json")
    assert AttentionView.from_json((tmp_path / "a.json").read_text()) == a_view(heads=2)


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.html"])
def test_another_suffix_names_the_allowed_ones(tmp_path, name):
    with pytest.raises(InputError, match=r"\.png, \.svg, \.json"):
        save_plot(a_view(), tmp_path / name)


def test_the_source_is_on_top_and_the_output_at_the_side():
    (axes,) = panels(figure(a_view()))
    assert words(axes.xaxis) == KEY
    assert words(axes.yaxis) == QUERY
    assert axes.xaxis.get_ticks_position() == "top"
    low, high = axes.get_ylim()
    assert low > high  # row 0 above row 1


def test_each_cell_has_the_colour_of_its_weight():
    from matplotlib import colormaps

    view = AttentionView.of([[0.0, 0.5], [1.0, 0.25]], ["a", "b"], ["c", "d"])
    (axes,) = panels(figure(view))
    expected = colormaps["viridis"](view.maps[0].weights[0], bytes=True)
    np.testing.assert_array_equal(axes.images[0].get_array(), expected)


def test_negative_weights_have_a_scale_with_zero_in_its_middle():
    from matplotlib import colormaps

    (axes,) = panels(figure(AttentionView.of([[-2.0, 0.0, 1.0]], ["a"], ["b", "c", "d"])))
    expected = colormaps["PuOr_r"](np.array([[0, 0.5, 0.75]]), bytes=True)
    np.testing.assert_array_equal(axes.images[0].get_array(), expected)


def test_heads_and_layers_are_small_multiples():
    drawing = figure(a_view(heads=4, layers=3))
    drawn = panels(drawing)
    assert len(drawn) == 12
    titles = [axes.get_title(loc="left") for axes in drawn]
    assert titles[:2] == ["layer.0\nhead 0", "head 1"]
    assert titles[4] == "layer.1\nhead 0"
    lefts = [round(axes.get_position().x0, 6) for axes in drawn]
    assert lefts[:4] == lefts[4:8] == sorted(set(lefts))  # a row for each layer, a column for each head
    assert words(drawn[0].yaxis) == QUERY
    assert words(drawn[1].yaxis) == []  # the same tokens as beside it
    boxes = [axes.get_position() for axes in drawn]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_examples_of_other_tokens_keep_their_own_labels():
    maps = [
        AttentionMap(address="a", kind="cross", query_tokens=["q"], key_tokens=list(text), example=i,
                     weights=np.ones((1, 1, 4)))
        for i, text in enumerate(["dawn", "dusk"])
    ]  # fmt: skip
    drawn = panels(figure(AttentionView(title="", maps=tuple(maps), examples=("dawn", "dusk"))))
    assert ["".join(words(axes.xaxis)) for axes in drawn] == ["dawn", "dusk"]
    assert [axes.get_title(loc="left") for axes in drawn] == ["dawn", "dusk"]


def saved(view: AttentionView) -> None:
    figure(view).savefig(io.BytesIO(), format="png", dpi=40)


def test_no_script_and_no_formula_makes_a_warning_or_an_error():
    key = ["日本", "مرحبا", "שלום", "ไทย", "𓀀", "$x", "$a_b$", "\\frac", "", "\n", "\ud800", "\u0301"]
    key.append("y" * 5000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saved(a_view(key=key, title="$x^$ 𓀀", note="100 $ \\alpha"))


def test_a_character_that_no_font_has_is_replaced_by_its_position(monkeypatch):
    from matplotlib import font_manager

    # As on a machine that has no font but the one that comes with matplotlib.
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [])
    drawing = figure(a_view(key=["the", "家"], title="title"))
    assert words(panels(drawing)[0].xaxis) == ["the", "‹1›"]
    assert "U+5BB6" in "".join(text.get_text() for text in drawing.texts)


@pytest.mark.slow
def test_a_very_long_sequence_fits_a_plot():
    tokens = [f"w{i}" for i in range(1500)]
    drawing = figure(a_view(key=tokens))
    assert max(drawing.get_size_inches()) < 64
    (axes,) = panels(drawing)
    assert len(words(axes.xaxis)) == 750  # every token would be unreadable
    assert words(axes.xaxis)[1] == "w2" == tokens[int(axes.get_xticks()[1])]


def test_without_matplotlib_the_extra_is_named_and_json_still_works(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[plot\]'"):
        save_plot(a_view(), tmp_path / "a.png")
    save_plot(a_view(), tmp_path / "a.json")
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_full_disk_leaves_the_earlier_plot(tmp_path, monkeypatch):
    save_plot(a_view(), tmp_path / "a.json")
    before = (tmp_path / "a.json").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="the disk is full"):
        save_plot(a_view(heads=2), tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes() == before
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.slow
def test_matplotlib_is_loaded_late_and_its_global_state_is_left_alone(tmp_path):
    program = f"""
import sys
from regard.inspection.plots import save_plot
from regard.inspection.view import AttentionView
assert "matplotlib" not in sys.modules
import matplotlib
settings = [name for name in matplotlib.rcParams if name != "backend"]  # reading that would load pyplot
before = [matplotlib.rcParams[name] for name in settings]
save_plot(AttentionView.of([[1.0]], ["a"], ["b"]), {str(tmp_path / "a.png")!r})
assert "matplotlib.pyplot" not in sys.modules
assert [matplotlib.rcParams[name] for name in settings] == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)
