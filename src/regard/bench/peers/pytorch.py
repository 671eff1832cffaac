"""Plain PyTorch: the same equations with its own layers, trained in a plain loop.

Needs torch, but not Regard.
"""

from __future__ import annotations

from typing import Any

from .shared import Updates


class LSTMTraining(Updates):
    """A language model with `nn.LSTM`."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser."""
        import torch
        from torch import nn

        sizes = job["model"]
        width, rate = sizes["hidden_width"], sizes["dropout"]
        self._model = nn.ModuleDict(
            {
                "embedding": nn.Embedding(sizes["vocabulary"], sizes["embedding_width"]),
                "dropout": nn.Dropout(rate),
                "lstm": nn.LSTM(sizes["embedding_width"], width, sizes["layers"], dropout=rate, batch_first=True),
                "output": nn.Linear(width, sizes["vocabulary"]),
            }
        ).train()
        self._batches = list(torch.tensor(job["batches"]))
        return {"note": self._begin(job)}

    def _loss(self, batch: Any) -> tuple[Any, int]:
        import torch.nn.functional as F

        model, labels = self._model, batch[:, 1:]
        hidden, _ = model["lstm"](model["dropout"](model["embedding"](batch[:, :-1])))
        logits = model["output"](model["dropout"](hidden))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), labels.numel()


class CaptionTraining(Updates):
    """Xu et al.'s captioner with soft attention: keys projected once, one query and `LSTMCell` step per word, logits at once."""

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Build the model and the optimiser, and make random images and captions."""
        import torch
        from torch import nn

        sizes = job["model"]
        features, words, width = sizes["feature_width"], sizes["embedding_width"], sizes["hidden_width"]
        scored, vocabulary = sizes["attention_width"], sizes["target_vocabulary"]
        channels, blocks = [3, *sizes["convolutions"]], []
        for number, after in enumerate(channels[1:]):
            groups = after // 8 if after % 8 == 0 else 1
            blocks += [
                nn.Conv2d(channels[number], after, 4, stride=2, padding=1),
                nn.GroupNorm(groups, after),
                nn.ReLU(),
            ]
        halved = 2 ** len(sizes["convolutions"])
        places = [sizes["image_height"] // halved, sizes["image_width"] // halved]
        self._model = nn.ModuleDict(
            {
                "blocks": nn.Sequential(*blocks),
                "row": nn.Embedding(places[0], channels[-1]),
                "column": nn.Embedding(places[1], channels[-1]),
                "annotation": nn.Linear(channels[-1], features),
                "hidden": nn.Linear(features, width),
                "memory": nn.Linear(features, width),
                "embedding": nn.Embedding(vocabulary, words),
                "query": nn.Linear(width, scored, bias=False),
                "key": nn.Linear(features, scored),
                "score": nn.Linear(scored, 1, bias=False),
                "gate": nn.Linear(width, 1),
                "cell": nn.LSTMCell(words + features, width),
                "from_hidden": nn.Linear(width, words, bias=False),
                "from_context": nn.Linear(features, words, bias=False),
                "dropout": nn.Dropout(sizes["dropout"]),
                "output": nn.Linear(words, vocabulary),
            }
        ).train()
        generator = torch.Generator().manual_seed(job["seed"])
        size = (job["captions"], 3, sizes["image_height"], sizes["image_width"])
        images = torch.randint(256, size, generator=generator, dtype=torch.uint8)
        ids = torch.randint(vocabulary, (job["captions"], job["words"] + 1), generator=generator)
        self._batches = [(images, ids)]
        return {"note": self._begin(job)}

    def _loss(self, batch: Any) -> tuple[Any, int]:
        import torch
        import torch.nn.functional as F

        model, (images, ids) = self._model, batch
        seen = model["blocks"](images.float() / 127.5 - 1).permute(0, 2, 3, 1)
        places = model["row"].weight.unsqueeze(1) + model["column"].weight
        annotations = model["dropout"](torch.relu(model["annotation"](seen + places))).flatten(1, 2)
        mean, keys = annotations.mean(dim=1), model["key"](annotations)
        h, c = torch.tanh(model["hidden"](mean)), torch.tanh(model["memory"](mean))
        embedded = model["dropout"](model["embedding"](ids[:, :-1]))
        hidden, contexts = [], []
        for word in embedded.unbind(dim=1):
            scores = model["score"](torch.tanh(keys + model["query"](h).unsqueeze(1)))
            context = torch.sigmoid(model["gate"](h)) * (scores.softmax(dim=1) * annotations).sum(dim=1)
            h, c = model["cell"](torch.cat((word, context), dim=-1), (h, c))
            hidden.append(h)
            contexts.append(context)
        added = model["from_hidden"](torch.stack(hidden, dim=1)) + model["from_context"](torch.stack(contexts, dim=1))
        logits, labels = model["output"](model["dropout"](embedded + added)), ids[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), labels.numel()


KINDS = {"lstm_training": LSTMTraining, "caption_training": CaptionTraining}
