"""The suite `tokenizers`: training tokenizers on a text, and tokenizing it."""

from __future__ import annotations

from pathlib import Path

from regard.bench.rounds import OURS, Contest, Contestant, Options
from regard.bench.words import lines_of

KINDS = ("bpe", "bert", "byte_bpe")
SIZE, QUICK_SIZE = 8_000, 400


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; the text is written into `folder`. There is no peer: the speed itself is reported.

    Raises:
        InputError: for a text that cannot be read.
    """
    from regard.data.running_text import python_docs

    lines = python_docs("train") if options.text is None else (" ".join(line) for line in lines_of(options.text))
    text = "\n".join(lines)
    if options.quick:
        text = text[:20_000]
    place = folder / "text"
    place.write_text(text, encoding="utf-8")
    size = QUICK_SIZE if options.quick else SIZE
    job = {"text": str(place), "size": size}
    megabytes = len(text.encode()) / 1e6
    return [
        Contest(
            name=case,
            about=f"{megabytes:.1f} MB of text, {size:,} pieces, line by line",
            unit="MB/s",
            ours=tuple(
                Contestant(name=kind, library=OURS, job={**job, "kind": f"tokenizer_{case}", "tokenizer": kind})
                for kind in KINDS
            ),
            peers=(),
        )
        for case in options.cases
    ]
