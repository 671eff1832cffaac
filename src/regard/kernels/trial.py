"""The test of a newly built library of kernels: computations with known results.

`building`, and the hook that builds wheels, run this file in a child process, where a library that crashes does no harm. So it
uses the standard library and the files beside it only.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

if __package__:
    from regard.kernels import interface, trial_training
    from regard.kernels.trial_numbers import GROUP, TILE, address, as_floats, bfloats, floats, nearly, small_number
else:  # run by its path
    sys.path.insert(0, str(Path(__file__).parent))
    import interface  # type: ignore[import-not-found, no-redef]  # pyright: ignore[reportMissingImports]
    import trial_training  # type: ignore[import-not-found, no-redef]  # pyright: ignore[reportMissingImports]
    from trial_numbers import (  # type: ignore[import-not-found, no-redef]  # pyright: ignore[reportMissingImports]
        GROUP,
        TILE,
        address,
        as_floats,
        bfloats,
        floats,
        nearly,
        small_number,
    )


def fault(library: ctypes.CDLL) -> str:
    """What the library computes wrongly, as half a sentence; empty where it computes correctly."""
    for bits in (32, 16, 8, 4):
        if not _maps_linearly(library, bits):
            return f"a linear layer of {bits} bits computes wrong results"
    for bits in (32, 16):
        if not _goes_through_a_block(library, bits):
            return f"a block with keys and values of {bits} bits computes wrong results"
        if not _continues_greedily(library, bits):
            return f"greedy search with keys and values of {bits} bits computes wrong results"
        if not _attends_in_texts(library, bits):
            return f"attention within texts of {bits} bits computes wrong results"
        if not trial_training.attends_in_training(library, bits):
            return f"attention in training of {bits} bits computes wrong results"
        if not trial_training.scores_additively(library, bits):
            return f"additive attention of {bits} bits computes wrong results"
        if not trial_training.goes_through_time(library, bits):
            return f"a recurrent network with weights of {bits} bits computes wrong results"
        for attends in (True, False):
            if not trial_training.goes_through_an_lstm(library, bits, attends):
                what = "with attention " if attends else ""
                return f"an LSTM {what}with weights of {bits} bits computes wrong results"
        if not trial_training.finds_a_loss(library, bits):
            return f"the loss of logits of {bits} bits computes wrong results"
        if not trial_training.drops(library, bits):
            return f"dropout of {bits} bits computes wrong results"
        if not _ranks(library, bits):
            return f"beam search with logits of {bits} bits computes wrong results"
    if not trial_training.learns_words(library):
        return "training of word embeddings computes wrong results"
    if not trial_training.learns_a_count(library):
        return "training of GloVe computes wrong results"
    return ""


ROWS, OUTPUTS, REAL, INPUTS = 11, 32, 30, 64  # the kernel works on 8, 2 and 1 rows at a time


def _maps_linearly(library: ctypes.CDLL, bits: int) -> bool:
    """Test a linear layer with numbers that rounding does not change, a row of tiny numbers, and rows with NaN or infinity."""
    values: ctypes.Array = (ctypes.c_uint8 * (OUTPUTS * INPUTS * bits // 8))()
    if bits > 8:
        halves = [small_number(output, place) / 2 for output in range(OUTPUTS) for place in range(INPUTS)]
        values = floats(halves) if bits == 32 else bfloats(halves)
    for output in range(OUTPUTS if bits <= 8 else 0):
        tile, own = divmod(output, TILE)
        for place in range(INPUTS):
            if bits == 8:
                values[tile * TILE * INPUTS + place // 4 * 64 + own * 4 + place % 4] = 128 + small_number(output, place)
            else:
                index = tile * TILE * INPUTS // 2 + place // 8 * 64 + own * 4 + place % 4
                values[index] |= 8 + small_number(output, place) << place % 8 // 4 * 4
    half = 0x3F00  # 0.5 in bfloat16
    scales = (
        (ctypes.c_float * OUTPUTS)(*[0.5] * OUTPUTS)
        if bits == 8
        else (ctypes.c_uint16 * (OUTPUTS * INPUTS // GROUP))(*[half] * (OUTPUTS * INPUTS // GROUP))
    )
    bias = (ctypes.c_float * OUTPUTS)(*range(OUTPUTS))
    linear = interface.LinearStruct(OUTPUTS, INPUTS, bits, 0, address(values), address(scales), address(bias))
    rows: list[list[float]] = [
        [127.0 if place % GROUP == row else float((5 * row + 11 * place) % 201 - 100) for place in range(INPUTS)]
        for row in range(ROWS)
    ]
    rows[3][40], rows[9][2], rows[10][63] = math.inf, math.nan, -math.inf
    rows[8] = [1e-40 * (place % 3) for place in range(INPUTS)]  # 127 / max |x| overflows to infinity
    x = (ctypes.c_float * (ROWS * INPUTS))(*[number for row in rows for number in row])
    y = (ctypes.c_float * (ROWS * REAL))()
    scratch = (ctypes.c_uint8 * library.regard_linear_scratch(linear, ROWS))()
    library.regard_linear(linear, address(x), ROWS, address(y), REAL, address(scratch))
    for row, given in enumerate(rows):
        found = y[row * REAL : (row + 1) * REAL]
        if row in (3, 9, 10) and any(map(math.isfinite, found)):
            return False
        wanted = (
            (row != 8) * sum(small_number(output, place) * given[place] for place in range(INPUTS)) / 2 + output
            for output in range(REAL)
        )
        if row not in (3, 9, 10) and not all(
            abs(one - other) <= 1e-30 for one, other in zip(found, wanted, strict=True)
        ):
            return False
    return True


def _goes_through_a_block(library: ctypes.CDLL, bits: int) -> bool:
    """Test a block that adds attention and swish(3) to its input, with an earlier column that is masked, out of range or visible.

    The last row is infinite.

    Arguments:
        bits: of keys and values.
    """
    width, block, _owned = _adding_block()
    rows, capacity, columns = 3, 18, 2
    for hidden, attended in (("by a mask", 2.0), ("by a range", 2.0), ("", 3.0)):
        before = math.nan if hidden else 4.0  # the values of the first column
        held = (bfloats if bits == 16 else floats)([0.0] * (2 * rows * capacity * width))
        for row in range(rows):
            start = (rows + row) * capacity * width
            held[start : start + width] = (bfloats if bits == 16 else floats)([before] * width)[:]
        cache = interface.CacheStruct(address(held), None, rows, capacity, columns, bits)
        seen = (ctypes.c_uint8 * (rows * columns))(*[0, 1] * rows)
        x = (ctypes.c_float * (rows * width))(*range((rows - 1) * width), *[math.inf] * width)
        scratch = (ctypes.c_uint8 * library.regard_blocks_scratch(block, rows, columns, 1))()
        ranges = (ctypes.c_int32 * (rows * 2))(*[1, 2] * rows)
        visible = (interface.Pointer * 1)(address(seen) if hidden == "by a mask" else None)
        spans = (interface.Pointer * 1)(address(ranges) if hidden == "by a range" else None)
        library.regard_blocks(
            *(block, 1, address(x), rows, 1, None, cache, visible, spans, None, None, -1, None, None, None),
            *(1, address(scratch)),
        )
        added = attended + 3 / (1 + math.exp(-3))
        finite = (rows - 1) * width
        if any(map(math.isfinite, x[finite:])):
            return False
        if not all(math.isclose(x[place], place + added, rel_tol=1e-5) for place in range(finite)):
            return False
    return True


def _continues_greedily(library: ctypes.CDLL, bits: int) -> bool:
    """Test greedy search with a model after whose token n comes n + 1, which may not choose 3 and ends at 0.

    The block adds the same to all channels, which the norm after it takes off again.

    Arguments:
        bits: of keys and values, and of the embedding.
    """
    width, block, _owned = _adding_block()
    real, steps, rows = 6, 4, 2
    numbers = floats if bits == 32 else bfloats
    vectors = numbers([float(token == place) for token in range(real) for place in range(width)])
    following, scale = _tiles(lambda token, place: token == place + 1), floats([1 / 127] * width)
    none, unit = floats([0.0] * width), floats([1.0] * width)
    output = interface.LinearStruct(width, width, 8, 0, address(following), address(scale), address(none))
    head = interface.HeadStruct(interface.NormStruct(address(unit), address(none), 1e-5), output, real)
    never, ends = (ctypes.c_int64 * 1)(3), (ctypes.c_int64 * 1)(0)
    for poisoned, wanted in ((False, [0, 1, 1, 2, 2, 0]), (True, [0, 1, 1, 2])):
        positions = floats([0.0, 0.25] * (steps * width // 2))
        if poisoned:
            positions[width] = math.nan  # of the second step
        held = numbers([0.0] * (2 * rows * steps * width))
        cache = interface.CacheStruct(address(held), None, rows, steps, 1, bits)
        table = interface.EmbeddingStruct(address(vectors), address(positions), 8.0, bits)
        tokens = (ctypes.c_int64 * ((steps + 1) * rows))(0, 1)
        logits, x = (ctypes.c_float * (steps * rows * real))(), (ctypes.c_float * (rows * width))()
        scratch = (ctypes.c_uint8 * library.regard_blocks_scratch(block, rows, steps, 1))()
        done = library.regard_greedy(
            *(
                block,
                1,
                table,
                address(tokens),
                steps,
                rows,
                None,
                cache,
                (interface.Pointer * 1)(),
                head,
                address(logits),
            ),
            *(address(never), 1, address(ends), 1, address(x), 1, address(scratch)),
        )
        if tokens[: (done + 1) * rows] != wanted:
            return False
        if not poisoned and max(logits[18:24]) != logits[21]:  # of the second row's second step, 3 among them
            return False
    return True


def _attends_in_texts(library: ctypes.CDLL, bits: int) -> bool:
    """Test two texts of two heads: one of which every token attends to one token alone, and one of a single token.

    Arguments:
        bits: of queries, keys, values and the result.
    """
    heads, width, tokens = 2, 20, 19
    far = 64.0  # scores this far apart leave nothing of the smaller ones
    rows = [[[[0.0] * width for _ in range(heads)] for _ in range(3)] for _ in range(tokens)]
    chosen = [[(5 * token + head) % (tokens - 1) for head in range(heads)] for token in range(tokens)]
    chosen[-1] = [tokens - 1] * heads
    for token, (queries, keys, values) in enumerate(rows):
        for head in range(heads):
            queries[head][chosen[token][head]] = 2 * far
            keys[head][token] = 1.0
            values[head] = [small_number(token, place + head) / 4 for place in range(width)]
    made = floats if bits == 32 else bfloats
    projected = made([number for row in rows for each in row for head in each for number in head])
    ends = (ctypes.c_int32 * 2)(tokens - 1, tokens)
    y = made([0.0] * (tokens * heads * width))
    room = library.regard_texts_scratch(tokens - 1, width)
    scratch = (ctypes.c_float * room)()
    library.regard_texts(
        *(address(projected), address(ends), 2, heads, width, bits, 0.5, 1, address(scratch), room, address(y)),
    )
    wanted = (number for row in chosen for head, token in enumerate(row) for number in rows[token][2][head])
    return all(abs(one - other) < 1e-20 for one, other in zip(as_floats(y), wanted, strict=True))


def _ranks(library: ctypes.CDLL, bits: int) -> bool:
    """Test the candidates of two sentences with two hypotheses each, of which the last does not exist; token 7 is ruled out.

    Arguments:
        bits: of the logits.
    """
    sentences, width, size, count, never = 2, 2, 300, 4, 7
    rows = [[(factor * place) % 13 / 4 for place in range(size)] for factor in (3, 5, 7, 4)]
    rows[0][7], rows[2][290], rows[1][299] = 9.0, 8.0, 7.0
    totals = [-1.0, -1.5, -0.5, -math.inf]
    logits = (floats if bits == 32 else bfloats)([number for row in rows for number in row])
    before, excluded = floats(totals), (ctypes.c_int64 * 1)(never)
    beams = interface.BeamsStruct(*map(address, (logits, before, excluded)), sentences, size, width, 1, count, bits)
    scratch, sums, own = (floats([math.nan] * length) for length in (2, sentences * count, sentences * count))
    index = (ctypes.c_int64 * (sentences * count))()
    library.regard_candidates(beams, 1, *map(address, (scratch, sums, own, index)))
    for sentence in range(sentences):
        found = []
        for row in range(width):
            z, total = rows[sentence * width + row], totals[sentence * width + row]
            logarithm = math.log(sum(map(math.exp, z)))
            found += [
                (total + z[n] - logarithm, -(row * size + n), z[n] - logarithm) for n in range(size) if n != never
            ]
        best, held = sorted(found, reverse=True)[:count], slice(sentence * count, (sentence + 1) * count)
        if [-place for _, place, _ in best] != index[held]:
            return False
        if not all(map(nearly, sums[held], (one[0] for one in best))):
            return False
        if not all(map(nearly, own[held], (one[2] for one in best))):
            return False
    return True


def _adding_block() -> tuple[int, interface.BlockStruct, tuple[ctypes.Array, ...]]:
    """Its width, a block that adds attention to values of 2 and swish(3) to its input, and the memory that it points into."""
    width = GROUP
    zero, one = _tiles(lambda output, place: False), _tiles(lambda output, place: output == place)
    scale = (ctypes.c_float * width)(*[1 / 127] * width)
    nothing, unit, two, three = ((ctypes.c_float * width)(*[number] * width) for number in (0.0, 1.0, 2.0, 3.0))

    def linear(weight: ctypes.Array, bias: ctypes.Array, activation: int = 0) -> interface.LinearStruct:
        return interface.LinearStruct(width, width, 8, activation, address(weight), address(scale), address(bias))

    block = interface.BlockStruct(
        query=linear(zero, unit),
        key=linear(zero, nothing),
        value=linear(zero, two),
        output=linear(one, nothing),
        inner=linear(zero, three, 4),
        outer=linear(one, nothing),
        attention_before=interface.NormStruct(address(unit), address(nothing), 1e-5),
        width=width,
        heads=1,
        key_heads=1,
        head_width=width,
        scale=1.0,
    )
    return width, block, (zero, one, scale, nothing, unit, two, three)


def _tiles(wanted: Callable[[int, int], bool]) -> ctypes.Array:
    """Weights (GROUP, GROUP) of 8 bits: 127 for each output and input that is wanted, else 0."""
    weights = (ctypes.c_uint8 * GROUP**2)()
    for output in range(GROUP):
        tile, own = divmod(output, TILE)
        for place in range(GROUP):
            weights[tile * TILE * GROUP + place // 4 * 64 + own * 4 + place % 4] = 255 if wanted(output, place) else 128
    return weights


def main(arguments: Sequence[str]) -> int:
    """Test a library with an OpenMP library, given their paths; print what is wrong. Returns the exit status."""
    try:
        wrong = fault(interface.opened(*arguments))
    except (OSError, AttributeError) as error:
        wrong = str(error)
    if wrong:
        print(wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
