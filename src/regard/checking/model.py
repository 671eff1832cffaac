"""Models' folders: ours, and those of transformers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checking.files import (
    Listed,
    blamed,
    found,
    found_tensors,
    json_object,
    missing,
    texts_of,
    tried,
    unexpected,
    unplaced,
)
from regard.checking.report import CheckedFile, Report
from regard.checkpoints.adapters import ADAPTER
from regard.checkpoints.elmo import published_files
from regard.checkpoints.folder import CARD, CONFIG, WEIGHTS
from regard.checkpoints.hf_format import readers as readers_of
from regard.tasks.loading import load
from regard.tasks.predictor import is_model_file

PARTS = f"{WEIGHTS}.index.json"
"""Where transformers says which of several files a tensor is in."""

THEIRS = frozenset(
    {
        "special_tokens_map.json",
        "added_tokens.json",
        "merges.txt",
        "vocab.json",
        "spiece.model",
        "sentencepiece.bpe.model",
        "source.spm",
        "target.spm",
        "image_processor_config.json",
        "processor_config.json",
        "chat_template.jinja",
        "LICENSE",
        ".gitattributes",
        PARTS,
    }
)
"""What other programs write beside a model, and read."""

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
EXCUSES = ("needs the ", "update regard")
"""What a refusal says that is about this installation and not about the folder."""


def is_model(listed: Listed) -> bool:
    """Whether a folder is a model's, or what is left of one."""
    names = {CONFIG, CARD, WEIGHTS, PARTS}
    return bool(names & {*listed.names, *listed.odd}) or published_files(listed.folder) is not None


def check_model(listed: Listed) -> Report:
    """Check a model's folder."""
    folder = listed.folder
    card = json_object(folder / CARD)
    ours = CARD in listed.names
    digests = texts_of(card.get("files"))
    files = _files(listed, card, digests, ours=ours)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        predictor, refusal = tried(lambda: load(folder))
    excused = any(word in refusal for word in EXCUSES)
    files = _with_refusal(files, refusal, folder, ours=ours and not excused)
    task = "" if predictor is None else str(predictor.task.name)
    return Report(
        folder=str(folder),
        kind="model",
        files=tuple(sorted(files, key=lambda file: file.path)),
        task=task,
        refusal=refusal,
        blamed=bool(refusal) and ours and not excused,
        readers={**({"Regard": task.replace("_", " ")} if task else {}), **_others(listed, card)},
        notes=tuple(str(each.message) for each in warned if each.category is UserWarning),
    )


def _files(listed: Listed, card: Mapping[str, Any], digests: Mapping[str, str], *, ours: bool) -> list[CheckedFile]:
    published = published_files(listed.folder)
    if published is not None:
        there = [found(listed, path.name, {}) for path in published]
        return [*there, *unexpected(listed, {path.name for path in published})]
    weights = [WEIGHTS]
    if PARTS in listed.names and WEIGHTS not in listed.names:
        weights = [PARTS, *sorted({*texts_of(json_object(listed.path(PARTS)).get("weight_map")).values()})]
    needed: dict[str, None] = dict.fromkeys([CONFIG, *weights, *([CARD] if ours else []), *sorted(digests)])
    files = []
    for name in needed:
        if name not in listed.names:
            files.append(missing(listed, name, harmless=name == "README.md"))
        elif name == WEIGHTS:
            files.append(found_tensors(listed, name, texts_of(card.get("digests"))))
        else:
            files.append(found(listed, name, digests))
    known = {
        name for name in listed.names if is_model_file(name.split("/")[0]) or (not ours and name in THEIRS)
    } - needed.keys()
    if digests:  # then all that belongs here is recorded
        known = set()
    files += [found(listed, name, digests) for name in sorted(known)]
    others = unexpected(listed, {*needed, *known})
    return [*files, *map(_pickle, others)]


def _pickle(file: CheckedFile) -> CheckedFile:
    if not file.path.endswith(PICKLES):
        return file
    return CheckedFile(path=file.path, state="unexpected", remark="a pickle, which is never read")


def _with_refusal(files: list[CheckedFile], refusal: str, folder: Path, *, ours: bool) -> list[CheckedFile]:
    """The files, with what opening the folder found out about one of them."""
    name = blamed(refusal, folder)
    if not name:
        return files
    if not (folder / name).is_file():
        if any(file.path == name for file in files):
            return files
        return [*files, CheckedFile(path=name, state="missing", remark=unplaced(refusal, folder / name))]
    if not ours:  # what Regard cannot do is no damage
        return files
    return [
        CheckedFile(path=name, state="damaged", remark=unplaced(refusal, folder / name))
        if file.path == name and file.state == "present" and file.digest == "no digest recorded"
        else file
        for file in files
    ]


def _others(listed: Listed, card: Mapping[str, Any]) -> dict[str, str]:
    """Which other programs open the folder, as far as its layout says."""
    if published_files(listed.folder) is not None:
        return {"AllenNLP": "ELMo"}
    values = json_object(listed.path(CONFIG))
    layout = card.get("layout")
    why = layout.get("why") if isinstance(layout, dict) else None
    if not values or "format_version" in values or why is not None:
        return {"only Regard": str(why or "the folder has Regard's own layout")} if values else {}
    readers = readers_of(values)
    if "modules.json" in listed.names:
        readers["sentence-transformers"] = "SentenceTransformer"
    if json_object(listed.path(f"{ADAPTER}/{CARD}")).get("layout") == "peft":
        readers["peft"] = f"PeftModel, {ADAPTER}/"
    return readers
