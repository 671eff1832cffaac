"""Computations with known results for the kernels of training; a part of `trial`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

if __package__:
    from regard.kernels import interface
    from regard.kernels.trial_numbers import GROUP, address, as_floats, bfloats, dot, floats, nearly, small_number
else:  # beside trial.py, run by its path
    import interface  # type: ignore[import-not-found, no-redef]  # pyright: ignore[reportMissingImports]
    from trial_numbers import (  # type: ignore[import-not-found, no-redef]  # pyright: ignore[reportMissingImports]
        GROUP,
        address,
        as_floats,
        bfloats,
        dot,
        floats,
        nearly,
        small_number,
    )


def attends_in_training(library: ctypes.CDLL, bits: int) -> bool:
    """Test attention of two texts, causal, and its gradients, in bfloat16 up to its rounding.

    Arguments:
        bits: of all numbers in and out.
    """
    width, lengths, scale = 4, (3, 2), 0.5
    tokens, made = sum(lengths), floats if bits == 32 else bfloats
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
        *map(address, (*given[:3], ends, ends)), 2, 1, width, bits, 1, scale, 0, 1.0, max(lengths), max(lengths), 0
    )
    room = library.regard_attention_scratch(max(lengths), max(lengths), width)
    scratch = (ctypes.c_float * room)()
    library.regard_attention(texts, 1, address(scratch), room, address(found[0]))
    library.regard_attention_gradient(texts, address(given[3]), 1, address(scratch), room, *map(address, found[1:]))
    wanted, begin = [[[0.0] * width for _ in range(tokens)] for _ in range(4)], 0
    for length in lengths:
        for i in range(begin, begin + length):
            keys = range(begin, i + 1)
            query, key, value, upstream = rows[0][i], rows[1], rows[2], rows[3][i]
            shares = [math.exp(scale * dot(query, key[j])) for j in keys]
            shares = [share / sum(shares) for share in shares]
            slopes = [dot(upstream, value[j]) for j in keys]
            mean = dot(shares, slopes)
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
        for one, other in zip(as_floats(part), [number for row in right for number in row], strict=True)
    )


def scores_additively(library: ctypes.CDLL, bits: int) -> bool:
    """Test additive scores of two queries and three keys, and their gradients, in bfloat16 up to its rounding.

    Arguments:
        bits: of queries, keys and their gradients.
    """
    width, asking, asked, made = 19, 2, 3, floats if bits == 32 else bfloats
    queries, keys = (
        [[(factor * row + 3 * place + row * place) % 9 / 4 - 1 for place in range(width)] for row in range(count)]
        for factor, count in ((5, asking), (2, asked))
    )
    weight = [place % 5 / 4 - 0.5 for place in range(width)]
    upstream = [[row - 0.5 * column for column in range(asked)] for row in range(asking)]
    given = [*(made([number for row in rows for number in row]) for rows in (queries, keys)), floats(weight)]
    steps, scores = (floats([number for row in upstream for number in row]) for _ in range(2))
    found, of_weight = [made([0.0] * (count * width)) for count in (asking, asked)], floats([0.0] * width)
    struct = interface.AdditiveStruct(*map(address, given), 1, asking, asked, width, bits)
    scratch = floats([0.0] * ((asking + 1) * width))
    library.regard_additive(struct, 1, address(scores))
    library.regard_additive_gradient(
        struct, address(steps), 1, address(scratch), *map(address, found), address(of_weight)
    )
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
    return all(map(nearly, scores, wanted_scores)) and all(
        math.isclose(one, other, rel_tol=rounding, abs_tol=1e-5)
        for part, right in zip((*found, of_weight), wanted, strict=True)
        for one, other in zip(as_floats(part), right, strict=True)
    )


def goes_through_time(library: ctypes.CDLL, bits: int) -> bool:
    """Test two steps of a gated recurrent network, the second of which is padding in the second row, and their gradient.

    All inner matrices are zero but that of the context, whose first channel goes to the candidate: of two keys of the same score
    it is the mean of both values. So s' = (s + tanh(p + 2)) / 2.

    Arguments:
        bits: of the matrices.
    """
    width, rows, steps, made = GROUP, 2, 2, floats if bits == 32 else bfloats
    places = floats([0.0] * (3 * width))

    def linear(outputs: int, inputs: int, one: Sequence[int] = ()) -> tuple[interface.LinearStruct, ctypes.Array]:
        numbers = made([float(place in one) for place in range(outputs * inputs)])
        return interface.LinearStruct(outputs, inputs, bits, 0, address(numbers), None, address(places)), numbers

    candidates = range(2 * width, 3 * width)
    linears = [
        *(linear(2 * width, width), linear(width, width)),
        *(linear(3 * width, width, [output * width for output in candidates]), linear(width, width)),
        *(linear(width, 2 * width), linear(width, width)),
        *(linear(width, 3 * width, list(candidates)), linear(width, width)),
    ]
    projected, first = floats([-1.0] * (steps * rows * 3 * width)), floats([0.5] * (rows * width))
    for row in range(steps * rows):
        projected[(3 * row + 1) * width : (3 * row + 2) * width] = [0.0] * width
    real, visible = (ctypes.c_uint8 * (steps * rows))(1, 1, 1, 0), (ctypes.c_uint8 * (rows * 3))(1, 1, 0, 1, 1, 0)
    keys, values = (floats([height] * width * rows * 3) for height in (0.25, 9.0))
    for row in range(rows):
        for key, height in ((0, 1.0), (1, 3.0)):
            values[(3 * row + key) * width : (3 * row + key + 1) * width] = [height] * width
    weight = floats([0.5] * width)
    given = map(address, (projected, real, first, keys, values, weight, visible))
    struct = interface.RecurrentStruct(*(one for one, _ in linears), *given, rows, steps, width, 3)
    passed = [floats([math.nan] * (steps * rows * size)) for size in (width, 3 * width, width, 3, width)]
    kept = interface.PassedStruct(*map(address, passed))
    scratch = (ctypes.c_uint8 * library.regard_recurrent_scratch(struct, 1))()
    library.regard_recurrent(struct, kept, 1, address(scratch))
    n, one = math.tanh(1.0), steps * rows * width
    states = [[(0.5 + n) / 2] * 2, [(0.5 + 3 * n) / 4, (0.5 + n) / 2]]
    if not all(nearly(passed[0][(step * rows + row) * width], states[step][row]) for step in (0, 1) for row in (0, 1)):
        return False
    upstream = floats([0.0] * (one - rows * width) + [1.0] * (rows * width))
    found = [floats([0.0] * size) for size in (one, 3 * one, one, rows * 3 * width, rows * width, rows * width)]
    of = interface.PassedGradientsStruct(address(upstream), *map(address, found))
    library.regard_recurrent_gradient(struct, kept, of, 1, address(scratch))
    slope = 1 - n * n
    wanted = [[slope / 4, slope / 2], [slope / 2, 0.0]]  # of the projected candidate
    return all(
        nearly(found[1][(3 * (step * rows + row) + 2) * width], wanted[step][row])
        and nearly(found[5][row * width], 0.25 if row == 0 else 0.5)
        for step in (0, 1)
        for row in (0, 1)
    )


def goes_through_an_lstm(library: ctypes.CDLL, bits: int, attends: bool) -> bool:
    """Test two steps of an LSTM layer, the second of which is padding in the second row, and their gradient.

    Channels are alike and do not mix: gates are half open, and with attention what is fed is added to the candidate's input, and
    of two keys of the same score the mean of both values is attended to, so that h~ = tanh(2 + h).

    Arguments:
        bits: of the matrices.
        attends: whether there is attention, whose result is fed.
    """
    width, rows, steps, made = GROUP, 2, 2, floats if bits == 32 else bfloats
    biases = floats([0.0] * (4 * width))
    held = []

    def linear(outputs: int, inputs: int, ones: Sequence[int] = ()) -> interface.LinearStruct:
        held.append(made([float(n in ones) for n in range(outputs * inputs)]))
        return interface.LinearStruct(outputs, inputs, bits, 0, address(held[-1]), None, address(biases))

    nothing = interface.LinearStruct()
    into = into_back = combination = combination_back = nothing
    if attends:
        into = linear(4 * width, width, [(2 * width + n) * width + n for n in range(width)])  # to the candidates
        into_back = linear(width, 4 * width, [n * 4 * width + 2 * width + n for n in range(width)])
        combination = linear(width, 2 * width, [n * 2 * width + m for n in range(width) for m in (n, width + n)])
        combination_back = linear(2 * width, width, [n * width + n % width for n in range(2 * width)])
    first, cell = floats([0.5] * (rows * width)), floats([0.25] * (rows * width))
    zeros = floats([0.0] * (rows * width))
    again, again_back = linear(4 * width, width), linear(width, 4 * width)
    layer = interface.LSTMLayerStruct(into, again, into_back, again_back, None, address(zeros), address(cell))
    given = [0.0] * (2 * width) + [0.75] * width + [0.0] * width  # i, f, g, o
    projected = floats(given * (steps * rows))
    real, visible = (ctypes.c_uint8 * (steps * rows))(1, 1, 1, 0), (ctypes.c_uint8 * (rows * 3))(1, 1, 0, 1, 1, 0)
    keys, values = (floats([height] * width * rows * 3) for height in (0.25, 9.0))
    for row in range(rows):
        for key, height in ((0, 1.0), (1, 3.0)):
            values[(3 * row + key) * width : (3 * row + key + 1) * width] = [height] * width
    attended = map(address, (first, keys, values, visible)) if attends else (None,) * 4
    struct = interface.LSTMStruct(
        *(ctypes.addressof(layer), combination, combination_back, address(projected), address(real), *attended),
        *(rows, 1, steps, width, 3 if attends else 0),
    )
    one = steps * rows * width
    passed = [floats([math.nan] * size) for size in (one, one, one, 4 * one, steps * rows * 3, 2 * one, one)]
    kept = interface.LSTMPassedStruct(*map(address, passed))
    scratch = (ctypes.c_uint8 * library.regard_lstm_scratch(struct, 1))()
    library.regard_lstm(struct, kept, 1, address(scratch))

    def last(cell: float, real_steps: int) -> float:
        """What comes out of a row at last, by the state of its cells before the first step."""
        found = 0.5
        for _ in range(real_steps):
            cell = 0.5 * cell + 0.5 * math.tanh(0.75 + found * attends)
            found = 0.5 * math.tanh(cell)
            found = math.tanh(2 + found) if attends else found
        return found

    outputs = passed[6 if attends else 0][(steps - 1) * rows * width :]
    upstream = floats([0.0] * (one - rows * width) + [1.0] * (rows * width))
    more = (4 * one, one, one, steps * rows * 3, rows * width, rows * width, rows * width)
    found = [floats([math.nan] * size) for size in more]
    found[5][:] = [0.0] * (rows * width)  # of the cells after the last step
    of = interface.LSTMGradientsStruct(address(upstream), *map(address, found))
    library.regard_lstm_gradient(struct, kept, of, 1, address(scratch))
    rounding, step = 1e-4 if bits == 32 else 1 / 64, 1e-4
    slopes = [(last(0.25 + step, count) - last(0.25 - step, count)) / (2 * step) for count in (2, 1)]
    return all(
        math.isclose(outputs[row * width + n], last(0.25, 2 - row), rel_tol=rounding)
        and math.isclose(found[5][row * width + n], slopes[row], rel_tol=2 * rounding)
        for row in range(rows)
        for n in (0, width - 1)
    )


def finds_a_loss(library: ctypes.CDLL, bits: int) -> bool:
    """Test the loss and its gradient, in place, for three rows, of which the second does not count.

    Arguments:
        bits: of the logits.
    """
    size, never, smoothing, scale = 301, 2, 0.25, 0.5
    share, made = smoothing / (size - 1), floats if bits == 32 else bfloats
    rows = [[(factor * place) % 7 / 2 - 1 for place in range(size)] for factor in (3, 5, 2)]
    rows[0][260] = 6.0
    labels, logits = (260, -1, 3), made([number for row in rows for number in row])
    given = (ctypes.c_int64 * 3)(*labels), (ctypes.c_uint8 * 3)(1, 0, 1)
    loss = interface.LossStruct(address(logits), *map(address, given), 3, size, never, smoothing, share, bits)
    losses, highest, logarithms = (floats([math.nan] * 3) for _ in range(3))
    right = (ctypes.c_uint8 * 3)()
    library.regard_loss(loss, *map(address, (losses, highest, logarithms, right)), 1)
    library.regard_loss_gradient(loss, address(highest), address(logarithms), scale, address(logits), 1)
    found, wanted = as_floats(logits), []
    for row, label in zip(rows, labels, strict=True):
        total = math.log(sum(map(math.exp, row)))
        targets = [share * (place != never) + (1 - smoothing) * (place == label) for place in range(size)]
        counts = label >= 0
        wanted.append(counts * sum(target * (total - z) for target, z in zip(targets, row, strict=True)))
        steps = [counts * scale * (math.exp(z - total) - target) for target, z in zip(targets, row, strict=True)]
        own, found = found[:size], found[size:]
        if any(abs(one - other) > abs(other) / 128 + 1e-6 for one, other in zip(own, steps, strict=True)):
            return False
    return list(right) == [1, 0, 0] and all(map(nearly, losses, wanted))


def drops(library: ctypes.CDLL, bits: int) -> bool:
    """Test which of 301 entries are dropped for a seed, and what the others become."""
    count, seed, least, scale = 301, 2**63 + 12345, 20_000, 1.5
    given = [small_number(place, place // 7) / 2 for place in range(count)]
    x = (floats if bits == 32 else bfloats)(given)
    library.regard_dropout(address(x), count, bits, seed, least, scale, address(x), 1)
    wanted = []
    for place, number in enumerate(given):
        word, mask = seed + (place // 4 + 1) * 0x9E3779B97F4A7C15 & 2**64 - 1, 2**64 - 1
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & mask
        word = (word ^ word >> 27) * 0x94D049BB133111EB & mask
        word ^= word >> 31
        wanted.append(number * scale * (word >> place % 4 * 16 & 0xFFFF >= least))
    return as_floats(x) == wanted


def learns_words(library: ctypes.CDLL) -> bool:
    """Test skip-gram on a sentence of two words with a sampled word for each, of which the second is the word itself."""
    stride, rate = 32, 0.5
    given = [[(7 * row + 3 * place) % 11 / 16 - 0.3 for place in range(stride)] for row in range(6)]
    x, y = given[:3], given[3:]
    tables = tuple(floats([number for row in table for number in row]) for table in (x, y))
    words, begins, ends, negatives = ((ctypes.c_int32 * 2)(*each) for each in ((0, 2), (0, 0), (2, 2), (1, 2)))
    text = interface.TextStruct(address(words), address(begins), address(ends), address(negatives), None, None, 2, 1)
    scratch = (ctypes.c_uint8 * library.regard_word2vec_scratch(stride, 1, 1))()
    library.regard_word2vec(
        interface.WordTablesStruct(*map(address, tables), stride), text, 0, 1, rate, address(scratch)
    )
    for source, wanted in ((2, {0: 1, 1: 0}), (0, {2: 1})):
        before = x[source]
        products = {row: sum(one * other for one, other in zip(before, y[row], strict=True)) for row in wanted}
        steps = {row: rate * (wanted[row] - 1 / (1 + math.exp(-products[row]))) for row in wanted}
        x[source] = [one + sum(steps[row] * y[row][place] for row in wanted) for place, one in enumerate(before)]
        for row, step in steps.items():
            y[row] = [one + step * other for one, other in zip(y[row], before, strict=True)]
    made, found = (number for row in (*x, *y) for number in row), (number for table in tables for number in table)
    return all(math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5) for one, other in zip(made, found, strict=True))


def learns_a_count(library: ctypes.CDLL) -> bool:
    """Test GloVe on one count whose weight is 0.5 and whose logarithm is 2, with a gradient that is clipped in some places."""
    stride, rate, clip = 32, 0.1, 0.6
    x, y = ([(factor * place) % 11 / 8 - 0.6 for place in range(stride)] for factor in (7, 3))
    squares = [1.0 + place % 3 for place in range(stride)]
    tables = tuple(map(floats, (x, y, squares, squares)))
    count, logarithm, weight = (ctypes.c_int32 * 3)(0, 0, 0), floats([2.0]), floats([0.5])
    cost = library.regard_glove(
        interface.CountTablesStruct(*map(address, tables), stride),
        *(address(count), address(logarithm), address(weight), 1, rate, clip),
    )
    wrong = sum(one * other for one, other in zip(x, y, strict=True)) - 2
    wanted = [0.25 * wrong**2]
    for own, other in ((x, y), (y, x)):
        steps = [rate * min(max(0.5 * wrong * each, -clip), clip) for each in other]
        wanted += [one - step / math.sqrt(size) for one, step, size in zip(own, steps, squares, strict=True)]
    found = [cost, *tables[0], *tables[1]]
    return all(math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5) for one, other in zip(found, wanted, strict=True))
