"""Every kind of file that the package reads: small valid samples, and the function that reads them."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from loading_texts import Sample, lists, recipes, tables
from PIL import Image
from valid import VECTORS, write_word_vectors

import regard
from regard.checkpoints.elmo import read_published, write_published
from regard.checkpoints.folder import parameters_of, read_card, read_config, shard_weights
from regard.checkpoints.gguf import read_gguf
from regard.checkpoints.tensors import read_outline, read_tensors
from regard.data.images import open_images, read_digits, read_idx, read_image
from regard.data.labelled_images import read_labelled_images
from regard.data.music import read_chorales, read_midi, write_midi
from regard.data.notes import Note, Piece
from regard.data.token_store import TokenStore
from regard.embeddings.search import Index, IndexedFile, Passage
from regard.embeddings.sentence_transformers import read_modules
from regard.generation.settings import GenerationSettings
from regard.inspection.view import AttentionView
from regard.inspection.watch import watched_at
from regard.models.elmo import ELMo, ELMoConfig
from regard.reading import read_bytes
from regard.serving.training import read_log
from regard.tasks.generation_config import read_generation_config
from regard.tasks.images import read_frames, write_frames
from regard.tasks.loading import pointers_of
from regard.text.chat import ChatTemplate
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import Kind
from regard.text.word_list import WordList
from regard.word_embeddings.files import read_vectors

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "folders"
TEXT = "The old dog sees 12 birds, naïve ones."


def _golden(place: Path, name: str) -> Path:
    """A copy of one of the folders that the tests keep, without its card of prose."""
    shutil.copytree(GOLDEN / name, place / name, ignore=shutil.ignore_patterns("README.md", "recipe.yaml"))
    return place / name


def weights(place: Path) -> Iterator[Sample]:
    """safetensors, in one file and in shards."""

    def read(folder: Path) -> None:
        read_outline(folder / "model.safetensors")
        read_tensors(folder / "model.safetensors")

    for name in ("bert", "bahdanau"):
        yield Sample(_golden(place, name), ("model.safetensors",), read)
    shards = _golden(place, "gpt2")
    shard_weights(shards, 9000)
    yield Sample(shards, ("*.index.json", "*.index.json", "*.safetensors"), read)


def configs(place: Path) -> Iterator[Sample]:
    """The JSON files of models' folders."""

    def read(folder: Path) -> None:
        read_config(folder)
        read_card(folder)

    for name in sorted(path.name for path in GOLDEN.iterdir() if path.is_dir()):
        yield Sample(_golden(place, name), ("config.json",) * 4 + ("*.json",), read)
    modules = _golden(place / "modules", "bert-embedding")
    yield Sample(modules, ("modules.json", "modules.json", "*/config.json", "sentence*.json"), read_modules)
    generation = _golden(place / "generation", "bart-denoising")
    usual = GenerationSettings()
    yield Sample(
        generation,
        ("generation_config.json",),
        lambda folder: read_generation_config(folder, start_id=2, end_id=2, usual=usual),
    )


def models(place: Path) -> Iterator[Sample]:
    """Whole folders, any file of which is damaged."""
    for name in sorted(path.name for path in GOLDEN.iterdir() if path.is_dir()):
        yield Sample(_golden(place, name), ("*.json", "*.safetensors", "*.txt"), regard.load)


def tokenizers(place: Path) -> Iterator[Sample]:
    """tokenizer.json of each kind, BERT's vocab.txt, GPT-2's two files, ELMo's list of words."""

    def read(folder: Path) -> None:
        tokenizer = Tokenizer.load(folder)
        tokenizer.decode(tokenizer.encode(TEXT))

    texts = ["the old dog sees a bird .", "naïve birds see 12 dogs"] * 4
    sizes: dict[Kind, int] = {
        "word": 40,
        "character": 40,
        "bpe": 60,
        "byte_bpe": 270,
        "roberta": 270,
        "unigram": 60,
        "bert": 60,
    }
    for kind, size in sizes.items():
        sentinels = 3 if kind == "unigram" else 0
        Tokenizer.train(texts, kind=kind, size=size, sentinels=sentinels).save(place / kind)
        yield Sample(place / kind, ("tokenizer.json",) * 9 + ("tokenizer_config.json",), read)
    (place / "vocab").mkdir()
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "bert" / name, place / "vocab" / name)
    yield Sample(place / "vocab", ("vocab.txt", "vocab.txt", "tokenizer_config.json"), read)
    layout = json.loads((place / "byte_bpe" / "tokenizer.json").read_text())
    vocabulary = layout["model"]["vocab"] | {each["content"]: each["id"] for each in layout["added_tokens"]}
    (place / "merges").mkdir()
    (place / "merges" / "vocab.json").write_text(json.dumps(vocabulary))
    merges = "".join(" ".join(pair) + "\n" for pair in layout["model"]["merges"])
    (place / "merges" / "merges.txt").write_text("#version: 0.2\n" + merges)
    yield Sample(place / "merges", ("vocab.json", "merges.txt"), read)
    (place / "words").mkdir()
    shutil.copy(GOLDEN / "elmo" / "words.txt", place / "words")
    yield Sample(place / "words", ("words.txt",), WordList.load)


