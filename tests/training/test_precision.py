"""The number format is chosen by the device, and the choice is said."""

from __future__ import annotations

import pytest
import torch

from regard.training import precision
from regard.training.precision import resolve

CPU = torch.device("cpu")


@pytest.mark.parametrize(("native", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_follows_the_processor(monkeypatch, native, dtype):
    monkeypatch.setattr(precision, "native_bfloat16", lambda device: native)
    chosen, sentence = resolve("auto", CPU)
    assert chosen is dtype
    assert str(dtype).removeprefix("torch.") in sentence
    assert "native" in sentence


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_what_is_asked_for_is_taken_whatever_the_processor(monkeypatch, name, products):
    monkeypatch.setattr(precision, "native_bfloat16", lambda device: name == "float32")
    monkeypatch.setattr(precision, "has_bfloat16_products", lambda: products)
    chosen, sentence = resolve(name, CPU)
    assert chosen is getattr(torch, name)
    assert sentence.startswith(f"{name}, as asked")
    assert ("several times as fast" in sentence) == (name == "bfloat16" and not products)


def test_a_processor_is_asked_once_for_its_real_capability():
    found = precision.native_bfloat16(CPU)
    assert isinstance(found, bool)
    if "AVX512" not in torch.backends.cpu.get_cpu_capability():
        assert found is False
