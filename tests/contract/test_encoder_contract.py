"""The contract of encoders of texts: every such family in `MODELS`, with every head it has, passes the same battery.

A variant joins by one line in `VARIANTS`.
"""

from __future__ import annotations

import copy
import dataclasses
import shutil
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.errors import InputError
from regard.layers import Encoded, HeadKind, TextEncoder, Tokens
from regard.models import (
    MODELS,
    AttentionStackConfig,
    BertConfig,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    RobertaConfig,
    XLMRobertaConfig,
)
from regard.testing import check_model

SIZES: dict[str, Any] = {
    "vocabulary": 13,
    "width": 12,
    "heads": 3,
    "feedforward_width": 10,
    "layers": 2,
    "maximum_positions": 16,
    "dropout": 0.3,
    "attention_dropout": 0.2,
}


def bert(**changes: Any) -> BertConfig:
    return BertConfig(**(SIZES | changes))


def distilbert(**changes: Any) -> DistilBertConfig:
    return DistilBertConfig(**(SIZES | changes))


def roberta(**changes: Any) -> RobertaConfig:
    return RobertaConfig(**(SIZES | changes))


def electra(**changes: Any) -> ElectraConfig:
    return ElectraConfig(**(SIZES | {"embedding_width": 7} | changes))


def modernbert(**changes: Any) -> ModernBertConfig:
    sizes = {name: value for name, value in SIZES.items() if name != "dropout"}
    return ModernBertConfig(**(sizes | {"window": 4, "feedforward_dropout": 0.1, "heads": 2} | changes))


def attention_stack(**changes: Any) -> AttentionStackConfig:
    return AttentionStackConfig(**(SIZES | changes))


VARIANTS = {
    "attention stack": attention_stack(),
    # Of one layer: the queries of a second one would hardly get a gradient, for the rows they see are nearly the same.
    "attention stack without skips": attention_stack(head="masked", layers=1, skips=False, activation="gelu"),
    "attention stack without feed-forward": attention_stack(head="tokens", outputs=4, feedforward=False),
    "attention stack of attention alone": attention_stack(
        head="sequence", outputs=3, skips=False, feedforward=False, norm="none"
    ),
    "attention stack without norms": attention_stack(head="choice", outputs=1, norm="none", pruned_heads=((1, 2),)),
    "attention stack spans": attention_stack(head="spans", outputs=2),
    "bert": bert(),
    "bert without a pooler": bert(pooler=False),
    "bert masked": bert(head="masked", pooler=False),
    "bert next sentence": bert(head="next_sentence", outputs=2),
    "bert pretraining": bert(head="pretraining", outputs=2),
    "bert sequence": bert(head="sequence", outputs=4),
    "bert rating": bert(head="sequence", outputs=1, head_dropout=0.4),
    "bert tokens": bert(head="tokens", outputs=5),
    "bert spans": bert(head="spans", outputs=2),
    "bert choice": bert(head="choice", outputs=1),
    "bert of three segments": bert(segments=3, head="masked", activation="gelu_tanh"),
    "bert of one segment": bert(segments=1),
    "bert relu": bert(head="pretraining", outputs=2, activation="relu", norm_epsilon=1e-5),
    "bert swish": bert(layers=1, activation="swish"),
    "bert pruned": bert(head="sequence", outputs=2, pruned_heads=((0, 1), (1, 0), (1, 2))),
    "distilbert": distilbert(),
    "distilbert masked": distilbert(head="masked"),
    "distilbert sequence": distilbert(head="sequence", outputs=4),
    "distilbert tokens": distilbert(head="tokens", outputs=5),
    "distilbert spans": distilbert(head="spans", outputs=2),
    "distilbert choice": distilbert(head="choice", outputs=1),
    "distilbert relu": distilbert(head="masked", activation="relu"),
    "distilbert pruned": distilbert(head="tokens", outputs=3, pruned_heads=((1, 1),)),
    "roberta": roberta(),
    "roberta masked": roberta(head="masked", padding_id=0),
    "roberta sequence": roberta(head="sequence", outputs=4, segments=3),
    "roberta tokens": roberta(head="tokens", outputs=5, pooler=False, pruned_heads=((1, 1),)),
    "roberta spans": roberta(head="spans", outputs=2, layers=1),
    "roberta choice": roberta(head="choice", outputs=1, padding_id=5),
    "xlm-roberta": XLMRobertaConfig(**SIZES),
    **{
        f"xlm-roberta {head}": XLMRobertaConfig(**SIZES, head=head, outputs=outputs)
        for head, outputs in (("masked", 0), ("sequence", 3), ("tokens", 4), ("spans", 2), ("choice", 1))
    },
    "modernbert": modernbert(layers=3),
    "modernbert masked": modernbert(head="masked", global_layers=(1,), norm_bias=True),
    "modernbert of two tables": modernbert(head="masked", tied_output=False, output_bias=False, head_bias=True),
    "modernbert sequence": modernbert(head="sequence", outputs=4, pooling="mean"),
    "modernbert tokens": modernbert(head="tokens", outputs=5, attention_bias=True, feedforward_bias=True),
    "modernbert spans": modernbert(head="spans", outputs=2, window=3, activation="relu"),
    "modernbert choice": modernbert(head="choice", outputs=1, global_every=1),
    "electra": electra(),
    "electra masked": electra(head="masked"),
    "electra replaced": electra(head="replaced", outputs=1, activation="relu"),
    "electra tokens": electra(head="tokens", outputs=5, layers=1),
    "electra spans": electra(head="spans", outputs=2, head_dropout=0.2),
    "electra sequence": electra(head="sequence", outputs=4, embedding_width=12),
    "electra choice": electra(head="choice", outputs=1, pruned_heads=((0, 2),)),
}

