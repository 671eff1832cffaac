"""Folders in and out: safetensors, JSON, reversible name tables."""

from regard.checkpoints.folder import (
    Card,
    is_foreign,
    layout_of,
    parameters_of,
    read_card,
    read_config,
    read_model,
    read_parameters,
    record_files,
    shard_weights,
    write_model,
)
from regard.checkpoints.hub import hub_hint, located, push_folder
from regard.checkpoints.names import IDENTITY, NameTable, Rule, torch_transformer
from regard.checkpoints.pretrained import adopt
from regard.checkpoints.tensors import read_tensors, write_tensors

__all__ = [
    "IDENTITY",
    "Card",
    "NameTable",
    "Rule",
    "adopt",
    "hub_hint",
    "is_foreign",
    "layout_of",
    "located",
    "parameters_of",
    "push_folder",
    "read_card",
    "read_config",
    "read_model",
    "read_parameters",
    "read_tensors",
    "record_files",
    "shard_weights",
    "torch_transformer",
    "write_model",
    "write_tensors",
]
