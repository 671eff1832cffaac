"""Numbers in papers that can be computed again, and the page that lists them: `python docs/published_numbers.py`.

Each row has what a paper prints and how it is computed here; models are built without numbers, so all take seconds. A row without
a note has to agree to the last digit printed; one with a note has to differ, by no more than `within`. A test holds both, and
compares the page with what this writes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import pstdev, stdev
from typing import Any

import torch
import torch.nn.functional as F

from regard.models import (
    BertConfig,
    DistilBertConfig,
    ELMoConfig,
    GPT3Config,
    ModernBertConfig,
    RobertaConfig,
    SutskeverConfig,
    TransformerConfig,
    ViTConfig,
)
from regard.planning import (
    PETAFLOP_DAYS,
    PUBLISHED,
    RUNS,
    Shape,
    count_operations,
    count_parameters,
    outline,
)

PAGE = Path(__file__).parent / "published-numbers.md"
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, " %": 0.01, " MB": 1e6, " GB": 1e9, " GiB": 2.0**30}
NUMBER = re.compile(r"(?P<digits>[\d,]+(?:\.(?P<decimals>\d+))?)(?:e(?P<exponent>\d+))?(?P<unit>[ a-zA-Z%]*)")
DAY = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One number of a paper.

    Arguments:
        paper, place: where it is printed.
        what: it is.
        printed: as it is printed, such as `65M`, `2.3e19` or `24.9 %`.
        compute: the same by computation.
        note: why the two differ; empty where they agree to the last digit printed.
        within: how far they may then be apart, as a share.
    """

    paper: str
    place: str
    what: str
    printed: str
    compute: Callable[[], float]
    note: str = ""
    within: float = 0.05

    @property
    def value(self) -> float:
        """The printed number."""
        found = self._found
        return float(found["digits"].replace(",", "")) * self._scale

    @property
    def half(self) -> float:
        """Half of the last digit printed. Zeros at the end of a whole number count as digits."""
        return 0.5 * 10.0 ** -len(self._found["decimals"] or "") * self._scale

    @property
    def agrees(self) -> bool:
        """Whether what is computed rounds to what is printed."""
        return abs(self.compute() - self.value) <= self.half * (1 + 1e-9)

    @property
    def difference(self) -> float:
        """Computed over printed, less one."""
        return self.compute() / self.value - 1

    @property
    def _found(self) -> re.Match[str]:
        found = NUMBER.fullmatch(self.printed)
        if found is None:
            raise ValueError(self.printed)
        return found

    @property
    def _scale(self) -> float:
        found = self._found
        return 10.0 ** int(found["exponent"] or 0) * UNITS[found["unit"]]

    @property
    def computed(self) -> str:
        """What is computed, in the unit of what is printed, to two digits more."""
        found, value = self._found, self.compute() / self._scale
        if not found["exponent"] and found["unit"] == "" and value == round(value):
            return f"{value:,.0f}"
        exponent = f"e{found['exponent']}" if found["exponent"] else ""
        return f"{value:,.{len(found['decimals'] or '') + 2}f}{exponent}{found['unit']}"


@cache
def parameters(config: Any) -> int:
    """Of a model that is built without numbers."""
    return count_parameters(outline(config)).total


def known(name: str) -> int:
    """Parameters of a published model."""
    return parameters(PUBLISHED[name].config)


def rows() -> Iterator[tuple[str, list[Row]]]:
    """All rows, by what they are about."""
    yield "Parameters", [*_encoders(), *_decoders(), *_others()]
    yield "Operations, time and energy", list(_work())
    yield "Memory and sizes", list(_sizes())
    yield "Growth and positions", list(_growth())
    yield "Averages, shares and scores", list(_scores())
    yield "Definitions", list(_definitions())


