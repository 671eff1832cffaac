"""Reading images: every format against Pillow or the bytes that were written, and every kind of damage."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image, features

from regard.data.images import decoded_image, fitted, open_images, read_digits, read_idx, read_image
from regard.errors import InputError


def encoded(pixels: np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format=kind, **options)
    return stream.getvalue()


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_a_png_is_read_to_the_pixel(pixels):
    assert np.array_equal(decoded_image(encoded(pixels), "a.png"), pixels)


def test_grey_is_lightness_as_pillow_has_it(pixels):
    found = decoded_image(encoded(pixels), "a.png", colour=False)
    assert np.array_equal(found[..., 0], np.asarray(Image.fromarray(pixels).convert("L")))
    assert found.shape == (5, 7, 1)


def test_a_camera_that_was_turned_is_turned_back(pixels):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees to the right to show
    content = encoded(pixels, exif=exif)
    assert np.array_equal(decoded_image(content, "a.png"), np.rot90(pixels, -1))


def test_what_is_see_through_stands_before_white():
    clear = np.zeros((1, 2, 4), np.uint8)
    clear[0, 1] = (10, 20, 30, 255)
    assert decoded_image(encoded(clear), "a.png").tolist() == [[[255, 255, 255], [10, 20, 30]]]


def test_sixteen_bits_are_scaled_and_not_cut():
    deep = np.array([[0, 0x8000, 0xFFFF]], np.uint16)
    assert decoded_image(encoded(deep), "a.png", colour=False)[..., 0].tolist() == [[0, 128, 255]]


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_told_in_a_sentence(content):
    with pytest.raises(InputError, match=r"x\.png: .*(not a readable image|damaged)"):
        decoded_image(content, "x.png")


def test_an_image_that_was_cut_short_is_damaged(pixels):
    whole = encoded(np.repeat(np.repeat(pixels, 20, axis=0), 20, axis=1))
    with pytest.raises(InputError, match="damaged"):
        decoded_image(whole[: len(whole) // 2], "x.png")


@pytest.mark.skipif(not features.check("avif"), reason="Pillow was built without AVIF")
def test_so_is_one_of_which_the_decoder_says_so_in_its_own_way(pixels):
    whole = encoded(pixels, "AVIF")
    with pytest.raises(InputError, match=r"x\.avif: the image is damaged"):
        decoded_image(whole.partition(b"mdat")[0] + b"mdat" + bytes(99), "x.avif")


def test_of_formats_those_are_read_that_are_asked_for(pixels):
    assert np.array_equal(decoded_image(encoded(pixels), "a.png", formats=("PNG",)), pixels)
    with pytest.raises(InputError, match=r"a\.png: is not a readable image"):
        decoded_image(encoded(pixels), "a.png", formats=("JPEG", "GIF"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_image(tmp_path / "none.png")


def test_folders_and_archives_hold_the_same_images(tmp_path, pixels):
    names = ["b.png", "inner/a.PNG", "inner/deeper/c.jpeg"]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in names:
            content = encoded(pixels, "JPEG" if name.endswith("jpeg") else "PNG")
            (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "all" / name).write_bytes(content)
            archive.writestr(name, content)
        archive.writestr("__MACOSX/._b.png", b"not an image")
        archive.writestr("notes.txt", b"not one either")
    for place in (open_images(tmp_path / "all"), open_images(tmp_path / "all.zip")):
        assert list(place) == names
        assert place.found("c.jpeg") == "inner/deeper/c.jpeg"
        assert "d.png" not in place
        assert np.array_equal(place.read("inner/a.PNG"), pixels)
        assert np.array_equal(pickle.loads(pickle.dumps(place)).read("b.png"), pixels)
        with pytest.raises(InputError, match=r"no image 'd\.png'"):
            place.read("d.png")


def test_a_name_that_two_folders_have_says_too_little(tmp_path, pixels):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.png").write_bytes(encoded(pixels))
    assert open_images(tmp_path).found("a.png") is None


def test_a_damaged_member_of_an_archive_is_named(tmp_path, pixels):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.png", encoded(pixels))
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.png cannot be unpacked"):
        open_images(path).read("a.png")


@pytest.mark.parametrize("made", ["nothing", "empty", "no archive"])
def test_a_place_without_images(tmp_path, made):
    path = tmp_path / "there"
    if made == "empty":
        path.mkdir()
    elif made == "no archive":
        path.write_text("text")
    with pytest.raises(InputError, match="there: "):
        open_images(path)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_back(tmp_path, packed):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / "a-idx3-ubyte"
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    assert np.array_equal(read_idx(path), array)


@pytest.mark.parametrize("fault", ["short", "long", "head", "text", "gzip"])
def test_a_damaged_idx_file_is_told(tmp_path, fault):
    content = idx(np.zeros((3, 4), np.uint8))
    broken = {
        "short": content[:-1],
        "long": content + b"\0",
        "head": content[:6],
        "text": b"not an idx file",
        "gzip": gzip.compress(content * 100)[:-20],
    }[fault]
    (tmp_path / "a").write_bytes(broken)
    with pytest.raises(InputError):
        read_idx(tmp_path / "a")


def test_mnists_folder(tmp_path):
    images, labels = np.zeros((3, 28, 28), np.uint8), np.array([7, 0, 9], np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "train-labels.idx1-ubyte").write_bytes(idx(labels))
    found = read_digits(tmp_path)
    assert (found.pixels.shape, found.labels.tolist()) == ((3, 28, 28), [7, 0, 9])
    with pytest.raises(InputError, match="t10k-images"):
        read_digits(tmp_path, "t10k")


def test_scikit_learns_digits():
    found = read_digits()
    assert found.pixels.shape == (1797, 8, 8)
    assert found.pixels.max() == 255
    assert sorted(set(found.labels.tolist())) == list(range(10))


def test_an_image_is_cropped_padded_or_stretched():
    wide = np.zeros((4, 8, 1), np.uint8)
    wide[:, 4:] = 200
    assert fitted(wide, 4, 4, "crop")[0, :, 0].tolist() == [0, 0, 200, 200]
    assert fitted(wide, 4, 4, "pad")[:, 0, 0].tolist() == [0, 0, 0, 0]
    assert fitted(wide, 4, 4, "pad")[:, 3, 0].tolist() == [0, 200, 200, 0]
    assert fitted(wide, 4, 4, "stretch")[0, :, 0].tolist()[::3] == [0, 200]
    assert fitted(wide, 4, 8) is wide


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("size", [(1, 1), (3, 50), (64, 7)])
def test_every_size_is_reached(pixels, fit, size):
    assert fitted(pixels, *size, fit).shape == (*size, 3)
