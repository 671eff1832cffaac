"""Compiled kernels, for decoding with few bits and for training word embeddings: their C++ sources, and how they are built."""

from regard.kernels.building import Kernels, found_kernels, kernels

__all__ = ["Kernels", "found_kernels", "kernels"]
