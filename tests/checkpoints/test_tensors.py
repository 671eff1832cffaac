"""Named tensors on disk, and the digest of each."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints import read_tensors, write_tensors
from regard.checkpoints.tensors import digest
from regard.errors import InputError


@pytest.fixture
def tensors(generator) -> dict[str, torch.Tensor]:
    drawn = torch.randn(3, 5, generator=generator)
    return {
        "plain": drawn,
        "turned": drawn.t(),
        "half": drawn.to(torch.bfloat16),
        "count": torch.tensor(7),
        "flags": torch.tensor([True, False]),
        "none": torch.empty(0, 4),
    }


def test_tensors_come_back_bit_for_bit(tensors, tmp_path):
    digests = write_tensors(tmp_path / "t.safetensors", tensors)
    read = read_tensors(tmp_path / "t.safetensors", digests)
    assert read.keys() == tensors.keys() == digests.keys()
    for name, tensor in tensors.items():
        assert torch.equal(read[name], tensor)
        assert read[name].dtype == tensor.dtype


def test_a_digest_is_of_content_dtype_and_shape(tensors):
    plain = tensors["plain"]
    assert digest(plain) == digest(plain.clone()) == digest(plain.t().contiguous().t())
    changed = plain.clone()
    changed[2, 4] = changed[2, 4].nextafter(torch.tensor(9.0))
    others = [changed, plain.reshape(5, 3), plain.view(torch.int32), plain.to(torch.float64), torch.empty(0, 5)]
    assert len({digest(tensor) for tensor in [plain, *others]}) == 6
    assert digest(torch.empty(0, 4)) != digest(torch.empty(4, 0))


@pytest.mark.parametrize("size", [0, 3, 8, 60, -1])
def test_a_truncated_file_is_named(size, tensors, tmp_path):
    path = tmp_path / "t.safetensors"
    write_tensors(path, tensors)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"t\.safetensors: not a readable safetensors file"):
        read_tensors(path)


def test_a_flipped_bit_anywhere_in_the_data_is_found_and_its_tensor_named(tensors, tmp_path):
    path = tmp_path / "t.safetensors"
    digests = write_tensors(path, tensors)
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for place in range(start, len(whole), 7):
        content = bytearray(whole)
        content[place] ^= 0x10
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"(plain|turned|half|count|flags) is not what was saved"):
            read_tensors(path, digests)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.safetensors: no such file"):
        read_tensors(tmp_path / "none.safetensors")


def test_a_pickle_is_not_read(tmp_path):
    path = tmp_path / "t.safetensors"
    torch.save({"a": torch.zeros(2)}, path)
    with pytest.raises(InputError, match="not a readable safetensors file"):
        read_tensors(path)
