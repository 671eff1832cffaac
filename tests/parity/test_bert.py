"""Hugging Face's BERT and DistilBERT beside ours, every head, both ways, on parameters that were all drawn anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import regard
from regard.checkpoints import layout_of, parameters_of, read_config, read_model, write_model
from regard.checkpoints.layouts import hf_format
from regard.errors import InputError
from regard.inspection import prune
from regard.layers import Encoded, Tokens
from regard.models import Bert, BertConfig, DistilBert, DistilBertConfig
from regard.tasks.classification import Classifier
from regard.tasks.encoders import join, padded
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
HEADS = {
    "Model": "none",
    "ForMaskedLM": "masked",
    "ForNextSentencePrediction": "next_sentence",
    "ForPreTraining": "pretraining",
    "ForSequenceClassification": "sequence",
    "ForTokenClassification": "tokens",
    "ForQuestionAnswering": "spans",
    "ForMultipleChoice": "choice",
}
PREFIX = {"bert": "Bert", "distilbert": "DistilBert"}
CASES = [("bert", head) for head in HEADS] + [
    ("distilbert", head) for head in HEADS if head not in ("ForNextSentencePrediction", "ForPreTraining")
]
every_case = pytest.mark.parametrize(("family", "head"), CASES, ids=[f"{family} {head}" for family, head in CASES])
VOCABULARY = 30


def their_config(family: str, **changes: Any) -> Any:
    if family == "bert":
        sizes = {
            "hidden_size": 12,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "intermediate_size": 20,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 16,
        }
        return transformers.BertConfig(**(sizes | changes))
    sizes = {
        "dim": 12,
        "n_layers": 3,
        "n_heads": 3,
        "hidden_dim": 20,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 16,
    }
    return transformers.DistilBertConfig(**(sizes | changes))


def redrawn(model: nn.Module, generator: torch.Generator) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model.eval()


Made = Callable[..., tuple[Path, Any]]


@pytest.fixture
def made_elsewhere(generator, tmp_path) -> Made:
    """A folder as `save_pretrained` writes it, and the model in it."""

    def make(family: str, head: str, **changes: Any) -> tuple[Path, Any]:
        labels = {} if "num_labels" in changes or "Question" in head else {"num_labels": 4}
        config = their_config(family, **labels, **changes)
        model = redrawn(getattr(transformers, PREFIX[family] + head)(config), generator)
        folder = tmp_path / "elsewhere"
        model.save_pretrained(folder)
        return folder, model

    return make


@pytest.fixture
def rewritten() -> Callable[[Path, Callable[[dict[str, Tensor]], dict[str, Tensor]]], Path]:
    """A folder with its tensors changed by a function."""

    def write(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Path:
        save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")
        return folder

    return write


def reconfigured(folder: Path, **changes: Any) -> Path:
    values = json.loads((folder / "config.json").read_text())
    values = {key: value for key, value in {**values, **changes}.items() if value != "gone"}
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def batch(family: str, side: str = "right") -> tuple[Tokens, Tensor]:
    tokens = Tokens.pad([[2, 5, 6, 7, 3, 8, 3], [2, 9, 3], [2, 11, 3, 29, 3]], side=side)  # type: ignore[arg-type]
    segments = torch.zeros_like(tokens.ids)
    if family == "bert":
        for row, second in ((0, 5), (2, 3)):
            segments[row, int(tokens.valid[row].long().argmax()) + second :] = 1
    return tokens, segments * tokens.valid


def theirs(family: str, head: str, model: Any, tokens: Tokens, segments: Tensor) -> Any:
    """What their model makes of the batch; at padding on the left it is told the positions, which it would count from there."""
    given = {"input_ids": tokens.ids, "attention_mask": tokens.valid.long()}
    if family == "bert":
        given |= {
            "token_type_ids": segments,
            "position_ids": (tokens.valid.long().cumsum(dim=1) - 1).clamp_min(0),
        }
    if head == "ForMultipleChoice":  # the rows as the choices of one question
        given = {name: tensor.unsqueeze(0) for name, tensor in given.items()}
    return model(**given, output_hidden_states=True)


def pairs_of(
    head: str, found: Encoded, expected: Any, tokens: Tokens, side: str
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Our outputs and theirs, of real tokens alone. Their pooler takes the first column, which is padding on the left."""
    real = tokens.valid
    yield "hidden", found.hidden[real], expected["hidden_states"][-1][real]
    if side == "right" and expected.get("pooler_output") is not None:
        assert found.pooled is not None
        yield "pooled", found.pooled, expected["pooler_output"]
    logits = found.logits
    if head == "Model":
        assert logits is None
        return
    assert logits is not None
    if head == "ForPreTraining":
        yield "logits", logits[real], expected["prediction_logits"][real]
        if side == "right":
            assert found.next_sentence is not None
            yield "next sentence", found.next_sentence, expected["seq_relationship_logits"]
    elif head == "ForQuestionAnswering":
        yield "spans", logits[real], torch.stack((expected["start_logits"], expected["end_logits"]), dim=-1)[real]
    elif logits.dim() == 3:
        yield "logits", logits[real], expected["logits"][real]
    elif side == "right":
        yield "logits", logits, expected["logits"].T if head == "ForMultipleChoice" else expected["logits"]