def _encoders() -> Iterator[Row]:
    bert, vit = "Devlin et al. 2019", "Dosovitskiy et al. 2021"
    of = "without the heads of pre-training, with the pooler"
    yield Row(paper=bert, place="section 3", what="BERT base", printed="110M", compute=lambda: parameters(BertConfig.base()),
              note=f"109.48 {of}; rounded to tens")  # fmt: skip
    yield Row(paper=bert, place="section 3", what="BERT large", printed="340M", compute=lambda: parameters(BertConfig.large()),
              note=f"{of}; rounded to tens")  # fmt: skip
    yield Row(
        paper="Devlin 2018, multilingual.md",
        place="list of models",
        what="multilingual BERT",
        printed="110M",
        compute=lambda: parameters(BertConfig.base(119_547)),
        note="that of the English model: 119,547 pieces of 768 numbers are 92M alone",
        within=0.65,
    )
    yield Row(paper="Liu et al. 2019", place="section 3.1", what="RoBERTa large", printed="355M",
              compute=lambda: parameters(RobertaConfig(width=1024, heads=16, feedforward_width=4096, layers=24)))  # fmt: skip
    yield Row(paper="Sanh et al. 2019", place="table 3", what="DistilBERT", printed="66M",
              compute=lambda: parameters(DistilBertConfig()))  # fmt: skip
    yield Row(paper="Sanh et al. 2019", place="abstract", what="DistilBERT is smaller by", printed="40 %",
              compute=lambda: 1 - parameters(DistilBertConfig()) / parameters(BertConfig.base()),
              note="39.4 % of the exact counts; 40 % of the rounded ones, 66 of 110")  # fmt: skip
    yield Row(paper="Warner et al. 2024", place="section 2.2", what="ModernBERT base", printed="149M",
              compute=lambda: parameters(ModernBertConfig.base()))  # fmt: skip
    yield Row(paper="Warner et al. 2024", place="section 2.2", what="ModernBERT large", printed="395M",
              compute=lambda: parameters(ModernBertConfig.large()))  # fmt: skip
    for what, printed, config, note in (
        ("ViT base, patches of 16", "86M", ViTConfig.base(), "86.57M with the output of 1,000 classes, 85.8M without"),
        ("ViT large, patches of 16", "307M", ViTConfig.large(), "304M with the output of 1,000 classes"),
        ("ViT huge, patches of 14", "632M", ViTConfig.huge(), ""),
    ):
        yield Row(
            paper=vit, place="table 1", what=what, printed=printed, compute=lambda c=config: parameters(c), note=note
        )
    yield Row(paper="Peters et al. 2018", place="allennlp.org/elmo", what="ELMo, original", printed="93.6M",
              compute=lambda: parameters(ELMoConfig()))  # fmt: skip


def _decoders() -> Iterator[Row]:
    gpt2, theirs = "Radford et al. 2019", "wrong: the authors' repository says"
    yield Row(paper=gpt2, place="table 2", what="the original GPT", printed="117M", compute=lambda: known("gpt"))
    for size, printed, right in (
        ("small", "117M", "124M; the table has the first GPT's"),
        ("medium", "345M", "355M"),
        ("large", "762M", "774M"),
        ("xl", "1542M", "1.5B"),
    ):
        yield Row(paper=gpt2, place="table 2", what=f"GPT-2 {size}", printed=printed, compute=lambda s=size: known(f"gpt2-{s}"),
                  note=f"{theirs} {right}", within=0.07)  # fmt: skip
    brown = "Brown et al. 2020"
    for size, printed, note in (
        ("125m", "125M", ""),
        ("350m", "350M", "rounded to tens; table D.1 has 356M"),
        ("760m", "760M", ""),
        ("1.3b", "1.3B", ""),
        ("2.7b", "2.7B", ""),
        ("6.7b", "6.7B", ""),
        (
            "13b",
            "13.0B",
            "a width of 5,140, as printed, gives 12.85B, as in table D.1; it is no multiple of 40 heads of 128",
        ),
        ("175b", "175.0B", "table D.1 has 174,600M"),
    ):
        yield Row(paper=brown, place="table 2.1", what=f"GPT-3 {printed}", printed=printed,
                  compute=lambda s=size: parameters(GPT3Config.named(s)), note=note)  # fmt: skip
    for size, printed, note in (
        ("350m", "356M", ""),
        ("1.3b", "1,320M", "rounded to tens"),
        ("2.7b", "2,650M", "rounded to tens"),
        ("6.7b", "6,660M", "rounded to tens"),
        ("13b", "12,850M", "rounded to tens"),
        ("175b", "174,600M", "rounded to hundreds"),
    ):
        yield Row(paper=brown, place="table D.1", what=f"GPT-3, {size}", printed=printed,
                  compute=lambda s=size: parameters(GPT3Config.named(s)), note=note)  # fmt: skip
    yield Row(paper="Black et al. 2022", place="section 2", what="GPT-NeoX-20B without the two tables", printed="19.9B",
              compute=lambda: known("gpt-neox-20b") - 2 * 50_432 * 6144)  # fmt: skip
    for size, printed, note in (
        ("7b", "6.7B", ""),
        ("13b", "13.0B", ""),
        ("33b", "32.5B", ""),
        ("65b", "65.2B", "65.29B, cut off and not rounded"),
    ):
        yield Row(paper="Touvron et al. 2023", place="table 2", what=f"Llama {printed}", printed=printed,
                  compute=lambda s=size: known(f"llama-{s}"), note=note)  # fmt: skip


