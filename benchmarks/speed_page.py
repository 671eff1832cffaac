"""docs/speed.md: one table of speeds, from the records that docs/results/speed.yaml names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

HEADER = """# Speed, row by row

Made by `make results` from [results/speed.yaml](results/speed.yaml); do not edit. Both sides of a row ran in turns in one run,
with two threads on two cores and nothing else on the machine. How each is measured is in [benchmarks](benchmarks.md), the command
of each in [results](results.md).

**Second day** is the ratio of the same run on a later day, "-" where there was none. **Zen 5** is the ratio of the
same run on another AMD EPYC, of family 26, whose products in bfloat16 are twice as fast, and in brackets our share of
[its limit](results/speed-limits-zen5.json). **Asked** is the ratio that was asked for before measuring; **missed**
says that it was not reached on each day, or not on Zen 5. **Of the limit** is our share of what the machine allows at
most: generating is limited by the memory, which is read whole for each token, training by matrix products at the
fastest speed that PyTorch reaches in that dtype; the memory's speed is that of PyTorch's sum over 256 MiB, which the
kernels exceed where a part of the weights stays in the cache. Both are measured on the row's own machine
(`benchmarks/speed_limits.py`); "-" where they were not, or where the row's work is not counted. The AMD EPYC has no
matrix tiles (AMX), the Intel Xeon has.

GPUs: the paths are tested on the processor; speed on a GPU is not timed. Long texts, several workers, tokenizers, the server,
recording and the studio are in [results](results.md).
"""

PEERS = {
    "joeynmt": "JoeyNMT",
    "huggingface": "`transformers`",
    "ctranslate2": "CTranslate2",
    "llamacpp": "llama.cpp",
    "sentence_transformers": "`sentence-transformers`",
    "onnxruntime": "onnxruntime",
    "openvino": "OpenVINO",
    "pytorch": "plain PyTorch",
    "timm": "timm",
    "gensim": "gensim",
    "glove": "its authors' programs",
}


def speed_page(folder: Path) -> str:
    """The page, of the records in `folder`.

    Raises:
        KeyError: where a record has no such figure.
    """
    lines = [HEADER]
    rows = missed = asked = newer = newer_missed = 0
    for section in yaml.safe_load((folder / "speed.yaml").read_text(encoding="utf-8")):
        lines += [f"## {section['title']}", ""]
        lines += [
            "| what | machine | Regard | compared with | times as fast | second day | Zen 5 | asked | of the limit |",
            "|" + "---|" * 9,
        ]
        for row in section["rows"]:
            cells, reached = _row(folder, row)
            lines.append("| " + " | ".join(cells) + " |")
            rows, asked, missed = rows + 1, asked + ("asked" in row), missed + (not reached)
            found = _other(folder, row, "zen5") if "asked" in row else []
            newer, newer_missed = newer + len(found), newer_missed + any(round(one, 2) < row["asked"] for one in found)
        lines += ["", f"What limits it: {section['limits']}", ""]
    reached = (
        f"{asked - missed} of the {asked} with a ratio asked for reach it, on Zen 5 {newer - newer_missed} of {newer}"
    )
    lines.insert(1, f"{rows} rows; {reached}.\n")
    return "\n".join(lines).rstrip() + "\n"


def _row(folder: Path, row: dict[str, Any]) -> tuple[list[str], bool]:
    """The cells of a row, and whether the ratio that was asked for is reached."""
    record = _record(folder, row["record"])
    figures = record["figures"]
    units = {name.rpartition("(")[2].rstrip(")") for name in figures if name.startswith(row["case"] + " (")}
    case = f"{row['case']} ({units.pop()})" if units else row["case"]
    ours, theirs = figures[case]["regard"], figures[case][row["peer"]]
    ratio = figures[f"{row['case']}, ours over peer"][row["peer"]]
    unit = case.rpartition("(")[2].rstrip(")") if case != row["case"] else record["note"].partition(";")[0]
    ratios = [ratio, *_other(folder, row, "second-day")]
    reached = "asked" not in row or all(round(one, 2) >= row["asked"] for one in ratios)
    wanted = "" if "asked" not in row else f"{row['asked']:g}" + ("" if reached else ", missed")
    who, _, how = row["peer"].partition(" ")
    machine = "EPYC" if "EPYC" in record["machine"]["processor"] else "Xeon"
    share = "-" if "limit" not in row else f"{100 * ours / _limit(folder, *row['limit']):.0f} %"
    what = f"[{row['case']}](results/{row['record']}.json)"
    peer = f"{PEERS[who]}{f' {how}' if how else ''}: {_number(theirs)}"
    later = f"{ratios[1]:.2f}" if ratios[1:] else "-"
    newer = "".join(f"{one:.2f}{_share_on_zen5(folder, row, case)}" for one in _other(folder, row, "zen5"))
    newer += ", missed" if any(round(one, 2) < row.get("asked", 0) for one in _other(folder, row, "zen5")) else ""
    return [what, machine, f"{_number(ours)} {unit}", peer, f"{ratio:.2f}", later, newer or "-", wanted, share], reached


def _other(folder: Path, row: dict[str, Any], run: str) -> list[float]:
    """The ratio of the record of another run, NAME-RUN.json; empty where there is none, or it lacks the row."""
    if not (folder / f"{row['record']}-{run}.json").exists():
        return []
    found = _record(folder, f"{row['record']}-{run}")["figures"].get(f"{row['case']}, ours over peer", {})
    return [found[row["peer"]]] if row["peer"] in found else []


def _share_on_zen5(folder: Path, row: dict[str, Any], case: str) -> str:
    """Our share of that machine's limit, in brackets; empty where the row's work is not counted."""
    if "limit" not in row:
        return ""
    ours = _record(folder, f"{row['record']}-zen5")["figures"][case]["regard"]
    return f" ({100 * ours / _limit(folder, 'speed-limits-zen5', *row['limit'][1:]):.0f} %)"


def _limit(folder: Path, name: str, work: str, bound: str, at_once: int = 1) -> float:
    """Units a second that the machine allows: its memory's or its products' speed over the work of a unit."""
    figures = _record(folder, name)["figures"]
    if bound == "memory":
        return at_once * figures["memory, read, GB/s"] * 1e9 / (figures[work] * 1e6)
    return figures[f"matrix products, {bound}, GFLOP/s"] / figures[work]


def _record(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