FAMILIES = ("attention_stack", "bert", "distilbert", "roberta", "xlm_roberta", "electra", "modernbert")
HEADS = {name: set(get_args(HeadKind)) for name in FAMILIES}
for name in FAMILIES:
    HEADS[name] -= (set() if name == "bert" else {"next_sentence", "pretraining"}) | (
        set() if name == "electra" else {"replaced"}
    )

# What moves every score of a query, or every place's logit, alike: the softmax takes it out again.

every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_side = pytest.mark.parametrize("side", ["left", "right"])
EXACT = {"rtol": 1e-10, "atol": 1e-12}
LENGTHS = [6, 3, 5]
VOCABULARY_HEADS = [name for name, config in VARIANTS.items() if config.head in ("masked", "pretraining")]


@pytest.fixture
def build(seeded, randomize):
    def make(variant: str, dtype: torch.dtype = torch.float64, **changes: Any) -> TextEncoder:
        config = dataclasses.replace(VARIANTS[variant], **changes)
        model = MODELS[config.model_type].model(config)
        assert isinstance(model, TextEncoder)
        return randomize(model, scale=0.8).to(dtype).eval()

    return make


@pytest.fixture
def batch(sentences):
    """Texts of different lengths, the last one of two segments; the same whichever side is padded."""

    def make(variant: str, *, side: str = "right") -> tuple[Tokens, Tensor]:
        tokens = sentences(LENGTHS, VARIANTS[variant].vocabulary, side=side, seed=1)
        segments = torch.zeros_like(tokens.ids)
        for row, second in ((0, 4), (2, 2)):
            place = int(tokens.valid[row].nonzero()[0]) + second
            segments[row, place:] = 1
        return tokens, segments * tokens.valid

    return make