def _others() -> Iterator[Row]:
    vaswani = "with 37,000 pieces; the paper does not give the size of its shared vocabulary exactly"
    yield Row(paper="Vaswani et al. 2017", place="table 3", what="Transformer base", printed="65M",
              compute=lambda: parameters(TransformerConfig.base()), note=f"63.0M {vaswani}")  # fmt: skip
    yield Row(paper="Vaswani et al. 2017", place="table 3", what="Transformer big", printed="213M",
              compute=lambda: parameters(TransformerConfig.big()), note=f"214.2M {vaswani}")  # fmt: skip
    for size, printed, note in (
        ("small", "60M", "60.5M with 32,128 rows in the table of pieces; rounded to tens"),
        ("base", "220M", "222.9M; rounded to tens"),
        ("large", "770M", "737.7M by the sizes that the paper gives"),
        ("3b", "2.8B", "2.85B, cut off and not rounded"),
        ("11b", "11B", ""),
    ):
        place = "sections 2.1 and 3.7" if size == "base" else "section 3.7"
        yield Row(paper="Raffel et al. 2020", place=place, what=f"T5 {size}", printed=printed,
                  compute=lambda s=size: known(f"t5-{s}"), note=note)  # fmt: skip
    config = SutskeverConfig(source_vocabulary=160_000, target_vocabulary=80_000)
    yield Row(paper="Sutskever et al. 2014", place="section 3.4", what="four layers of 1,000 cells", printed="384M",
              compute=lambda: parameters(config))  # fmt: skip
    yield Row(paper="Sutskever et al. 2014", place="section 3.4", what="of these recurrent", printed="64M",
              compute=lambda: 2 * 4 * 4 * 1000 * (1000 + 1000))  # fmt: skip