CHAT = (
    "{% set ns = namespace(n=0) %}{{ bos_token }}{% for m in messages if m.content %}<|{{ m['role'] }}|>"
    "{{ m.content | trim }}{% set ns.n = ns.n + loop.index %}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{{ 'x' * ns.n }}{% endif %}"
    "{% macro f(a) %}{{ a ~ a }}{% endmacro %}{{ f('hello'[1:4].upper().split('L')) }}{{ range(3) | join(',') }}"
)


def chats(place: Path) -> Iterator[Sample]:
    """Chat templates: programs, in a sandbox."""

    def read(folder: Path) -> None:
        found = ChatTemplate.of_folder(folder)
        if found is not None:
            found.render([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}])

    place.mkdir(parents=True)
    (place / "chat_template.jinja").write_text(CHAT)
    (place / "tokenizer_config.json").write_text(
        json.dumps(
            {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [{"name": "a", "template": CHAT}]}
        )
    )
    yield Sample(place, ("*.jinja", "*.jinja", "*.json"), read)


# --- GGUF -------------------------------------------------------------------------------------------------------


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(given: Any) -> bytes:
    if isinstance(given, bool | int | float):
        number, form = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}[type(given)]
        return struct.pack(f"<I{form}", number, given)
    if isinstance(given, str):
        return struct.pack("<I", 8) + _string(given)
    parts = [_value(each) for each in given]
    return struct.pack("<I", 9) + parts[0][:4] + struct.pack("<Q", len(parts)) + b"".join(part[4:] for part in parts)


