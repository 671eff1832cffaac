"""The folder is the model: there and back for every family, and one sentence for whatever is wrong with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.checkpoints import parameters_of, read_card, read_model
from regard.errors import InputError

KINDS = pytest.mark.parametrize(
    ("family", "shared", "changes"),
    [
        ("bahdanau", True, {}),
        ("bahdanau", False, {"score": "general"}),
        ("transformer", True, {"sharing": "all"}),
        ("transformer", True, {"norm": "post", "attention_bias": True, "output_bias": "trained", "activation": "gelu"}),
        ("transformer", True, {"attention_bias": True, "output_bias": "none", "alignment_layer": 0}),
        ("transformer", True, {"positions": "none", "scale_power": 1.0}),
        ("transformer", True, {"sharing": "none", "norm": "post", "positions": "learned"}),
        ("transformer", False, {"sharing": "target", "attention_bias": True}),
    ],
)


@KINDS
def test_a_model_comes_back_as_it_was(family, shared, changes, translator, tmp_path):
    saved = translator(family, shared=shared, **changes)
    saved.save(tmp_path / "model")
    loaded = regard.load(tmp_path / "model")
    assert loaded.model.config == saved.model.config
    assert not loaded.model.training
    theirs, ours = parameters_of(loaded.model), parameters_of(saved.model)
    assert theirs.keys() == ours.keys()
    for name, tensor in ours.items():
        assert torch.equal(theirs[name], tensor), name
    assert loaded.task == saved.task
    assert loaded.task.shared is shared
    assert (loaded.recipe, loaded.metrics) == (saved.recipe, saved.metrics)
    texts = ["abc", "hgf e", "b"]
    assert loaded.translate_batch(texts) == saved.translate_batch(texts)


@KINDS
def test_saving_what_was_loaded_changes_no_byte(family, shared, changes, translator, tmp_path):
    translator(family, shared=shared, **changes).save(tmp_path / "one")
    regard.load(tmp_path / "one").save(tmp_path / "two")
    one, two = (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two


def test_the_files_are_those_the_format_names(translator, tmp_path):
    translator("transformer").save(tmp_path / "shared")
    translator("transformer", shared=False).save(tmp_path / "two")
    names = {"README.md", "config.json", "model.safetensors", "regard.json"}
    theirs = {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}
    assert {path.name for path in (tmp_path / "shared").iterdir()} == names | theirs
    assert {path.name for path in (tmp_path / "two").iterdir()} == names | {"source", "target"}
    config = json.loads((tmp_path / "two" / "config.json").read_text())
    assert (config["model_type"], config["format_version"]) == ("transformer", 1)


def test_a_folder_from_before_the_newer_settings_still_loads(translator, tmp_path):
    """Then a start token stood apart from padding, and nothing was added to the logits: the very same numbers come out."""
    old = translator("transformer", start_id=2, norm_epsilon=1e-6, output_bias="none")
    old.save(tmp_path / "model")

    def forget(values):
        for key in ("output_bias", "activation", "scale_power"):
            del values[key]

    change_json(tmp_path / "model" / "config.json", forget)
    change_json(tmp_path / "model" / "regard.json", lambda values: values.pop("layout"))
    loaded = regard.load(tmp_path / "model")
    assert loaded.model.config == old.model.config
    batch = old.teacher_forced([("abc", "cb"), ("h", "gfed")])
    assert torch.equal(loaded.model(batch.source, batch.target), old.model(batch.source, batch.target))
    assert loaded.translate("abc") == old.translate("abc")


def test_tied_weights_are_stored_once_and_tied_again(translator, tmp_path):
    saved = translator("transformer", sharing="all")
    saved.save(tmp_path / "model")
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert [name for name in stored if "embed_tokens" in name or "shared" in name or "lm_head" in name] == [
        "model.shared.weight"
    ]
    model = regard.load(tmp_path / "model").model
    tables = [model.encoder.embedding.tokens.weight, model.decoder.embedding.tokens.weight, model.output.weight]
    assert len({table.data_ptr() for table in tables}) == 1
    moved = model.to(torch.bfloat16)
    assert moved.output.weight.data_ptr() == moved.encoder.embedding.tokens.weight.data_ptr()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_dtype_is_taken_on_request(dtype, translator, tmp_path):
    translator("bahdanau").save(tmp_path / "model")
    model = regard.load(tmp_path / "model", dtype=dtype).model
    assert {parameter.dtype for parameter in model.parameters()} == {getattr(torch, dtype)}


def test_a_half_precision_model_is_saved_as_it_is(translator, tmp_path):
    saved = translator("bahdanau").to(torch.bfloat16)
    saved.save(tmp_path / "model")
    assert {tensor.dtype for tensor in load_file(tmp_path / "model" / "model.safetensors").values()} == {torch.bfloat16}
    loaded = regard.load(tmp_path / "model", dtype="bfloat16")
    assert loaded.translate_batch(["abc", "f"]) == saved.translate_batch(["abc", "f"])


def test_a_folder_can_be_moved(translator, tmp_path):
    saved = translator("bahdanau")
    saved.save(tmp_path / "model")
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "model", tmp_path / "elsewhere" / "renamed")
    assert regard.load(tmp_path / "elsewhere" / "renamed").translate("abc") == saved.translate("abc")


def test_a_model_is_saved_in_place_of_a_model(translator, tmp_path):
    translator("transformer", shared=False).save(tmp_path / "model")
    saved = translator("bahdanau")
    saved.save(tmp_path / "model")
    assert regard.load(tmp_path / "model").translate("abc") == saved.translate("abc")
    assert not (tmp_path / "model" / "source").exists()


@pytest.mark.parametrize("other", ["thesis.tex", "checkpoints"])
def test_a_folder_with_anything_else_in_it_is_not_written_over(other, translator, tmp_path):
    translator("bahdanau").save(tmp_path / "model")
    (tmp_path / "model" / other).mkdir()
    with pytest.raises(InputError, match=f"contains {other}"):
        translator("transformer").save(tmp_path / "model")
    assert (tmp_path / "model" / other).is_dir()
    assert read_model(tmp_path / "model").config.model_type == "bahdanau"


# --- damage -------------------------------------------------------------------------------------------------


def change_tensors(folder: Path, change, *, card: bool = True) -> None:
    """Edit the weights; `card=False` also takes the digests away, as in a folder made elsewhere."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    if not card:
        change_json(folder / "regard.json", lambda values: values.update(digests={}))