# --- theirs, opened by us ---------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("side", ["right", "left"])
def test_our_model_computes_what_theirs_does(family, head, side, made_elsewhere):
    folder, model = made_elsewhere(family, head)
    ours: Any = read_model(folder)
    assert ours.config.head == HEADS[head]
    assert isinstance(ours, Bert if family == "bert" else DistilBert)
    tokens, segments = batch(family, side)
    if family == "distilbert" and side == "left":  # it takes no positions: what it says of each row alone is the same
        expected = [
            theirs(family, head, model, Tokens.pad([row[valid].tolist()]), segments[:1, :1])
            for row, valid in zip(tokens.ids, tokens.valid, strict=True)
        ]
        found = ours(tokens, segments)
        for row, one in enumerate(expected):
            real = tokens.valid[row]
            torch.testing.assert_close(found.hidden[row][real], one["hidden_states"][-1][0], **CLOSE)
            if found.logits is not None and found.logits.dim() == 2:
                torch.testing.assert_close(found.logits[row : row + 1], one["logits"].reshape(1, -1), **CLOSE)
        return
    with torch.no_grad():
        expected, found = theirs(family, head, model, tokens, segments), ours(tokens, segments)
        states = ours.hidden_states(tokens, segments)
    for name, mine, other in pairs_of(head, found, expected, tokens, side):
        torch.testing.assert_close(mine, other, **CLOSE, msg=lambda said, name=name: f"{name}: {said}")
    for mine, other in zip(states, expected["hidden_states"], strict=True):
        torch.testing.assert_close(mine[tokens.valid], other[tokens.valid], **CLOSE)


@pytest.mark.parametrize(
    ("family", "head"),
    [("bert", "ForPreTraining"), ("bert", "ForSequenceClassification"), ("distilbert", "ForQuestionAnswering")],
)
def test_gradients_are_theirs(family, head, made_elsewhere):
    folder, model = made_elsewhere(family, head)
    ours: Any = read_model(folder).double()
    tokens, segments = batch(family)
    expected, found = theirs(family, head, model.double(), tokens, segments), ours(tokens, segments)
    for side in (0, 1):
        sum(parts[1 + side].square().sum() for parts in pairs_of(head, found, expected, tokens, "right")).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    named = hf_format(family).tensors_to_hf(ours.config, {name: p.grad for name, p in ours.named_parameters()})
    unused = {name for name in gradients.keys() - named.keys() if not gradients[name].any()}
    assert gradients.keys() - unused == named.keys()
    for name, gradient in named.items():
        torch.testing.assert_close(
            gradient, gradients[name], rtol=1e-7, atol=1e-9, msg=lambda said, name=name: f"{name}: {said}"
        )


