"""ModernBERT against transformers: every head, odd sizes, all weights drawn anew, both paddings, and whole folders."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors, trainers

import regard
from regard.checkpoints.layouts import hf_format
from regard.layers import Tokens
from regard.models import MODELS
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

SIZES: tuple[dict[str, Any], ...] = (
    {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 7, "num_hidden_layers": 4, "local_attention": 4},
    {"hidden_size": 14, "num_attention_heads": 1, "num_hidden_layers": 2, "norm_bias": True, "attention_bias": True},
    {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 5,
        "global_attn_every_n_layers": 2,
        "mlp_bias": True,
    },
    {
        "hidden_size": 20,
        "num_attention_heads": 5,
        "num_hidden_layers": 3,
        "classifier_bias": True,
        "decoder_bias": False,
    },
    {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "hidden_activation": "relu",
        "classifier_activation": "silu",
        "local_attention": 3,
        "tie_word_embeddings": False,
    },
    {
        "hidden_size": 18,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "classifier_pooling": "mean",
        "norm_eps": 0.1,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 300.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 90.0},
        },
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
every_size = pytest.mark.parametrize("number", range(len(SIZES)))
every_head = pytest.mark.parametrize("head", HEADS)


def both(head: str, number: int) -> tuple[Any, Any, Any, Any, dict[str, torch.Tensor]]:
    torch.manual_seed(number)
    usual = {"intermediate_size": 9, "local_attention": 6, "pad_token_id": 0, "max_position_embeddings": 19}
    usual |= {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    own = transformers.ModernBertConfig(
        vocab_size=37,
        num_labels=2 if "Question" in head else 3,
        attn_implementation="eager",
        **usual | copy.deepcopy(SIZES[number]),
    )
    theirs = getattr(transformers, "ModernBert" + head)(own).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.5)
    tensors = {key: value.clone() for key, value in theirs.state_dict().items()}
    layout = hf_format("modernbert")
    values = {**own.to_dict(), "architectures": ["ModernBert" + head]}
    config = layout.config_from_hf(values, None, tensors, "config.json")
    ours = MODELS[config.model_type].model(config).eval()
    missing, _ = ours.load_state_dict(layout.tensors_from_hf(config, tensors, "weights"), strict=False)
    assert [name for name in missing if name not in ("head.output.weight",)] == []
    return layout, config, ours, theirs, tensors


def texts(lengths: tuple[int, ...], side: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The same texts padded on either side: ids and valid, both (B, L)."""
    drawn = torch.Generator().manual_seed(3)
    longest = max(lengths)
    ids, valid = (
        torch.zeros(len(lengths), longest, dtype=torch.long),
        torch.zeros(len(lengths), longest, dtype=torch.bool),
    )
    for row, length in enumerate(lengths):
        place = slice(0, length) if side == "right" else slice(longest - length, None)
        ids[row, place] = torch.randint(5, 37, (length,), generator=drawn)
        valid[row, place] = True
    return ids, valid


@pytest.mark.parametrize("side", ["left", "right"])
@every_size
@every_head
def test_logits_are_those_of_transformers(head: str, number: int, side: str) -> None:
    _, _, ours, theirs, _ = both(head, number)

    def read(ids: torch.Tensor, valid: torch.Tensor) -> Any:
        given = {"input_ids": ids, "attention_mask": valid.long()}
        if "Choice" in head:
            given = {key: value.unsqueeze(1) for key, value in given.items()}
        with torch.no_grad():
            return theirs(**given)

    ids, valid = texts((15, 11, 4), side)
    with torch.no_grad():
        found = ours(Tokens(ids, valid))
    wanted = read(ids, valid)
    if head == "Model":
        mine, other = found.hidden[valid], wanted.last_hidden_state[valid]
    elif "Question" in head:
        mine, other = found.logits[valid], torch.stack([wanted.start_logits, wanted.end_logits], dim=-1)[valid]
    elif wanted.logits.shape[:2] == valid.shape:
        mine, other = found.logits[valid], wanted.logits[valid]
    else:  # what they pool is the first place, which is padding on the left: their texts are padded on the right then
        mine, other = found.logits, read(*texts((15, 11, 4), "right")).logits
    assert mine.shape == other.shape
    assert (mine - other).abs().max() <= 1e-5 * other.abs().max()