def change_json(path: Path, change) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


LAYER = "encoder.layers.1.feedforward.inner.weight"
SMALL = torch.zeros(3, 4)

# What is done to the folder, and what the message has to name: the file first, then the key.
DAMAGES = {
    "truncated": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-100]),
        ("model.safetensors", "truncated"),
    ),
    "empty": (lambda f: (f / "model.safetensors").write_bytes(b""), ("model.safetensors", "truncated")),
    "flipped": (lambda f: flip(f / "model.safetensors", -1), ("model.safetensors", "checksum differs")),
    "tampered": (
        lambda f: change_tensors(f, lambda t: t[LAYER].add_(1e-3)),
        ("model.safetensors", f"{LAYER} is not what was saved"),
    ),
    "another shape": (
        lambda f: change_tensors(f, lambda t: t.update({LAYER: SMALL}), card=False),
        ("model.safetensors", f"{LAYER} is (3, 4) where (10, 12) is wanted"),
    ),
    "missing key": (lambda f: change_tensors(f, lambda t: t.pop(LAYER)), ("model.safetensors", f"missing {LAYER}")),
    "extra key": (
        lambda f: change_tensors(f, lambda t: t.update({"pooler.weight": SMALL})),
        ("model.safetensors", "not known pooler.weight"),
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ("model.safetensors", "no such file")),
    "no card": (lambda f: (f / "regard.json").unlink(), ("regard.json", "no such file")),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), ("tokenizer.json", "no such file")),
    "config is no JSON": (lambda f: (f / "config.json").write_text('{"width": '), ("config.json", "is not JSON")),
    "config is no text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), ("config.json", "not UTF-8 text")),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), ("config.json", "not a JSON object")),
    "card is no JSON": (lambda f: (f / "regard.json").write_text("nothing"), ("regard.json", "is not JSON")),
    "card without digests": (
        lambda f: change_json(f / "regard.json", lambda v: v.pop("digests")),
        ("regard.json", "digests is missing"),
    ),
    "card with a list": (
        lambda f: change_json(f / "regard.json", lambda v: v.update(task=[])),
        ("regard.json", "task is missing or not an object"),
    ),
    "later card": (
        lambda f: change_json(f / "regard.json", lambda v: v.update(format_version=2)),
        ("regard.json", "format_version 2 is not known; update regard"),
    ),
    "later config": (
        lambda f: change_json(f / "config.json", lambda v: v.update(format_version=2)),
        ("config.json", "format_version 2 is not known; update regard"),
    ),
    "unknown family": (
        lambda f: change_json(f / "config.json", lambda v: v.update(model_type="transformers")),
        ("config.json", "'transformers'", "did you mean 'transformer'?"),
    ),
    "family that is no name": (
        lambda f: (change_json(f / "config.json", lambda v: v.update(model_type={})), (f / "regard.json").unlink()),
        ("config.json", "model_type is '{}'"),
    ),
    "unknown setting": (
        lambda f: change_json(f / "config.json", lambda v: v.update(head=3)),
        ("config.json", "unknown key 'head'", "'heads'"),
    ),
    "missing setting": (
        lambda f: change_json(f / "config.json", lambda v: v.pop("source_vocabulary")),
        ("config.json", "missing source_vocabulary"),
    ),
    "another width": (
        lambda f: change_json(f / "config.json", lambda v: v.update(feedforward_width=11)),
        ("model.safetensors", f"{LAYER} is (10, 12) where (11, 12) is wanted"),
    ),
    "another task": (
        lambda f: change_json(f / "regard.json", lambda v: v["task"].update(name="translating")),
        ("'translating'", "translation"),
    ),
    "unknown decoding": (
        lambda f: change_json(f / "regard.json", lambda v: v["task"]["generation"].update(beems=3)),
        ("regard.json", "unknown key 'beems'"),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_one_sentence_naming_file_and_key(name, translator, tmp_path):
    folder = tmp_path / "model"
    translator("transformer", positions="learned").save(folder)
    damage, words = DAMAGES[name]
    damage(folder)
    with pytest.raises(InputError) as caught:
        regard.load(folder)
    message = str(caught.value)
    assert str(folder) in message
    for word in words:
        assert word in message
    assert "\n" not in message


def test_all_faults_of_a_file_are_told_at_once(translator, tmp_path):
    translator("transformer", positions="learned").save(tmp_path)

    def change(tensors):
        tensors.pop(LAYER)
        tensors["pooler.weight"] = SMALL
        tensors["encoder.layers.0.feedforward.inner.weight"] = SMALL.clone()

    change_tensors(tmp_path, change, card=False)
    with pytest.raises(InputError, match=rf"missing {LAYER}; not known pooler\.weight; encoder\.layers\.0.*\(3, 4\)"):
        read_model(tmp_path)


def test_weights_without_a_card_are_read_unchecked(translator, tmp_path):
    saved = translator("bahdanau")
    saved.save(tmp_path)
    (tmp_path / "regard.json").unlink()
    for name, tensor in parameters_of(read_model(tmp_path)).items():
        assert torch.equal(tensor, parameters_of(saved.model)[name])


def test_the_card_says_how_the_model_came_to_be(translator, tmp_path):
    translator("bahdanau").save(tmp_path)
    card = read_card(tmp_path)
    assert card.task["name"] == "translation"
    assert card.recipe == {"seed": 3, "note": "žluť"}
    assert card.metrics == {"loss": 1.25}
    assert card.versions["torch"] == torch.__version__
    assert card.digests.keys() == load_file(tmp_path / "model.safetensors").keys()


@pytest.mark.parametrize("name", ["nowhere", "file", "empty"])
def test_a_place_without_a_model_is_named(name, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=name):
        regard.load(tmp_path / name)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_that_are_not_finite_are_refused_by_their_name(value, dtype, translator, tmp_path):
    model = translator("transformer")
    model.to(dtype)
    name, tensor = next(iter(parameters_of(model.model).items()))
    tensor.view(-1)[0] = value
    model.save(tmp_path)
    with pytest.raises(InputError, match=rf"model\.safetensors: {name} holds numbers that are not finite"):
        regard.load(tmp_path)