def outputs(encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
    """All that a model gave, of real tokens alone."""
    found = {"hidden": encoded.hidden[tokens.valid]}
    for name in ("pooled", "logits", "next_sentence"):
        value = getattr(encoded, name)
        if value is not None:
            found[name] = value[tokens.valid] if value.dim() == 3 else value
    return found


def same(found: Encoded, wanted: Encoded, tokens: Tokens, **tolerance: float) -> None:
    one, other = outputs(found, tokens), outputs(wanted, tokens)
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(
            one[name], other[name], **(tolerance or EXACT), msg=lambda said, name=name: f"{name}: {said}"
        )


def row_of(encoded: Encoded, row: int) -> Encoded:
    return Encoded(*(None if part is None else part[row : row + 1] for part in encoded))


def alone(tokens: Tokens, segments: Tensor, row: int) -> tuple[Tokens, Tensor]:
    real = tokens.valid[row]
    return Tokens.pad([tokens.ids[row][real].tolist()]), segments[row : row + 1, real]


def test_every_registered_family_and_each_of_its_heads_is_in_the_battery():
    families = {name for name, family in MODELS.items() if family.interface == "encoder"}
    assert families == set(HEADS) == {config.model_type for config in VARIANTS.values()}
    for family, heads in HEADS.items():
        assert {config.head for config in VARIANTS.values() if config.model_type == family} == heads


@every_variant
def test_contract(variant):
    assert check_model(VARIANTS[variant])


@every_variant
def test_outputs_have_the_announced_shapes(variant, build, batch):
    config = VARIANTS[variant]
    tokens, segments = batch(variant)
    found = build(variant)(tokens, segments)
    head = config.head
    assert found.hidden.shape == (3, 6, 12)
    assert (found.pooled is not None) == (
        head in ("next_sentence", "pretraining", "sequence", "choice")
        or (head == "none" and getattr(config, "pooler", False))
    )
    assert found.pooled is None or found.pooled.shape == (3, 12)
    expected = {
        "none": None,
        "masked": (3, 6, config.vocabulary),
        "pretraining": (3, 6, config.vocabulary),
        "next_sentence": (3, 2),
        "sequence": (3, config.outputs),
        "tokens": (3, 6, config.outputs),
        "spans": (3, 6, 2),
        "replaced": (3, 6, 1),
        "choice": (3, 1),
    }[head]
    assert (None if found.logits is None else tuple(found.logits.shape)) == expected
    assert (None if found.next_sentence is None else tuple(found.next_sentence.shape)) == (
        (3, 2) if head == "pretraining" else None
    )
    assert all(value.isfinite().all() for value in outputs(found, tokens).values())


def _padded_like(encoded: Encoded, tokens: Tokens, row: int) -> list[Tensor | None]:
    """What was made of one row alone, put where its tokens stand in the batch."""
    parts: list[Tensor | None] = []
    for part in encoded:
        if part is not None and part.dim() == 3:
            whole = torch.zeros(1, tokens.ids.shape[1], part.shape[-1], dtype=part.dtype)
            whole[0, tokens.valid[row]] = part[0]
            part = whole
        parts.append(part)
    return parts


@every_variant
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_five_tokens_beside_five_hundred_are_what_they_are_alone(variant, dtype, build, sentences):
    model = build(variant, dtype, maximum_positions=512)
    tokens = sentences([5, 500], VARIANTS[variant].vocabulary, seed=4)
    segments = torch.zeros_like(tokens.ids)
    together = model(tokens, segments)
    for row, tolerance in ((0, 2e-5), (1, 2e-5)):
        single, parts = alone(tokens, segments, row)
        exact = EXACT if dtype == torch.float64 else {"rtol": 1e-4, "atol": tolerance}
        expected = Encoded(*_padded_like(model(single, parts), tokens, row))
        same(row_of(together, row), expected, tokens.select(torch.tensor([row])), **exact)


@every_variant
def test_the_order_of_rows_and_of_tokens(variant, build, batch):
    """Rows may change places; tokens may not, for positions tell them apart."""
    model = build(variant)
    tokens, segments = batch(variant)
    plain = model(tokens, segments)
    order = torch.tensor([2, 0, 1])
    moved = Encoded(*(None if part is None else part[order] for part in plain))
    same(model(tokens.select(order), segments[order]), moved, tokens.select(order))
    swapped = Tokens(tokens.ids[:1, [0, 2, 1, 3, 4, 5]], tokens.valid[:1])
    back = model(swapped, segments[:1]).hidden[:, [0, 2, 1, 3, 4, 5]]
    assert not torch.allclose(back, plain.hidden[:1])


@every_variant
def test_segments_are_told_apart_where_the_model_knows_any(variant, build, batch):
    model = build(variant)
    tokens, segments = batch(variant)
    plain, told = model(tokens), model(tokens, segments)
    same(model(tokens, torch.zeros_like(segments)), plain, tokens, rtol=0, atol=0)
    if VARIANTS[variant].segments < 2 or VARIANTS[variant].model_type == "roberta":  # of whose rows it reads the first
        same(told, plain, tokens, rtol=0, atol=0)
        return
    for row, differs in ((0, True), (1, False), (2, True)):
        one, other = (
            outputs(row_of(told, row), tokens.select(torch.tensor([row]))),
            outputs(row_of(plain, row), tokens.select(torch.tensor([row]))),
        )
        for name in one:
            assert torch.allclose(one[name], other[name]) != differs, (row, name)


@pytest.mark.parametrize("variant", VOCABULARY_HEADS)
def test_logits_at_some_places_are_those_of_all(variant, build, batch):
    model = build(variant)
    tokens, segments = batch(variant, side="left")
    everywhere = model(tokens, segments)
    places = torch.tensor([11, 3, 3, 17])
    some = model(tokens, segments, at=places)
    assert some.logits is not None
    assert everywhere.logits is not None
    torch.testing.assert_close(some.logits, everywhere.logits.flatten(0, 1)[places], **EXACT)
    assert torch.equal(some.hidden, everywhere.hidden)
    if everywhere.next_sentence is not None:
        assert torch.equal(some.next_sentence, everywhere.next_sentence)
    nowhere = model(tokens, segments, at=torch.empty(0, dtype=torch.int64))
    assert nowhere.logits is not None
    assert nowhere.logits.shape == (0, VARIANTS[variant].vocabulary)


@every_variant
def test_places_are_only_for_heads_over_the_vocabulary(variant, build, batch):
    if variant in VOCABULARY_HEADS:
        return
    tokens, segments = batch(variant)
    model = build(variant)
    same(model(tokens, segments, at=torch.tensor([0, 7])), model(tokens, segments), tokens, rtol=0, atol=0)


@every_variant
@every_side
def test_hidden_states_are_the_embedding_and_each_layer(variant, side, build, batch):
    model = build(variant)
    tokens, segments = batch(variant, side=side)
    states = model.hidden_states(tokens, segments)
    assert len(states) == VARIANTS[variant].layers + 1
    assert torch.equal(states[-1], model(tokens, segments).hidden)
    with regard.look(model, hidden=["embedding", "layers.*"]) as seen:
        model(tokens, segments)
    assert torch.equal(states[0], seen.hidden("embedding"))
    for number, state in enumerate(states[1:], start=1):
        found = seen.hidden(f"layers.{number - 1}")
        last = number == len(states) - 1 and model.norm is not None  # which a norm follows
        assert torch.equal(state, model.norm(found) if last else found)


@every_variant
@every_side
def test_recorded_weights_are_distributions_over_real_tokens(variant, side, build, batch):
    model = build(variant, torch.float32)
    tokens, segments = batch(variant, side=side)
    plain = model(tokens, segments)
    with regard.look(model) as seen:
        watched = model(tokens, segments)
    same(watched, plain, tokens, rtol=0, atol=0)
    assert seen.addresses == [f"layers.{number}.attention" for number in range(VARIANTS[variant].layers)]
    for number, address in enumerate(seen.addresses):
        weights, config = seen.weights(address), VARIANTS[variant]
        gone = sum(layer == number for layer, _ in getattr(config, "pruned_heads", ()))
        assert weights.shape == (3, config.heads - gone, 6, 6)
        assert (weights.transpose(1, 3)[~tokens.valid] == 0).all()
        window = model.windows[number]
        far = torch.zeros(6, 6, dtype=torch.bool)
        if window is not None:
            places = torch.arange(6)
            far = (places[:, None] - places).abs() > window
        assert not weights.permute(0, 2, 3, 1)[far & tokens.valid[:, :, None]].any()
        near = ~far & tokens.valid[:, None, :] & tokens.valid[:, :, None]
        assert (weights.permute(0, 2, 3, 1)[near] > 0).all()
        told = weights.sum(dim=-1).transpose(1, 2)[tokens.valid]
        torch.testing.assert_close(told, torch.ones_like(told))


@every_variant
def test_without_dropout_training_is_evaluation(variant, build, batch):
    names = [field.name for field in dataclasses.fields(VARIANTS[variant]) if field.name.endswith("dropout")]
    model = build(variant, **dict.fromkeys(names, 0.0))
    tokens, segments = batch(variant)
    expected = model(tokens, segments)
    same(model.train()(tokens, segments), expected, tokens)


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_training_without_padding_has_the_gradients_of_training_with_it(variant, side, build, batch):
    """A hook inside the model keeps the padding."""
    names = [field.name for field in dataclasses.fields(VARIANTS[variant]) if field.name.endswith("dropout")]
    model = build(variant, **dict.fromkeys(names, 0.0)).train()
    tokens, segments = batch(variant, side=side)
    found = []
    for padded in (False, True):
        if padded:
            model.layers[-1].register_forward_hook(lambda *told: None)
        given = outputs(model(tokens, segments), tokens)
        loss = sum((number * torch.linspace(-1, 1, number.numel()).view_as(number)).sum() for number in given.values())
        found.append(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


@every_variant
def test_the_longest_text_is_read_and_a_longer_one_refused(variant, build):
    model = build(variant)
    limit = model.maximum_length
    assert limit == 16
    assert model(Tokens.pad([[4] * limit])).hidden.isfinite().all()
    with pytest.raises(InputError, match=f"text has {limit + 1} tokens .* for {limit};.* {model.length_setting}"):
        model(Tokens.pad([[4] * (limit + 1), [4]]))
    with pytest.raises(InputError, match="text has 17 tokens"):
        model.hidden_states(Tokens.pad([[4] * (limit + 1)]))
    assert hasattr(model.config, model.length_setting.removeprefix("model."))


def ties(model: nn.Module) -> set[frozenset[str]]:
    """Names of parameters that are one and the same tensor."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter.data_ptr(), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


@every_variant
def test_the_output_over_the_vocabulary_is_the_embedding_table(variant, build, batch):
    """One tensor, which stays one wherever the model goes, and learns from both sides."""
    model = build(variant)
    tied = {"masked": "head.output.weight", "pretraining": "head.masked.output.weight"}.get(VARIANTS[variant].head)
    tied = tied if getattr(VARIANTS[variant], "tied_output", True) else None
    expected = set() if tied is None else {frozenset({"embedding.tokens.weight", tied})}
    for moved in (model, copy.deepcopy(model), build(variant).float(), build(variant).bfloat16()):
        assert ties(moved) == expected
    if tied is not None:
        tokens, segments = batch(variant)
        table = model.embedding.tokens.weight
        logits = model(tokens, segments).logits
        assert logits is not None
        unseen = [index for index in range(VARIANTS[variant].vocabulary) if index not in tokens.ids[tokens.valid]]
        (gradient,) = torch.autograd.grad(logits[tokens.valid].square().sum(), table)
        assert gradient[unseen].abs().amax() > 0


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["bert pretraining", "distilbert pruned"])
def test_a_compiled_model_is_the_eager_one(variant, build, batch):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler")
    model = build(variant, torch.float32)
    torch._dynamo.reset()
    try:
        compiled = torch.compile(copy.deepcopy(model), dynamic=True)
        for side in ("right", "left"):
            tokens, segments = batch(variant, side=side)
            expected, found = model(tokens, segments), compiled(tokens, segments)
            same(found, expected, tokens, rtol=1e-4, atol=1e-5)
    finally:
        torch._dynamo.reset()


@pytest.mark.parametrize("variant", ["bert sequence", "distilbert masked"])
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vocabulary": 0}, "vocabulary is 0 but must be at least 1"),
        ({"width": 0}, "width is 0 but must be at least 1"),
        ({"heads": -1}, "heads is -1 but must be at least 1"),
        ({"heads": 5}, "heads is 5 but must be a divisor of width 12"),
        ({"feedforward_width": 0}, "feedforward_width is 0 but must be at least 1"),
        ({"layers": 0, "pruned_heads": ()}, "layers is 0 but must be at least 1"),
        ({"maximum_positions": 0}, "maximum_positions is 0 but must be at least 1"),
        ({"activation": "tanh"}, "activation is 'tanh'; choose 'gelu' or"),
        ({"dropout": 1.0}, r"dropout is 1.0 but must be in \[0, 1\)"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"attention_dropout": 1.5}, "attention_dropout is 1.5"),
        ({"head_dropout": 1.0}, "head_dropout is 1.0"),
        ({"norm_epsilon": 0.0}, "norm_epsilon is 0.0 but must be above 0"),
        ({"init_std": float("nan")}, "init_std is nan; it must be a finite number"),
        ({"init_std": 0.0}, "init_std is 0.0 but must be above 0"),
        ({"padding_id": 13}, r"padding_id is 13 but must be in \[0, 13\)"),
        ({"padding_id": -1}, "padding_id is -1"),
        ({"pruned_heads": ((0, 3),)}, r"pruned_heads is \(\(0, 3\),\) but must be different pairs of a layer below"),
        ({"pruned_heads": ((9, 0),)}, "pruned_heads is"),
        ({"pruned_heads": ((0, 1), (0, 1))}, "pruned_heads is .* different pairs"),
        ({"pruned_heads": ((0, 0), (0, 1), (0, 2))}, "without one layer whose heads are all gone"),
        ({"pruned_heads": (0, 1)}, "pruned_heads is 0; it must be a list"),
        ({"pruned_heads": ((0, 1, 2),)}, r"pruned_heads is \(0, 1, 2\); it must be a list of 2"),
        ({"head": "sequences"}, "head is 'sequences'; choose 'none' or"),
        ({"head": "masked", "outputs": 7}, "outputs is 7 but must be 0; for the head 'masked'"),
        ({"head": "sequence", "outputs": 0}, "outputs is 0 but must be at least 1; for the head 'sequence'"),
        ({"head": "spans", "outputs": 3}, "outputs is 3 but must be 2; for the head 'spans'"),
        ({"width": 12.5}, "width is 12.5; it must be a whole number"),
        ({"layers": True}, "layers is True; it must be a whole number"),
    ],
)
def test_every_error_of_a_config_is_one_sentence(variant, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        dataclasses.replace(VARIANTS[variant], **changes)


@every_variant
def test_matrices_start_small_and_cut_and_biases_at_zero(variant, seeded):
    """Normal with the config's deviation, cut at two of it (the authors' code); norms at one and zero."""
    config = dataclasses.replace(VARIANTS[variant], init_std=0.05)
    model = MODELS[config.model_type].model(config)
    for name, parameter in model.named_parameters():
        if "norm" in name or "_residual" in name:
            assert (parameter == (1.0 if name.endswith("weight") else 0.0)).all(), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:
            assert parameter.abs().max() <= (1.0 if name == "head.output.weight" else 0.1), name
            # ModernBERT's maps back to the blocks' width are drawn closer to zero the more blocks there are.
            least = 0.01 if config.model_type == "modernbert" else 0.03
            assert parameter.numel() < 100 or least < parameter.std() < 0.06, name