def gguf(architecture: str, pieces: bool) -> bytes:
    """A decoder of one layer as llama.cpp's file has it, its tokenizer of bytes or of pieces."""
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab", "▁", "▁a"]
    size, width, own = len(tokens), 32, f"{architecture}."
    values: dict[str, Any] = {
        "general.architecture": architecture,
        f"{own}context_length": 16,
        f"{own}embedding_length": width,
        f"{own}block_count": 1,
        f"{own}feed_forward_length": width,
        f"{own}attention.head_count": 2,
        "tokenizer.ggml.model": "llama" if pieces else "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }
    values |= (
        {"tokenizer.ggml.scores": [-float(number) for number in range(size)], "tokenizer.ggml.unknown_token_id": 0}
        if pieces
        else {"tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": ["a b", "▁ a"]}
    )
    shapes = {"token_embd.weight": (size, width), "output_norm.weight": (width,)}
    if architecture == "gpt2":
        values[f"{own}attention.layer_norm_epsilon"] = 1e-5
        shapes |= {"position_embd.weight": (16, width), "output_norm.bias": (width,)}
        parts = {"attn_qkv": 3 * width, "attn_output": width, "ffn_up": width, "ffn_down": width}
        for part, rows in parts.items():
            shapes |= {f"blk.0.{part}.weight": (rows, width), f"blk.0.{part}.bias": (rows,)}
        for part in ("attn_norm", "ffn_norm"):
            shapes |= {f"blk.0.{part}.weight": (width,), f"blk.0.{part}.bias": (width,)}
    else:
        values |= {f"{own}attention.layer_norm_rms_epsilon": 1e-5, f"{own}rope.freq_base": 10_000.0}
        for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            shapes[f"blk.0.{part}.weight"] = (width, width)
        shapes |= {"blk.0.attn_norm.weight": (width,), "blk.0.ffn_norm.weight": (width,)}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values))
    head += b"".join(_string(key) + _value(each) for key, each in values.items())
    body = b""
    for number, (name, shape) in enumerate(shapes.items()):
        kind, each = ((8, 34), (2, 18))[number % 2] if len(shape) == 2 else (0, 0)
        count = int(np.prod(shape))
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, len(body))
        body += bytes(count // 32 * each if each else 4 * count)
    return head + b"\0" * (-len(head) % 32) + body


def ggufs(place: Path) -> Iterator[Sample]:
    place.mkdir(parents=True)
    for name, content in {
        "llama": gguf("llama", True),
        "qwen2": gguf("qwen2", False),
        "gpt2": gguf("gpt2", False),
    }.items():
        (place / name).mkdir()
        (place / name / "model.gguf").write_bytes(content)
        yield Sample(place / name, ("model.gguf",), lambda folder: read_gguf(folder / "model.gguf"))


# --- arrays -----------------------------------------------------------------------------------------------------


def published_elmo(place: Path) -> Iterator[Sample]:
    """ELMo as its authors publish it: options in JSON, weights in HDF5."""
    place.mkdir(parents=True)
    config = ELMoConfig(
        projection=4, cells=6, character_width=4, filters=((1, 4), (2, 4)), highways=1, maximum_characters=9
    )
    write_published(place, config, parameters_of(ELMo(config)))
    yield Sample(
        place,
        ("weights.hdf5",) * 4 + ("options.json",),
        lambda folder: read_published(folder / "options.json", folder / "weights.hdf5"),
    )


def vectors(place: Path) -> Iterator[Sample]:
    """Vectors of words in all formats, and what a folder of Regard's maps into memory."""
    place.parent.mkdir(parents=True, exist_ok=True)
    write_word_vectors(place, list(VECTORS))
    for name in VECTORS:
        if (place / name).is_dir():
            yield Sample(place / name, ("*",), _vectors_and_more)
        else:
            (place / f"{name}.d").mkdir()
            (place / name).rename(place / f"{name}.d" / name)
            yield Sample(place / f"{name}.d", ("*",), _only_file)


def _only_file(folder: Path) -> None:
    # Where nothing is left, the name of what was there.
    _vectors_and_more(next(iter(folder.iterdir()), folder / "gone.bin"))


def _vectors_and_more(place: Path) -> None:
    found = read_vectors(place)
    if found.subwords is not None:
        found.subwords.vector("unseen")
    np.asarray(found.matrix[:3]).sum()


def index(place: Path) -> Iterator[Sample]:
    """An index for search."""
    place.mkdir(parents=True)
    origin = {"model": "m", "pooling": "mean"}
    made = Index(place, origin)
    passage = Passage(line=1, start=0, end=3)
    made.files = {
        name: IndexedFile(size=9, written=1, passages=(passage, passage), digests=("a", "b"))
        for name in ("a.txt", "b.txt")
    }
    made.vectors = np.ones((4, 3), np.float32)
    made.save(place / "index.safetensors")
    yield Sample(place, ("*",), lambda folder: Index.load(folder / "index.safetensors", folder, origin))


def arrays(place: Path) -> Iterator[Sample]:
    """The tokens and frames that a training reads."""
    rows = [(np.arange(5), np.arange(2)), (np.arange(3), np.arange(0)), (np.arange(1), np.arange(9))]

    def read_store(folder: Path) -> None:
        store = TokenStore.open(folder)
        store.verify()
        for name in store.columns:
            store.lengths(name)
            for row in range(min(len(store), 9)):
                store.sequence(name, row)

    TokenStore.write(place / "store", {"source": 100, "target": 70_000}, rows)
    yield Sample(place / "store", ("*.json", "*.json", "*.bin"), read_store)
    (place / "frames" / "train").mkdir(parents=True)
    images = (np.full((2, 4, 4, 1), number, np.uint8) for number in range(3))
    list(write_frames(place / "frames" / "train", images, (4, 4, 1)))
    yield Sample(place / "frames", ("*.npy", "*.npy", "*.bin"), lambda folder: read_frames(folder / "train")[:3])


# --- images and music -----------------------------------------------------------------------------------------


def images(place: Path) -> Iterator[Sample]:
    """Encoded images."""
    place.mkdir(parents=True)
    pixels = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)
    colour = Image.fromarray(pixels)
    exif = Image.Exif()
    exif[0x0112] = 6
    made: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "a.png": (colour, {}),
        "b.png": (Image.fromarray(np.dstack([pixels, pixels[..., :1]])), {}),
        "c.png": (colour.quantize(16), {"transparency": 3}),
        "d.png": (Image.fromarray(pixels[..., 0].astype(np.uint16) * 99), {}),
        "a.jpg": (colour, {"exif": exif}),
        "b.jpg": (colour.convert("CMYK"), {}),
        "a.gif": (colour.quantize(16), {}),
        "a.bmp": (colour, {}),
        "a.webp": (colour, {"lossless": True}),
        "a.tif": (colour, {"compression": "tiff_lzw"}),
        "b.tif": (colour, {}),
        "a.ppm": (colour, {}),
    }
    for name, (image, settings) in made.items():
        folder = place / name.replace(".", "-")
        folder.mkdir()
        image.save(folder / name, **settings)
        yield Sample(folder, ("*",), lambda folder, name=name: read_image(folder / name))