@pytest.mark.parametrize(
    ("theirs_called", "ours_called"),
    [
        ("gelu", "gelu"),
        ("gelu_new", "gelu_tanh"),
        ("relu", "relu"),
        ("silu", "swish"),
        ("gelu_pytorch_tanh", "gelu_tanh"),
        ("gelu_fast", "gelu_tanh"),
    ],
)
def test_activations(theirs_called, ours_called, made_elsewhere):
    folder, model = made_elsewhere("bert", "ForMaskedLM", hidden_act=theirs_called)
    ours: Any = read_model(folder)
    assert ours.config.activation == ours_called
    tokens, segments = batch("bert")
    with torch.no_grad():
        expected = theirs("bert", "ForMaskedLM", model, tokens, segments)
        torch.testing.assert_close(
            ours(tokens, segments).logits[tokens.valid], expected["logits"][tokens.valid], **CLOSE
        )


def test_epsilon_segments_and_dropouts_are_read(made_elsewhere):
    folder, model = made_elsewhere(
        "bert",
        "ForSequenceClassification",
        layer_norm_eps=1e-3,
        type_vocab_size=3,
        hidden_dropout_prob=0.25,
        attention_probs_dropout_prob=0.35,
        classifier_dropout=0.45,
        initializer_range=0.07,
        pad_token_id=4,
    )
    ours: Any = read_model(folder)
    config = ours.config
    assert (config.norm_epsilon, config.segments, config.dropout, config.attention_dropout) == (1e-3, 3, 0.25, 0.35)
    assert (config.head_dropout, config.init_std, config.padding_id) == (0.45, 0.07, 4)
    tokens, segments = batch("bert")
    with torch.no_grad():
        expected = theirs("bert", "ForSequenceClassification", model, tokens, segments * 2)
        torch.testing.assert_close(ours(tokens, segments * 2).logits, expected["logits"], **CLOSE)


def test_the_distilled_models_dropouts_are_read(made_elsewhere):
    folder, _ = made_elsewhere("distilbert", "ForSequenceClassification", seq_classif_dropout=0.45, qa_dropout=0.35)
    assert read_config(folder).head_dropout == 0.45
    folder, _ = made_elsewhere("distilbert", "ForQuestionAnswering", seq_classif_dropout=0.45, qa_dropout=0.35)
    assert read_config(folder).head_dropout == 0.35
    folder, _ = made_elsewhere("distilbert", "ForTokenClassification", dropout=0.15)
    assert read_config(folder).head_dropout == 0.15


# --- ours, opened by them ---------------------------------------------------------------------------------------


def written(model: Any, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder, model.config, parameters_of(model), task={"name": "x"}, recipe={}, metrics={})
    return folder


@every_case
def test_their_model_computes_what_ours_does(family, head, generator, tmp_path):
    kind = HEADS[head]
    sizes: dict[str, Any] = {"vocabulary": VOCABULARY, "width": 12, "heads": 3, "feedforward_width": 20, "layers": 3}
    outputs = {"sequence": 4, "tokens": 5, "next_sentence": 2, "pretraining": 2, "spans": 2, "choice": 1}.get(kind, 0)
    config = (BertConfig if family == "bert" else DistilBertConfig)(
        **sizes, maximum_positions=16, head=kind, outputs=outputs
    )
    ours = redrawn((Bert if family == "bert" else DistilBert)(config), generator)  # type: ignore[arg-type]
    folder = written(ours, tmp_path / "ours")
    assert json.loads((folder / "config.json").read_text())["architectures"] == [PREFIX[family] + head]
    assert layout_of(config)["name"] == family
    model, report = getattr(transformers, PREFIX[family] + head).from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokens, segments = batch(family)
    with torch.no_grad():
        expected, found = theirs(family, head, model.eval(), tokens, segments), ours(tokens, segments)
    for name, mine, other in pairs_of(head, found, expected, tokens, "right"):
        torch.testing.assert_close(mine, other, **CLOSE, msg=lambda said, name=name: f"{name}: {said}")
    model.save_pretrained(tmp_path / "again")
    one, two = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "again"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


@every_case
def test_their_folder_comes_back_bit_for_bit(family, head, made_elsewhere, tmp_path):
    folder, _ = made_elsewhere(family, head)
    back = written(read_model(folder), tmp_path / "back")
    one, two = (load_file(place / "model.safetensors") for place in (folder, back))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name
    config, again = (json.loads((place / "config.json").read_text()) for place in (folder, back))
    differing = {key for key in config.keys() & again.keys() if config[key] != again[key]}
    assert not differing
    assert read_config(back) == read_config(folder)
    assert read_model(back).config == read_model(folder).config


