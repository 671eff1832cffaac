"""The test of a newly built library of kernels: computations with known results.

`building`, and the hook that builds wheels, run this file in a child process, where a library that crashes does no harm. So it
uses the standard library and the file beside it only.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

if __package__:
    from regard.kernels import interface
else:  # run by its path
    sys.path.insert(0, str(Path(__file__).parent))
    import interface  # type: ignore[import-not-found, no-redef]  # pyright: ignore[reportMissingImports]


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
        if not _attends_in_training(library, bits):
            return f"attention in training of {bits} bits computes wrong results"
        if not _scores_additively(library, bits):
            return f"additive attention of {bits} bits computes wrong results"
        if not _goes_through_time(library, bits):
            return f"a recurrent network with weights of {bits} bits computes wrong results"
        if not _feeds_itself(library, bits):
            return f"an LSTM with attention and weights of {bits} bits computes wrong results"
        if not _finds_a_loss(library, bits):
            return f"the loss of logits of {bits} bits computes wrong results"
        if not _drops(library, bits):
            return f"dropout of {bits} bits computes wrong results"
        if not _ranks(library, bits):
            return f"beam search with logits of {bits} bits computes wrong results"
    if not _learns_words(library):
        return "training of word embeddings computes wrong results"
    if not _learns_a_count(library):
        return "training of GloVe computes wrong results"
    return ""


ROWS, OUTPUTS, REAL, INPUTS = 11, 32, 30, 64  # the kernel works on 8, 2 and 1 rows at a time
GROUP, TILE = 32, 16


def _weight(output: int, place: int) -> int:
    return (7 * output + 3 * place) % 15 - 7


def _maps_linearly(library: ctypes.CDLL, bits: int) -> bool:
    """Test a linear layer with numbers that rounding does not change, a row of tiny numbers, and rows with NaN or infinity."""
    values: ctypes.Array = (ctypes.c_uint8 * (OUTPUTS * INPUTS * bits // 8))()
    if bits > 8:
        halves = [_weight(output, place) / 2 for output in range(OUTPUTS) for place in range(INPUTS)]
        values = _floats(halves) if bits == 32 else _bfloats(halves)
    for output in range(OUTPUTS if bits <= 8 else 0):
        tile, own = divmod(output, TILE)
        for place in range(INPUTS):
            if bits == 8:
                values[tile * TILE * INPUTS + place // 4 * 64 + own * 4 + place % 4] = 128 + _weight(output, place)
            else:
                index = tile * TILE * INPUTS // 2 + place // 8 * 64 + own * 4 + place % 4
                values[index] |= 8 + _weight(output, place) << place % 8 // 4 * 4
    half = 0x3F00  # 0.5 in bfloat16
    scales = (
        (ctypes.c_float * OUTPUTS)(*[0.5] * OUTPUTS)
        if bits == 8
        else (ctypes.c_uint16 * (OUTPUTS * INPUTS // GROUP))(*[half] * (OUTPUTS * INPUTS // GROUP))
    )
    bias = (ctypes.c_float * OUTPUTS)(*range(OUTPUTS))
    linear = interface.LinearStruct(OUTPUTS, INPUTS, bits, 0, _place(values), _place(scales), _place(bias))
    rows: list[list[float]] = [
        [127.0 if place % GROUP == row else float((5 * row + 11 * place) % 201 - 100) for place in range(INPUTS)]
        for row in range(ROWS)
    ]
    rows[3][40], rows[9][2], rows[10][63] = math.inf, math.nan, -math.inf
    rows[8] = [1e-40 * (place % 3) for place in range(INPUTS)]  # 127 / max |x| overflows to infinity
    x = (ctypes.c_float * (ROWS * INPUTS))(*[number for row in rows for number in row])
    y = (ctypes.c_float * (ROWS * REAL))()
    scratch = (ctypes.c_uint8 * library.regard_linear_scratch(linear, ROWS))()
    library.regard_linear(linear, _place(x), ROWS, _place(y), REAL, _place(scratch))
    for row, given in enumerate(rows):
        found = y[row * REAL : (row + 1) * REAL]
        if row in (3, 9, 10) and any(map(math.isfinite, found)):
            return False
        wanted = (
            (row != 8) * sum(_weight(output, place) * given[place] for place in range(INPUTS)) / 2 + output
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
        held = (_bfloats if bits == 16 else _floats)([0.0] * (2 * rows * capacity * width))
        for row in range(rows):
            start = (rows + row) * capacity * width
            held[start : start + width] = (_bfloats if bits == 16 else _floats)([before] * width)[:]
        cache = interface.CacheStruct(_place(held), None, rows, capacity, columns, bits)
        seen = (ctypes.c_uint8 * (rows * columns))(*[0, 1] * rows)
        x = (ctypes.c_float * (rows * width))(*range((rows - 1) * width), *[math.inf] * width)
        scratch = (ctypes.c_uint8 * library.regard_blocks_scratch(block, rows, columns, 1))()
        ranges = (ctypes.c_int32 * (rows * 2))(*[1, 2] * rows)
        visible = (interface.Pointer * 1)(_place(seen) if hidden == "by a mask" else None)
        spans = (interface.Pointer * 1)(_place(ranges) if hidden == "by a range" else None)
        library.regard_blocks(
            *(block, 1, _place(x), rows, 1, None, cache, visible, spans, None, None, -1, None, None, None),
            *(1, _place(scratch)),
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
    numbers = _floats if bits == 32 else _bfloats
    vectors = numbers([float(token == place) for token in range(real) for place in range(width)])
    following, scale = _tiles(lambda token, place: token == place + 1), _floats([1 / 127] * width)
    none, unit = _floats([0.0] * width), _floats([1.0] * width)
    output = interface.LinearStruct(width, width, 8, 0, _place(following), _place(scale), _place(none))
    head = interface.HeadStruct(interface.NormStruct(_place(unit), _place(none), 1e-5), output, real)
    never, ends = (ctypes.c_int64 * 1)(3), (ctypes.c_int64 * 1)(0)
    for poisoned, wanted in ((False, [0, 1, 1, 2, 2, 0]), (True, [0, 1, 1, 2])):
        positions = _floats([0.0, 0.25] * (steps * width // 2))
        if poisoned:
            positions[width] = math.nan  # of the second step
        held = numbers([0.0] * (2 * rows * steps * width))
        cache = interface.CacheStruct(_place(held), None, rows, steps, 1, bits)
        table = interface.EmbeddingStruct(_place(vectors), _place(positions), 8.0, bits)
        tokens = (ctypes.c_int64 * ((steps + 1) * rows))(0, 1)
        logits, x = (ctypes.c_float * (steps * rows * real))(), (ctypes.c_float * (rows * width))()
        scratch = (ctypes.c_uint8 * library.regard_blocks_scratch(block, rows, steps, 1))()
        done = library.regard_greedy(
            *(
                block,
                1,
                table,
                _place(tokens),
                steps,
                rows,
                None,
                cache,
                (interface.Pointer * 1)(),
                head,
                _place(logits),
            ),
            *(_place(never), 1, _place(ends), 1, _place(x), 1, _place(scratch)),
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
            values[head] = [_weight(token, place + head) / 4 for place in range(width)]
    made = _floats if bits == 32 else _bfloats
    projected = made([number for row in rows for each in row for head in each for number in head])
    ends = (ctypes.c_int32 * 2)(tokens - 1, tokens)
    y = made([0.0] * (tokens * heads * width))
    room = library.regard_texts_scratch(tokens - 1, width)
    scratch = (ctypes.c_float * room)()
    library.regard_texts(
        *(_place(projected), _place(ends), 2, heads, width, bits, 0.5, 1, _place(scratch), room, _place(y)),
    )
    wanted = (number for row in chosen for head, token in enumerate(row) for number in rows[token][2][head])
    return all(abs(one - other) < 1e-20 for one, other in zip(_as_floats(y), wanted, strict=True))


def _attends_in_training(library: ctypes.CDLL, bits: int) -> bool:
    """Test attention of two texts, causal, and its gradients, in bfloat16 up to its rounding.

    Arguments:
        bits: of all numbers in and out.
    """
    width, lengths, scale = 4, (3, 2), 0.5
    tokens, made = sum(lengths), _floats if bits == 32 else _bfloats
    rows = [
        [
            [(factor * token + 3 * place + token * place) % 9 / 4 - 1 for place in range(width)]
            for token in range(tokens)
        ]
        for factor in (5, 2, 7, 4)
    ]
    given = [made([number for row in part for number in row]) for part in rows]
    found = [made([0.0] * (tokens * width)) for _ in range(4)]
    ends = (ctypes.c_int32 * 2)(3, 5)
    texts = interface.TextsStruct(
        *map(_place, (*given[:3], ends, ends)), 2, 1, width, bits, 1, scale, 0, 1.0, max(lengths), max(lengths), 0
    )
    room = library.regard_attention_scratch(max(lengths), max(lengths), width)
    scratch = (ctypes.c_float * room)()
    library.regard_attention(texts, 1, _place(scratch), room, _place(found[0]))
    library.regard_attention_gradient(texts, _place(given[3]), 1, _place(scratch), room, *map(_place, found[1:]))
    wanted, begin = [[[0.0] * width for _ in range(tokens)] for _ in range(4)], 0
    for length in lengths:
        for i in range(begin, begin + length):
            keys = range(begin, i + 1)
            query, key, value, upstream = rows[0][i], rows[1], rows[2], rows[3][i]
            shares = [math.exp(scale * _dot(query, key[j])) for j in keys]
            shares = [share / sum(shares) for share in shares]
            slopes = [_dot(upstream, value[j]) for j in keys]
            mean = _dot(shares, slopes)
            for share, slope, j in zip(shares, slopes, keys, strict=True):
                step = scale * share * (slope - mean)
                for e in range(width):
                    wanted[0][i][e] += share * value[j][e]
                    wanted[1][i][e] += step * key[j][e]
                    wanted[2][j][e] += step * query[e]
                    wanted[3][j][e] += share * upstream[e]
        begin += length
    rounding = 1e-5 if bits == 32 else 1 / 128
    return all(
        math.isclose(one, other, rel_tol=rounding, abs_tol=1e-5)
        for part, right in zip(found, wanted, strict=True)
        for one, other in zip(_as_floats(part), [number for row in right for number in row], strict=True)
    )


def _scores_additively(library: ctypes.CDLL, bits: int) -> bool:
    """Test additive scores of two queries and three keys, and their gradients, in bfloat16 up to its rounding.

    Arguments:
        bits: of queries, keys and their gradients.
    """
    width, asking, asked, made = 19, 2, 3, _floats if bits == 32 else _bfloats
    queries, keys = (
        [[(factor * row + 3 * place + row * place) % 9 / 4 - 1 for place in range(width)] for row in range(count)]
        for factor, count in ((5, asking), (2, asked))
    )
    weight = [place % 5 / 4 - 0.5 for place in range(width)]
    upstream = [[row - 0.5 * column for column in range(asked)] for row in range(asking)]
    given = [*(made([number for row in rows for number in row]) for rows in (queries, keys)), _floats(weight)]
    steps, scores = (_floats([number for row in upstream for number in row]) for _ in range(2))
    found, of_weight = [made([0.0] * (count * width)) for count in (asking, asked)], _floats([0.0] * width)
    struct = interface.AdditiveStruct(*map(_place, given), 1, asking, asked, width, bits)
    scratch = _floats([0.0] * ((asking + 1) * width))
    library.regard_additive(struct, 1, _place(scores))
    library.regard_additive_gradient(struct, _place(steps), 1, _place(scratch), *map(_place, found), _place(of_weight))
    wanted_scores, wanted = [0.0] * (asking * asked), [[0.0] * (count * width) for count in (asking, asked, 1)]
    for row, query in enumerate(queries):
        for column, key in enumerate(keys):
            for e in range(width):
                t, g = math.tanh(query[e] + key[e]), upstream[row][column]
                wanted_scores[row * asked + column] += weight[e] * t
                wanted[0][row * width + e] += g * weight[e] * (1 - t * t)
                wanted[1][column * width + e] += g * weight[e] * (1 - t * t)
                wanted[2][e] += g * t
    rounding = 1e-5 if bits == 32 else 1 / 128
    return all(map(_nearly, scores, wanted_scores)) and all(
        math.isclose(one, other, rel_tol=rounding, abs_tol=1e-5)
        for part, right in zip((*found, of_weight), wanted, strict=True)
        for one, other in zip(_as_floats(part), right, strict=True)
    )


def _goes_through_time(library: ctypes.CDLL, bits: int) -> bool:
    """Test two steps of a gated recurrent network, the second of which is padding in the second row, and their gradient.

    All inner matrices are zero but that of the context, whose first channel goes to the candidate: of two keys of the same score
    it is the mean of both values. So s' = (s + tanh(p + 2)) / 2.

    Arguments:
        bits: of the matrices.
    """
    width, rows, steps, made = GROUP, 2, 2, _floats if bits == 32 else _bfloats
    places = _floats([0.0] * (3 * width))

    def linear(outputs: int, inputs: int, one: Sequence[int] = ()) -> tuple[interface.LinearStruct, ctypes.Array]:
        numbers = made([float(place in one) for place in range(outputs * inputs)])
        return interface.LinearStruct(outputs, inputs, bits, 0, _place(numbers), None, _place(places)), numbers

    candidates = range(2 * width, 3 * width)
    linears = [
        *(linear(2 * width, width), linear(width, width)),
        *(linear(3 * width, width, [output * width for output in candidates]), linear(width, width)),
        *(linear(width, 2 * width), linear(width, width)),
        *(linear(width, 3 * width, list(candidates)), linear(width, width)),
    ]
    projected, first = _floats([-1.0] * (steps * rows * 3 * width)), _floats([0.5] * (rows * width))
    for row in range(steps * rows):
        projected[(3 * row + 1) * width : (3 * row + 2) * width] = [0.0] * width
    real, visible = (ctypes.c_uint8 * (steps * rows))(1, 1, 1, 0), (ctypes.c_uint8 * (rows * 3))(1, 1, 0, 1, 1, 0)
    keys, values = (_floats([height] * width * rows * 3) for height in (0.25, 9.0))
    for row in range(rows):
        for key, height in ((0, 1.0), (1, 3.0)):
            values[(3 * row + key) * width : (3 * row + key + 1) * width] = [height] * width
    weight = _floats([0.5] * width)
    given = map(_place, (projected, real, first, keys, values, weight, visible))
    struct = interface.RecurrentStruct(*(one for one, _ in linears), *given, rows, steps, width, 3)
    passed = [_floats([math.nan] * (steps * rows * size)) for size in (width, 3 * width, width, 3, width)]
    kept = interface.PassedStruct(*map(_place, passed))
    scratch = (ctypes.c_uint8 * library.regard_recurrent_scratch(struct, 1))()
    library.regard_recurrent(struct, kept, 1, _place(scratch))
    n, one = math.tanh(1.0), steps * rows * width
    states = [[(0.5 + n) / 2] * 2, [(0.5 + 3 * n) / 4, (0.5 + n) / 2]]
    if not all(_nearly(passed[0][(step * rows + row) * width], states[step][row]) for step in (0, 1) for row in (0, 1)):
        return False
    upstream = _floats([0.0] * (one - rows * width) + [1.0] * (rows * width))
    found = [_floats([0.0] * size) for size in (one, 3 * one, one, rows * 3 * width, rows * width, rows * width)]
    library.regard_recurrent_gradient(struct, kept, _place(upstream), 1, _place(scratch), *map(_place, found))
    slope = 1 - n * n
    wanted = [[slope / 4, slope / 2], [slope / 2, 0.0]]  # of the projected candidate
    return all(
        _nearly(found[1][(3 * (step * rows + row) + 2) * width], wanted[step][row])
        and _nearly(found[5][row * width], 0.25 if row == 0 else 0.5)
        for step in (0, 1)
        for row in (0, 1)
    )


def _feeds_itself(library: ctypes.CDLL, bits: int) -> bool:
    """Test two steps of an LSTM layer with attention, the second of which is padding in the second row, and their gradient.

    Channels are alike and do not mix: gates are half open, what is fed is the candidate's input, and of two keys of the same
    score the mean of both values is attended to, so that h~ = tanh(2 + h).

    Arguments:
        bits: of the matrices.
    """
    width, rows, steps, made = GROUP, 2, 2, _floats if bits == 32 else _bfloats
    places = _floats([0.0] * (4 * width))

    def linear(outputs: int, inputs: int, ones: Sequence[int] = ()) -> tuple[interface.LinearStruct, ctypes.Array]:
        numbers = made([float(place in ones) for place in range(outputs * inputs)])
        return interface.LinearStruct(outputs, inputs, bits, 0, _place(numbers), None, _place(places)), numbers

    fed = [(2 * width + n) * width + n for n in range(width)]  # each channel to its candidate
    back = [n * 4 * width + 2 * width + n for n in range(width)]
    linears = [linear(4 * width, width, fed), linear(4 * width, width), linear(width, 4 * width, back)]
    linears += [
        linear(width, 4 * width),
        linear(width, 2 * width, [n * 2 * width + m for n in range(width) for m in (n, width + n)]),
    ]
    linears += [linear(2 * width, width, [n * width + n % width for n in range(2 * width)])]
    first, cell = _floats([0.5] * (rows * width)), _floats([0.25] * (rows * width))
    zeros = _floats([0.0] * (rows * width))
    layer = interface.FeedingLayerStruct(*(one for one, _ in linears[:4]), None, _place(zeros), _place(cell))
    projected = _floats([0.0] * (steps * rows * 4 * width))
    real, visible = (ctypes.c_uint8 * (steps * rows))(1, 1, 1, 0), (ctypes.c_uint8 * (rows * 3))(1, 1, 0, 1, 1, 0)
    keys, values = (_floats([height] * width * rows * 3) for height in (0.25, 9.0))
    for row in range(rows):
        for key, height in ((0, 1.0), (1, 3.0)):
            values[(3 * row + key) * width : (3 * row + key + 1) * width] = [height] * width
    struct = interface.FeedingStruct(
        *(ctypes.addressof(layer), linears[4][0], linears[5][0]),
        *map(_place, (projected, real, first, keys, values, visible)),
        *(rows, 1, steps, width, 3),
    )
    one = steps * rows * width
    passed = [_floats([math.nan] * size) for size in (one, one, one, 4 * one, steps * rows * 3, 2 * one, one)]
    kept = interface.FedPassedStruct(*map(_place, passed))
    scratch = (ctypes.c_uint8 * library.regard_feeding_scratch(struct, 1))()
    library.regard_feeding(struct, kept, 1, _place(scratch))

    def fed_by(cell: float, real_steps: int) -> float:
        """The last h~ of a row, by the state of its cells before the first step."""
        found = 0.5
        for _ in range(real_steps):
            cell = 0.5 * cell + 0.5 * math.tanh(found)
            found = math.tanh(2 + 0.5 * math.tanh(cell))
        return found

    last = passed[6][(steps - 1) * rows * width :]
    upstream = _floats([0.0] * (one - rows * width) + [1.0] * (rows * width))
    more = (4 * one, one, one, steps * rows * 3, rows * width, rows * width, rows * width)
    found = [_floats([math.nan] * size) for size in more]
    of = interface.FedGradientsStruct(_place(upstream), *map(_place, found))
    library.regard_feeding_gradient(struct, kept, of, 1, _place(scratch))
    rounding, step = 1e-4 if bits == 32 else 1 / 64, 1e-4
    slopes = [(fed_by(0.25 + step, count) - fed_by(0.25 - step, count)) / (2 * step) for count in (2, 1)]
    return all(
        math.isclose(last[row * width + n], fed_by(0.25, 2 - row), rel_tol=rounding)
        and math.isclose(found[5][row * width + n], slopes[row], rel_tol=2 * rounding)
        for row in range(rows)
        for n in (0, width - 1)
    )


def _dot(x: Sequence[float], y: Sequence[float]) -> float:
    return sum(one * other for one, other in zip(x, y, strict=True))


def _finds_a_loss(library: ctypes.CDLL, bits: int) -> bool:
    """Test the loss and its gradient, in place, for three rows, of which the second does not count.

    Arguments:
        bits: of the logits.
    """
    size, never, smoothing, scale = 301, 2, 0.25, 0.5
    share, made = smoothing / (size - 1), _floats if bits == 32 else _bfloats
    rows = [[(factor * place) % 7 / 2 - 1 for place in range(size)] for factor in (3, 5, 2)]
    rows[0][260] = 6.0
    labels, logits = (260, -1, 3), made([number for row in rows for number in row])
    given = (ctypes.c_int64 * 3)(*labels), (ctypes.c_uint8 * 3)(1, 0, 1)
    loss = interface.LossStruct(_place(logits), *map(_place, given), 3, size, never, smoothing, share, bits)
    losses, highest, logarithms = (_floats([math.nan] * 3) for _ in range(3))
    right = (ctypes.c_uint8 * 3)()
    library.regard_loss(loss, *map(_place, (losses, highest, logarithms, right)), 1)
    library.regard_loss_gradient(loss, _place(highest), _place(logarithms), scale, _place(logits), 1)
    found, wanted = _as_floats(logits), []
    for row, label in zip(rows, labels, strict=True):
        total = math.log(sum(map(math.exp, row)))
        targets = [share * (place != never) + (1 - smoothing) * (place == label) for place in range(size)]
        counts = label >= 0
        wanted.append(counts * sum(target * (total - z) for target, z in zip(targets, row, strict=True)))
        steps = [counts * scale * (math.exp(z - total) - target) for target, z in zip(targets, row, strict=True)]
        own, found = found[:size], found[size:]
        if any(abs(one - other) > abs(other) / 128 + 1e-6 for one, other in zip(own, steps, strict=True)):
            return False
    return list(right) == [1, 0, 0] and all(map(_nearly, losses, wanted))


def _nearly(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5)


def _drops(library: ctypes.CDLL, bits: int) -> bool:
    """Test which of 301 entries are dropped for a seed, and what the others become."""
    count, seed, least, scale = 301, 2**63 + 12345, 20_000, 1.5
    given = [_weight(place, place // 7) / 2 for place in range(count)]
    x = (_floats if bits == 32 else _bfloats)(given)
    library.regard_dropout(_place(x), count, bits, seed, least, scale, _place(x), 1)
    wanted = []
    for place, number in enumerate(given):
        word, mask = seed + (place // 4 + 1) * 0x9E3779B97F4A7C15 & 2**64 - 1, 2**64 - 1
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & mask
        word = (word ^ word >> 27) * 0x94D049BB133111EB & mask
        word ^= word >> 31
        wanted.append(number * scale * (word >> place % 4 * 16 & 0xFFFF >= least))
    return _as_floats(x) == wanted


def _ranks(library: ctypes.CDLL, bits: int) -> bool:
    """Test the candidates of two sentences with two hypotheses each, of which the last does not exist; token 7 is ruled out.

    Arguments:
        bits: of the logits.
    """
    sentences, width, size, count, never = 2, 2, 300, 4, 7
    rows = [[(factor * place) % 13 / 4 for place in range(size)] for factor in (3, 5, 7, 4)]
    rows[0][7], rows[2][290], rows[1][299] = 9.0, 8.0, 7.0
    totals = [-1.0, -1.5, -0.5, -math.inf]
    logits = (_floats if bits == 32 else _bfloats)([number for row in rows for number in row])
    before, excluded = _floats(totals), (ctypes.c_int64 * 1)(never)
    beams = interface.BeamsStruct(*map(_place, (logits, before, excluded)), sentences, size, width, 1, count, bits)
    scratch, sums, own = (_floats([math.nan] * length) for length in (2, sentences * count, sentences * count))
    index = (ctypes.c_int64 * (sentences * count))()
    library.regard_candidates(beams, 1, *map(_place, (scratch, sums, own, index)))
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
        if not all(map(_nearly, sums[held], (one[0] for one in best))):
            return False
        if not all(map(_nearly, own[held], (one[2] for one in best))):
            return False
    return True


def _learns_words(library: ctypes.CDLL) -> bool:
    """Test skip-gram on a sentence of two words with a sampled word for each, of which the second is the word itself."""
    stride, rate = 32, 0.5
    given = [[(7 * row + 3 * place) % 11 / 16 - 0.3 for place in range(stride)] for row in range(6)]
    x, y = given[:3], given[3:]
    tables = tuple(_floats([number for row in table for number in row]) for table in (x, y))
    words, begins, ends, negatives = ((ctypes.c_int32 * 2)(*each) for each in ((0, 2), (0, 0), (2, 2), (1, 2)))
    text = interface.TextStruct(_place(words), _place(begins), _place(ends), _place(negatives), None, None, 2, 1)
    scratch = (ctypes.c_uint8 * library.regard_word2vec_scratch(stride, 1, 1))()
    library.regard_word2vec(interface.WordTablesStruct(*map(_place, tables), stride), text, 0, 1, rate, _place(scratch))
    for source, wanted in ((2, {0: 1, 1: 0}), (0, {2: 1})):
        before = x[source]
        products = {row: sum(one * other for one, other in zip(before, y[row], strict=True)) for row in wanted}
        steps = {row: rate * (wanted[row] - 1 / (1 + math.exp(-products[row]))) for row in wanted}
        x[source] = [one + sum(steps[row] * y[row][place] for row in wanted) for place, one in enumerate(before)]
        for row, step in steps.items():
            y[row] = [one + step * other for one, other in zip(y[row], before, strict=True)]
    made, found = (number for row in (*x, *y) for number in row), (number for table in tables for number in table)
    return all(math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5) for one, other in zip(made, found, strict=True))


def _learns_a_count(library: ctypes.CDLL) -> bool:
    """Test GloVe on one count whose weight is 0.5 and whose logarithm is 2, with a gradient that is clipped in some places."""
    stride, rate, clip = 32, 0.1, 0.6
    x, y = ([(factor * place) % 11 / 8 - 0.6 for place in range(stride)] for factor in (7, 3))
    squares = [1.0 + place % 3 for place in range(stride)]
    tables = tuple(map(_floats, (x, y, squares, squares)))
    count, logarithm, weight = (ctypes.c_int32 * 3)(0, 0, 0), _floats([2.0]), _floats([0.5])
    cost = library.regard_glove(
        interface.CountTablesStruct(*map(_place, tables), stride),
        *(_place(count), _place(logarithm), _place(weight), 1, rate, clip),
    )
    wrong = sum(one * other for one, other in zip(x, y, strict=True)) - 2
    wanted = [0.25 * wrong**2]
    for own, other in ((x, y), (y, x)):
        steps = [rate * min(max(0.5 * wrong * each, -clip), clip) for each in other]
        wanted += [one - step / math.sqrt(size) for one, step, size in zip(own, steps, squares, strict=True)]
    found = [cost, *tables[0], *tables[1]]
    return all(math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5) for one, other in zip(found, wanted, strict=True))


def _adding_block() -> tuple[int, interface.BlockStruct, tuple[ctypes.Array, ...]]:
    """Its width, a block that adds attention to values of 2 and swish(3) to its input, and the memory that it points into."""
    width = GROUP
    zero, one = _tiles(lambda output, place: False), _tiles(lambda output, place: output == place)
    scale = (ctypes.c_float * width)(*[1 / 127] * width)
    nothing, unit, two, three = ((ctypes.c_float * width)(*[number] * width) for number in (0.0, 1.0, 2.0, 3.0))

    def linear(weight: ctypes.Array, bias: ctypes.Array, activation: int = 0) -> interface.LinearStruct:
        return interface.LinearStruct(width, width, 8, activation, _place(weight), _place(scale), _place(bias))

    block = interface.BlockStruct(
        query=linear(zero, unit),
        key=linear(zero, nothing),
        value=linear(zero, two),
        output=linear(one, nothing),
        inner=linear(zero, three, 4),
        outer=linear(one, nothing),
        attention_before=interface.NormStruct(_place(unit), _place(nothing), 1e-5),
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


def _floats(numbers: Sequence[float]) -> ctypes.Array:
    return (ctypes.c_float * len(numbers))(*numbers)


def _bfloats(numbers: Sequence[float]) -> ctypes.Array:
    """Numbers that bfloat16 holds exactly, in bfloat16: the upper half of each float32."""
    words = (ctypes.c_uint32 * len(numbers)).from_buffer(_floats(numbers))
    return (ctypes.c_uint16 * len(numbers))(*(word >> 16 for word in words))


def _as_floats(numbers: ctypes.Array) -> list[float]:
    """Numbers in float32 or bfloat16."""
    if numbers._type_ is ctypes.c_float:
        return list(numbers)
    words = (ctypes.c_uint32 * len(numbers))(*(word << 16 for word in numbers))
    return list((ctypes.c_float * len(numbers)).from_buffer(words))


def _place(array: ctypes.Array) -> int:
    return ctypes.addressof(array)


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