def collections(place: Path) -> Iterator[Sample]:
    """Many images: MNIST's files, archives."""
    for ending, write in (
        (".gz", lambda path, content: path.write_bytes(gzip.compress(content))),
        ("", Path.write_bytes),
    ):
        folder = place / f"idx{ending}"
        folder.mkdir(parents=True)
        digits = bytes([0, 0, 8, 3]) + struct.pack(">3I", 5, 4, 4) + bytes(range(80))
        write(folder / f"train-images-idx3-ubyte{ending}", digits)
        write(folder / f"train-labels-idx1-ubyte{ending}", bytes([0, 0, 8, 1]) + struct.pack(">I", 5) + bytes(range(5)))
        yield Sample(folder, ("*",), read_digits)
    (place / "doubles").mkdir()
    numbers = np.arange(6, dtype=">f8").tobytes()
    (place / "doubles" / "a-idx").write_bytes(bytes([0, 0, 14, 2]) + struct.pack(">2I", 2, 3) + numbers)
    yield Sample(place / "doubles", ("*",), lambda folder: read_idx(folder / "a-idx"))
    (place / "zip").mkdir()
    Image.new("RGB", (6, 4)).save(place / "a.png")
    with zipfile.ZipFile(place / "zip" / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("one/a.png", "one/b.png", "two/c.png"):
            archive.write(place / "a.png", name)

    def read(folder: Path) -> None:
        found = open_images(folder / "a.zip")
        for name in found:
            found.read(name)
        list(read_labelled_images(folder / "a.zip"))

    yield Sample(place / "zip", ("*",), read)


def music(place: Path) -> Iterator[Sample]:
    """MIDI, and chorales in JSON."""
    (place / "midi").mkdir(parents=True)
    notes = [Note(0.0, 0.5, 60, 80, 0), Note(0.5, 1.0, 64, 70, 0), Note(0.0, 1.0, 48, 60, 1)]
    write_midi(Piece.of(notes), place / "midi" / "a.mid")

    def read(folder: Path) -> None:
        for times in ("seconds", "quarters"):
            read_midi(folder / "a.mid", times=times)

    yield Sample(place / "midi", ("*",), read)
    (place / "chorales").mkdir()
    pieces = [[[60, 64, 67, 72], [60, 64, 67], []], [[48, -1, 60, 64.0]]]
    (place / "chorales" / "a.json").write_text(json.dumps({"train": pieces, "valid": pieces, "test": []}))
    yield Sample(place / "chorales", ("*",), lambda folder: read_chorales(folder / "a.json"))


# --- what is looked at again ------------------------------------------------------------------------------------


def pages(place: Path) -> Iterator[Sample]:
    """Views of attention, what was watched, and the log and pointers of a run."""
    (place / "view").mkdir(parents=True)
    view = AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "maison"], ["the", "house"])
    (place / "view" / "view.json").write_text(view.to_json())
    yield Sample(
        place / "view",
        ("*",),
        lambda folder: AttentionView.from_json(read_bytes(folder / "view.json", "give a view")).to_json(),
    )
    (place / "watched" / "watched").mkdir(parents=True)
    (place / "watched" / "watched" / "step-00000003.bin").write_bytes(zlib.compress(b"\0" * 99))
    yield Sample(place / "watched", ("*/*.bin",), lambda folder: watched_at(folder, 3), ".watched")
    (place / "run").mkdir()
    lines = [{"event": "train", "step": number, "loss": 1.5} for number in range(5)]
    (place / "run" / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place / "run" / "checkpoints.json").write_text(json.dumps({"last": "step-00000003", "best": "step-00000001"}))

    def read_run(folder: Path) -> None:
        read_log(folder / "log.jsonl")
        pointers_of(folder)

    yield Sample(place / "run", ("*",), read_run)


KINDS: dict[str, tuple[int, Callable[[Path], Iterable[Sample]]]] = {
    "safetensors": (140_000, weights),
    "configs": (30_000, configs),
    "models": (3_000, models),
    "tokenizers": (60_000, tokenizers),
    "chat templates": (8_000, chats),
    "gguf": (140_000, ggufs),
    "hdf5": (10_000, published_elmo),
    "vectors": (130_000, vectors),
    "index": (80_000, index),
    "arrays": (60_000, arrays),
    "images": (90_000, images),
    "collections": (50_000, collections),
    "music": (70_000, music),
    "recipes": (4_000, recipes),
    "tables": (60_000, tables),
    "lists": (45_000, lists),
    "pages": (20_000, pages),
}
"""By the kind of loader: how many of a million cases it gets, and what writes its samples."""
