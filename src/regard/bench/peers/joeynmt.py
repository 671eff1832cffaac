"""JoeyNMT: training a Transformer, or a recurrent model with attention, of the same sizes on the same batches; and beam search.

Needs joeynmt 2.3, but not Regard. The steps of an update are those of its `TrainManager`, built from the same public parts:
`Batch`, sorting by source length, the loss under autocast, its gradient clipper and its optimizer.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from .shared import Installed


class _Model(Installed):
    """A model of the given sizes."""

    needs = ("joeynmt", "torch")
    by_torch = True

    def _build(self, job: dict[str, Any]) -> dict[str, str]:
        import torch
        from joeynmt.model import build_model  # pyright: ignore[reportMissingImports]
        from joeynmt.vocabulary import Vocabulary  # pyright: ignore[reportMissingImports]

        shape, size = job["shape"], job["shape"]["vocabulary"]
        special = SimpleNamespace(
            unk_token="<unk>",
            pad_token="<pad>",
            bos_token="<s>",
            eos_token="</s>",
            sep_token=None,
            unk_id=0,
            pad_id=1,
            bos_id=2,
            eos_id=3,
            sep_id=None,
            lang_tags=[],
        )
        vocabulary = Vocabulary([f"piece{number}" for number in range(size - 4)], special)  # type: ignore[arg-type]
        config = _recurrent(shape) if shape["type"] == "recurrent" else _transformer(shape)
        self._model = build_model(config, vocabulary, vocabulary)
        # Its settings disable half precision on a CPU; its training and search functions accept any autocast.
        low = job["precision"] == "bfloat16"
        self._autocast = {"device_type": "cpu", "dtype": torch.bfloat16 if low else None, "enabled": low}
        count = sum(parameter.numel() for parameter in self._model.parameters())
        return {"note": f"{count:,} parameters"}


class Training(_Model):
    """Forward pass, backward pass and update; batches are padded in advance, which favours JoeyNMT."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the batches."""
        from joeynmt.builders import build_gradient_clipper, build_optimizer  # pyright: ignore[reportMissingImports]

        note, size = self._build(job), job["shape"]["vocabulary"]
        self._model.loss_function = ("crossentropy", job["label_smoothing"])
        self._optimizer = build_optimizer(
            {"optimizer": "adam", "learning_rate": job["learning_rate"], "adam_betas": tuple(job["betas"])},
            self._model.parameters(),  # type: ignore[arg-type]
        )
        self._clip = build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": job["clip_norm"]})
        self._batches = [_padded(pair, size) for pair in job["batches"]]
        self._updates, self._next = job["updates"], 0
        return note

    def run(self) -> dict[str, Any]:
        """Run `updates` updates; the amount is in target tokens, including end-of-sequence tokens."""
        tokens, began = 0, time.perf_counter()
        for _ in range(self._updates):
            tokens += self._update(self._batches[self._next % len(self._batches)])
            self._next += 1
        return {"amount": tokens, "seconds": time.perf_counter() - began}

    def _update(self, padded: dict[str, Any]) -> int:
        import torch
        from joeynmt.batch import Batch  # pyright: ignore[reportMissingImports]

        self._model.train()
        batch = Batch(
            **padded, src_prompt_mask=None, trg_prompt_mask=None, device=torch.device("cpu"), pad_index=1, eos_index=3
        )
        batch.sort_by_src_length()
        with torch.autocast(**self._autocast):
            total, _, _, correct = self._model(return_type="loss", **vars(batch))
        loss = batch.normalize(total, normalization="tokens")
        loss.backward()
        _ = loss.item(), correct.item()
        if self._clip is not None:
            self._clip(parameters=self._model.parameters())
        self._optimizer.step()
        self._model.zero_grad()
        return int(batch.ntokens)  # type: ignore[arg-type]


