from __future__ import annotations

import json
import math
import statistics

import pytest

import regard
from regard.claims.comparison import read_comparison
from regard.claims.measure import Measure
from regard.claims.measuring import RunMeasures
from regard.tasks.translation import teacher_forced


@pytest.fixture
def measures(compared, tmp_path):
    """The measures of one run, with a cache of their own."""

    def make(arm: str = "pre") -> RunMeasures:
        comparison = compared.comparison
        return RunMeasures(compared.of(arm)[0].folder, tmp_path, comparison.recipe_of(comparison.arm(arm), 1))

    return make


def log(compared, event):
    lines = [json.loads(line) for line in (compared.folder / "pre" / "1" / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def test_numbers_of_the_log(measures, compared):
    read = measures()
    losses = [line["loss"] for line in log(compared, "train")]
    last = read.value(Measure(name="x", kind="training_loss", last=4)).number
    assert last == pytest.approx(statistics.fmean(losses[-4:]))
    evaluations = log(compared, "validation")
    between = statistics.fmean([evaluations[0]["loss"], evaluations[1]["loss"]])
    reached = read.value(Measure(name="x", kind="steps_to", metric="loss", threshold=between)).number
    assert reached == 6
    assert evaluations[0]["loss"] > evaluations[1]["loss"]
    never = read.value(Measure(name="x", kind="steps_to", metric="token_accuracy", threshold=1.01)).number
    assert never == math.inf
    at_once = read.value(Measure(name="x", kind="steps_to", metric="token_accuracy", threshold=0.0)).number
    assert at_once == 3


def test_speed_leaves_evaluations_out(measures):
    read = measures()
    read._log = [
        {"event": "train", "tokens": 100, "seconds": 1.0},
        {"event": "train", "tokens": 300, "seconds": 2.0},
        {"event": "validation"},
        {"event": "train", "tokens": 500, "seconds": 50.0},
        {"event": "train", "tokens": 700, "seconds": 51.0},
        {"event": "train", "tokens": 900, "seconds": 53.0},
    ]
    assert read.value(Measure(name="x", kind="tokens_per_second")).number == 200
    epoch = read.value(Measure(name="x", kind="seconds_per_epoch")).number
    assert epoch == pytest.approx(read._tokens_per_epoch() / 200)
    assert read._tokens_per_epoch() > 120 * 3  # 120 pairs of 2 to 5 symbols and an end


def test_pairs_are_those_asked_for(measures, tmp_path):
    read = measures()
    own = read.pairs(Measure(name="x", kind="decoded", metric="bleu", size=7))
    assert len(own) == 7
    assert all(target.split() == source.split()[::-1] for source, target in own)
    assert len(read.pairs(Measure(name="x", kind="decoded", metric="bleu"))) == 20  # as many as training validates on
    test = read.pairs(Measure(name="x", kind="decoded", metric="bleu", size=7, split="test"))
    assert not set(test) & set(own)
    other = {"sequences": {"kind": "copy", "symbols": 5, "shortest": 9, "longest": 9, "size": 10, "validation_size": 5}}
    longer = read.pairs(Measure(name="x", kind="decoded", metric="bleu", size=3, split="test", data=other))
    assert [len(source.split()) for source, _ in longer] == [9, 9, 9]
    path = tmp_path / "judge.tsv"
    path.write_text("s1 s2\ts2 s1\ns3\ts3\ns4\ts4\n")
    named = Measure(name="x", kind="decoded", metric="bleu", size=2, data={"validation": str(path)})
    assert read.pairs(named) == [("s1 s2", "s2 s1"), ("s3", "s3")]
    for data, sentence in [
        ({"train": str(path)}, "give data.validation"),
        ({"validation": str(path)}, "no test split"),
    ]:
        split = "test" if "validation" in data else "validation"
        with pytest.raises(regard.InputError, match=sentence):
            read.pairs(Measure(name="x", kind="decoded", metric="bleu", data=data, split=split))


def test_held_out_rows_of_files_are_judged_on(small, words, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in words))
    values = small() | {"data": {"train": str(path), "validation_size": 9}}
    found = regard.compare(
        values, grid={"model.norm": ["pre"]}, seeds=1, output=tmp_path / "runs",
        measures=[{"name": "x", "kind": "teacher_forced", "metric": "loss"}, "loss"],
    )  # fmt: skip
    # The same pairs as in training's own validation, so the same loss.
    (run,) = found.runs
    assert run.values["x"].number == pytest.approx(run.values["loss"].number, rel=1e-4)


def test_judging_is_that_of_the_task_and_by_length(measures):
    read = measures()
    measure = Measure(name="x", kind="teacher_forced", metric="perplexity", split="test", size=30, bins=(3,))
    value = read.value(measure)
    pairs = read.pairs(measure)
    translator = regard.load(read.trained)
    assert value.number == pytest.approx(teacher_forced(translator, pairs).perplexity)
    short = [pair for pair in pairs if len(pair[0].split()) <= 3]
    assert [(part.label, part.count) for part in value.bins] == [("1-3", len(short)), ("4+", 30 - len(short))]
    assert value.bins[0].value == pytest.approx(teacher_forced(translator, short).perplexity)


def test_an_empty_range_has_no_number(measures):
    measure = Measure(name="x", kind="decoded", metric="exact_match", size=5, bins=(20, 30))
    bins = measures().value(measure).bins
    assert [(part.count, part.value is None) for part in bins] == [(5, False), (0, True), (0, True)]


def test_judging_is_remembered_until_what_is_asked_changes(measures, monkeypatch):
    from regard.claims import measuring

    calls: list[str] = []
    real = measuring.judged

    def counting(*arguments):
        calls.append(arguments[2].name)
        return real(*arguments)

    monkeypatch.setattr(measuring, "judged", counting)
    bleu = Measure(name="bleu", kind="decoded", metric="bleu", size=4)
    first = measures().value(bleu)
    again = measures()
    assert again.value(bleu) == first
    assert again.seconds > 0
    # Another metric of the same answers, another name: judged together.
    again.value(Measure(name="other", kind="decoded", metric="exact_match", size=4))
    assert calls == ["bleu"]
    again.value(Measure(name="more", kind="decoded", metric="bleu", size=5))
    again.value(Measure(name="beam", kind="decoded", metric="bleu", size=4, generation={"beam": 2}))
    assert calls == ["bleu", "more", "beam"]
    again._cache.write_text("{broken")
    assert measures().value(bleu) == first
    assert calls == ["bleu", "more", "beam", "bleu"]


def test_a_metric_that_cannot_be_computed_is_one_sentence(measures, monkeypatch):
    from regard.claims import measuring

    found = {"metrics": {"exact_match": 1.0}, "bins": [], "note": "BLEU needs sacrebleu: pip install it", "count": 2}
    monkeypatch.setattr(measuring, "judged", lambda *_: found)
    with pytest.raises(regard.InputError, match=r"measure 'x': bleu cannot be computed; BLEU needs sacrebleu"):
        measures().value(Measure(name="x", kind="decoded", metric="bleu", size=3))


def test_of_a_model_of_several_languages_one_is_judged(small, words, tmp_path, monkeypatch):
    from regard.claims import measuring

    asked = []

    def spied(*arguments, to, **options):
        asked.append(to)
        return evaluate(*arguments, to=to, **options)

    evaluate = measuring.evaluate
    monkeypatch.setattr(measuring, "evaluate", spied)
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in words))
    files = {"train": str(path), "validation_size": 10}
    values = small() | {"data": {"targets": {"back": files, "again": files}}}
    measure = {"name": "x", "kind": "decoded", "metric": "exact_match", "to": "again", "size": 4}
    found = regard.compare(values, grid={"model.norm": ["pre"]}, seeds=1, output=tmp_path / "runs", measures=[measure])
    assert asked == ["again"]
    assert 0 <= found.runs[0].values["x"].number <= 1
    with pytest.raises(regard.InputError, match="to is None; choose from back, again"):
        read_comparison(values, grid={"model.norm": ["pre"]}, measures=["bleu"])
