"""The suites by name, and the function that runs one."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard import machine as root
from regard.bench import decoder, encoder, images, look, ours, recurrent, tokenizers, translation, words
from regard.bench.driver import Driver
from regard.bench.peers import PEERS
from regard.bench.rounds import (
    OURS,
    REST,
    Contest,
    Contestant,
    Options,
    Process,
    Report,
    compete,
    details_of,
    rows_of,
)
from regard.errors import InputError, nearest
from regard.machine import versions


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Cases that belong together.

    Arguments:
        about: what is measured, in a few words.
        cases: their names.
        contests: makes the contests of the chosen cases, and their files in a folder.
        shaped: the cases whose random weights may have another shape (`--shape`).
    """

    about: str
    cases: tuple[str, ...]
    contests: Callable[[Options, Path], list[Contest]]
    shaped: tuple[str, ...] = ()


SUITES: Mapping[str, Suite] = {
    "translation": Suite(
        about="training and translating with a small Transformer",
        cases=("training", "translation"),
        contests=translation.contests,
    ),
    "recurrent": Suite(
        about="training and translating with the models of Bahdanau and Luong, and training an LSTM language model",
        cases=("training", "translation", "language"),
        contests=recurrent.contests,
    ),
    "look": Suite(
        about="recording the attention of a model of BERT-base's shape, and a page that shows it",
        cases=("recording", "page"),
        contests=look.contests,
    ),
    "encoder": Suite(
        about="sentence embeddings, training BERT by masked language modelling, and fine-tuning it to classify",
        cases=("embedding", "training", "fine-tuning"),
        contests=encoder.contests,
    ),
    "decoder": Suite(
        about="generating text with a GPT-2 or a Llama, alone and in a batch, reading a long prompt, and training a GPT-2",
        cases=("alone", "batch", "prompt", "training"),
        contests=decoder.contests,
        shaped=("alone", "batch", "prompt"),
    ),
    "images": Suite(
        about="training a ViT and a captioner",
        cases=("vit", "captions"),
        contests=images.contests,
    ),
    "tokenizers": Suite(
        about="training tokenizers on a text, and tokenizing it",
        cases=("training", "reading"),
        contests=tokenizers.contests,
    ),
    "words": Suite(
        about="training word embeddings, from a text file to a file of embeddings",
        cases=("skipgram", "cbow", "glove"),
        contests=words.contests,
    ),
}
"""All suites; a new one is added here."""


def suite_of(name: str) -> Suite:
    """The suite with a name.

    Raises:
        InputError: for an unknown name; the message has the nearest one.
    """
    if name not in SUITES:
        raise InputError(f"there is no suite {name!r}; {nearest(name, list(SUITES))}")
    return SUITES[name]


def bench(
    name: str,
    options: Options,
    *,
    say: Callable[[str], None] = lambda sentence: None,
    start: Callable[[Contestant], Process] | None = None,
    rest: float = REST,
) -> Report:
    """Run a suite.

    Arguments:
        name: in `SUITES`.
        options: what to measure, with which data, and how often.
        say: called with sentences for the user during the run.
        start: starts the process of a contestant; None for `Driver`.
        rest: seconds between two turns.

    Raises:
        InputError: for an unknown suite or case, and for pairs, a model or an interpreter that cannot be used.
    """
    suite = suite_of(name)
    for case in options.cases:
        if case not in suite.cases:
            raise InputError(f"{name} has no case {case!r}; {nearest(case, list(suite.cases))}")
        if options.shape is not None and suite.shaped and case not in suite.shaped:
            raise InputError(
                f"--shape does not apply to the case {case}; leave it out, or give --cases {','.join(suite.shaped)}"
            )
    if options.shape is not None and not suite.shaped:
        shaped = [other for other, found in SUITES.items() if found.shaped]
        raise InputError(f"--shape applies to the suite {' and '.join(shaped)}, not to {name}; leave it out")

    def own_process(contestant: Contestant) -> Process:
        file = ours.HERE if contestant.library == OURS else PEERS[contestant.library]
        return Driver(file, threads=options.threads, python=options.interpreters.get(contestant.library))

    rows, details, failed = [], {}, {}
    absent: set[str] = set()
    found_versions = versions()
    with tempfile.TemporaryDirectory(prefix="regard-bench-") as folder:
        for contest in suite.contests(options, Path(folder)):
            tally = compete(contest, start or own_process, rounds=options.rounds, say=say, rest=rest)
            rows += rows_of(contest, tally)
            absent |= tally.absent
            where = f"{contest.name}, {' and '.join(contestant.name for contestant in contest.ours)}"
            details[where] = details_of(contest, tally)
            failed |= {f"{contest.name}, {label}": sentence for label, sentence in tally.failed.items()}
            for library, parts in tally.versions.items():
                found_versions[library] = ", ".join(f"{part} {version}" for part, version in parts.items())
    return Report(
        suite=name,
        machine=machine(),
        versions=found_versions,
        threads=options.threads,
        rows=tuple(rows),
        absent=tuple(peer for peer in options.peers if peer in absent),
        failed=failed,
        details={"options": _plain(options), "contests": details},
    )


def _plain(options: Options) -> dict[str, object]:
    values = asdict(options)
    values["pairs"] = "builtin" if options.pairs is None else len(options.pairs)
    values["text"] = None if options.text is None else options.text.name
    values["similarity"] = [file.name for file in options.similarity]
    values["model"] = None if options.model is None else str(options.model)
    return values


def machine() -> dict[str, Any]:
    """Processor, cores and memory of this machine, its GPU, and whether it computes natively in bfloat16."""
    import torch

    from regard.training.precision import native_bfloat16

    return root.machine() | {
        "memory_gb": _memory(),
        "system": platform.platform(),
        "native_bfloat16": native_bfloat16(torch.device("cpu")),
    }


def _memory() -> float | None:
    there = root.memory()
    return None if there is None else round(there / 2**30, 1)
