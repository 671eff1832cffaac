"""Hugging Face's T5 beside ours, both ways, on parameters that were all drawn anew; and the published sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.attention import buckets_of
from regard.checkpoints import layout_of, parameters_of, read_config, read_model, write_model
from regard.errors import InputError
from regard.generation import GenerationSettings, search
from regard.layers import Tokens
from regard.models import T5, T5Config

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
VERSIONS = ("1.0", "1.1")
every_version = pytest.mark.parametrize("version", VERSIONS)
every_side = pytest.mark.parametrize("side", ["right", "left"])
SOURCES = [[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1], [14, 7, 1], [8, 9, 9, 8, 1]]
TARGETS = [[0, 4, 5, 6, 7], [0, 9], [0, 8, 12]]


def theirs_of(version: str, generator: torch.Generator, **changes: Any) -> Any:
    """A model of theirs, with an output table of its own in version 1.1."""
    sizes: dict[str, Any] = {
        "vocab_size": 30,
        "d_model": 12,
        "d_kv": 5,
        "d_ff": 14,
        "num_layers": 2,
        "num_decoder_layers": 3,
        "num_heads": 3,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 10,
        "decoder_start_token_id": 0,
    }
    if version == "1.1":
        sizes |= {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    model: Any = transformers.T5ForConditionalGeneration(transformers.T5Config(**(sizes | changes)))
    if version == "1.1":
        model.config.tie_word_embeddings = False
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model.eval()


def saved(theirs: Any, folder: Path) -> Path:
    theirs.save_pretrained(folder)
    return folder


def told(theirs: Any, source: Tokens, target: Tokens) -> tuple[Tensor, Tensor]:
    """Their encoder's output and their logits."""
    with torch.no_grad():
        given = theirs(
            input_ids=source.ids,
            attention_mask=source.valid.long(),
            decoder_input_ids=target.ids,
            decoder_attention_mask=target.valid.long(),
        )
    return given.encoder_last_hidden_state, given.logits


@every_version
@every_side
def test_their_folder_gives_their_vectors_and_logits(version, side, generator, tmp_path):
    theirs = theirs_of(version, generator)
    model = read_model(saved(theirs, tmp_path))
    assert isinstance(model, T5)
    assert model.config.sharing == {"1.0": "all", "1.1": "inputs"}[version]
    source, target = Tokens.pad(SOURCES, side=side), Tokens.pad(TARGETS, side=side)
    hidden, logits = told(theirs, source, target)
    torch.testing.assert_close(model.encoder(source)[source.valid], hidden[source.valid], **CLOSE)
    torch.testing.assert_close(model(source, target)[target.valid], logits[target.valid], **CLOSE)


@pytest.mark.parametrize("projection", ["gelu", "gelu_new", "silu", "gated-silu", "gated-relu"])
def test_other_feed_forward_nets_are_theirs_too(projection, generator, tmp_path):
    theirs = theirs_of("1.0", generator, feed_forward_proj=projection)
    model = read_model(saved(theirs, tmp_path))
    source, target = Tokens.pad(SOURCES), Tokens.pad(TARGETS)
    expected = told(theirs, source, target)[1]
    torch.testing.assert_close(model(source, target)[target.valid], expected[target.valid], **CLOSE)


