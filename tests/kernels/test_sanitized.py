"""The compiled kernels under sanitizers, by the harness `benchmarks/faults/kernels.py`."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from regard.kernels import variants

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults"


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(FAULTS)
    before = set(sys.modules)
    yield importlib.import_module("kernels")
    for name in set(sys.modules) - before:
        if str(FAULTS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def driver(harness, build: str, place: Path, sources: Path = variants.SOURCES):
    try:
        return harness.Driver.built(build, place, sources)
    except harness.NotHere as error:
        pytest.skip(f"{build}: {error}")


def test_the_plain_kernels_keep_within_their_arrays_and_near_float64(harness, tmp_path):
    found = harness.run(driver(harness, "addresses:plain", tmp_path), 2, range(40), print)
    assert found[0] == 40
    assert 0 < found[1] <= 1
    assert found[2] == []


INSTRUCTIONS = ("bf16", "vnni", "avx512", "avx2", "avx", "plain")


@pytest.mark.slow
@pytest.mark.parametrize(
    "build", [f"{kind}:{name}" for name in INSTRUCTIONS for kind in ("addresses", "threads", "none")] + ["none:aarch64"]
)
def test_kernels_of_every_kind_keep_within_their_arrays_do_not_race_and_stay_near_float64(build, harness, tmp_path):
    assert harness.run(driver(harness, build, tmp_path), 3, range(200), print)[2] == []


PLANTED = {
    "reads behind an array": (
        "addresses",
        "attention.h",
        "c < columns; ++c) {\n        places",
        "c <= columns; ++c) {\n        places",
    ),
    "makes a whole number of NaN": ("addresses", "linear.h", "std::fabs(share) <= 127.0f ? share : 0.0f", "share"),
    "does not wait for others": (
        "threads",
        "decoding.cpp",
        "pair += together;\n        }\n#pragma omp barrier\n",
        "pair += together;\n        }\n",
    ),
    "does not wait for others over ranges": (
        "threads",
        "decoding.cpp",
        "            }\n        }\n#pragma omp barrier\n",
        "            }\n        }\n",
    ),
    "leaves out the end of a range": ("none", "attention.h", "alone(n, end, spans[n].end);", ""),
    "counts too little memory for a band": ("addresses", "decoding.cpp", "rounded(band * unit_room(*b) * 4)", "0"),
    "writes what it is to read": (
        "none",
        "decoding.cpp",
        "Bytes bytes = laid_in(scratch, rows, w->inputs, w->bits, x);",
        "Bytes bytes = laid_in(scratch, rows, w->inputs, w->bits, x); if (rows && w->inputs) const_cast<float*>(x)[0] += 1;",
    ),
    "sums a little wrongly": (
        "none",
        "attention.h",
        "shares[c] = share;\n",
        "shares[c] = share * (c == 3 ? 1.001f : 1.0f);\n",
    ),
    "chooses a forbidden token": ("none", "choosing.h", "if (found != never[n]) continue;", "continue;"),
    "goes on after the end": ("none", "decoding.cpp", "if (ended) return step + 1;", ""),
    "takes a word for its own context": ("none", "word2vec.h", "if (j != at) around", "around"),
    "counts too little memory": (
        "addresses",
        "word2vec.h",
        "(2 * inputs + outputs) * stride",
        "(inputs + outputs) * stride",
    ),
    "attends beyond the end of a text": ("none", "texts.h", "c[i] = d[i] = -INFINITY;", "c[i] = d[i] = 0;"),
    "lays keys out too short": (
        "none",
        "texts.h",
        "const int64_t side = in_lanes(tokens),",
        "const int64_t side = tokens,",
    ),
    "attends to later tokens in training": (
        "none",
        "texts_training.h",
        "all.causal && row + 1 < text.asked ? row + 1 : text.asked",
        "text.asked",
    ),
    "forgets dropout on the way back": (
        "none",
        "texts_training.h",
        "all.least ? share[i] * mask[i] : share[i]",
        "share[i]",
    ),
    "counts too little memory for training": (
        "addresses",
        "texts_training.h",
        "2 * in_fours(keys) * fours + ",
        "",
    ),
    "forgets the slope of tanh": ("none", "additive.h", "* (1.0f - t * t)", "* (1.0f - t)"),
    "counts a key of another text": ("none", "additive.h", "(text * all.asked + n % all.asked)", "(n % all.asked)"),
    "forgets padding on the way back": (
        "none",
        "recurrent.h",
        "const float g = real * of_s[e],",
        "const float g = of_s[e],",
    ),
    "counts too little memory for recurrent steps": (
        "addresses",
        "recurrent.h",
        "3 * rounded(4 * rows * widest)",
        "rounded(4 * rows * widest)",
    ),
    "counts too little memory for LSTM steps": (
        "addresses",
        "lstm.h",
        "2 * rounded(4 * rows * wide)",
        "rounded(4 * rows * wide)",
    ),
    "feeds padding": ("none", "lstm.h", "fed[e] = real ? ", "fed[e] = true ? "),
    "forgets what is fed on the way back": (
        "none",
        "lstm.h",
        "float* to = l ? of_hidden(l - 1) : of_fed;",
        "float* to = l ? of_hidden(l - 1) : made;",
    ),
    "forgets what comes through the gates": ("none", "recurrent.h", "add(of_context, made, rows * wide);", ""),
    "orders equal sums otherwise": (
        "none",
        "candidates.h",
        "+ before > ranking.least()",
        "+ before >= ranking.least()",
    ),
    "emits what it may not": ("none", "candidates.h", "chosen && beams.never[n] != token", "chosen"),
    "smooths what is never right": (
        "none",
        "training.h",
        "if (gap >= 0 && gap < own) part[gap] = without;",
        "",
    ),
    "writes a gradient where nothing counts": (
        "none",
        "training.h",
        "std::memset(gradient + start, 0, size_t(loss.vocabulary) * sizeof(T));",
        "(void)start;",
    ),
    "draws the same numbers for every part": (
        "none",
        "training.h",
        "random_bits(seed, uint64_t(part) * WORDS + uint64_t(i))",
        "random_bits(seed, uint64_t(i))",
    ),
    "forgets to clip": ("none", "glove.h", "within(own * pull, clip)", "own * pull"),
    "sums otherwise on other threads": (
        "none",
        "decoding.cpp",
        "mean /= width;",
        "mean = mean / width + 1e-7f * omp_get_thread_num();",
    ),
}
"""A sanitizer, and a change of a line in a source, that it or the comparison with float64 finds."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name, harness, tmp_path):
    sanitizer, file, old, new = PLANTED[name]
    sources = tmp_path / "sources"
    shutil.copytree(variants.SOURCES, sources)
    text = (sources / file).read_text()
    assert text.count(old) == 1
    (sources / file).write_text(text.replace(old, new))
    assert harness.run(driver(harness, f"{sanitizer}:plain", tmp_path, sources), 1, range(200), print)[2]
