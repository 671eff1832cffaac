"""Every field of `transformers`' configs that we read: followed, refused by name, or shown to change nothing.

A model of theirs is built with one field changed and every parameter drawn anew, and saved. Our reading of the folder either
refuses it by the field's name or gives the same logits. Fields that change no logits stand in one list with the reason, and that
they change none is checked too, on their own model. A field that a new version adds is in no list, and fails.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.checkpoints import read_model
from regard.checkpoints.layouts import hf_format
from regard.errors import InputError
from regard.layers import Tokens
from regard.tasks.image_classification import batch_of

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-4, "atol": 1e-4}

NOTHING: Mapping[str, tuple[Any, str]] = {
    "transformers_version": ("4.0.0", "who wrote it"),
    "architectures": (["Another"], "the tensors say which head the model has, and this only where they leave it open"),
    "output_hidden_states": (True, "what is returned besides the logits"),
    "return_dict": (False, "what is returned besides the logits"),
    "dtype": ("bfloat16", "the tensors have a dtype of their own; ours are computed in float32 unless asked"),
    "chunk_size_feed_forward": (2, "how many places pass at a time"),
    "is_encoder_decoder": (None, "the class decides"),
    "id2label": ({0: "a", 1: "b", 2: "c"}, "names, which the tasks read"),
    "label2id": ({"a": 0, "b": 1, "c": 2}, "names, which the tasks read"),
    "problem_type": ("multi_label_classification", "what the logits are for, which decides the task"),
    "use_cache": (False, "whether what was computed is kept"),
    "bos_token_id": (5, "where texts begin, which tokenizer and generation say"),
    "eos_token_id": (6, "where texts end, which generation reads"),
    "pad_token_id": (4, "padding is masked"),
    "decoder_start_token_id": (7, "where targets begin, which generation reads"),
    "forced_eos_token_id": (6, "generation reads it"),
    "initializer_range": (0.5, "parameters before training"),
    "initializer_factor": (0.5, "parameters before training"),
    "init_std": (0.5, "parameters before training"),
    "axial_norm_std": (0.5, "parameters before training"),
    "sinusoidal_pos_embds": (True, "parameters before training; the file holds the positions"),
    "classifier_dropout": (0.3, "training only"),
    "encoder_layerdrop": (0.3, "training only; how to train is the recipe's, which drops no layers"),
    "decoder_layerdrop": (0.3, "training only; how to train is the recipe's, which drops no layers"),
    "hidden_dropout_prob": (0.3, "training only"),
    "attention_probs_dropout_prob": (0.3, "training only"),
    "lsh_attention_probs_dropout_prob": (0.3, "training only"),
    "local_attention_probs_dropout_prob": (0.3, "training only"),
    "dropout": (0.3, "training only"),
    "dropout_rate": (0.3, "training only"),
    "attention_dropout": (0.3, "training only"),
    "activation_dropout": (0.3, "training only"),
    "qa_dropout": (0.3, "training only"),
    "seq_classif_dropout": (0.3, "training only"),
    "hidden_dropout": (0.3, "training only"),
    "resid_pdrop": (0.3, "training only"),
    "embd_pdrop": (0.3, "training only"),
    "attn_pdrop": (0.3, "training only"),
    "summary_type": ("mean", "the second head of a class that we do not read"),
    "summary_use_proj": (False, "the second head of a class that we do not read"),
    "summary_activation": ("tanh", "the second head of a class that we do not read"),
    "summary_proj_to_labels": (False, "the second head of a class that we do not read"),
    "classifier_pooling": ("mean", "which vector heads of whole texts read"),
    "embedding_dropout": (0.3, "training only"),
    "mlp_dropout": (0.3, "training only"),
    "initializer_cutoff_factor": (3.0, "parameters before training"),
    "deterministic_flash_attn": (True, "how a kernel of theirs computes"),
    "sparse_prediction": (True, "which logits theirs computes in training"),
    "sparse_pred_ignore_index": (-1, "which logits theirs computes in training"),
    "cls_token_id": (5, "what stands before a text, which the tokenizer says"),
    "sep_token_id": (6, "what stands behind a text, which the tokenizer says"),
    "summary_last_dropout": (0.3, "training only, and of a class of another head"),
    "summary_first_dropout": (0.3, "the second head of a class that we do not read"),
    "reorder_and_upcast_attn": (True, "the order of a product in half precision"),
    "chunk_size_lm_head": (2, "how many places pass at a time"),
    "encoder_stride": (8, "a decoder for masked images, of a class that Regard does not read"),
    "pooler_output_size": (9, "a pooling layer that a classifier has not"),
    "pretraining_tp": (2, "in how many parts a product is computed"),
    "pooler_act": ("relu", "a pooling layer that a classifier has not"),
}
"""Fields that change no logits: a value to try, and why."""

TRAINED: Mapping[str, str] = {
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "lsh_attention_probs_dropout_prob": "attention_dropout",
    "local_attention_probs_dropout_prob": "local_attention_dropout",
    "dropout": "dropout",
    "dropout_rate": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "feedforward_dropout",
    "hidden_dropout": "dropout",
    "resid_pdrop": "dropout",
    "embd_pdrop": "embedding_dropout",
    "attn_pdrop": "attention_dropout",
    "initializer_range": "init_std",
}
"""Those of training that our configs take over, by our names."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A config class of theirs.

    Arguments:
        config, model: the names of their classes.
        base: sizes, all different.
        values: for each field that changes logits, values to try.
        lacks: fields of `NOTHING` or `TRAINED` that this family's config of ours has not, or that do change its logits.
        call: their logits and ours, by the two models.
    """

    config: str
    model: str
    base: Mapping[str, Any]
    values: Mapping[str, list[Any]]
    call: Callable[[Any, Any], tuple[Tensor, Tensor]]
    lacks: tuple[str, ...] = field(default=())

    def made(self, randomize, folder: Path, **changes: Any) -> Any:
        """Their model, saved."""
        config = getattr(transformers, self.config)(**{**self.base, **changes})
        model = getattr(transformers, self.model)(config).eval()
        fixed = {name: tensor.clone() for name, tensor in model.named_parameters() if not tensor.requires_grad}
        randomize(model)
        with torch.no_grad():
            for name, tensor in fixed.items():  # sinusoids
                model.get_parameter(name).copy_(tensor)
            if isinstance(model, transformers.ReformerModelWithLMHead):  # read there, and left out
                model.lm_head.bias.zero_()
        model.save_pretrained(folder)
        return _milder(model)


def _milder(model: Any) -> Any:
    """The same model; a Reformer's score with its own key is -1000, because at -100000 float32 rounds their softmax."""
    for name, buffer in model.named_buffers():
        if name.endswith("self_mask_value_float32"):
            buffer.fill_(-1e3)
    return model