@every_case
def test_names_run_both_ways_and_every_tensor_has_one(family, head, made_elsewhere):
    folder, _ = made_elsewhere(family, head)
    model: Any = read_model(folder)
    own = parameters_of(model)
    home = hf_format(family).tensors_from_hf(
        model.config, hf_format(family).tensors_to_hf(model.config, own), "model.safetensors"
    )
    assert home.keys() == own.keys()
    assert all(torch.equal(home[name], own[name]) for name in own)
    rules = hf_format(family).name_table(model.config).rules
    assert len({rule.theirs for rule in rules}) == len({rule.ours for rule in rules}) == len(rules)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_kept(dtype, made_elsewhere, tmp_path):
    folder, _ = made_elsewhere("bert", "ForMaskedLM")
    model = read_model(folder).to(dtype)
    back = written(model, tmp_path / "half")
    assert {tensor.dtype for tensor in load_file(back / "model.safetensors").values()} == {dtype}
    assert transformers.BertForMaskedLM.from_pretrained(back, dtype="auto").dtype == dtype
    assert all(
        torch.equal(p, own) for p, own in zip(read_model(back).to(dtype).parameters(), model.parameters(), strict=True)
    )


def test_what_their_config_cannot_say_is_kept_beside_it(generator, tmp_path):
    """A dropout before a head that they have none for, and a pooler that a later head is to have."""
    sizes: dict[str, Any] = {"vocabulary": 9, "width": 4, "heads": 2, "feedforward_width": 4, "layers": 1}
    for config in (
        BertConfig(**sizes, head="spans", outputs=2, head_dropout=0.3, pooler=False),
        BertConfig(**sizes, head="masked", pooler=False),
        DistilBertConfig(**sizes, head="tokens", outputs=3, head_dropout=0.3),
    ):
        model = redrawn((Bert if isinstance(config, BertConfig) else DistilBert)(config), generator)  # type: ignore[arg-type]
        folder = written(model, tmp_path / config.model_type / config.head)
        assert read_config(folder) == config


def test_an_epsilon_that_their_config_cannot_say_keeps_our_own_layout(tmp_path):
    sizes: dict[str, Any] = {"vocabulary": 9, "width": 4, "heads": 2, "feedforward_width": 4, "layers": 1}
    odd = DistilBertConfig(**sizes, norm_epsilon=1e-5)
    assert layout_of(odd) == {"name": "regard", "why": "norm_epsilon is 1e-05 and not 1e-12"}
    assert read_model(written(DistilBert(odd), tmp_path / "odd")).config == odd
    assert layout_of(BertConfig(**sizes, norm_epsilon=1e-5))["name"] == "bert"


# --- whatever files there are -----------------------------------------------------------------------------------


