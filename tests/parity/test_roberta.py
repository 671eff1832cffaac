"""RoBERTa, XLM-RoBERTa and ELECTRA against transformers: every head, odd sizes, all weights drawn anew, both paddings."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.layouts import hf_format
from regard.layers import Tokens
from regard.models import MODELS

transformers = pytest.importorskip("transformers")

SIZES = (
    {"hidden_size": 15, "num_attention_heads": 3, "intermediate_size": 7, "num_hidden_layers": 1},
    {
        "hidden_size": 14,
        "num_attention_heads": 7,
        "intermediate_size": 33,
        "num_hidden_layers": 2,
        "hidden_act": "relu",
    },
    {"hidden_size": 9, "num_attention_heads": 1, "intermediate_size": 5, "num_hidden_layers": 3, "type_vocab_size": 1},
    {"hidden_size": 22, "num_attention_heads": 2, "intermediate_size": 13, "num_hidden_layers": 2, "pad_token_id": 0},
    {"hidden_size": 10, "num_attention_heads": 5, "intermediate_size": 11, "num_hidden_layers": 1, "pad_token_id": 4},
    {
        "hidden_size": 21,
        "num_attention_heads": 3,
        "intermediate_size": 17,
        "num_hidden_layers": 2,
        "hidden_act": "gelu_new",
    },
)
HEADS = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
FAMILIES = (("roberta", "Roberta"), ("xlm-roberta", "XLMRoberta"), ("electra", "Electra"))
CASES = [(kind, name + head) for kind, name in FAMILIES for head in HEADS] + [("electra", "ElectraForPreTraining")]


def both(kind: str, name: str, sizes: dict, seed: int = 0):
    torch.manual_seed(seed)
    own = transformers.AutoConfig.for_model(
        kind,
        vocab_size=37,
        max_position_embeddings=19,
        num_labels=2 if "Question" in name else 3,
        layer_norm_eps=1e-5,
        **sizes,
    )
    if kind == "electra":
        own.embedding_size = sizes["hidden_size"] if sizes["num_hidden_layers"] == 1 else 6
    theirs = getattr(transformers, name)(own).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.5)
    tensors = {key: value.clone() for key, value in theirs.state_dict().items()}
    layout = hf_format(kind)
    values = {**own.to_dict(), "architectures": [name]}
    config = layout.config_from_hf(values, None, tensors, "config.json")
    ours = MODELS[config.model_type].model(config).eval()
    ours.load_state_dict(layout.tensors_from_hf(config, tensors, "weights"), strict=False)
    return layout, config, ours, own, theirs, tensors


def texts(lengths: tuple[int, ...], side: str, padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same texts padded on either side: ids and valid, both (B, L)."""
    drawn = torch.Generator().manual_seed(3)
    longest = max(lengths)
    ids, valid = torch.full((len(lengths), longest), padding), torch.zeros(len(lengths), longest, dtype=torch.bool)
    for row, length in enumerate(lengths):
        place = slice(0, length) if side == "right" else slice(longest - length, None)
        ids[row, place] = torch.randint(5, 37, (length,), generator=drawn)
        valid[row, place] = True
    return ids, valid


def read_by_theirs(kind: str, name: str, theirs, ids: torch.Tensor, valid: torch.Tensor):
    given = {"input_ids": ids, "attention_mask": valid.long()}
    if kind == "electra":  # its positions count padding: those of the text alone are given
        given["position_ids"] = (valid.cumsum(dim=1) - 1).clamp_min(0)
    if "Choice" in name:
        given = {key: value.unsqueeze(1) for key, value in given.items()}
    with torch.no_grad():
        return theirs(**given)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_logits_are_those_of_transformers(kind: str, name: str, sizes: dict, side: str) -> None:
    _, config, ours, _, theirs, _ = both(kind, name, sizes)
    ids, valid = texts((8, 6, 3), side, config.padding_id)
    with torch.no_grad():
        found = ours(Tokens(ids, valid))
    wanted = read_by_theirs(kind, name, theirs, ids, valid)
    # What they pool is the first place, which is padding on the left: their texts are padded on the right then.
    pooled = read_by_theirs(kind, name, theirs, *texts((8, 6, 3), "right", config.padding_id))
    if name.endswith("Model"):
        pairs = [(found.hidden[valid], wanted.last_hidden_state[valid])]
        pairs += [(found.pooled, pooled.pooler_output)] if kind != "electra" else []
    elif "Question" in name:
        pairs = [(found.logits[valid], torch.stack([wanted.start_logits, wanted.end_logits], dim=-1)[valid])]
    elif wanted.logits.shape[:2] == valid.shape:
        pairs = [(found.logits.view(wanted.logits.shape)[valid], wanted.logits[valid])]
    else:
        pairs = [(found.logits, pooled.logits)]
    for mine, other in pairs:
        assert mine.shape == other.shape
        assert (mine - other).abs().max() <= 1e-5 * other.abs().max()


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_same_tensors_are_written(kind: str, name: str) -> None:
    layout, config, ours, own, theirs, tensors = both(kind, name, SIZES[3])
    written = layout.tensors_to_hf(config, dict(ours.named_parameters()))
    assert all(torch.equal(written[key], tensors[key]) for key in written)
    said = layout.config_to_hf(config, torch.float32)
    assert said["architectures"] == [name]
    assert said["max_position_embeddings"] == own.max_position_embeddings
    theirs.load_state_dict(written, strict=False)