class Translation(_Model):
    """Beam search with random weights; all settings but the beam and the length are its defaults."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the batches."""
        note, size = self._build(job), job["shape"]["vocabulary"]
        self._model.eval()
        self._batches = [_padded([rows, rows], size) for rows in job["batches"]]
        self._job = job
        return note

    def run(self) -> dict[str, Any]:
        """Translate every batch once; the amount is in tokens of the best answers, whose length is fixed."""
        import torch
        from joeynmt.batch import Batch  # pyright: ignore[reportMissingImports]
        from joeynmt.search import search  # pyright: ignore[reportMissingImports]

        job, amount = self._job, 0
        began = time.perf_counter()
        for padded, length in zip(self._batches, job["lengths"]):  # noqa: B905  # any interpreter's Python
            given = padded | {"trg": None, "src_prompt_mask": None, "trg_prompt_mask": None}
            batch = Batch(**given, device=torch.device("cpu"), pad_index=1, eos_index=3, is_train=False)
            batch.sort_by_src_length()
            written, _, _ = search(
                self._model,
                batch,
                max_output_length=length,
                beam_size=job["beam"],
                beam_alpha=1.0,
                min_output_length=length,
                autocast=self._autocast,
            )
            amount += int((written > 3).sum())  # without end and padding
        return {"amount": amount, "seconds": time.perf_counter() - began}


def _recurrent(shape: dict[str, Any]) -> dict[str, Any]:
    """A JoeyNMT model section: a bidirectional encoder whose output is as wide as Regard's, input feeding, nothing tied.

    Its encoder is always bidirectional. To match a unidirectional LSTM of Regard's, each of its directions is half as wide.
    """
    embeddings = {"embedding_dim": shape["embedding"], "scale": False, "dropout": shape["dropout"]}
    both = {"type": "recurrent", "rnn_type": shape["rnn_type"], "num_layers": shape["layers"], "embeddings": embeddings}
    both["dropout"] = shape["dropout"]
    width = shape["hidden"]
    halved = width // 2 if shape["rnn_type"] == "lstm" else width
    return {
        "tied_embeddings": False,
        "tied_softmax": False,
        "encoder": {**both, "hidden_size": halved, "bidirectional": True},
        "decoder": {
            **both,
            "hidden_size": width,
            "attention": shape["attention"],
            "hidden_dropout": shape["dropout"],
            "init_hidden": "bridge",
            "input_feeding": True,
        },
    }


def _transformer(shape: dict[str, Any]) -> dict[str, Any]:
    """A JoeyNMT model section: pre- or post-norm, scaled embeddings, everything tied."""

    def side(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": shape["heads"],
            "embeddings": {"embedding_dim": shape["width"], "scale": True, "dropout": shape["dropout"]},
            "hidden_size": shape["width"],
            "ff_size": shape["feedforward_width"],
            "dropout": shape["dropout"],
            "layer_norm": shape["norm"],
        }

    return {
        "tied_embeddings": True,
        "tied_softmax": True,
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "encoder": side(shape["encoder_layers"]),
        "decoder": side(shape["decoder_layers"]),
    }


def _padded(pair: list[list[list[int]]], size: int) -> dict[str, Any]:
    """A batch as from JoeyNMT's data loader. JoeyNMT has four special tokens of its own, so ids are shifted behind them."""
    import torch

    def moved(ids: list[int]) -> list[int]:
        return [4 + index % (size - 4) for index in ids]

    def stacked(rows: list[list[int]]) -> torch.Tensor:
        longest = max(map(len, rows))
        return torch.tensor([row + [1] * (longest - len(row)) for row in rows])

    sources = [[*moved(ids), 3] for ids in pair[0]]
    targets = [[2, *moved(ids), 3] for ids in pair[1]]
    return {
        "src": stacked(sources),
        "src_length": torch.tensor([len(row) for row in sources]),
        "trg": stacked(targets),
        "indices": torch.arange(len(sources)),
    }


KINDS = {"training": Training, "translation": Translation}