def same_model(folder: Path, expected: Any) -> Any:
    model: Any = read_model(folder)
    own, wanted = parameters_of(model), parameters_of(expected)
    assert own.keys() == wanted.keys()
    assert all(torch.equal(own[name], tensor) for name, tensor in wanted.items())
    return model


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_norms_of_old_files_have_a_gamma_and_a_beta(family, made_elsewhere, rewritten):
    folder, _ = made_elsewhere(family, "ForMaskedLM")
    expected = read_model(folder)

    def old(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        names = {name: name for name in tensors}
        for name in tensors:
            if "norm" in name.lower():
                names[name] = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        return {names[name]: tensor for name, tensor in tensors.items()}

    rewritten(folder, old)
    assert any(name.endswith(".gamma") for name in load_file(folder / "model.safetensors"))
    same_model(folder, expected)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_the_prefix_may_be_there_or_not(family, made_elsewhere, rewritten):
    folder, _ = made_elsewhere(family, "Model")
    expected = read_model(folder)
    rewritten(folder, lambda tensors: {f"{family}.{name}": tensor for name, tensor in tensors.items()})
    same_model(folder, expected)
    folder, _ = made_elsewhere(family, "ForSequenceClassification")
    expected = read_model(folder)
    rewritten(folder, lambda tensors: {name.removeprefix(f"{family}."): tensor for name, tensor in tensors.items()})
    same_model(folder, expected)


def test_the_table_and_the_bias_may_be_repeated(made_elsewhere, rewritten):
    folder, _ = made_elsewhere("bert", "ForPreTraining")
    expected = read_model(folder)
    rewritten(
        folder,
        lambda tensors: (
            tensors
            | {
                "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"].clone(),
                "cls.predictions.decoder.bias": tensors["cls.predictions.bias"].clone(),
                "bert.embeddings.position_ids": torch.arange(16)[None],
            }
        ),
    )
    model = same_model(folder, expected)
    assert model.head.masked.output.weight is model.embedding.tokens.weight
    same_model(reconfigured(folder, tie_word_embeddings=False), expected)  # it is said elsewise, but it is the same

    def under_the_other_name(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        del tensors["cls.predictions.bias"]
        return tensors

    same_model(rewritten(folder, under_the_other_name), expected)


def test_the_distilled_models_table_may_be_repeated(made_elsewhere, rewritten):
    folder, _ = made_elsewhere("distilbert", "ForMaskedLM")
    expected = read_model(folder)
    table = "distilbert.embeddings.word_embeddings.weight"
    rewritten(folder, lambda tensors: tensors | {"vocab_projector.weight": tensors[table].clone()})
    same_model(folder, expected)


def test_another_table_or_bias_for_the_output_is_refused(made_elsewhere, rewritten):
    for family, name, message in (
        (
            "bert",
            "cls.predictions.decoder.weight",
            "differs from bert.embeddings.word_embeddings.weight; Regard's BERT has one",
        ),
        ("distilbert", "vocab_projector.weight", "differs from distilbert.embeddings.word_embeddings.weight"),
        ("bert", "cls.predictions.decoder.bias", "differs from cls.predictions.bias"),
    ):
        folder, _ = made_elsewhere(family, "ForMaskedLM")
        shape = (VOCABULARY,) if name.endswith("bias") else (VOCABULARY, 12)
        rewritten(folder, lambda tensors, name=name, shape=shape: tensors | {name: torch.ones(shape)})
        with pytest.raises(InputError, match=rf"model\.safetensors: {name} {message}"):
            read_model(folder)


def test_a_pooler_may_be_there_or_not(made_elsewhere, rewritten, tmp_path):
    """Without a head it is kept and written again; beside a head that does not read it, it is left out."""
    folder, model = made_elsewhere("bert", "Model")
    assert read_config(folder).pooler
    pooled: Any = read_model(folder)

    def without(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in tensors.items() if "pooler" not in name}

    rewritten(folder, without)
    bare: Any = read_model(folder)
    assert not bare.config.pooler
    assert bare.pooler is None
    tokens, segments = batch("bert")
    assert torch.equal(bare(tokens, segments).hidden, pooled(tokens, segments).hidden)
    assert "pooler.dense.weight" not in load_file(written(bare, tmp_path / "bare") / "model.safetensors")
    assert "pooler.dense.weight" in load_file(written(pooled, tmp_path / "pooled") / "model.safetensors")

    pooler = {f"bert.pooler.dense.{kind}": tensor.clone() for kind, tensor in model.pooler.dense.named_parameters()}
    for head in ("ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering"):
        folder, _ = made_elsewhere("bert", head)
        expected = read_model(folder)
        rewritten(folder, lambda tensors: tensors | pooler)
        assert same_model(folder, expected).config.head == HEADS[head]


@every_case
def test_architectures_may_be_missing(family, head, made_elsewhere):
    """The tensors tell the head; of classes, whether of texts or of tokens, the pooler does."""
    folder, _ = made_elsewhere(family, head)
    expected = "sequence" if head == "ForMultipleChoice" else HEADS[head]
    if family == "distilbert" and head == "ForMultipleChoice":
        expected = "sequence"
    assert read_config(reconfigured(folder, architectures="gone")).head == expected
    assert read_config(reconfigured(folder, architectures=None)).head == expected
    if expected == "tokens":
        with pytest.raises(InputError, match="architectures is 7; it must be a list of names"):
            read_config(reconfigured(folder, architectures=7))


def test_a_pretrained_file_tells_both_heads_whatever_the_architecture_says(made_elsewhere, rewritten):
    """The released BERT's config names the class for masked tokens; the file has both heads and the pooler."""
    folder, _ = made_elsewhere("bert", "ForPreTraining")
    assert read_config(reconfigured(folder, architectures=["BertForMaskedLM"])).head == "pretraining"

    def without_pooler(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in tensors.items() if "pooler" not in name}

    model: Any = read_model(rewritten(folder, without_pooler))
    assert model.config.head == "masked"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"is_decoder": True}, "is_decoder is True; Regard's BERT needs False"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key'; Regard's BERT needs 'absolute'",
        ),
        ({"position_embedding_type": "relative_key_query"}, "position_embedding_type is 'relative_key_query'"),
        ({"hidden_act": "tanh"}, "hidden_act is 'tanh'; it must be one of gelu, gelu_new"),
        ({"hidden_act": 3}, "hidden_act is 3"),
        ({"num_attention_heads": 5}, "config.json.num_attention_heads is 5 but must be a divisor of width 12"),
        ({"hidden_size": "12"}, "hidden_size is '12'; it must be a whole number"),
        ({"hidden_size": 24}, r"bert.embeddings.word_embeddings.weight is \(30, 12\) where \(30, 24\) is wanted"),
        ({"vocab_size": 31}, r"bert.embeddings.word_embeddings.weight is \(30, 12\) where \(31, 12\) is wanted"),
        (
            {"num_hidden_layers": 2},
            r"not known bert.encoder.layer.2.attention.*weights and config.json must come from the same model",
        ),
        ({"num_hidden_layers": 4}, r"missing bert.encoder.layer.3.attention.output.LayerNorm.bias, bert.enc"),
        (
            {"type_vocab_size": 1},
            r"bert.embeddings.token_type_embeddings.weight is \(2, 12\) where \(1, 12\) is wanted",
        ),
        ({"pruned_heads": [1]}, r"pruned_heads is \[1\]; it must map layers to lists of heads"),
        (
            {"pruned_heads": {"0": [1]}},
            r"bert.encoder.layer.0.attention.self.query.weight is \(12, 12\) where \(8, 12\) is wanted",
        ),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False, and the weights have no table for the output"),
        ({"model_type": "berth"}, "model_type is 'berth'; did you mean 'bert'"),
    ],
)
def test_what_our_model_cannot_be_is_refused_by_its_key(changes, message, made_elsewhere):
    folder, _ = made_elsewhere("bert", "ForMaskedLM")
    with pytest.raises(InputError, match=message) as raised:
        read_model(reconfigured(folder, **changes))
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t | {"bert.encoder.layer.0.adapter.weight": torch.ones(2)},
            "not known bert.encoder.layer.0.adapter.weight;",
        ),
        (
            lambda t: {k: v for k, v in t.items() if "1.output.dense.bias" not in k},
            "missing bert.encoder.layer.1.output.dense.bias;",
        ),
        (lambda t: t | {"embeddings.LayerNorm.bias": torch.ones(12)}, "have embeddings.LayerNorm.bias twice"),
        (
            lambda t: t | {"bert.embeddings.LayerNorm.gamma": torch.ones(12)},
            "have embeddings.LayerNorm.weight twice, once as bert",
        ),
        (lambda t: t | {"lm_head.weight": torch.ones(2)}, "not known lm_head.weight;"),
    ],
)
def test_tensors_that_are_not_the_models_are_refused_by_name(change, message, made_elsewhere, rewritten):
    folder, _ = made_elsewhere("bert", "ForTokenClassification")
    with pytest.raises(InputError, match=message):
        read_model(rewritten(folder, change))


