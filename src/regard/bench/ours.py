"""Regard's driver, which runs in a separate process like those of the peers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.bench.peers.shared import Updates, cosines, random_bert
from regard.machine import keep_freed_memory
from regard.tasks.losses import projected_cross_entropy, smoothed_cross_entropy
from regard.training.callbacks import Callback

HERE = Path(__file__).resolve()


class _Ours:
    """The common part of all jobs."""

    def available(self) -> bool:
        """Always True."""
        return True

    def versions(self) -> dict[str, str]:
        """None of its own: the report has Regard's version."""
        return {}


class _Updates(_Ours, Updates):
    """Updates of a model; `_loss` gives the mean loss of a batch, and how many tokens or images were read."""

    def _note(self, job: dict[str, Any]) -> dict[str, str]:
        return {"note": f"{self._begin(job)}, {job['precision']}"}


class _Continuing(_Updates):
    """Updates of a language model: each token of (batches, texts, L + 1) but the first is predicted."""

    def _continue(self, job: dict[str, Any]) -> dict[str, str]:
        import torch

        from regard.layers import Tokens

        self._batches = []
        for ids in torch.tensor(job["batches"]):
            read = ids[:, :-1].contiguous()
            whole = read >= 0
            self._batches.append((Tokens(read, whole, "nowhere"), ids[:, 1:].contiguous()))
        return self._note(job)

    def _loss(self, batch: Any) -> tuple[Tensor, int]:
        texts, labels = batch
        total, _ = self._model(texts, reduce=projected_cross_entropy(labels))
        return total / labels.numel(), labels.numel()


