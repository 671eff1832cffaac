"""No bit of a row depends on its neighbours, whatever processor the compiler tunes the kernels for.

`-march=native` tunes for the machine at hand, and a compiler tuned for some processors rounds some sums of products once and
others twice; so what holds with the machine's own kernels need not hold with another machine's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from tests.quantization.test_decoder import made, texts

from regard.kernels import Kernels, interface, kernels, variants
from regard.kernels.building import _openmp
from regard.layers import Tokens
from regard.quantization import InferenceDecoder

COMPILER = shutil.which(os.environ.get("CXX", "g++"))
AVX2 = {"avx2", "fma", "bmi2", "f16c"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}"),
    pytest.mark.skipif(
        COMPILER is None or not set(variants.processor().split()) >= AVX2, reason="no compiler, or no AVX2"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tunings")


def tuned_for(processor: str, folder: Path) -> Kernels:
    """The kernels with the instructions of AVX2, tuned for a processor."""
    library = folder / f"{processor}.so"
    if not library.exists():
        part = folder / f"{processor}.o"
        flags = (*variants.FLAGS, "-march=x86-64-v3", f"-mtune={processor}")
        for command in (
            [COMPILER, *flags, "-c", str(variants.SOURCE), "-o", str(part)],
            [COMPILER, str(part), *variants.LINKED, "-o", str(library)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"this compiler does not tune for {processor}: {done.stderr.splitlines()[:1]}")
    return Kernels(interface.opened(str(library), str(_openmp())))


@pytest.mark.parametrize("processor", ["generic", "znver3", "haswell"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("name", ["gpt2", "llama as mistral"])
def test_no_bit_of_a_row_depends_on_its_neighbours(name, precision, processor, folder, generator):
    model, tokens = made(name, generator), texts(generator, rows=5)
    prepared = InferenceDecoder(model, precision, compiled=tuned_for(processor, folder))
    assert prepared.kernel is not None
    more = torch.tensor([3, 9, 1, 4, 8])
    with torch.no_grad():
        read, state = prepared.read(tokens, prepared.start(5))
        found, _ = prepared.step(more, state)
        for row in range(5):
            ids = tokens.ids[row, tokens.valid[row]][None]
            alone, own = prepared.read(Tokens(ids, ids > 0), prepared.start(1))
            assert torch.equal(alone[0], read[row, tokens.valid[row]])
            assert torch.equal(prepared.step(more[row : row + 1], own)[0], found[row : row + 1])
