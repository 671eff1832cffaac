"""Reading and writing of model folders: safetensors, JSON, and reversible tables of names."""

from regard.checkpoints.folder import (
    Card,
    is_foreign,
    layout_of,
    located,
    parameters_of,
    push_folder,
    read_card,
    read_config,
    read_model,
    read_parameters,
    record_files,
    record_weights,
    shard_weights,
    write_model,
)
from regard.checkpoints.pretrained import adopt
from regard.checkpoints.tensors import IDENTITY, NameTable, Rule, read_tensors, torch_transformer, write_tensors

__all__ = [
    "IDENTITY",
    "Card",
    "NameTable",
    "Rule",
    "adopt",
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
    "record_weights",
    "shard_weights",
    "torch_transformer",
    "write_model",
    "write_tensors",
]