def test_weights_that_are_a_pickle_or_of_no_known_parts_are_told_so(made_elsewhere):
    folder, _ = made_elsewhere("bert", "Model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    for read in (read_model, read_config):
        with pytest.raises(InputError, match=r"pytorch_model\.bin, are a pickle, which is never read"):
            read(folder)
    (folder / "pytorch_model.bin").unlink()
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(InputError, match=r"index\.json: has no weight_map"):
        read_model(folder)


# --- heads taken out --------------------------------------------------------------------------------------------


def test_a_folder_with_pruned_heads_as_transformers_4_wrote_it(made_elsewhere, rewritten):
    """Its weights are sliced, and config.json says which heads are gone; ours is what theirs was with those heads masked."""
    folder, model = made_elsewhere("bert", "ForSequenceClassification")
    tokens, segments = batch("bert")
    gone = {0: [1], 2: [0, 2]}
    with torch.no_grad():
        for layer, heads in gone.items():
            for head in heads:
                model.bert.encoder.layer[layer].attention.output.dense.weight[:, head * 4 : head * 4 + 4] = 0
        expected = theirs("bert", "ForSequenceClassification", model, tokens, segments)

    def sliced(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        for layer, heads in gone.items():
            kept = torch.cat([torch.arange(head * 4, head * 4 + 4) for head in range(3) if head not in heads])
            name = f"bert.encoder.layer.{layer}.attention"
            for part in ("query", "key", "value"):
                for kind in ("weight", "bias"):
                    tensors[f"{name}.self.{part}.{kind}"] = tensors[f"{name}.self.{part}.{kind}"][kept].contiguous()
            tensors[f"{name}.output.dense.weight"] = tensors[f"{name}.output.dense.weight"][:, kept].contiguous()
        return tensors

    rewritten(folder, sliced)
    reconfigured(folder, pruned_heads={str(layer): heads for layer, heads in gone.items()})
    ours: Any = read_model(folder)
    assert ours.config.pruned_heads == ((0, 1), (2, 0), (2, 2))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens, segments).logits, expected["logits"], **CLOSE)


