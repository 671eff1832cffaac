"""CTranslate2 on the exported folder.

Needs ctranslate2, and transformers for its converter, but not Regard.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .shared import Installed


class _OnProcessor(Installed):
    """The common part of all jobs."""

    needs = ("ctranslate2", "transformers", "torch")

    def _converted(self, job: dict[str, Any], model: type, converter: Callable[[], Any]) -> Any:
        """The converted model in a precision; None, with the reason in `_left_out`, where this build does not support it here."""
        import ctranslate2  # pyright: ignore[reportMissingImports]

        offered = sorted(ctranslate2.get_supported_compute_types("cpu"))
        if job["precision"] not in offered:
            self._left_out = f"this build offers {', '.join(offered)} here, not {job['precision']}"
            return None
        with tempfile.TemporaryDirectory() as place:
            converted = str(Path(place) / "converted")
            converter().convert(converted)
            return model(
                converted, device="cpu", compute_type=job["precision"], inter_threads=1, intra_threads=job["threads"]
            )


class Translation(_OnProcessor):
    """Beam search by CTranslate2; all settings but the beam and the maximum length are its defaults."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Convert the folder and load it in a precision, where this build supports it on this processor."""
        import ctranslate2  # pyright: ignore[reportMissingImports]
        from ctranslate2.converters import TransformersConverter  # pyright: ignore[reportMissingImports]

        self._translator = self._converted(job, ctranslate2.Translator, lambda: TransformersConverter(job["folder"]))
        if self._translator is None:
            return {"left_out": self._left_out}
        self._job = job
        end = job["pieces"][job["end_id"]]
        self._batches = [[[job["pieces"][index] for index in row] + [end] for row in rows] for rows in job["batches"]]
        self._ids = {piece: index for index, piece in enumerate(job["pieces"])}
        return {"note": f"computes in {self._translator.compute_type}"}

    def run(self) -> dict[str, Any]:
        """Translate every batch once; the amount is in tokens of the best answers, without end-of-sequence tokens."""
        job, found = self._job, []
        began = time.perf_counter()
        for batch, length in zip(self._batches, job["lengths"]):  # noqa: B905  # any interpreter's Python
            longest = length or max(map(len, batch)) + job["extra"]
            found += self._translator.translate_batch(
                batch, beam_size=job["beam"], min_decoding_length=length or 1, max_decoding_length=longest
            )
        seconds = time.perf_counter() - began
        answers = [[self._ids.get(piece, -1) for piece in answer.hypotheses[0]] for answer in found]
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


class Decoding(_OnProcessor):
    """Greedy decoding by CTranslate2's generator."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Convert the folder and load it in a precision, where this build supports it on this processor."""
        import ctranslate2  # pyright: ignore[reportMissingImports]

        pieces = [f"t{index}" for index in range(job["vocabulary"] - 1)] + ["<|endoftext|>"]
        self._generator = self._converted(job, ctranslate2.Generator, lambda: _converter(job["folder"], pieces))
        if self._generator is None:
            return {"left_out": self._left_out}
        self._job = job
        self._prompts = [[pieces[index] for index in row] for row in job["prompts"]]
        return {"note": f"computes in {self._generator.compute_type}"}

    def run(self) -> dict[str, Any]:
        """Read the prompts and generate; the amount is in generated tokens."""
        count = self._job["tokens"]
        began = time.perf_counter()
        found = self._generator.generate_batch(
            self._prompts,
            beam_size=1,
            sampling_topk=1,
            min_length=count,
            max_length=count,
            include_prompt_in_result=False,
        )
        seconds = time.perf_counter() - began
        answers = [list(answer.sequences_ids[0]) for answer in found]
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


def _converter(folder: str, pieces: list[str]) -> Any:
    """CTranslate2's own converter; the folder has no tokenizer, so its tokens are passed."""
    from ctranslate2.converters import TransformersConverter  # pyright: ignore[reportMissingImports]

    class Pieces:
        bos_token = eos_token = unk_token = pieces[-1]

        def get_vocab(self) -> dict[str, int]:
            return {piece: index for index, piece in enumerate(pieces)}

    class Converter(TransformersConverter):
        def load_tokenizer(self, *given: Any, **named: Any) -> Any:
            return Pieces()

    return Converter(folder)


KINDS = {"translation": Translation, "decoding": Decoding}