def _work() -> Iterator[Row]:
    vaswani = "Vaswani et al. 2017"
    for what, printed, seconds in (("base", "3.3e18", 12 * 3600.0), ("big", "2.3e19", 3.5 * DAY)):
        yield Row(paper=vaswani, place="table 2", what=f"operations, {what}: time x 8 P100 x 9.5 teraflops", printed=printed,
                  compute=lambda s=seconds: s * 8 * 9.5e12)  # fmt: skip
    yield Row(paper=vaswani, place="section 5.2", what="hours, base: 100,000 steps of 0.4 s", printed="12",
              compute=lambda: 100_000 * 0.4 / 3600, note="11.1: the time of a step is rounded", within=0.1)  # fmt: skip
    yield Row(paper=vaswani, place="section 5.2", what="days, big: 300,000 steps of 1.0 s", printed="3.5",
              compute=lambda: 300_000 / DAY)  # fmt: skip
    for name, days in PETAFLOP_DAYS.items():
        digits = f"{days:.0f}" if days >= 100 else f"{days:.1f}" if days >= 10 else f"{days:.2f}"
        note = {
            "gpt3-125m": "by 125M, as the table rounds the parameters, it is 2.60",
            "gpt3-350m": "by 356M it is 7.42",
            "gpt3-1.3b": "by 1,320M it is 27.5",
            "gpt3-175b": "rounded to tens",
        }.get(name, "")
        yield Row(paper="Brown et al. 2020", place="table D.1", what=f"petaflop/s-days, {name}: 6 N D", printed=digits,
                  compute=lambda n=name: 6 * known(n) * 300e9 / (DAY * 1e15), note=note)  # fmt: skip
    for what, factor, count, tokens, printed, note in (
        ("T5-11B: 3 N D, each half reading half", 3, 11e9, 1e12, "382", ""),
        ("BERT base: 6 N D", 6, 109e6, 250e9, "1.89", ""),
        ("RoBERTa large: 6 N D", 6, 355e6, 2e12, "49.3", ""),
    ):
        yield Row(paper="Brown et al. 2020", place="table D.1", what=f"petaflop/s-days, {what}", printed=printed,
                  compute=lambda f=factor, n=count, d=tokens: f * n * d / (DAY * 1e15), note=note)  # fmt: skip
    yield Row(paper="Li 2020 (Lambda)", place="text", what="years of one V100 at 28 teraflops, GPT-3", printed="355",
              compute=lambda: 6 * known("gpt3-175b") * 300e9 / 28e12 / (365 * DAY),
              note="355.9; 355.6 of 3.14e23 operations, which is rounded")  # fmt: skip
    yield Row(paper="Patterson et al. 2021", place="table 4", what="days of GPT-3 on 10,000 V100 at 24.6 teraflops",
              printed="14.8", compute=lambda: 6 * known("gpt3-175b") * 300e9 / (10_000 * 24.6e12 * DAY))  # fmt: skip
    llama = "Touvron et al. 2023"
    yield Row(paper=llama, place="section 2.4", what="days of Llama 65B: 1.4T tokens, 380/s on each of 2,048", printed="21",
              compute=lambda: 1.4e12 / (380 * 2048) / DAY)  # fmt: skip
    for run, hours in ((run, run.hours) for run in RUNS if run.model.startswith("llama")):
        energy = {"llama-7b": "36", "llama-13b": "59", "llama-33b": "233", "llama-65b": "449"}[run.model]
        yield Row(paper=llama, place="table 15", what=f"MWh of {run.model}: hours x 400 W x 1.1", printed=energy,
                  compute=lambda h=hours: h * 400 * 1.1 / 1e6,
                  note="449.8, cut off and not rounded" if run.model == "llama-65b" else "")  # fmt: skip


