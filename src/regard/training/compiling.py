"""`torch.compile`, where there is a compiler for it."""

from __future__ import annotations

import os
import shutil

import torch
from torch import nn


def compiled(model: nn.Module, device: torch.device) -> str:
    """Compile a model in place, with dynamic shapes from the first step; returns a sentence for the user.

    On a processor PyTorch needs a C++ compiler for it. Without one the model stays as it is, and the sentence says so.
    """
    if device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        return "training.compile needs a C++ compiler (g++ or clang++), and there is none: going on without, slower"
    model.compile(dynamic=True)
    return "compiled by torch.compile, dynamic shapes; the first steps are slow"