def test_later_versions_of_transformers_refuse_it(tmp_path, generator):
    """As the page on folders says: they know no pruned heads, and do not load the rest as if nothing were missing."""
    config = BertConfig(
        vocabulary=VOCABULARY, width=12, heads=3, feedforward_width=20, layers=2, pruned_heads=((1, 0),)
    )
    folder = written(redrawn(Bert(config), generator), tmp_path / "pruned")
    if int(transformers.__version__.split(".")[0]) < 5:
        assert transformers.BertModel.from_pretrained(folder).config.pruned_heads == {1: [0]}
        return
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        transformers.BertModel.from_pretrained(folder)


# --- with a tokenizer, as a task --------------------------------------------------------------------------------

NAMES = {0: "NEGATIVE", 1: "POSITIVE", 2: "so-so"}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["it rains", "the dog barks at it", "rain is falling"] * 4, kind="bert", size=60)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_their_classifier_is_loaded_with_its_labels(family, made_elsewhere, tokenizer, tmp_path):
    folder, model = made_elsewhere(
        family, "ForSequenceClassification", num_labels=3, id2label=NAMES, vocab_size=tokenizer.size
    )
    tokenizer.save(folder)
    ours = regard.load(folder)
    assert isinstance(ours, Classifier)
    for text in ("it rains", ("it rains", "rain is falling")):
        texts = (text,) if isinstance(text, str) else text
        joined = join(tokenizer, *(tokenizer.encode(each) for each in texts), maximum=16)
        tokens, segments = padded([joined], padding_id=tokenizer.padding_id)
        with torch.no_grad():
            wanted = theirs(family, "", model, tokens, segments)["logits"].softmax(dim=-1)[0].tolist()
        found = ours.classify(text)
        assert list(found.probabilities) == list(NAMES.values())
        assert list(found.probabilities.values()) == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    ours.save(tmp_path / "again")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "again")
    assert again.config.id2label == NAMES
    assert regard.load(tmp_path / "again").classify("it rains") == ours.classify("it rains")


def test_labels_that_are_not_one_for_each_output_are_refused(made_elsewhere, tokenizer):
    folder, _ = made_elsewhere("bert", "ForSequenceClassification", num_labels=3, vocab_size=tokenizer.size)
    tokenizer.save(folder)
    for labels in ({"0": "a", "1": "b"}, {"0": "a", "1": "b", "2": "c", "3": "d"}, {"0": "a", "1": "a", "2": "b"}, 7):
        with pytest.raises(InputError, match=r"config\.json\.id2label .* mend the file"):
            regard.load(reconfigured(folder, id2label=labels))