@every_size
@every_head
def test_the_same_tensors_are_written_and_the_config_is_read_as_it_was(head: str, number: int) -> None:
    layout, config, ours, theirs, tensors = both(head, number)
    written = layout.tensors_to_hf(config, dict(ours.named_parameters()))
    assert all(torch.equal(written[key], tensors[key]) for key in written)
    assert tensors.keys() - written.keys() <= ({"decoder.weight"} if config.tied_output else set())  # the table, once
    said = layout.config_to_hf(config, torch.float32)
    assert said["architectures"] == ["ModernBert" + head]
    again = transformers.ModernBertConfig(**{key: value for key, value in said.items() if key != "model_type"})
    before = theirs.config
    for key in (
        "layer_types",
        "rope_parameters",
        "local_attention",
        "classifier_pooling",
        "norm_bias",
        "tie_word_embeddings",
    ):
        assert getattr(again, key) == getattr(before, key) or (
            key == "tie_word_embeddings" and head != "ForMaskedLM"
        ), key
    assert layout.config_from_hf({**said}, None, written, "config.json") == config


def tokenizer() -> Any:
    """As ModernBERT's: pieces of bytes between [CLS] and [SEP]."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    backend.train_from_iterator(
        ["the small dog barks loudly, isn't it so?"] * 9,
        trainers.BpeTrainer(
            vocab_size=310,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=special,
            show_progress=False,
        ),
    )
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    named = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **named)
    made.add_special_tokens({"mask_token": transformers.AddedToken("[MASK]", lstrip=True, special=True)})
    return made


def test_a_folder_fills_masks_and_is_looked_at_and_comes_back(tmp_path, nasty) -> None:
    made = tokenizer()
    made.save_pretrained(tmp_path / "theirs")
    torch.manual_seed(1)
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    config = transformers.ModernBertConfig(
        vocab_size=len(made), local_attention=4, max_position_embeddings=64, initializer_range=0.4, **ids,
        **{key: value for key, value in SIZES[0].items() if key != "local_attention"},
    )  # fmt: skip
    model = transformers.ModernBertForMaskedLM(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    own = Tokenizer.load(tmp_path / "theirs")
    plain = {"add_special_tokens": False, "split_special_tokens": True}
    assert own.encode_batch(nasty(300)) == made(nasty(300), **plain)["input_ids"]
    regard.load(tmp_path / "theirs").save(tmp_path / "ours")
    texts = ["the [MASK] dog barks loudly", "[MASK] it so [MASK]"]
    for place in (tmp_path / "theirs", tmp_path / "ours"):
        other = transformers.AutoModelForMaskedLM.from_pretrained(place).eval()
        reads = transformers.AutoTokenizer.from_pretrained(place)
        for text, filled in zip(texts, regard.load(place).fill_batch(texts, top=4), strict=True):
            encoded = reads(text, return_tensors="pt")
            with torch.no_grad():
                logits = other(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits
            best = logits[0][encoded["input_ids"][0] == reads.mask_token_id].softmax(dim=-1).topk(4)
            for candidates, values, indices in zip(filled.masks, best.values, best.indices, strict=True):
                assert [each.token for each in candidates] == reads.convert_ids_to_tokens(indices.tolist())
                assert [each.probability for each in candidates] == pytest.approx(values.tolist(), rel=1e-4)
    eager = transformers.AutoModel.from_pretrained(tmp_path / "theirs", attn_implementation="eager").eval()
    encoded = made("the small dog barks loudly", return_tensors="pt")
    with torch.no_grad():
        weights = eager(encoded["input_ids"], output_attentions=True).attentions
        with regard.look(ours := regard.load(tmp_path / "ours").model) as seen:
            ours(Tokens(encoded["input_ids"], torch.ones_like(encoded["input_ids"], dtype=torch.bool)))
        for layer, wanted in enumerate(weights):
            assert (seen.weights(f"layers.{layer}.attention") - wanted).abs().max() < 1e-6
