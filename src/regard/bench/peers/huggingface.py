"""Hugging Face transformers: `generate` on the exported folder with default settings; BERT's forward pass, and training.

Needs transformers and torch, but not Regard.
"""

from __future__ import annotations

import time
from typing import Any

from .shared import Installed, Updates, keep_freed_memory, random_bert


class _Installed(Installed):
    needs = ("transformers", "torch")
    by_torch = True


class Translation(_Installed):
    """Beam search by `generate`; all settings but the beam and the maximum length are its defaults."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in a precision."""
        import torch
        from transformers import AutoModelForSeq2SeqLM

        model = AutoModelForSeq2SeqLM.from_pretrained(job["folder"], local_files_only=True)
        self._model = model.to(getattr(torch, job["precision"])).eval()
        # The bias of the logits already excludes padding; excluding it once more would cost time in each step.
        model.generation_config.bad_words_ids = None  # type: ignore[union-attr]
        self._job = job
        padding, end = model.config.pad_token_id, job["end_id"]
        self._batches = []
        for rows in job["batches"]:
            longest = max(map(len, rows)) + 1
            ids = [[*row, end] + [padding] * (longest - 1 - len(row)) for row in rows]
            mask = [[1] * (len(row) + 1) + [0] * (longest - 1 - len(row)) for row in rows]
            self._batches.append((torch.tensor(ids), torch.tensor(mask)))
        # End-of-sequence, padding and start tokens are no words of an answer.
        self._marks = {end, padding, model.config.decoder_start_token_id}
        return {"note": f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters"}

    def run(self) -> dict[str, Any]:
        """Translate every batch once; the amount is in tokens of the best answers, without end-of-sequence and padding."""
        import torch

        job, found = self._job, []
        began = time.perf_counter()
        with torch.inference_mode():
            for (ids, mask), length in zip(self._batches, job["lengths"]):  # noqa: B905  # any interpreter's Python
                forced = {"min_new_tokens": length, "max_new_tokens": length}
                limits = forced if length else {"max_new_tokens": ids.shape[1] + job["extra"]}
                written = self._model.generate(
                    ids, attention_mask=mask, num_beams=job["beam"], do_sample=False, **limits
                )
                found.append(written)
        seconds = time.perf_counter() - began
        answers = [[index for index in row if index not in self._marks] for rows in found for row in rows.tolist()]
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


class Decoding(_Installed):
    """Greedy decoding by `generate`; all settings but the number of tokens are its defaults."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in a precision."""
        import torch
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_pretrained(job["folder"], local_files_only=True)
        self._model = model.to(getattr(torch, job["precision"])).eval()
        self._ids, self._job = torch.tensor(job["prompts"]), job
        keep_freed_memory()
        return {"note": f"{type(model).__name__}, attention {model.config._attn_implementation}"}

    def run(self) -> dict[str, Any]:
        """Read the prompts and generate; the amount is in generated tokens."""
        import torch

        count = self._job["tokens"]
        began = time.perf_counter()
        with torch.inference_mode():
            written = self._model.generate(
                self._ids,
                attention_mask=torch.ones_like(self._ids),
                do_sample=False,
                min_new_tokens=count,
                max_new_tokens=count,
                pad_token_id=self._job["end_id"],
            )
        seconds = time.perf_counter() - began
        answers = written[:, self._ids.shape[1] :].tolist()
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


class _Training(Updates):
    needs = ("transformers", "torch")

    def _note(self, job: dict[str, Any]) -> dict[str, str]:
        return {"note": f"{self._begin(job)}, attention {self._model.config._attn_implementation}"}


class CausalTraining(_Training):
    """Updates of `GPT2LMHeadModel`, which computes the loss itself."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimizer that its trainer uses by default."""
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        names = {
            "vocabulary": "vocab_size",
            "width": "n_embd",
            "heads": "n_head",
            "feedforward_width": "n_inner",
            "layers": "n_layer",
            "maximum_positions": "n_positions",
        }
        sizes = {names[name]: value for name, value in job["model"].items() if name in names}
        rate, last = job["dropout"], job["model"]["vocabulary"] - 1
        config = GPT2Config(
            **sizes, embd_pdrop=rate, resid_pdrop=rate, attn_pdrop=rate, bos_token_id=last, eos_token_id=last
        )
        self._model = GPT2LMHeadModel(config).train()
        self._batches = [torch.tensor(ids) for ids in job["batches"]]
        return self._note(job)

    def _loss(self, batch: Any) -> tuple[Any, int]:
        # One token fewer than ours is predicted, because the labels are shifted inside.
        read = batch[:, :-1].contiguous()
        return self._model(input_ids=read, labels=read).loss, read.numel()


class Recording(_Installed):
    """BERT's forward pass: without recording, or with all weights from eager attention."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and sample a text."""
        self._model, self._ids = random_bert(job)
        self._model.set_attn_implementation(job["way"])
        self._job = job
        keep_freed_memory()
        return {"note": f"{type(self._model).__name__}, attention {job['way']}"}

    def run(self) -> dict[str, Any]:
        """Run a few passes; the amount is in tokens."""
        import torch

        job, output = self._job, None
        began = 0.0
        for number in range(1 + job["passes"]):
            if number == 1:  # the first pass brings memory back that was swapped out while the process waited
                began = time.perf_counter()
            output = None  # free the weights before the next pass
            with torch.no_grad():
                output = self._model(self._ids, output_attentions=job["way"] == "eager")
        seconds = time.perf_counter() - began
        if output is None or (job["way"] == "eager" and len(output.attentions) != job["model"]["num_hidden_layers"]):
            raise RuntimeError("the model returned no weights")
        return {"amount": job["passes"] * job["batch"] * job["tokens"], "seconds": seconds}


class _BertTraining(_Training):
    """Updates of a BERT, which computes the loss itself."""

    def _build(self, job: dict[str, Any], kind: str) -> dict[str, str]:
        import transformers

        shape = job["model"]
        config = transformers.BertConfig(
            vocab_size=shape["vocabulary"],
            hidden_size=shape["width"],
            num_attention_heads=shape["heads"],
            intermediate_size=shape["feedforward_width"],
            num_hidden_layers=shape["layers"],
        )
        self._model = getattr(transformers, kind)(config).train()
        self._batches = []
        return self._note(job)

    def _loss(self, batch: Any) -> tuple[Any, int]:
        return self._model(**batch).loss, int(batch["attention_mask"].sum())


class MaskedTraining(_BertTraining):
    """Updates of `BertForMaskedLM`."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimizer that its trainer uses by default."""
        import torch

        note = self._build(job, "BertForMaskedLM")
        for batch in job["batches"]:
            ids, places = torch.tensor(batch["ids"]), torch.tensor(batch["places"])
            labels = torch.full_like(ids, -100)
            labels.view(-1)[places] = torch.tensor(batch["labels"])
            ids.view(-1)[places] = job["mask"]
            self._batches.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels})
        return note


class FineTuning(_BertTraining):
    """Updates of `BertForSequenceClassification`, each batch padded to its longest text, as in its data collator."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimizer that its trainer uses by default."""
        import torch

        note = self._build(job, "BertForSequenceClassification")
        for batch in job["batches"]:
            longest = max(map(len, batch["texts"]))
            ids = torch.tensor([row + [0] * (longest - len(row)) for row in batch["texts"]])
            mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch["texts"]])
            self._batches.append({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(batch["labels"])})
        return note


KINDS = {
    "translation": Translation,
    "decoding": Decoding,
    "causal_training": CausalTraining,
    "recording": Recording,
    "masked_training": MaskedTraining,
    "fine_tuning": FineTuning,
}