@every_version
def test_our_folder_opens_there_with_nothing_missing(version, generator, tmp_path):
    theirs = theirs_of(version, generator)
    model = read_model(saved(theirs, tmp_path / "theirs"))
    assert layout_of(model.config)["name"] == "t5"
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    kind = transformers.T5ForConditionalGeneration
    again, report = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert read_model(tmp_path / "ours").config == model.config
    source, target = Tokens.pad(SOURCES), Tokens.pad(TARGETS)
    for one, other in zip(told(again.eval(), source, target), told(theirs, source, target), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@every_version
@every_side
def test_greedy_and_beam_search_write_what_theirs_write(version, side, generator, tmp_path):
    """Also long past the distance from which all are alike, each step from cached keys."""
    theirs = theirs_of(version, generator, num_decoder_layers=2)  # with another number their cache breaks down
    model: Any = read_model(saved(theirs, tmp_path))
    source = Tokens.pad(SOURCES, side=side)
    for beam in (1, 4):
        settings = GenerationSettings(beam=beam, maximum_length=24, length_penalty=0.0)
        found = [list(best[0].tokens) for best in search(model, source, settings)]
        given = theirs.generate(
            input_ids=source.ids,
            attention_mask=source.valid.long(),
            num_beams=beam,
            do_sample=False,
            max_new_tokens=24,
            length_penalty=0.0,
            bad_words_ids=[[0]],
            early_stopping=False,
        )
        expected = [[index for index in row[1:] if index not in (0, 1)] for row in given.tolist()]
        assert [[index for index in row if index != 1] for row in found] == expected
        assert max(map(len, expected)) > 10


def test_old_files_repeat_the_table_and_have_a_bias_that_nothing_reads(generator, tmp_path):
    theirs = theirs_of("1.0", generator)
    saved(theirs, tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors["shared.weight"].clone()
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.randn(8, 3)
    save_file(tensors, file, metadata={"format": "pt"})
    source, target = Tokens.pad(SOURCES), Tokens.pad(TARGETS)
    expected = told(theirs, source, target)[1]
    torch.testing.assert_close(read_model(tmp_path)(source, target)[target.valid], expected[target.valid], **CLOSE)
    tensors["lm_head.weight"] += 1
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lm_head\.weight differs from shared\.weight"):
        read_model(tmp_path)


def test_an_old_config_tells_version_1_1_by_its_ties_alone(generator, tmp_path):
    theirs = theirs_of("1.1", generator)
    saved(theirs, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["scale_decoder_outputs"]
    path.write_text(json.dumps(config | {"tie_word_embeddings": False}))
    found = read_config(tmp_path)
    assert (found.sharing, found.scaled_output) == ("inputs", False)


def test_an_mt5_is_a_t5_1_1(generator, tmp_path):
    theirs = theirs_of("1.1", generator)
    saved(theirs, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for key in ("feed_forward_proj", "tie_word_embeddings", "scale_decoder_outputs"):
        del config[key]  # an mT5's config may leave out what a T5's has to say
    path.write_text(json.dumps(config | {"model_type": "mt5"}))
    source, target = Tokens.pad(SOURCES), Tokens.pad(TARGETS)
    expected = told(theirs, source, target)[1]
    torch.testing.assert_close(read_model(tmp_path)(source, target)[target.valid], expected[target.valid], **CLOSE)


@pytest.mark.parametrize("tied", [True, False])
def test_an_mt5_of_theirs_gives_their_logits(tied, generator, tmp_path):
    config = transformers.MT5Config(
        vocab_size=30, d_model=12, d_kv=5, d_ff=14, num_layers=2, num_decoder_layers=3, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=10,
    )  # fmt: skip
    theirs = transformers.MT5ForConditionalGeneration(config).eval()
    if not tied:
        theirs.config.tie_word_embeddings = False
        theirs.lm_head.weight = nn.Parameter(theirs.lm_head.weight.detach().clone())
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    saved(theirs, tmp_path / "theirs")
    assert ("lm_head.weight" in load_file(tmp_path / "theirs" / "model.safetensors")) != tied
    source, target = Tokens.pad(SOURCES), Tokens.pad(TARGETS)
    expected = told(theirs, source, target)[1]
    model = read_model(tmp_path / "theirs")
    assert model.config.sharing == ("all" if tied else "inputs")
    torch.testing.assert_close(model(source, target)[target.valid], expected[target.valid], **CLOSE)
    (tmp_path / "ours").mkdir()
    write_model(tmp_path / "ours", model.config, parameters_of(model), task={}, recipe={}, metrics={})
    again = read_model(tmp_path / "ours")
    assert again.config == model.config
    assert torch.equal(again(source, target), model(source, target))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("feed_forward_proj", "gated-gelo", r"feed_forward_proj is 'gated-gelo'; did you mean 'gated-gelu'"),
        ("num_heads", 4, r"SelfAttention\.relative_attention_bias\.weight is \(8, 3\)"),
        ("num_layers", 3, r"missing .*encoder\.block\.2\.layer\.0\.SelfAttention\.q\.weight"),
        (
            "relative_attention_max_distance",
            4,
            r"config\.json\.relative_attention_max_distance is 4 but must be above 4",
        ),
        ("eos_token_id", [1, 2], "eos_token_id"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(key, value, says, generator, tmp_path):
    path = saved(theirs_of("1.0", generator), tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match=says):
        read_model(tmp_path)


@pytest.mark.parametrize("changes", [{"scaled_output": False}, {"gated": True, "activation": "gelu"}])
def test_what_theirs_cannot_say_keeps_our_layout(changes, tmp_path, seeded):
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 6}
    model = T5(T5Config(**sizes, encoder_layers=1, decoder_layers=1, **changes)).eval()
    write_model(tmp_path, model.config, parameters_of(model), task={}, recipe={}, metrics={})
    assert layout_of(model.config)["name"] == "regard"
    source, target = Tokens.pad([[3, 4]]), Tokens.pad([[0, 5]])
    assert torch.equal(read_model(tmp_path)(source, target), model(source, target))


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "maximum"), [(32, 128), (8, 10), (64, 300), (4, 3)])
def test_buckets_are_theirs(both_ways, buckets, maximum):
    distance = torch.arange(-700, 701)
    attention = transformers.models.t5.modeling_t5.T5Attention
    expected = attention._relative_position_bucket(distance, both_ways, buckets, maximum)
    found = buckets_of(distance, buckets=buckets, maximum_distance=maximum, both_ways=both_ways)
    assert torch.equal(found, expected)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (T5Config.small(), 60_506_624),
        (T5Config.base(), 222_903_552),
        pytest.param(T5Config.large(), 737_668_096, marks=pytest.mark.slow),
        pytest.param(T5Config.three_billion(), 2_851_598_336, marks=pytest.mark.slow),
        (T5Config.eleven_billion(), 11_307_321_344),
        (T5Config.small_1_1(), 76_961_152),
        pytest.param(T5Config.base_1_1(), 247_577_856, marks=pytest.mark.slow),
        pytest.param(T5Config.large_1_1(), 783_150_080, marks=pytest.mark.slow),
        pytest.param(T5Config.xl_1_1(), 2_849_757_184, marks=pytest.mark.slow),
        (T5Config.xxl_1_1(), 11_135_332_352),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_the_published_sizes(config, count):
    with torch.device("meta"):
        assert parameters(T5(config)) == count
        theirs = transformers.T5Config(
            vocab_size=config.target_vocabulary,
            d_model=config.width,
            d_kv=config.head_width,
            d_ff=config.feedforward_width,
            num_layers=config.encoder_layers,
            num_heads=config.heads,
            feed_forward_proj="gated-gelu" if config.gated else "relu",
        )
        untied = config.target_vocabulary * config.width if config.sharing == "inputs" else 0
        assert parameters(transformers.T5ForConditionalGeneration(theirs)) + untied == count