def _parameters(model: nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters"


class Training(_Ours):
    """Updates by the training loop itself, including the token store and padding."""

    by_torch = True

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model, the optimiser and the loop."""
        import torch

        from regard.data.token_store import TokenStore
        from regard.models import MODELS
        from regard.tasks.loading import load
        from regard.training.checkpoint import Progress
        from regard.training.loop import Loop
        from regard.training.optimizers import build_optimizer
        from regard.training.precision import resolve
        from regard.training.settings import TrainingSettings
        from regard.training.workers import Workers

        keep_freed_memory()  # as the command line does
        translator = load(job["folder"])
        config = dataclasses.replace(translator.model.config, **job["changes"])
        model = MODELS[config.model_type].model(config).train()
        settings = TrainingSettings(
            steps=job["updates"],
            batch_tokens=job["batch_tokens"],
            optimizer="adam",
            learning_rate=job["learning_rate"],
            betas=tuple(job["betas"]),
            label_smoothing=job["label_smoothing"],
            clip_norm=job["clip_norm"],
            precision=job["precision"],
            device="cpu",
        )
        self._clock = _Clock()
        self._loop = Loop(
            task=translator.task,
            model=model,
            wrapped=model,
            optimizer=build_optimizer(model, settings),
            settings=settings,
            seed=job["seed"],
            data=TokenStore.open(job["store"]),
            workers=Workers(0, 1, torch.device("cpu")),
            dtype=resolve(settings.precision, torch.device("cpu"))[0],
            progress=Progress(),
            log=None,
            callbacks=[self._clock],
            evaluate=lambda: {"loss": 0.0},
            save=lambda: None,
        )
        self._updates = job["updates"]
        return {"note": _parameters(model)}

    def run(self) -> dict[str, Any]:
        """Run `updates` more updates; the amount is in target tokens, including end-of-sequence tokens."""
        loop = self._loop
        before = loop.progress.tokens
        loop.settings = dataclasses.replace(loop.settings, steps=loop.progress.step + self._updates)
        loop.run()
        return {"amount": loop.progress.tokens - before, "seconds": self._clock.seconds}


class _Clock(Callback):
    """The time from the start of training to the last update, without the work of the loop after that."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def started(self, model: nn.Module, progress: Any, total_steps: int | None) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def stepped(self, progress: Any, tokens_per_second: float) -> None:
        """Read the clock after an update."""
        self.seconds = time.perf_counter() - self._began

    def logged(self, event: Mapping[str, Any]) -> None:
        """Do nothing."""

    def ended(self, progress: Any) -> None:
        """Do nothing."""


class Translation(_Ours):
    """Beam search as `Translator` calls it, from token ids to token ids."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in a precision; left out where the precision is no faster."""
        from regard.generation import GenerationSettings
        from regard.tasks.loading import load_for_inference

        keep_freed_memory()  # as the command line does
        self._translator = load_for_inference(job["folder"], dtype=job["precision"])
        slow = getattr(self._translator.model, "slow", "")
        if slow:
            return {"left_out": slow}
        task = self._translator.task
        own = {"beam": job["beam"], "length_penalty": 1.0, "early_stopping": job["beam"], "maximum_extra": job["extra"]}
        self._batches = [
            (
                task.read(rows),
                GenerationSettings(**own, minimum_length=length, maximum_length=length)
                if length
                else GenerationSettings(**own),
            )
            for rows, length in zip(job["batches"], job["lengths"], strict=True)
        ]
        return {"note": f"{type(self._translator.model).__name__} in {job['precision']}"}

    def run(self) -> dict[str, Any]:
        """Translate every batch once; the amount is in tokens of the best answers, without end-of-sequence tokens."""
        from regard.generation import search

        answers = []
        began = time.perf_counter()
        for source, settings in self._batches:
            answers += [best[0].tokens for best in search(self._translator.model, source, settings)]
        seconds = time.perf_counter() - began
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": [list(row) for row in answers]}


# The suite `decoder`.


class Decoding(_Ours):
    """Greedy decoding with a language model, from token ids to token ids."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder in a precision."""
        import torch

        from regard.checkpoints import read_model
        from regard.layers import Tokens
        from regard.quantization import BITS, InferenceDecoder, unsupported_decoder

        keep_freed_memory()  # as the command line does
        model, precision = read_model(job["folder"]).eval(), job["precision"]
        rounded = precision in BITS
        prepared = InferenceDecoder(model, precision) if rounded or not unsupported_decoder(model) else None  # type: ignore[arg-type]
        if rounded and prepared is not None and prepared.slow:
            return {"left_out": prepared.slow}
        if rounded or (prepared is not None and prepared.kernel is not None):
            model = prepared
        else:
            model = model.to(getattr(torch, precision))
        self._model, self._job = model, job
        self._source = Tokens.pad(job["prompts"], padding_id=job["end_id"], side="left")
        return {"note": f"{type(model).__name__} in {precision}"}

    def run(self) -> dict[str, Any]:
        """Read the prompts and generate; the amount is in generated tokens."""
        from regard.generation import Continuation, FixedLength, generate

        count = self._job["tokens"]
        began = time.perf_counter()
        found = generate(
            Continuation(self._model),  # type: ignore[arg-type]
            self._source,
            limit=FixedLength(count),
            minimum_length=count,
        )
        seconds = time.perf_counter() - began
        answers = [list(hypothesis.tokens) for hypothesis in found]
        return {"amount": sum(map(len, answers)), "seconds": seconds, "answers": answers}


class CausalTraining(_Continuing):
    """Updates of a GPT-2 as in the task and the training loop."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        from regard.models import GPT2, GPT2Config

        keep_freed_memory()
        sizes, rate = job["model"], job["dropout"]
        own = {"dropout": rate, "embedding_dropout": rate, "attention_dropout": rate}
        ends = {"padding_id": sizes["vocabulary"] - 1, "end_id": sizes["vocabulary"] - 1}
        self._model = GPT2(GPT2Config(**ends | sizes | own)).train()
        return self._continue(job)


# The suite `recurrent`; its translators use the drivers of `translation`.


class LSTMTraining(_Continuing):
    """Updates of an LSTM language model as in the task and the training loop."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        from regard.models import LSTMLanguageModel, LSTMLanguageModelConfig

        keep_freed_memory()  # as the command line does
        self._model = LSTMLanguageModel(LSTMLanguageModelConfig(**job["model"])).train()
        return self._continue(job)


# The suite `encoder`.


class Embedding(_Ours):
    """Sentence embeddings by `SentenceEncoder.embed`, from strings to an array."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Load the folder; the first turn packs the model."""
        import numpy as np

        from regard.tasks.loading import load
        from regard.training.precision import better_precision

        keep_freed_memory()  # as the command line does
        self._encoder = load(job["folder"], task="sentence_embedding")
        better = better_precision(job["precision"], self._encoder.device)
        if better:
            return {"left_out": better}
        self._job = job
        self._reference = np.load(job["vectors"], allow_pickle=False)
        return {"note": f"{type(self._encoder.model).__name__} in {job['precision']}"}

    def run(self) -> dict[str, Any]:
        """Embed all sentences once; the amount is in sentences."""
        began = time.perf_counter()
        vectors = self._encoder.embed(self._job["sentences"], precision=self._job["precision"])
        seconds = time.perf_counter() - began
        return {"amount": len(vectors), "seconds": seconds, "measures": cosines(vectors, self._reference)}


class MaskedTraining(_Updates):
    """Updates of a BERT by masked language modelling: logits at masked positions only, and the loss in blocks."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        import torch

        from regard.layers import Tokens
        from regard.models import Bert, BertConfig

        keep_freed_memory()  # as the command line does
        self._model = Bert(BertConfig(**job["model"], head="masked")).train()
        self._batches = []
        for batch in job["batches"]:
            ids, places = torch.tensor(batch["ids"]), torch.tensor(batch["places"])
            labels = torch.tensor(batch["labels"])
            ids.view(-1)[places] = job["mask"]
            self._batches.append((Tokens(ids, torch.ones_like(ids, dtype=torch.bool)), places, labels))
        return self._note(job)

    def _loss(self, batch: Any) -> tuple[Tensor, int]:
        texts, places, labels = batch
        total, _ = smoothed_cross_entropy(self._model(texts, at=places).logits, labels)
        return total / len(labels), texts.ids.numel()


class FineTuning(_Updates):
    """Updates of a BERT that classifies texts of different lengths, as in the task."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        import torch

        from regard.layers import Tokens
        from regard.models import Bert, BertConfig

        keep_freed_memory()  # as the command line does
        self._model = Bert(BertConfig(**job["model"], head="sequence", outputs=2)).train()
        self._batches = [
            (Tokens.pad(batch["texts"], padding_id=0), torch.tensor(batch["labels"])) for batch in job["batches"]
        ]
        return self._note(job)

    def _loss(self, batch: Any) -> tuple[Tensor, int]:
        texts, labels = batch
        total, _ = smoothed_cross_entropy(self._model(texts).logits, labels)
        return total / len(labels), int(texts.valid.sum())


# The suite `images`.


class ViTTraining(_Updates):
    """Updates of a ViT on uint8 images, as in the task."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser, and make random images."""
        import torch

        from regard.bench.images import random_images
        from regard.layers import Images
        from regard.models import ViT, ViTConfig

        keep_freed_memory()  # as the command line does
        self._model = ViT(ViTConfig(**job["model"], image_channels=3)).train()
        pixels, count = random_images(job["images"], job["model"]).unsqueeze(1), job["images"]
        labels = torch.arange(count) % job["model"]["outputs"]
        self._batches = [(Images(pixels, torch.ones(count, 1, dtype=torch.bool)), labels)]
        return self._note(job)

    def _loss(self, batch: Any) -> tuple[Tensor, int]:
        images, labels = batch
        total, _ = smoothed_cross_entropy(self._model(images), labels)
        return total / len(labels), len(labels)


class CaptionTraining(_Updates):
    """Updates of Xu et al.'s captioner with soft attention, with cross-entropy only."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser, and make random images and captions."""
        import torch

        from regard.bench.images import random_images
        from regard.layers import Images, Tokens
        from regard.models import ShowAttendAndTell, ShowAttendAndTellConfig

        keep_freed_memory()  # as the command line does
        sizes = job["model"] | {"convolutions": tuple(job["model"]["convolutions"])}
        self._model = ShowAttendAndTell(ShowAttendAndTellConfig(**sizes)).train()
        count, words = job["captions"], job["words"]
        pixels = random_images(count, job["model"]).unsqueeze(1)
        generator = torch.Generator().manual_seed(job["seed"])
        ids = torch.randint(sizes["target_vocabulary"], (count, words + 1), generator=generator)
        read = Tokens(ids[:, :-1].contiguous(), ids[:, :-1] >= 0, "nowhere")
        images = Images(pixels, torch.ones(count, 1, dtype=torch.bool))
        self._batches = [(images, read, ids[:, 1:].flatten())]
        return self._note(job)

    def _loss(self, batch: Any) -> tuple[Tensor, int]:
        images, read, labels = batch
        total, _ = smoothed_cross_entropy(self._model(images, read).logits.flatten(0, 1), labels)
        return total / labels.numel(), labels.numel()


# The suite `words`.


class WordEmbeddings(_Ours):
    """Training of word embeddings as in `regard train-vectors`, from a file of sentences to a file of embeddings."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Keep the job; there is nothing to prepare."""
        keep_freed_memory()  # as the command line does
        self._job = job
        return {"note": job["kind"]}

    def run(self) -> dict[str, Any]:
        """Run the whole training, including the vocabulary; the amount is in words read, over all epochs."""
        from regard.word_embeddings.files import write_vectors
        from regard.word_embeddings.training import VectorSettings, sentences, train_vectors

        job = self._job
        method = job["kind"]
        own: dict[str, Any] = (
            {"largest_count": job["largest_count"]}
            if method == "glove"
            else {"negative": job["negative"], "workers": job["threads"]}
        )
        same = {name: job[name] for name in ("width", "window", "minimum_count", "epochs", "seed")}
        began = time.perf_counter()
        read = sentences(job["text"], tokenisation="whitespace", sentences="line", lowercase=False)
        vectors = train_vectors(read, VectorSettings(method=method, **same, **own))
        seconds = time.perf_counter() - began
        write_vectors(vectors, job["vectors"])
        return {"amount": job["tokens"] * job["epochs"], "seconds": seconds}


# The suite `tokenizers`.


class TokenizerTraining(_Ours):
    """Training a tokenizer on a text."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Read the text."""
        from regard.text import Tokenizer

        self._job, self._bytes = job, Path(job["text"]).stat().st_size
        self._lines = Path(job["text"]).read_text(encoding="utf-8").splitlines()
        self._learn = lambda: Tokenizer.train(self._lines, kind=job["tokenizer"], size=job["size"])
        return {"note": f"{len(self._lines):,} lines"}

    def run(self) -> dict[str, Any]:
        """Train on the text once; the amount is in MB."""
        began = time.perf_counter()
        self._learn()
        return {"amount": self._bytes / 1e6, "seconds": time.perf_counter() - began}


class TokenizerReading(TokenizerTraining):
    """Tokenizing a text with a tokenizer trained on it."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Train the tokenizer."""
        note = super().prepare(job)
        self._tokenizer = self._learn()
        return note

    def run(self) -> dict[str, Any]:
        """Tokenize the text once; the amount is in MB."""
        began = time.perf_counter()
        self._tokenizer.encode_batch(self._lines)
        return {"amount": self._bytes / 1e6, "seconds": time.perf_counter() - began}


# The suite `look`, on the model of `transformers` that the peers run too.


class _Looking(_Ours):
    """The common part of recording attention and writing a page."""

    def available(self) -> bool:
        """Whether `transformers`, whose model is recorded, is installed."""
        return util.find_spec("transformers") is not None

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and sample a text."""
        keep_freed_memory()  # as the command line does
        self._model, self._ids = random_bert(job)
        self._job = job
        return {"note": f"{type(self._model).__name__}, attention {self._model.config._attn_implementation}"}


class Recording(_Looking):
    """Forward passes while the recorder keeps its inputs; no weight is computed."""

    def run(self) -> dict[str, Any]:
        """Run a few passes; the amount is in tokens."""
        import torch

        from regard.inspection import look

        job = self._job
        began = 0.0
        for number in range(1 + job["passes"]):
            if number == 1:  # the first pass brings memory back that was swapped out while the process waited
                began = time.perf_counter()
            with torch.no_grad(), look(self._model, job["addresses"]):
                self._model(self._ids)
        seconds = time.perf_counter() - began
        amount = job["passes"] * job["batch"] * job["tokens"]
        return {"amount": amount, "seconds": seconds}


class Page(_Looking):
    """A page from a text: forward pass, weights, page, file."""

    def run(self) -> dict[str, Any]:
        """Make one page; the amount is its time in seconds."""
        import torch

        from regard.inspection import look

        job = self._job
        addresses = [f"encoder.layer.{layer}.*" for layer in range(job["layers"])]
        tokens = [f"token{index}" for index in self._ids[0].tolist()]
        began = time.perf_counter()
        with torch.no_grad(), look(self._model, addresses) as seen:
            self._model(self._ids)
        seen.show(job["file"], tokens=tokens)
        seconds = time.perf_counter() - began
        size = Path(job["file"]).stat().st_size / 1e6
        return {"amount": seconds, "seconds": 1.0, "measures": {"file, MB": size}}


KINDS = {
    "training": Training,
    "translation": Translation,
    "decoding": Decoding,
    "causal_training": CausalTraining,
    "lstm_training": LSTMTraining,
    "embedding": Embedding,
    "masked_training": MaskedTraining,
    "tokenizer_training": TokenizerTraining,
    "tokenizer_reading": TokenizerReading,
    "fine_tuning": FineTuning,
    "vit_training": ViTTraining,
    "caption_training": CaptionTraining,
    **dict.fromkeys(("skipgram", "cbow", "glove"), WordEmbeddings),
    "recording": Recording,
    "page": Page,
}
"""The driver class of each kind of job, which the process of a contestant looks up (`regard.bench.peers.runner`)."""
