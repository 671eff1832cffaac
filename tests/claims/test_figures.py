from __future__ import annotations

import builtins
import math

import pytest

import regard
from regard.claims.compared import figure, save_plot, why_no_curves

pytest.importorskip("matplotlib")


def by_title(drawing):
    return {axes.get_title(loc="left"): axes for axes in drawing.axes}


def marks(axes, kind):
    lines = {line.get_gid(): line for line in axes.get_lines() if line.get_gid()}
    return {
        gid.partition(":")[2]: [float(x) for x in line.get_xdata()]
        for gid, line in lines.items()
        if gid.startswith(kind)
    }


def test_learning_curves_are_medians_with_their_range(made_up):
    curves = {
        "a_1": ((2, 5.0), (4, 3.0)),
        "a_2": ((2, 4.0), (4, 1.0)),
        "a_3": ((2, 9.0), (4, 2.0)),
    }
    found = made_up({"a": {"bleu": [1.0, 2.0, 3.0]}, "b": {"bleu": [4.0, 5.0, 6.0]}}, **curves)
    axes = by_title(figure(found))["validation loss"]
    line = next(line for line in axes.get_lines() if line.get_label() == "a")
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([2, 4], [5.0, 2.0])
    band = axes.collections[0].get_paths()[0].vertices
    assert {(x, y) for x, y in band.tolist()} >= {(2.0, 4.0), (2.0, 9.0), (4.0, 1.0), (4.0, 3.0)}
    assert axes.get_xlabel() == "updates"


def test_what_was_evaluated_once_is_no_curve(made_up):
    once = {f"{arm}_{seed}": ((600, 2.0),) for arm in "ab" for seed in (1, 2)}
    found = made_up({"a": {"bleu": [1.0, 2.0]}, "b": {"bleu": [4.0, 5.0]}}, **once)
    drawing = figure(found)
    assert list(by_title(drawing)) == ["BLEU"]
    said = "no learning curves, because each run was evaluated once; a training.evaluate_every below its"
    assert drawing.get_supxlabel().startswith(said)
    assert why_no_curves(made_up({"a": {"bleu": [1.0]}})) == ""  # nothing was trained
    curves = {"a_1": ((2, 5.0), (4, 3.0))}
    assert figure(made_up({"a": {"bleu": [1.0]}}, **curves)).get_supxlabel() == ""


def test_every_seed_is_a_point_and_the_median_a_bar(made_up):
    found = made_up({"a": {"bleu": [30.0, 28.0, 34.0]}, "b": {"bleu": [4.0, None, 6.0]}})
    axes = by_title(figure(found))["BLEU"]
    assert marks(axes, "seeds") == {"a": [30.0, 28.0, 34.0], "b": [4.0, 6.0]}
    assert marks(axes, "median") == {"a": [30.0]}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in axes.texts] == ["no number: 1 of 3"]


def test_what_was_never_reached_is_written(made_up):
    found = made_up({"a": {"updates to 1": [math.inf, math.inf]}, "b": {"updates to 1": [5.0, math.inf]}})
    axes = figure(found).axes[1]
    assert [text.get_text() for text in axes.texts] == ["not reached", "not reached: 1 of 2"]
    # The number of updates to a share is no share.
    low, high = axes.get_xlim()
    assert low < 5 < high


def test_measures_by_length_are_lines(made_up):
    one = {"short": 40.0, "middle": 30.0, "long": 10.0, "all": 35.0}
    two = {"short": 20.0, "middle": None, "long": 12.0, "all": 35.0}
    drawing = figure(made_up({"a": {"bleu": [one, one]}, "b": {"bleu": [one, two]}}))
    axes = drawing.axes[1]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines["a"].get_ydata()) == [40.0, 30.0, 10.0]
    assert list(lines["b"].get_xdata()) == [0, 2]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1-10", "11-20", "21+"]
    legend = drawing.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_real_runs_are_drawn_and_written(compared, tmp_path):
    compared.save_plot(tmp_path / "plot.png", "A title")
    compared.save_plot(tmp_path / "plot.svg")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "plot.svg").read_text()
    assert "<svg" in text
    titles = by_title(figure(compared))
    assert {"validation loss", "answers (exact match)", "by length (token accuracy)"} <= titles.keys()
    # An arm that takes another's runs has no curve of its own, but numbers.
    assert {line.get_label() for line in titles["validation loss"].get_lines()} == {"pre", "post"}
    assert "beam" in marks(titles["answers (exact match)"], "seeds")


def test_mistakes_are_one_sentence(compared, tmp_path, monkeypatch):
    with pytest.raises(regard.InputError, match=r"give \.png or \.svg"):
        save_plot(compared, tmp_path / "plot.jpg")
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(regard.InputError, match=r"regard\[plot\]"):
        compared.save_plot(tmp_path / "plot.png")
