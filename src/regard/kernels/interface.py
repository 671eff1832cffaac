"""The C interface of the compiled kernels. This file uses the standard library only, as `trial` does, which imports it."""

from __future__ import annotations

import ctypes

Pointer = ctypes.c_void_p

LANES = 16
"""Rows of word embeddings are filled up with zeros to a multiple of this."""


class LinearStruct(ctypes.Structure):
    """`Linear` in linear.h."""

    _fields_ = (
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("activation", ctypes.c_int32),
        ("weight", Pointer),
        ("scale", Pointer),
        ("bias", Pointer),
    )


class NormStruct(ctypes.Structure):
    """`Norm` in decoding.cpp: without a weight the identity, without a bias an RMS norm."""

    _fields_ = (("weight", Pointer), ("bias", Pointer), ("epsilon", ctypes.c_float))


class RotaryStruct(ctypes.Structure):
    """`Rotary` in decoding.cpp: without tables there is no rotation."""

    _fields_ = (
        ("cosines", Pointer),
        ("sines", Pointer),
        ("turned", ctypes.c_int32),
        ("neighbours", ctypes.c_int32),
    )


class BlockStruct(ctypes.Structure):
    """`Block` in decoding.cpp."""

    _fields_ = (
        ("query", LinearStruct),
        ("key", LinearStruct),
        ("value", LinearStruct),
        ("output", LinearStruct),
        ("inner", LinearStruct),
        ("gate", LinearStruct),
        ("outer", LinearStruct),
        ("attention_before", NormStruct),
        ("attention_after", NormStruct),
        ("feedforward_before", NormStruct),
        ("feedforward_after", NormStruct),
        ("query_norm", NormStruct),
        ("key_norm", NormStruct),
        ("rotary", RotaryStruct),
        ("width", ctypes.c_int32),
        ("heads", ctypes.c_int32),
        ("key_heads", ctypes.c_int32),
        ("head_width", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("source_query", LinearStruct),
        ("source_output", LinearStruct),
        ("source_before", NormStruct),
        ("source_after", NormStruct),
        ("source_scale", ctypes.c_float),
        ("parallel", ctypes.c_int32),
    )


class HeadStruct(ctypes.Structure):
    """`Head` in decoding.cpp."""

    _fields_ = (("norm", NormStruct), ("output", LinearStruct), ("real", ctypes.c_int32))


class EmbeddingStruct(ctypes.Structure):
    """`Embedding` in choosing.h."""

    _fields_ = (
        ("values", Pointer),
        ("positions", Pointer),
        ("scale", ctypes.c_float),
        ("bits", ctypes.c_int32),
    )


class CacheStruct(ctypes.Structure):
    """`Cache` in decoding.cpp."""

    _fields_ = (
        ("values", Pointer),
        ("homes", Pointer),
        ("rows", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("columns", ctypes.c_int32),
        ("bits", ctypes.c_int32),
    )


class WordTablesStruct(ctypes.Structure):
    """`WordTables` in word2vec.h."""

    _fields_ = (("inputs", Pointer), ("outputs", Pointer), ("stride", ctypes.c_int64))


class TextStruct(ctypes.Structure):
    """`Text` in word2vec.h."""

    _fields_ = (
        ("words", Pointer),
        ("begins", Pointer),
        ("ends", Pointer),
        ("negatives", Pointer),
        ("parts", Pointer),
        ("part_ends", Pointer),
        ("count", ctypes.c_int64),
        ("negative", ctypes.c_int32),
    )


class CountTablesStruct(ctypes.Structure):
    """`CountTables` in glove.h."""

    _fields_ = (
        ("words", Pointer),
        ("contexts", Pointer),
        ("word_squares", Pointer),
        ("context_squares", Pointer),
        ("stride", ctypes.c_int64),
    )


class LossStruct(ctypes.Structure):
    """`Loss` in training.h."""

    _fields_ = (
        ("logits", Pointer),
        ("labels", Pointer),
        ("counts", Pointer),
        ("rows", ctypes.c_int64),
        ("vocabulary", ctypes.c_int64),
        ("never", ctypes.c_int64),
        ("smoothing", ctypes.c_float),
        ("share", ctypes.c_float),
        ("bits", ctypes.c_int32),
    )


class TextsStruct(ctypes.Structure):
    """`Texts` in texts_training.h."""

    _fields_ = (
        ("queries", Pointer),
        ("keys", Pointer),
        ("values", Pointer),
        ("query_ends", Pointer),
        ("key_ends", Pointer),
        ("texts", ctypes.c_int32),
        ("heads", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("least", ctypes.c_int32),
        ("factor", ctypes.c_float),
        ("length", ctypes.c_int32),
        ("columns", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
    )


class AdditiveStruct(ctypes.Structure):
    """`Additive` in additive.h."""

    _fields_ = (
        ("queries", Pointer),
        ("keys", Pointer),
        ("weight", Pointer),
        ("texts", ctypes.c_int64),
        ("asking", ctypes.c_int32),
        ("asked", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("bits", ctypes.c_int32),
    )


class RecurrentStruct(ctypes.Structure):
    """`Recurrent` in recurrent.h."""

    _fields_ = (
        ("gates", LinearStruct),
        ("candidate", LinearStruct),
        ("context", LinearStruct),
        ("query", LinearStruct),
        ("gates_back", LinearStruct),
        ("candidate_back", LinearStruct),
        ("context_back", LinearStruct),
        ("query_back", LinearStruct),
        ("projected", Pointer),
        ("real", Pointer),
        ("first", Pointer),
        ("keys", Pointer),
        ("values", Pointer),
        ("weight", Pointer),
        ("visible", Pointer),
        ("rows", ctypes.c_int64),
        ("steps", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("asked", ctypes.c_int32),
    )


class PassedStruct(ctypes.Structure):
    """`Passed` in recurrent.h."""

    _fields_ = (
        ("states", Pointer),
        ("gates", Pointer),
        ("queries", Pointer),
        ("attended", Pointer),
        ("contexts", Pointer),
    )


class PassedGradientsStruct(ctypes.Structure):
    """`PassedGradients` in recurrent.h."""

    _fields_ = tuple(
        (name, Pointer) for name in ("states", "contexts", "projected", "queries", "keys", "weights", "first")
    )


class LSTMLayerStruct(ctypes.Structure):
    """`LSTMLayer` in lstm.h."""

    _fields_ = (
        ("input", LinearStruct),
        ("hidden", LinearStruct),
        ("input_back", LinearStruct),
        ("hidden_back", LinearStruct),
        ("mask", Pointer),
        ("first", Pointer),
        ("first_cell", Pointer),
    )


class LSTMStruct(ctypes.Structure):
    """`LSTM` in lstm.h."""

    _fields_ = (
        ("layers", Pointer),
        ("combination", LinearStruct),
        ("combination_back", LinearStruct),
        ("projected", Pointer),
        ("real", Pointer),
        ("first", Pointer),
        ("keys", Pointer),
        ("values", Pointer),
        ("visible", Pointer),
        ("rows", ctypes.c_int64),
        ("count", ctypes.c_int32),
        ("steps", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("asked", ctypes.c_int32),
    )


class LSTMPassedStruct(ctypes.Structure):
    """`LSTMPassed` in lstm.h."""

    _fields_ = tuple((name, Pointer) for name in ("hidden", "cells", "inputs", "gates", "attended", "joined", "fed"))


class LSTMGradientsStruct(ctypes.Structure):
    """`LSTMGradients` in lstm.h."""

    _fields_ = tuple(
        (name, Pointer) for name in ("outputs", "gates", "combined", "contexts", "scores", "hidden", "cells", "first")
    )


class BeamsStruct(ctypes.Structure):
    """`Beams` in candidates.h."""

    _fields_ = (
        ("logits", Pointer),
        ("totals", Pointer),
        ("never", Pointer),
        ("sentences", ctypes.c_int64),
        ("vocabulary", ctypes.c_int64),
        ("width", ctypes.c_int32),
        ("excluded", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("bits", ctypes.c_int32),
    )


PART = 256
"""Tokens of the vocabulary for which `regard_candidates` needs a number of its scratch."""


class RuntimeStruct(ctypes.Structure):
    """`Runtime` in runtime.h: the addresses of OpenMP's functions."""

    _fields_ = (("parallel", Pointer), ("barrier", Pointer), ("thread_num", Pointer), ("num_threads", Pointer))


OPENMP = ("GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads")
"""In the order of `RuntimeStruct`."""


def opened(library: str, runtime: str) -> ctypes.CDLL:
    """Load the library, declare its functions' types, and let it use the threads of an OpenMP library.

    Arguments:
        library: its path.
        runtime: the path of the OpenMP library.

    Raises:
        OSError: where a file is missing or is no library.
        AttributeError: where a function is missing.
    """
    found, openmp = typed(ctypes.CDLL(library)), ctypes.CDLL(runtime)
    places = (ctypes.cast(getattr(openmp, name), Pointer).value for name in OPENMP)
    found.regard_runtime(RuntimeStruct(*places))
    return found


def typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library with the types of its functions declared.

    Raises:
        AttributeError: where a function is missing.
    """
    count, large = ctypes.c_int32, ctypes.c_int64
    linear, block, pointers = ctypes.POINTER(LinearStruct), ctypes.POINTER(BlockStruct), ctypes.POINTER(Pointer)
    texts, additive = ctypes.POINTER(TextsStruct), ctypes.POINTER(AdditiveStruct)
    recurrent, passed, slopes = map(ctypes.POINTER, (RecurrentStruct, PassedStruct, PassedGradientsStruct))
    lstm, kept, of_kept = map(ctypes.POINTER, (LSTMStruct, LSTMPassedStruct, LSTMGradientsStruct))
    cache, head, table = (ctypes.POINTER(struct) for struct in (CacheStruct, HeadStruct, EmbeddingStruct))
    signatures = {
        "regard_runtime": (None, [ctypes.POINTER(RuntimeStruct)]),
        "regard_multiplies_bfloat16": (count, []),
        "regard_lanes": (count, []),
        "regard_linear_scratch": (large, [linear, count]),
        "regard_linear": (None, [linear, Pointer, count, Pointer, count, Pointer]),
        "regard_normalise": (None, [ctypes.POINTER(NormStruct), Pointer, large, count, Pointer]),
        "regard_blocks_scratch": (large, [block, count, count, count]),
        "regard_blocks": (
            None,
            [
                *(block, count, Pointer, count, count, Pointer, cache, pointers, pointers),
                *(cache, Pointer, count, Pointer, head, Pointer, count, Pointer),
            ],
        ),
        "regard_greedy": (
            count,
            [
                *(block, count, table, Pointer, count, count, Pointer, cache, pointers, head, Pointer),
                *(Pointer, count, Pointer, count, Pointer, count, Pointer),
            ],
        ),
        "regard_texts_scratch": (large, [count, count]),
        "regard_texts": (
            None,
            [Pointer, Pointer, count, count, count, count, ctypes.c_float, count, Pointer, large, Pointer],
        ),
        "regard_attention_scratch": (large, [count, count, count]),
        "regard_attention": (None, [texts, count, Pointer, large, Pointer]),
        "regard_attention_gradient": (None, [texts, Pointer, count, Pointer, large, Pointer, Pointer, Pointer]),
        "regard_additive": (None, [additive, count, Pointer]),
        "regard_additive_gradient": (None, [additive, Pointer, count, Pointer, Pointer, Pointer, Pointer]),
        "regard_recurrent_scratch": (large, [recurrent, count]),
        "regard_recurrent": (None, [recurrent, passed, count, Pointer]),
        "regard_recurrent_gradient": (None, [recurrent, passed, slopes, count, Pointer]),
        "regard_lstm_scratch": (large, [lstm, count]),
        "regard_lstm": (None, [lstm, kept, count, Pointer]),
        "regard_lstm_gradient": (None, [lstm, kept, of_kept, count, Pointer]),
        "regard_candidates": (None, [ctypes.POINTER(BeamsStruct), count, Pointer, Pointer, Pointer, Pointer]),
        "regard_loss": (None, [ctypes.POINTER(LossStruct), Pointer, Pointer, Pointer, Pointer, count]),
        "regard_loss_gradient": (
            None,
            [ctypes.POINTER(LossStruct), Pointer, Pointer, ctypes.c_float, Pointer, count],
        ),
        "regard_dropout": (
            None,
            [Pointer, large, count, ctypes.c_uint64, count, ctypes.c_float, Pointer, count],
        ),
        "regard_glove": (
            ctypes.c_double,
            [
                *(ctypes.POINTER(CountTablesStruct), Pointer, Pointer, Pointer, large),
                *(ctypes.c_float, ctypes.c_float),
            ],
        ),
        "regard_word2vec_scratch": (large, [large, large, large]),
        "regard_word2vec": (
            None,
            [ctypes.POINTER(WordTablesStruct), ctypes.POINTER(TextStruct), count, large, ctypes.c_float, Pointer],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
