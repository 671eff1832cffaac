"""Whether a model with weights of 8 or 4 bits shows what it computes: a random GPT-2, looked at and not.

python benchmarks/looking_at_few_bits.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import regard
from measured import record
from regard.inspection.editing import ScaleHeads, change, patch
from regard.layers import Tokens
from regard.models import GPT2, GPT2Config
from regard.quantization import PRECISIONS, InferenceDecoder, Precision

ROOT = Path(__file__).resolve().parent.parent
PROMPTS = [[3, 9, 4, 7, 5, 211, 30], [8, 1, 6, 2, 11, 500, 77]]


def drawn() -> GPT2:
    """A GPT-2 of unusual sizes, drawn widely enough that its heads tell tokens apart."""
    torch.manual_seed(0)
    sizes = {"width": 288, "heads": 9, "feedforward_width": 1120, "layers": 5, "maximum_positions": 90}
    model = GPT2(GPT2Config(vocabulary=701, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.12)
    return model


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """How far apart two tensors are, as a share of the second."""
    return ((found - wanted).norm() / wanted.norm()).item()


@torch.no_grad()
def figures_of(plain: GPT2, precision: Precision) -> dict[str, Any]:
    """What looking, silencing and patching find at one precision."""
    model, tokens, following = InferenceDecoder(plain, precision), Tokens.pad(PROMPTS), torch.tensor([12, 400])
    logits, state = model.read(tokens, model.start(len(PROMPTS)))
    step = model.step(following, state)[0]
    with regard.look(model) as seen:
        looked, _ = model.read(tokens, model.start(len(PROMPTS)))
    with regard.look(model):
        looked_step = model.step(following, state)[0]
    largest = 0.0
    for address in seen.addresses:
        query, key = seen.queries(address).double(), seen.keys(address).double()
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        own = scores.masked_fill(ahead, -torch.inf).softmax(dim=-1)
        largest = max(largest, (seen.weights(address).double() - own).abs().max().item())
    with change(model, ScaleHeads(address="layers.2.attention", heads=[4])):
        silenced = model.step(following, state)[0]
    one, two = (Tokens.pad([prompt]) for prompt in PROMPTS)
    restored = patch(
        model, lambda: model(one), lambda: model(two), lambda found: found[0, -1, 5].item(), hidden=["layers.4"]
    )
    return {
        f"{precision}, largest difference of weights from those of its queries and keys": float(f"{largest:.2g}"),
        f"{precision}, prompt looked at and not, share of the logits": float(f"{apart(looked, logits):.2g}"),
        f"{precision}, step looked at and by the kernel, share of the logits": float(f"{apart(looked_step, step):.2g}"),
        f"{precision}, step with one head of 45 silenced, share of the logits": float(f"{apart(silenced, step):.2g}"),
        f"{precision}, score that patching the last block restores": round(restored.rows[0].effect, 4),
    }


def main() -> None:
    torch.set_num_threads(1)
    plain = drawn()
    figures: dict[str, Any] = {}
    for precision in reversed(PRECISIONS):
        figures |= figures_of(plain, precision)
    record(
        ROOT / "docs" / "results" / "looking-at-few-bits.json",
        title="Looking at a GPT-2 with weights of 8 and 4 bits",
        command="python benchmarks/looking_at_few_bits.py",
        precision=", ".join(reversed(PRECISIONS)),
        seed=0,
        figures=figures,
        target="weights are those of the model's own queries and keys; the answer is that of the same blocks unlooked",
        note="Drawn weights, 5 layers of 9 heads. A step is one call of the kernel where nobody looks, and goes through ordinary "
        "blocks where somebody does.",
    )


if __name__ == "__main__":
    main()
