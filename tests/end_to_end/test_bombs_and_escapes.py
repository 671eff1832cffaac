"""Files that are made to hurt: small ones that unpack to very much, names that lead out of a folder, patterns that try for ever.

What drawn damage does is tested by `benchmarks/faults/loaders.py`; here is what nobody would draw.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import regard
from regard.checkpoints.folder import read_config
from regard.checkpoints.gguf import read_gguf
from regard.checkpoints.tensors import read_tensors, shard_file
from regard.claims.claim import claim_of
from regard.cli import maps
from regard.data.choices import read_choices
from regard.data.images import open_images, read_idx, read_image
from regard.data.notes import from_events
from regard.data.pairs import read_pairs
from regard.data.questions import read_predictions
from regard.embeddings.sentence_transformers import read_modules
from regard.errors import InputError
from regard.inspection.watch import watched_at
from regard.prompting.examples import Example
from regard.prompting.template import Template, build_prompt
from regard.reading import json_value, read_bytes, yaml_value
from regard.serving.training import read_log
from regard.tasks.images import frames_file, read_frames
from regard.tasks.loading import pointers_of
from regard.text.chat import ChatTemplate
from regard.text.tokenizer import Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "folders"


def packed(byte: bytes, megabytes: int) -> bytes:
    """Gzip that unpacks to one byte again and again; a megabyte of it is a kilobyte."""
    return gzip.compress(byte * 1_000_000, 6) * megabytes


# --- out of the folder ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../secret.safetensors",
        "/secret.safetensors",
        "a/../../secret.safetensors",
        "..",
        "a\0.safetensors",
        "x" * 300 + ".safetensors",
    ],
)
def test_an_index_names_no_shard_elsewhere(name, tmp_path):
    shutil.copytree(GOLDEN / "bert", tmp_path / "model")
    shutil.copy(GOLDEN / "bert" / "model.safetensors", tmp_path / "secret.safetensors")
    (tmp_path / "model" / "model.safetensors").unlink()
    index = {
        "weight_map": {"embeddings.weight": name.replace("/secret", f"{tmp_path}/secret") if name[0] == "/" else name}
    }
    (tmp_path / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="safetensors"):
        read_tensors(tmp_path / "model" / "model.safetensors")


def test_a_shard_may_be_a_link_as_the_hubs_cache_makes_them_and_one_that_leads_nowhere_is_missing(tmp_path):
    shutil.copy(GOLDEN / "bert" / "model.safetensors", tmp_path / "model.safetensors")
    shard_file(tmp_path / "model.safetensors", 6000)
    shard = next(tmp_path.glob("model-00001-of-*.safetensors"))
    os.renames(shard, tmp_path / "blobs" / "one")
    shard.symlink_to(tmp_path / "blobs" / "one")
    assert len(read_tensors(tmp_path / "model.safetensors"))
    shard.unlink()
    shard.symlink_to(shard)
    with pytest.raises(InputError, match="no such file"):
        read_tensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize("path", ["../other", "/etc", "1_Pooling/../../other", "a\0b", "x" * 300])
def test_no_module_of_a_sentence_encoder_is_elsewhere(path, tmp_path):
    shutil.copytree(GOLDEN / "bert-embedding", tmp_path / "model")
    shutil.copytree(GOLDEN / "bert-embedding" / "1_Pooling", tmp_path / "other")
    modules = json.loads((tmp_path / "model" / "modules.json").read_text())
    modules[1]["path"] = path
    (tmp_path / "model" / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="outside the folder"):
        read_modules(tmp_path / "model")


@pytest.mark.parametrize("name", ["../../other", "/etc", "..", "", "a/b", "x" * 300])
def test_no_checkpoint_is_elsewhere(name, tmp_path):
    (tmp_path / "checkpoints.json").write_text(json.dumps({"last": name}))
    with pytest.raises(InputError, match="which is not a folder name in checkpoints"):
        pointers_of(tmp_path)


def test_an_archive_of_images_writes_nothing_whatever_its_names_say(tmp_path):
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "a.zip", "w") as archive:
        for name in ("../escaped.png", f"{tmp_path}/escaped.png"):
            archive.writestr(name, b"no image")
    found = open_images(tmp_path / "in" / "a.zip")
    assert len(found) == 1  # what begins with a dot is hidden
    with pytest.raises(InputError, match="is not a readable image"):
        found.read(found.names[0])
    assert not list(tmp_path.rglob("escaped.png"))


# --- bombs ------------------------------------------------------------------------------------------------------


def test_an_archive_that_is_not_deflated_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.png", b"\0" * 9_000_000)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # the sizes that the archive tells are small
        start = content.index(mark) + place
        content[start : start + 4] = struct.pack("<I", 9)
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(InputError, match="uses a compression method that is not read"):
        open_images(tmp_path / "a.zip").read("a.png")


def test_an_archive_says_how_large_an_image_is_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0" * 9)
    content = (tmp_path / "a.zip").read_bytes()
    start = content.index(b"PK\x01\x02") + 24
    (tmp_path / "a.zip").write_bytes(content[:start] + struct.pack("<I", 2**31) + content[start + 4 :])
    with pytest.raises(InputError, match="unpacks to 2,147,483,648 bytes"):
        open_images(tmp_path / "a.zip").read("a.png")


def test_a_small_image_of_very_many_pixels_is_refused(tmp_path):
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = chunk(b"IHDR", struct.pack(">2I", 60_000, 60_000) + bytes([8, 2, 0, 0, 0]))
    (tmp_path / "a.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(9))) + chunk(b"IEND", b"")
    )
    with pytest.raises(InputError, match=r"pixels|not a readable image"):
        read_image(tmp_path / "a.png")


def test_what_was_watched_unpacks_to_no_more_than_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.inspection.watch.LARGEST", 1000)
    (tmp_path / "watched").mkdir()
    file = tmp_path / "watched" / "step-00000003.bin"
    file.write_bytes(zlib.compress(b"seen" * 250))
    assert watched_at(tmp_path, 3) == b"seen" * 250
    file.write_bytes(zlib.compress(b"seen" * 251))
    with pytest.raises(InputError, match="unpacks to more than"):
        watched_at(tmp_path, 3)
    file.write_bytes(zlib.compress(b"seen")[:-2])
    with pytest.raises(InputError, match="is cut short"):
        watched_at(tmp_path, 3)


def test_a_packed_line_without_an_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.lines.ENDLESS", 3_000_000)
    (tmp_path / "a.tsv.gz").write_bytes(packed(b"x", 5))
    with pytest.raises(InputError, match="line 1 does not end within"):
        list(read_pairs(tmp_path / "a.tsv.gz"))


def test_a_packed_document_is_read_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.objects.LARGEST", 3_000_000)
    (tmp_path / "a.json.gz").write_bytes(packed(b" ", 5))
    with pytest.raises(InputError, match="the limit for one document"):
        read_predictions(tmp_path / "a.json.gz")


def test_a_list_of_hdf5_that_the_library_walks_for_ever_is_told(tmp_path):
    pytest.importorskip("h5py")
    from regard.checkpoints.elmo import read_published, write_published
    from regard.checkpoints.folder import parameters_of
    from regard.models.elmo import ELMo, ELMoConfig

    config = ELMoConfig(projection=4, cells=6, character_width=4, filters=((1, 4),), highways=1, maximum_characters=9)
    write_published(tmp_path, config, parameters_of(ELMo(config)))
    content = (tmp_path / "weights.hdf5").read_bytes()
    (tmp_path / "weights.hdf5").write_bytes(content[:112] + content[112:144] * 2 + content[112:])
    with pytest.raises(InputError, match="cannot be read as an HDF5 file"):
        read_published(tmp_path / "options.json", tmp_path / "weights.hdf5")


@pytest.mark.parametrize("kind", ["huge", "packed", "elsewhere", "virtual"])
def test_a_dataset_of_hdf5_is_in_its_file_and_no_larger_than_it_says(kind, tmp_path):
    h5py = pytest.importorskip("h5py")
    from regard.checkpoints.elmo import read_published, write_published
    from regard.checkpoints.folder import parameters_of
    from regard.models.elmo import ELMo, ELMoConfig

    config = ELMoConfig(projection=4, cells=6, character_width=4, filters=((1, 4),), highways=1, maximum_characters=9)
    write_published(tmp_path, config, parameters_of(ELMo(config)))
    (tmp_path / "secret").write_bytes(bytes(4 * 261 * 4))
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        shape = file["char_embed"].shape
        del file["char_embed"]
        if kind == "huge":
            file.create_dataset("char_embed", (2**20, 2**20), "f4")
        elif kind == "packed":
            file.create_dataset(
                "char_embed", (2**20,), "f4", chunks=(2**20,), compression="gzip", data=np.zeros(2**20, "f4")
            )
        elif kind == "elsewhere":
            file.create_dataset("char_embed", shape, "f4", external=str(tmp_path / "secret"))
        else:
            layout = h5py.VirtualLayout(shape, "f4")
            layout[:] = h5py.VirtualSource(str(tmp_path / "secret.hdf5"), "x", shape)
            file.create_virtual_dataset("char_embed", layout)
    with pytest.raises(InputError, match=r"would unpack to|is in another file"):
        read_published(tmp_path / "options.json", tmp_path / "weights.hdf5")


def test_aliases_of_yaml_are_counted_before_they_are_replaced():
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    with pytest.raises(ValueError, match="with its aliases replaced it holds more than"):
        yaml_value(text)


def test_a_config_of_very_many_layers_takes_no_memory(tmp_path):
    shutil.copytree(GOLDEN / "gpt2", tmp_path / "model")
    values = json.loads((tmp_path / "model" / "config.json").read_text()) | {"n_layer": 10**9}
    (tmp_path / "model" / "config.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match="n_layer is 1000000000 but must be at most 1,000"):
        read_config(tmp_path / "model")


# --- what would take for ever -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["pre_tokenizer", "normalizer"])
def test_a_pattern_of_a_tokenizer_that_would_try_for_ever_is_given_up(place):
    layout = json.loads(Tokenizer.train(["the old dog"] * 4, kind="word", size=20).to_json())
    split = {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": False}
    replace = {"type": "Replace", "pattern": {"Regex": "(a|aa)+$"}, "content": "z"}
    layout[place] = split if place == "pre_tokenizer" else replace
    tokenizer = Tokenizer.from_json(json.dumps(layout))
    begun = time.process_time()
    for encode in (tokenizer.encode, tokenizer.encode_with_spans, tokenizer.encode_special):
        with pytest.raises(InputError, match="the tokenizer fails on a text"):
            encode("a" * 60 + "!")
    assert time.process_time() - begun < 6


@pytest.mark.parametrize("text", ["1" + ":59" * 100_000, "0x" + "f" * 9000, "9" * 5000, "1_" * 9000 + "1"])
def test_a_number_of_yaml_that_is_very_long_is_refused_at_once(text):
    begun = time.process_time()
    with pytest.raises(ValueError, match="hundreds of digits"):
        yaml_value(f"seed: {text}")
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 900 + "]" * 900,
        "9" * 5000,
        "-" + "9" * 400,
        "NaN",
        "[-Infinity]",
        "1e999",
    ],
)
def test_json_has_no_depth_and_no_number_that_python_stumbles_over(text):
    with pytest.raises(
        ValueError, match=r"nested too deeply|hundreds of digits|no number that JSON has|too large to be finite"
    ):
        json_value(text)


def test_a_chat_template_is_stopped_and_a_number_beyond_all_floats_is_told():
    def rendered(source: str) -> None:
        ChatTemplate(templates={"default": source}).render([{"role": "user", "content": "a"}])

    for source in (
        "{{ range(10 ** 9) | list }}",
        "{{ 'x' * 10**9 }}",
        "{{ 10 ** (10 ** 9) }}",
        "{% for m in range(1) %}{{ [1e400, m] }}{% endfor %}",
        "{{ messages.__class__.__mro__ }}",
    ):
        with pytest.raises(InputError, match="chat template"):
            rendered(source)


# --- what is no file ----------------------------------------------------------------------------------------------


def test_arrays_and_tables_of_a_map_are_regular_files(tmp_path):
    os.mkfifo(tmp_path / "a.npy")
    os.mkfifo(tmp_path / "a.parquet")
    np.savez(tmp_path / "b.npz", a=np.ones(3))
    for read in (
        lambda: maps._array(tmp_path / "a.npy"),
        lambda: maps._table(tmp_path / "a.parquet", 9),
        lambda: maps._array(tmp_path / "b.npz"),
        lambda: read_bytes(tmp_path / "a.npy", "give a file"),
    ):
        with pytest.raises(InputError, match=r"is a pipe|has several arrays"):
            read()


def test_a_vector_of_a_map_holds_numbers(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "vector": [null, 1]}\n')
    with pytest.raises(InputError, match="entries that are no numbers"):
        maps._table(tmp_path / "a.jsonl", 9)


def test_frames_are_regular_files_and_one_array(tmp_path):
    (tmp_path / "train").mkdir()
    place = frames_file(tmp_path / "train")
    np.savez(tmp_path / "several", a=np.ones(3))
    (tmp_path / "several.npz").rename(place)
    with pytest.raises(InputError, match="is not what was written"):
        read_frames(tmp_path / "train")
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(InputError, match="is a pipe"):
        read_frames(tmp_path / "train")


def test_a_file_of_llama_cpp_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "a.gguf")
    (tmp_path / "folder.gguf").mkdir()
    for name, said in (("a.gguf", "is a pipe"), ("folder.gguf", "is a folder"), ("gone.gguf", "no such file")):
        with pytest.raises(InputError, match=said):
            read_gguf(tmp_path / name)


# --- found by drawn damage -----------------------------------------------------------------------------------------


def test_an_idx_file_that_says_it_is_huge_takes_no_room(tmp_path):
    (tmp_path / "a-idx").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 2**31 - 1) + b"few")
    with pytest.raises(InputError, match="holds fewer numbers"):
        read_idx(tmp_path / "a-idx")
    (tmp_path / "a-idx").write_bytes(bytes([0, 0, 14, 4]) + struct.pack(">4I", 0, *[2**32 - 1] * 3))
    with pytest.raises(InputError, match="which is none"):
        read_idx(tmp_path / "a-idx")


@pytest.mark.parametrize(
    ("place", "content", "said"), [(6, b"\xff\xff", "is not a readable zip archive"), (46, b"\0", "no images")]
)
def test_a_damaged_list_of_an_archive_is_told(place, content, said, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", b"")
    whole = bytearray((tmp_path / "a.zip").read_bytes())
    start = whole.index(b"PK\x01\x02") + place
    whole[start : start + len(content)] = content
    (tmp_path / "a.zip").write_bytes(whole)
    with pytest.raises(InputError, match=said):
        open_images(tmp_path / "a.zip")


def test_an_image_with_a_broken_profile_behind_its_pixels_is_damaged(tmp_path):
    body = b"icc\0"
    chunk = struct.pack(">I", len(body)) + b"iCCP" + body + struct.pack(">I", zlib.crc32(b"iCCP" + body))
    Image.new("RGB", (3, 2)).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(content[:-12] + chunk + content[-12:])
    with pytest.raises(InputError, match="the image is damaged"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("name", [["a"], {"a": 1}, None, 7])
def test_a_chat_template_has_a_name(name, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": [{"name": name, "template": "x"}]}))
    with pytest.raises(InputError, match="it must be a template, or a list of named templates"):
        ChatTemplate.of_folder(tmp_path)


def test_a_chat_template_that_python_cannot_compile_is_told():
    deep = ChatTemplate(templates={"default": "{% if a %}" * 120 + "{% endif %}" * 120})
    with pytest.raises(InputError, match="the chat template cannot be read"):
        deep.render([{"role": "user", "content": "a"}])


def test_rows_that_are_longer_than_the_header_are_told(tmp_path):
    (tmp_path / "a.tsv").write_text("source\ttarget\n" + "a\tb\tc\n" * 9)
    with pytest.raises(InputError, match="wrong number of columns"):
        list(read_pairs(tmp_path / "a.tsv"))


def test_a_log_of_a_run_that_is_nested_deeply_is_told(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": ' + "[" * 50_000 + "\n")
    with pytest.raises(InputError, match="has a line that is no JSON object"):
        read_log(tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("general.architecture", "x" * 70_000, "general.architecture is 'xx"),
        ("tokenizer.ggml.model", "x" * 70_000, "tokenizer.ggml.model is 'xx"),
        ("tokenizer.ggml.tokens", ["<s>", "$A:9"], "its tokenizer cannot be used"),
        ("tokenizer.ggml.merges", ["<s> <s>"], "its tokenizer cannot be used"),
        ("general.alignment", 0, "general.alignment is 0"),
    ],
)
def test_a_value_of_a_file_of_llama_cpp_is_told_in_few_words(key, value, said, tmp_path):
    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    def packed(given: object) -> bytes:
        if isinstance(given, int):
            return struct.pack("<II", 4, given)
        if isinstance(given, str):
            return struct.pack("<I", 8) + string(given)
        return struct.pack("<IIQ", 9, 8, len(given)) + b"".join(map(string, given))  # type: ignore[arg-type,call-overload]

    values = {"general.architecture": "gpt2", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["<s>", "a"]}
    values |= {
        f"gpt2.{name}": 1 for name in ("context_length", "embedding_length", "block_count", "attention.head_count")
    }
    values |= {"gpt2.feed_forward_length": 1, "gpt2.attention.layer_norm_epsilon": 1, "tokenizer.ggml.bos_token_id": 1}
    values |= {"tokenizer.ggml.add_bos_token": 1, key: value}
    tensor = string("token_embd.weight") + struct.pack("<I2QIQ", 2, 1, 2, 0, 0)
    head = b"".join(string(name) + packed(each) for name, each in values.items())
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, len(values)) + head + tensor
    (tmp_path / "a.gguf").write_bytes(content + bytes(-len(content) % 32 + 64))
    with pytest.raises(InputError, match=said) as error:
        read_gguf(tmp_path / "a.gguf")
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e8m0fnu", "complex64"])
def test_weights_of_a_kind_that_is_not_read_are_told_by_name(dtype, tmp_path):
    shutil.copytree(GOLDEN / "bert", tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    name = sorted(tensors)[0]
    tensors[name] = torch.ones(tensors[name].shape).to(getattr(torch, dtype))
    save_file(tensors, tmp_path / "model" / "model.safetensors")
    for read in (read_config, regard.load):
        with pytest.raises(InputError, match=f"{name} is {dtype}, and only weights of 16, 32 or 64 bits are supported"):
            read(tmp_path / "model")


def test_a_shape_that_torch_cannot_make_is_told(tmp_path):
    head = json.dumps({"a": {"dtype": "I8", "shape": [2**64 - 1, 0], "data_offsets": [0, 0]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(head)) + head)
    with pytest.raises(InputError, match="not a readable safetensors file"):
        read_tensors(tmp_path / "a.safetensors")


def test_postscript_is_not_handed_to_another_program(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n")
    with pytest.raises(InputError, match="is PostScript"):
        read_image(tmp_path / "a.png")


def test_a_number_of_thousands_of_digits_in_a_table_is_no_number(tmp_path):
    (tmp_path / "a.csv").write_text(f"sent1,sent2,ending0,ending1,ending2,ending3,label\na,b,c,d,e,f,{'9' * 5000}\n")
    with pytest.raises(InputError, match="none of 1 row is usable"):
        list(read_choices(tmp_path / "a.csv", format="swag"))
    with pytest.raises(InputError, match="event 1 is"):
        from_events([f"wait:{'9' * 5000}"])
    template = Template(task="choice", question="{q}", choices="c")
    with pytest.raises(InputError, match="none of the 2 choices"):
        build_prompt(template, Example({"q": "a", "c": ["b", "d"], "answer": "9" * 5000}))


def test_an_image_whose_name_in_an_archive_is_no_text_cannot_be_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("é.png", b"")
    content = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(content.replace("é".encode(), b"\xb7\xb7", 1))
    with pytest.raises(InputError, match="cannot be unpacked"):
        open_images(tmp_path / "a.zip").read("é.png")


@pytest.mark.parametrize("values", [None, "text", [1]])
def test_a_claim_is_a_mapping(values):
    with pytest.raises(InputError, match="is not a claim, which is a mapping"):
        claim_of(values, "claim.yaml")


@pytest.mark.parametrize(
    "scaling",
    [
        7,
        [1],
        {"rope_type": ["yarn"], "factor": 2.0},
        {"rope_type": "yarn", "original_max_position_embeddings": "8"},
        {"rope_type": "yarn", "original_max_position_embeddings": 0},
        {"rope_type": "yarn", "factor": 2.0, "mscale": "x", "mscale_all_dim": 1.0},
        {"rope_type": "dynamic", "factor": 1e300},
    ],
)
def test_a_scaling_of_positions_of_another_type_is_told(scaling, tmp_path):
    shutil.copytree(GOLDEN / "llama", tmp_path / "model")
    values = json.loads((tmp_path / "model" / "config.json").read_text()) | {"rope_scaling": scaling}
    (tmp_path / "model" / "config.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match="rope_scaling"):
        read_config(tmp_path / "model")