@pytest.mark.parametrize("pruned", [False, True])
def test_the_model_card_says_how_it_is_opened_there_and_that_is_true(pruned, made_elsewhere, tokenizer, tmp_path):
    folder, _ = made_elsewhere("bert", "ForSequenceClassification", vocab_size=tokenizer.size)
    tokenizer.save(folder)
    ours = regard.load(folder)
    (prune(ours, {0: [1]}) if pruned else ours).save(tmp_path / "again")
    card = (tmp_path / "again" / "README.md").read_text()
    assert ("which transformers up to version 4 (because heads were pruned) opens:" in card) == pruned
    assert "Seq2Seq" not in card
    code = card.split("which transformers")[1].split("```python\n")[1].split("```")[0]
    if pruned and int(transformers.__version__.split(".")[0]) > 4:
        return
    namespace: dict[str, Any] = {}
    code = code.replace('"."', repr(str(tmp_path / "again"))).replace("...", "it rains").replace("print(", "said = (")
    exec(code, namespace)
    logits = namespace["said"].logits.softmax(dim=-1)[0].tolist()
    assert list(ours.classify("it rains").probabilities.values()) == pytest.approx(logits, rel=1e-4, abs=1e-6)


# --- a real one -------------------------------------------------------------------------------------------------

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "Open a file with open(), then iterate over it: for line in f.",
    "Ein Satz auf Deutsch, mit Umlauten: schön, größer, übermäßig!",
    "naïve café 😀 \u4f60\u597d — 3.14 %",
    "a",
    "word " * 400,
]


def test_a_real_bert_computes_what_it_does_there(minilm):
    """All layers and the pooled vector, in batches padded on either side, one text and two."""
    model = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    ours: Any = read_model(minilm)
    tokenizer = Tokenizer.load(minilm)
    reference = transformers.AutoTokenizer.from_pretrained(minilm)
    assert sum(parameter.numel() for parameter in ours.parameters()) == 22_713_216
    given = reference(SENTENCES, padding=True, truncation=True, max_length=128, return_tensors="pt")
    joined = [join(tokenizer, tokenizer.encode(text), maximum=128) for text in SENTENCES]
    tokens, segments = padded(joined, padding_id=tokenizer.padding_id)
    assert torch.equal(tokens.ids, given["input_ids"])
    with torch.no_grad():
        expected = model(**given, output_hidden_states=True)
        found, states = ours(tokens, segments), ours.hidden_states(tokens, segments)
        left = Tokens.pad([each.ids for each in joined], side="left")
        turned = ours(left)
    real = tokens.valid
    for mine, other in zip(states, expected.hidden_states, strict=True):
        torch.testing.assert_close(mine[real], other[real], rtol=0, atol=1e-5)
    torch.testing.assert_close(found.pooled, expected.pooler_output, rtol=0, atol=1e-5)
    torch.testing.assert_close(turned.hidden[left.valid], found.hidden[real], rtol=0, atol=1e-5)
    torch.testing.assert_close(turned.pooled, found.pooled, rtol=0, atol=1e-5)

    first, second = SENTENCES[:2]
    pair = reference(first, second, return_tensors="pt")
    both = join(tokenizer, tokenizer.encode(first), tokenizer.encode(second), maximum=512)
    with torch.no_grad():
        expected, found = model(**pair), ours(*padded([both], padding_id=0))
    assert pair["input_ids"][0].tolist() == both.ids
    torch.testing.assert_close(found.hidden, expected.last_hidden_state, rtol=0, atol=1e-5)


def test_the_attention_of_a_real_bert_is_what_it_is_there(minilm):
    model = transformers.BertModel.from_pretrained(minilm, attn_implementation="eager").eval()
    ours: Any = read_model(minilm)
    tokenizer = Tokenizer.load(minilm)
    tokens, segments = padded([join(tokenizer, tokenizer.encode(SENTENCES[0]), maximum=99)], padding_id=0)
    with torch.no_grad():
        expected = model(input_ids=tokens.ids, attention_mask=tokens.valid.long(), output_attentions=True).attentions
        with regard.look(ours) as seen:
            ours(tokens, segments)
    for mine, other in zip(seen.attentions(), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)