def ids(rows: int = 2, length: int = 8, least: int = 8) -> Tensor:
    return torch.randint(least, 30, (rows, length), generator=torch.Generator().manual_seed(length))


def whole(tokens: Tensor) -> Tokens:
    return Tokens(tokens, torch.ones_like(tokens, dtype=torch.bool), "nowhere")


def of_encoder(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    segments = torch.zeros_like(ids())
    more = {}
    if getattr(theirs.config, "type_vocab_size", 0) > 1:
        segments[:, 4:] = 1
        more = {"token_type_ids": segments}
    return theirs(ids(), **more).logits, ours(whole(ids()), segments).logits


def of_plain_encoder(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    """Of texts that their tokenizer gives no segments of, which ours do not read."""
    return theirs(ids()).logits, ours(whole(ids()), torch.ones_like(ids())).logits


def of_decoder(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    return theirs(ids()).logits, ours(whole(ids()))


def of_translator(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    source, target = ids(length=9), ids(length=5)
    return theirs(input_ids=source, decoder_input_ids=target).logits, ours(whole(source), whole(target))


def of_images(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    shape = (2, ours.config.image_height, ours.config.image_width, ours.config.image_channels)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    scaled = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - 0.5) / 0.5
    return theirs(scaled).logits, ours(batch_of(pixels))


def of_reformer(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    state = torch.get_rng_state()
    expected = theirs(ids(length=24), use_cache=False).logits
    torch.set_rng_state(state)  # they seed the generator of everybody
    return expected, ours(whole(ids(length=24)))


TRANSLATOR = {
    "vocab_size": 30,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 10,
    "decoder_ffn_dim": 10,
    "max_position_embeddings": 16,
    "activation_function": "relu",
    "scale_embedding": True,
    "pad_token_id": 29,
    "eos_token_id": 0,
    "decoder_start_token_id": 29,
    "forced_eos_token_id": 0,
}
OF_TRANSLATOR: dict[str, list[Any]] = {
    "vocab_size": [33],
    "max_position_embeddings": [20],
    "encoder_layers": [1],
    "decoder_layers": [2],
    "encoder_ffn_dim": [14],
    "decoder_ffn_dim": [14],
    "encoder_attention_heads": [4],
    "decoder_attention_heads": [4],
    "activation_function": ["gelu", "silu", "gelu_new", "tanh"],
    "d_model": [24],
    "scale_embedding": [False],
    "tie_word_embeddings": [False],
    "is_decoder": [True],
    "pad_token_id": [28],
}
T5 = {
    "vocab_size": 30,
    "d_model": 12,
    "d_kv": 5,
    "d_ff": 14,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
}
OF_T5: dict[str, list[Any]] = {
    "vocab_size": [33],
    "d_model": [24],
    "d_kv": [4],
    "d_ff": [16],
    "num_layers": [3],
    "num_decoder_layers": [2, None],
    "num_heads": [2],
    "relative_attention_num_buckets": [4],
    "relative_attention_max_distance": [5],
    "layer_norm_epsilon": [0.3],
    "feed_forward_proj": ["gelu", "gated-gelu", "gated-silu", "gated-relu", "tanh"],
    "is_decoder": [True],
    "is_encoder_decoder": [False],  # then their decoder mixes up what it keeps of the two attentions
}

OF_LLAMA: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 24,
    "intermediate_size": 14,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "max_position_embeddings": 16,
    "bos_token_id": 28,
    "eos_token_id": 29,
}
ROTATIONS: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 3.0, "rope_theta": 90.0},
    {"rope_type": "dynamic", "factor": 3.0, "rope_theta": 90.0},
    {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8, "mscale": 0.7, "mscale_all_dim": 1.2},
    {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [1.0, 2.0], "factor": 2.0},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
]
VALUES_OF_LLAMA: dict[str, list[Any]] = {
    "vocab_size": [33],
    "hidden_size": [36],
    "intermediate_size": [10],
    "num_hidden_layers": [1],
    "num_attention_heads": [3],
    "num_key_value_heads": [1, 2, 6],
    "hidden_act": ["relu", "gelu", "gelu_pytorch_tanh", "tanh"],
    "max_position_embeddings": [9],
    "rms_norm_eps": [0.3],
    "tie_word_embeddings": [True],
    "rope_parameters": ROTATIONS,
}
WINDOWED: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
WINDOWS: dict[str, list[Any]] = {
    "use_sliding_window": [False],
    "sliding_window": [2, None],
    "max_window_layers": [0, 2],
    "layer_types": [["sliding_attention"] * 2, ["full_attention"] * 2, ["sliding_attention", "full_attention"]],
}

ROBERTA: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 14,
    "max_position_embeddings": 18,
    "pad_token_id": 1,
}
OF_ROBERTA: dict[str, list[Any]] = {
    "vocab_size": [33],
    "hidden_size": [24],
    "num_hidden_layers": [1],
    "num_attention_heads": [2],
    "intermediate_size": [10],
    "hidden_act": ["relu", "silu", "gelu_new", "tanh"],
    "max_position_embeddings": [12],
    "type_vocab_size": [1, 3],
    "layer_norm_eps": [0.3],
    "pad_token_id": [0, 3],
    "is_decoder": [True],
    "add_cross_attention": [True],
    "tie_word_embeddings": [False],
}

SCALED: dict[str, Any] = {
    "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 90.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 90.0},
}

FAMILIES: Mapping[str, Family] = {
    "bert": Family(
        config="BertConfig",
        model="BertForMaskedLM",
        base={
            "vocab_size": 30,
            "hidden_size": 12,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 14,
            "max_position_embeddings": 16,
        },
        values={
            "vocab_size": [33],
            "hidden_size": [24],
            "num_hidden_layers": [1],
            "num_attention_heads": [2],
            "intermediate_size": [10],
            "hidden_act": ["relu", "silu", "gelu_new", "gelu_python", "quick_gelu", "tanh"],
            "max_position_embeddings": [9],
            "type_vocab_size": [3],
            "layer_norm_eps": [0.3],
            "is_decoder": [True],
            "add_cross_attention": [True],
            "tie_word_embeddings": [False],
        },
        call=of_encoder,
    ),
    "distilbert": Family(
        config="DistilBertConfig",
        model="DistilBertForMaskedLM",
        base={
            "vocab_size": 30,
            "dim": 12,
            "n_layers": 2,
            "n_heads": 3,
            "hidden_dim": 14,
            "max_position_embeddings": 16,
        },
        values={
            "vocab_size": [33],
            "dim": [24],
            "n_layers": [1],
            "n_heads": [2],
            "hidden_dim": [10],
            "max_position_embeddings": [9],
            "activation": ["relu", "silu", "gelu_new", "tanh"],
            "tie_word_embeddings": [False],
        },
        call=of_encoder,
    ),
    "roberta": Family(
        config="RobertaConfig", model="RobertaForMaskedLM", base=ROBERTA, values=OF_ROBERTA, call=of_plain_encoder
    ),
    "xlm-roberta": Family(
        config="XLMRobertaConfig", model="XLMRobertaForMaskedLM", base=ROBERTA, values=OF_ROBERTA, call=of_plain_encoder
    ),
    "electra": Family(
        config="ElectraConfig",
        model="ElectraForMaskedLM",
        base={**ROBERTA, "embedding_size": 7, "pad_token_id": 0},
        values={
            **{name: values for name, values in OF_ROBERTA.items() if name != "pad_token_id"},
            "embedding_size": [12, 9],
            "type_vocab_size": [3],
            "max_position_embeddings": [9],
        },
        call=of_encoder,
    ),
    "modernbert": Family(
        config="ModernBertConfig",
        model="ModernBertForMaskedLM",
        base={
            "vocab_size": 30,
            "hidden_size": 12,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "intermediate_size": 14,
            "max_position_embeddings": 16,
            "local_attention": 4,
            "pad_token_id": 0,
        },
        values={
            "vocab_size": [33],
            "hidden_size": [24],
            "num_hidden_layers": [1],
            "num_attention_heads": [2],
            "intermediate_size": [10],
            "hidden_activation": ["relu", "silu", "gelu_new", "tanh"],
            "classifier_activation": ["relu", "tanh"],
            "max_position_embeddings": [9],
            "local_attention": [2, 5],
            "norm_eps": [0.3],
            "norm_bias": [True],
            "attention_bias": [True],
            "mlp_bias": [True],
            "classifier_bias": [True],
            "decoder_bias": [False],
            "tie_word_embeddings": [False],
            "layer_types": [["full_attention"] * 3, ["sliding_attention", "full_attention", "full_attention"]],
            "rope_parameters": [{"full_attention": {"rope_type": "default", "rope_theta": 90.0}}, SCALED],
        },
        call=of_plain_encoder,
    ),
    "gpt": Family(
        config="OpenAIGPTConfig",
        model="OpenAIGPTLMHeadModel",
        base={"vocab_size": 30, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16},
        values={
            "vocab_size": [33],
            "n_positions": [9],
            "n_embd": [24],
            "n_layer": [1],
            "n_head": [2],
            "afn": ["relu", "silu", "swish", "gelu_new", "tanh"],
            "layer_norm_epsilon": [0.3],
            "tie_word_embeddings": [False],
        },
        call=of_decoder,
    ),
    "gpt2": Family(
        config="GPT2Config",
        model="GPT2LMHeadModel",
        base={
            "vocab_size": 30,
            "n_embd": 12,
            "n_layer": 2,
            "n_head": 3,
            "n_positions": 16,
            "bos_token_id": 29,
            "eos_token_id": 29,
        },
        values={
            "vocab_size": [33],
            "n_positions": [9],
            "n_embd": [24],
            "n_layer": [1],
            "n_head": [2],
            "n_inner": [10],
            "activation_function": ["relu", "silu", "gelu", "gelu_fast", "tanh"],
            "layer_norm_epsilon": [0.3],
            "scale_attn_weights": [False],
            "scale_attn_by_inverse_layer_idx": [True],
            "add_cross_attention": [True],
            "tie_word_embeddings": [False],
        },
        call=of_decoder,
    ),
    "gpt_neox": Family(
        config="GPTNeoXConfig",
        model="GPTNeoXForCausalLM",
        base={key: OF_LLAMA[key] for key in OF_LLAMA if key != "num_key_value_heads"} | {"num_attention_heads": 3},
        values={
            **{
                key: VALUES_OF_LLAMA[key]
                for key in VALUES_OF_LLAMA
                if key not in ("num_key_value_heads", "rms_norm_eps")
            },
            "rope_parameters": [
                ROTATIONS[0],
                *({**rotation, "partial_rotary_factor": 0.5} for rotation in ROTATIONS[1:3]),
                ROTATIONS[3],
                {"rope_type": "default", "partial_rotary_factor": 1.0},
            ],
            "hidden_size": [48],
            "num_attention_heads": [1],
            "layer_norm_eps": [0.3],
            "use_parallel_residual": [False],
            "attention_bias": [False],
            "is_decoder": [True],
        },
        call=of_decoder,
    ),
    "llama": Family(
        config="LlamaConfig",
        model="LlamaForCausalLM",
        base=OF_LLAMA,
        values={**VALUES_OF_LLAMA, "attention_bias": [True], "mlp_bias": [True], "head_dim": [6, 10]},
        call=of_decoder,
    ),
    "mistral": Family(
        config="MistralConfig",
        model="MistralForCausalLM",
        base=OF_LLAMA,
        values={**VALUES_OF_LLAMA, "head_dim": [6, 10], "sliding_window": [2, None]},
        call=of_decoder,
    ),
    "qwen2": Family(
        config="Qwen2Config",
        model="Qwen2ForCausalLM",
        base={**OF_LLAMA, **WINDOWED},
        values={**VALUES_OF_LLAMA, **WINDOWS},
        call=of_decoder,
    ),
    "qwen3": Family(
        config="Qwen3Config",
        model="Qwen3ForCausalLM",
        base={**OF_LLAMA, "head_dim": 8, **WINDOWED},
        values={**VALUES_OF_LLAMA, **WINDOWS, "head_dim": [6, 10], "attention_bias": [True]},
        call=of_decoder,
    ),
    "t5": Family(config="T5Config", model="T5ForConditionalGeneration", base=T5, values=OF_T5, call=of_translator),
    "mt5": Family(
        config="MT5Config",
        model="MT5ForConditionalGeneration",
        base=T5,
        values={**OF_T5, "tie_word_embeddings": [False]},
        call=of_translator,
    ),
    "marian": Family(
        config="MarianConfig",
        model="MarianMTModel",
        base=TRANSLATOR,
        values={**OF_TRANSLATOR, "decoder_vocab_size": [33], "share_encoder_decoder_embeddings": [False]},
        call=of_translator,
        lacks=("pad_token_id",),
    ),
    "pegasus": Family(
        config="PegasusConfig",
        model="PegasusForConditionalGeneration",
        base=TRANSLATOR,
        values=OF_TRANSLATOR,
        call=of_translator,
        lacks=("pad_token_id",),
    ),
    "bart": Family(
        config="BartConfig",
        model="BartForConditionalGeneration",
        base={**TRANSLATOR, "scale_embedding": False},
        values={**OF_TRANSLATOR, "scale_embedding": [True], "tie_word_embeddings": [False]},
        call=of_translator,
        lacks=("pad_token_id",),
    ),
    "vit": Family(
        config="ViTConfig",
        model="ViTForImageClassification",
        base={
            "hidden_size": 12,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 14,
            "image_size": 12,
            "patch_size": 4,
            "num_channels": 3,
            "num_labels": 3,
        },
        values={
            "hidden_size": [24],
            "num_hidden_layers": [1],
            "num_attention_heads": [2],
            "intermediate_size": [10],
            "hidden_act": ["relu", "silu", "gelu_new", "tanh"],
            "layer_norm_eps": [0.3],
            "image_size": [8, [8, 12]],
            "patch_size": [6, [6, 4]],
            "num_channels": [1],
            "qkv_bias": [False],
        },
        call=of_images,
        lacks=("initializer_range",),
    ),
    "reformer": Family(
        config="ReformerConfig",
        model="ReformerModelWithLMHead",
        base={
            "vocab_size": 30,
            "hidden_size": 12,
            "num_attention_heads": 3,
            "attention_head_size": 5,
            "feed_forward_size": 14,
            "attn_layers": ["local", "lsh"],
            "max_position_embeddings": 48,
            "axial_pos_shape": [6, 8],
            "axial_pos_embds_dim": [4, 8],
            "lsh_attn_chunk_length": 8,
            "local_attn_chunk_length": 8,
            "num_hashes": 2,
            "num_buckets": 4,
            "hash_seed": 7,
            "is_decoder": True,
        },
        values={
            "attention_head_size": [4],
            "attn_layers": [["lsh", "local", "lsh"], ["local"]],
            "axial_pos_embds": [False],
            "axial_pos_shape": [[8, 6]],
            "axial_pos_embds_dim": [[6, 6]],
            "feed_forward_size": [10],
            "hash_seed": [3],
            "hidden_act": ["gelu", "silu", "tanh"],
            "hidden_size": [24],
            "is_decoder": [False],
            "layer_norm_eps": [0.3],
            "local_num_chunks_before": [0, 2],
            "local_num_chunks_after": [1],
            "local_attn_chunk_length": [4, 6],
            "lsh_attn_chunk_length": [4, 12],
            "lsh_num_chunks_before": [0, 3],
            "lsh_num_chunks_after": [1],
            "max_position_embeddings": [64],
            "num_attention_heads": [2],
            "num_buckets": [6, [2, 4], None],
            "num_hashes": [1, 3],
            "vocab_size": [33],
            "tie_word_embeddings": [True],
        },
        call=of_reformer,
    ),
}

MORE: Mapping[str, Mapping[str, Any]] = {
    "axial_pos_embds_dim [6, 6]": {},
    "hidden_size 24": {"axial_pos_embds_dim": [8, 16]},
    "max_position_embeddings 64": {"axial_pos_shape": [8, 8]},
    "encoder_attention_heads 4": {"decoder_attention_heads": 4},
    "decoder_attention_heads 4": {},
    "encoder_ffn_dim 14": {"decoder_ffn_dim": 14},
    "pad_token_id 28": {"decoder_start_token_id": 28},
}
"""What has to change with a value, where theirs or ours refuses it alone."""

SEVERAL_ENDS = ("gpt_neox", "llama", "mistral", "qwen2", "qwen3")
"""Of whose end tokens the model has the first, and generation all."""

THEIRS = (AssertionError, ValueError, NotImplementedError, KeyError, TypeError, RuntimeError)
"""What their configs and models raise of what they cannot be."""

REFUSED = {
    "activation tanh",
    "activation_function gelu_new",
    "activation_function tanh",
    "add_cross_attention True",
    "afn gelu_new",
    "afn tanh",
    "decoder_attention_heads 4",
    "decoder_ffn_dim 14",
    "decoder_vocab_size 33",
    "feed_forward_proj tanh",
    "hidden_act gelu_python",
    "hidden_act quick_gelu",
    "hidden_act tanh",
    "is_decoder False",
    "layer_types ['sliding_attention', 'full_attention']",
    "is_encoder_decoder False",
    "local_num_chunks_after 1",
    "lsh_num_chunks_after 1",
    "num_buckets None",
    "patch_size [6, 4]",
    *(f"rope_parameters {rotation}" for rotation in ROTATIONS[3:]),
    "scale_attn_by_inverse_layer_idx True",
    "scale_attn_weights False",
    "scale_embedding False",
    "share_encoder_decoder_embeddings False",
    "tie_word_embeddings False",
    "tie_word_embeddings True",
    "hidden_activation tanh",
    "classifier_activation tanh",
    f"rope_parameters {SCALED}",
    *(f"{name} is_decoder True" for name in ("bert", "roberta", "xlm-roberta", "electra")),
}
"""What is refused by name, of all families or of one; everything else is followed."""

CHANGES = [
    pytest.param(
        name, key, value, marks=[pytest.mark.slow] if name in ("mt5", "pegasus") else [], id=f"{name} {key} {value}"
    )
    for name, family in FAMILIES.items()  # those two are read by the code of others
    for key in family.values
    for value in family.values[key]
]


@pytest.mark.parametrize(("name", "key", "value"), CHANGES)
def test_a_field_is_followed_or_refused_by_name(name, key, value, randomize, tmp_path):
    family, more = FAMILIES[name], MORE.get(f"{key} {value}", {})
    # A copy: their configs write into what they are given.
    changes = {key: copy.deepcopy(value)} | {other: each for other, each in more.items() if other in family.base}
    try:
        theirs = family.made(randomize, tmp_path, **changes)
    except THEIRS:  # a file that says so must be refused here too
        family.made(randomize, tmp_path)
        file = tmp_path / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
        with pytest.raises(InputError, match=key):
            read_model(tmp_path)
        return
    try:
        ours = read_model(tmp_path)
    except InputError as error:
        if key not in str(error) or not {f"{key} {value}", f"{name} {key} {value}"} & REFUSED:
            pytest.fail(f"refused, and to be followed, or without naming {key}: {error}")
        return
    with torch.no_grad():
        expected, found = family.call(theirs, ours)
    torch.testing.assert_close(found.flatten(), expected.flatten(), **CLOSE)


@pytest.mark.parametrize("name", FAMILIES)
def test_fields_that_are_not_followed_change_nothing(name, randomize, tmp_path):
    family = FAMILIES[name]
    kind = getattr(transformers, family.config)
    others = [part.name for part in dataclasses.fields(kind) if part.name not in family.values]
    assert not set(others) - NOTHING.keys(), "followed by nothing, and nothing says why"
    assert all(why for _, why in NOTHING.values())
    unexplained = [key for key in others if not hf_format(kind.model_type).explains(key)]
    assert not unexplained, "the format's table must name them, or say why they change nothing"
    before = family.made(randomize, tmp_path)
    ours, file = read_model(tmp_path), tmp_path / "config.json"
    changed = {key: not getattr(kind(), key) if NOTHING[key][0] is None else NOTHING[key][0] for key in others}
    answers = ("return_dict", "output_hidden_states")  # how they answer, not what
    told = {key: value for key, value in changed.items() if key not in answers}
    after = getattr(transformers, family.model)(kind(**{**family.base, **told})).eval()
    _milder(after).load_state_dict(before.state_dict())
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    again = read_model(tmp_path)
    for key in changed.keys() & TRAINED.keys() - set(family.lacks):
        assert getattr(again.config, TRAINED[key]) == changed[key], key
    with torch.no_grad():
        (expected, found), (same, also) = family.call(before, ours), family.call(after, again)
    torch.testing.assert_close(same, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(also, found, rtol=0, atol=0)


@pytest.mark.parametrize(
    "name", [name for name in FAMILIES if getattr(transformers, FAMILIES[name].config).attribute_map]
)
def test_a_field_under_its_common_name_is_the_field(name, randomize, tmp_path):
    family = FAMILIES[name]
    theirs = family.made(randomize, tmp_path)
    file = tmp_path / "config.json"
    written = json.loads(file.read_text())
    for common, own in type(theirs.config).attribute_map.items():
        renamed = {key: value for key, value in written.items() if key != own} | {common: written[own]}
        file.write_text(json.dumps(renamed))
        with torch.no_grad():
            expected, found = family.call(theirs, read_model(tmp_path))
        torch.testing.assert_close(found, expected, **CLOSE)
        file.write_text(json.dumps(written | {common: written[own] + 1}))
        with pytest.raises(InputError, match=f"{own} is {written[own]} and {common}"):
            read_model(tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_value_that_cannot_be_is_called_by_the_name_it_has_there(name, randomize, tmp_path):
    family = FAMILIES[name]
    written = family.made(randomize, tmp_path).config.to_dict()
    file = tmp_path / "config.json"
    wrong = [
        (key, value)
        for key in family.base
        if key not in ("num_labels", "bos_token_id", "forced_eos_token_id")
        for value in ("x", -1)
    ]
    wrong = [(key, value) for key, value in wrong if (key, value) != ("hash_seed", -1)]  # which is a seed
    if "eos_token_id" in written and family.call not in (of_encoder, of_plain_encoder):
        several = [] if name in SEVERAL_ENDS else [[1, 2]]
        wrong += [("eos_token_id", value) for value in ("x", -1, 99, *several)]
    if "pad_token_id" in written:
        wrong += [("pad_token_id", value) for value in ("x", -1, 99)]
    for key, value in wrong:
        file.write_text(json.dumps({**written, key: value}, default=str))
        with pytest.raises(InputError) as told:
            read_model(tmp_path)
        assert key in str(told.value), (key, value, str(told.value))