def _sizes() -> Iterator[Row]:
    reformer = "Kitaev et al. 2020"
    yield Row(paper=reformer, place="section 1", what="activations: 64K tokens x 1K x 8", printed="0.5B",
              compute=lambda: 65_536 * 1024 * 8)  # fmt: skip
    yield Row(
        paper=reformer, place="section 1", what="bytes of 0.5B float32", printed="2 GB", compute=lambda: 0.5e9 * 4
    )
    yield Row(paper=reformer, place="section 2", what="64K x 64K scores in float32", printed="16 GiB",
              compute=lambda: 65_536**2 * 4)  # fmt: skip
    music = "Huang et al. 2019"
    yield Row(paper=music, place="section 3.4.1", what="vectors for distances, L x D of 2,048 x 512 in float32", printed="4.2 MB",
              compute=lambda: 2048 * 512 * 4)  # fmt: skip
    yield Row(paper=music, place="section 3.4.1", what="the same laid out, L x L x D", printed="8.5 GB",
              compute=lambda: 2048**2 * 512 * 4, note="8.59: cut off and not rounded")  # fmt: skip
    yield Row(paper="Devlin et al. 2019", place="appendix A.2", what="tokens of a batch, 256 x 512", printed="128,000",
              compute=lambda: 256 * 512, note="131,072: the product is taken with 500")  # fmt: skip
    yield Row(paper="Devlin et al. 2019", place="appendix A.2", what="epochs: a million batches over 3.3B words", printed="40",
              compute=lambda: 1e6 * 256 * 512 / 3.3e9)  # fmt: skip
    yield Row(paper="Devlin et al. 2019", place="appendix A.1", what="tokens replaced at random, 15 % x 10 %", printed="1.5 %",
              compute=lambda: 0.15 * 0.1)  # fmt: skip
    yield Row(paper="Raffel et al. 2020", place="section 3.1.2", what="tokens of pre-training: 2^19 steps of 2^16", printed="34B",
              compute=lambda: 2.0**19 * 2**16)  # fmt: skip
    yield Row(paper="Raffel et al. 2020", place="section 3.7", what="tokens of 1M steps of 2^11 x 512", printed="1.0e12",
              compute=lambda: 1e6 * 2**11 * 512)  # fmt: skip
    yield Row(paper="Radford et al. 2018", place="released vocabulary", what="40,000 merges and their 478 symbols",
              printed="40,478", compute=lambda: PUBLISHED["gpt"].config.vocabulary)  # fmt: skip
    yield Row(paper="Radford et al. 2019", place="section 2.3", what="256 bytes, 50,000 merges, an end", printed="50,257",
              compute=lambda: 256 + 50_000 + 1)  # fmt: skip
    yield Row(
        paper="Xu et al. 2015",
        place="section 4.3",
        what="places of a 14 x 14 map",
        printed="196",
        compute=lambda: 14 * 14,
    )
    yield Row(paper="Dosovitskiy et al. 2021", place="table 5, 224 at 16", what="patches", printed="196",
              compute=lambda: (224 // 16) ** 2)  # fmt: skip
    yield Row(paper="Caliskan et al. 2017", place="methods", what="divisions of 8 + 8 words in two", printed="12,870",
              compute=lambda: math.comb(16, 8))  # fmt: skip


def _growth() -> Iterator[Row]:
    vaswani = "Vaswani et al. 2017"

    def exponent(part: str, axis: str) -> float:
        """By how much operations grow when the length, or the width, is doubled."""

        def operations(length: int, width: int) -> float:
            config = BertConfig(vocabulary=100, width=width, heads=4, feedforward_width=4 * width, layers=2)
            shape = Shape(rows=1, length=length)
            return count_operations(outline(config), (shape,)).parts[part]

        wide, long = (2, 1) if axis == "width" else (1, 2)
        return math.log2(operations(512 * long, 256 * wide) / operations(512, 256))

    for what, part, axis, printed in (
        ("exponent of the length n in n^2 d, self-attention", "attention weights", "length", "2"),
        ("exponent of the width d in n^2 d, self-attention", "attention weights", "width", "1"),
    ):
        yield Row(
            paper=vaswani, place="table 1", what=what, printed=printed, compute=lambda p=part, a=axis: exponent(p, a)
        )
    yield Row(paper=vaswani, place="table 1", what="exponent of d in n d^2, what every layer multiplies", printed="2",
              compute=lambda: exponent("feed-forward nets", "width"))  # fmt: skip
    yield Row(paper=vaswani, place="section 3.5", what="longest wavelength over 2 pi, width 512", printed="10,000",
              compute=lambda: 10_000 ** (510 / 512),
              note="9,646.6: the last exponent is 510 / 512, so 10,000 is never reached")  # fmt: skip


def _definitions() -> Iterator[Row]:
    """What follows from an equation alone, at values that are easy to check by hand."""
    own = "by hand"
    yield Row(paper="perplexity", place=own, what="of 50,257 tokens that are equally probable", printed="50,257",
              compute=lambda: float(F.cross_entropy(torch.zeros(1, 50_257).double(), torch.tensor([0])).exp()))  # fmt: skip
    yield Row(
        paper="perplexity", place=own, what="of 3 bits a token", printed="8", compute=lambda: math.exp(3 * math.log(2))
    )
    yield Row(paper="Papineni et al. 2002, section 2.3", place=own, what="brevity penalty at half the length, exp(1 - r / c)",
              printed="0.368", compute=lambda: math.exp(1 - 2 / 1))  # fmt: skip
    yield Row(paper="Caliskan et al. 2017, effect size", place=own, what="its bound, by a deviation over n", printed="2",
              compute=lambda: effect_of_opposites(pstdev))  # fmt: skip
    yield Row(paper="Caliskan et al. 2017, effect size", place=own, what="its bound with 8 + 8 words, over n - 1",
              printed="1.936", compute=lambda: effect_of_opposites(stdev))  # fmt: skip
    yield Row(paper="Kitaev et al. 2020, section 2", place=own, what="two buckets, vectors 60 degrees apart: in the same with",
              printed="0.667", compute=lambda: same_bucket(60))  # fmt: skip
    yield Row(paper="Kitaev et al. 2020, section 2", place=own, what="the same in at least one of 4 rounds", printed="0.988",
              compute=lambda: 1 - (1 - same_bucket(60)) ** 4)  # fmt: skip


def effect_of_opposites(deviation: Callable[[list[float]], float]) -> float:
    """Of 8 words whose association is 1 and 8 whose is -1, further apart than which none can be."""
    targets = [1.0] * 8 + [-1.0] * 8
    return (sum(targets[:8]) - sum(targets[8:])) / 8 / deviation(targets)


def same_bucket(degrees: float) -> float:
    """How often h(x) = argmax([x R; -x R]) with one column R puts two vectors into one bucket, over all directions of R."""
    turns = torch.linspace(0, 2 * math.pi, 720_001, dtype=torch.float64)[:-1]
    first, second = torch.cos(turns), torch.cos(turns - math.radians(degrees))
    return float(((first > 0) == (second > 0)).double().mean())


def _scores() -> Iterator[Row]:
    bert = "Devlin et al. 2019"
    for model, printed, scores in (
        ("best before GPT", "74.0", (80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7)),
        ("GPT", "75.1", (82.1, 81.4, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0)),
        ("BERT base", "79.6", (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4)),
        ("BERT large", "82.1", (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1)),
    ):
        yield Row(paper=bert, place="table 1", what=f"average of nine columns, {model}", printed=printed,
                  compute=lambda s=scores: sum(s) / len(s))  # fmt: skip
    yield Row(paper="Sanh et al. 2019", place="table 1", what="DistilBERT keeps of BERT's 79.5, with 77.0", printed="97 %",
              compute=lambda: 77.0 / 79.5)  # fmt: skip
    for task, before, after, printed in (
        ("SQuAD", 81.1, 85.8, "24.9 %"),
        ("SNLI", 88.0, 88.7, "5.8 %"),
        ("SRL", 81.4, 84.6, "17.2 %"),
        ("coreference", 67.2, 70.4, "9.8 %"),
        ("names", 90.15, 92.22, "21 %"),
        ("SST-5", 51.4, 54.7, "6.8 %"),
    ):
        yield Row(paper="Peters et al. 2018", place="table 1", what=f"error cut, {task}: {before} to {after}", printed=printed,
                  compute=lambda b=before, a=after: (a - b) / (100 - b))  # fmt: skip
    the = ("the the the the the the the", "the cat is on the mat")
    yield Row(paper="Papineni et al. 2002", place="section 2.1", what="clipped precision of seven times `the`", printed="0.29",
              compute=lambda: clipped(*the))  # fmt: skip


def clipped(candidate: str, *references: str) -> float:
    """The modified precision of single words (Papineni et al. 2002, section 2.1)."""
    counts = Counter(candidate.split())
    most = {word: max(reference.split().count(word) for reference in references) for word in counts}
    return sum(min(count, most[word]) for word, count in counts.items()) / sum(counts.values())


def page() -> str:
    """The page."""
    found = [(title, list(each)) for title, each in rows()]
    count, noted = sum(len(each) for _, each in found), sum(bool(row.note) for _, each in found for row in each)
    lines = [
        "# Published numbers, computed again",
        "",
        "Written by `python docs/published_numbers.py`; do not edit. Numbers that papers print and that follow from their own",
        f"sizes, computed from the models and formulas of this package: {count} numbers. {count - noted} agree to the last digit",
        f"printed, {noted} are rounded further or wrong, as the note says. Models are built without numbers",
        "(`regard.planning.outline`), and `tests/docs/test_published_numbers.py` tests every row. Not every printed number was",
        "read again in the paper itself: one that agrees to the last digit is confirmed by that; look one that differs up",
        "before you quote it.",
        "",
        "What needs training or data is not here, but in [claims](claims.md) and [results](results.md).",
    ]
    for title, each in found:
        lines += [
            "",
            f"## {title}",
            "",
            "| paper | place | what | printed | computed | difference | note |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {row.paper} | {row.place} | {row.what} | {row.printed} | {row.computed} | "
            f"{'none' if row.agrees else f'{row.difference:+.1%}'} | {row.note} |"
            for row in each
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
