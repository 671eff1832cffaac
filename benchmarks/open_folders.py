"""Open a trained model's folder with transformers and CTranslate2, translate the same sentences, and count equal tokens.

python benchmarks/open_folders.py runs/multi30k test.tsv

MODEL is a folder that `regard info` calls Marian or Pegasus, DATA any file of pairs; the first 200 sources are translated
greedily in float32. Several models are recorded side by side, each under its layout.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import regard
from measured import record
from regard.checkpoints import read_card
from regard.data.pairs import read_pairs
from regard.generation import GenerationSettings
from regard.tasks import Translator
from regard.tasks.loading import model_folder

RESULT = Path(__file__).resolve().parent.parent / "docs" / "results" / "open_folders.json"


@dataclass(frozen=True)
class Comparison:
    """Sentences on which another program wrote the very tokens that we wrote."""

    equal: int
    total: int
    first_difference: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--to", help="the language wanted, of a model of several")
    arguments = parser.parse_args()
    translator = regard.load(arguments.model)
    sources = [pair.source for pair in islice(read_pairs(str(arguments.data)), arguments.sentences)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        translator.save(folder)
        layout = read_card(folder).layout
        if "why" in layout:
            raise SystemExit(f"{arguments.model}: has Regard's own layout: {layout['why']}")
        figures = compare(translator, sources, folder, arguments.to)
    earlier = json.loads(RESULT.read_text(encoding="utf-8"))["figures"] if RESULT.is_file() else {}
    files = (translator.recipe.get("data") or {}).get("train") or "builtin data"
    trained_on = " and ".join(Path(file).name for file in ([files] if isinstance(files, str) else files))
    settings = translator.model.config
    figures |= {
        "model": f"{settings.encoder_layers}+{settings.decoder_layers} layers, width {settings.width}, {settings.norm}-norm, "
        f"{settings.target_vocabulary:,} tokens, trained on {trained_on}; {model_folder(arguments.model).name}",
    }
    record(
        RESULT,
        title="Our folders opened by transformers and CTranslate2",
        command="python benchmarks/open_folders.py MODEL DATA",
        precision="float32",
        seed=None,
        target="every one of 200 sentences has the same greedy tokens in all three, post-norm and pre-norm; AutoTokenizer gives "
        "our ids",
        figures=earlier | {layout["name"]: figures},
        note="Greedy, beam 1, sources one by one in transformers. Where two tokens are within rounding of each other, either is "
        "right.",
    )


def compare(translator: Translator, sources: list[str], folder: Path, to: str | None) -> dict[str, Any]:
    """What three programs write for the same sources."""
    import ctranslate2
    import transformers
    from ctranslate2.converters import TransformersConverter

    limit = min(translator.model.config.maximum_positions - 1, 256)
    answers = translator.translate_batch(sources, GenerationSettings(maximum_length=limit), to=to)
    task = translator.task
    ids = task.encode_sources(sources, to)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = [tokenizer(text)["input_ids"] for text in sources]
    mine = [[*row, task.source_tokenizer.end_id] for row in task.source_tokenizer.encode_batch(sources)]
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    generated = []
    padding = task.target_tokenizer.padding_id
    with torch.inference_mode():
        for row in ids:
            source = torch.tensor([[*row, task.source_tokenizer.end_id]])
            found = model.generate(source, num_beams=1, do_sample=False, max_length=limit + 1)[0].tolist()
            generated.append(task.target_tokenizer.tokens([index for index in found if index != padding]))
    converted = folder.parent / "ctranslate2"
    TransformersConverter(str(folder)).convert(str(converted), quantization="float32")
    engine = ctranslate2.Translator(str(converted), device="cpu", compute_type="float32")
    results = engine.translate_batch(
        [list(answer.source_tokens) for answer in answers],
        beam_size=1,
        max_decoding_length=limit,
        max_input_length=0,
        return_end_token=True,
        suppress_sequences=[[token] for token in task.target_tokenizer.tokens(task.tag_ids)] or None,
    )
    figures: dict[str, Any] = {
        "sentences": len(sources),
        "AutoTokenizer gives our ids": f"{sum(a == b for a, b in zip(theirs, mine, strict=True))} of {len(sources)}",
    }
    for name, written in (
        ("transformers", generated),
        ("CTranslate2", [result.hypotheses[0] for result in results]),
    ):
        found = counted([list(answer.target_tokens) for answer in answers], written)
        figures[f"{name}, same greedy tokens"] = f"{found.equal} of {found.total}"
        if found.first_difference:
            figures[f"{name}, first difference"] = found.first_difference
    versions = {"transformers": transformers.__version__, "ctranslate2": ctranslate2.__version__}
    return figures | {"versions": ", ".join(f"{name} {version}" for name, version in versions.items())}


def counted(ours: list[list[str]], theirs: list[list[str]]) -> Comparison:
    differing = [
        (number, mine, other) for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)) if mine != other
    ]
    first = ""
    if differing:
        number, mine, other = differing[0]
        first = f"sentence {number + 1}: ours {' '.join(mine)} | theirs {' '.join(other)}"
    return Comparison(equal=len(ours) - len(differing), total=len(ours), first_difference=first)


if __name__ == "__main__":
    main()
