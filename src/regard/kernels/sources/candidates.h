// The best continuations of a beam: of each sentence the largest sums of a hypothesis' total and a token's log-probability.

#pragma once

#include "training.h"

extern "C" {

// The logits of the next token of every hypothesis.
struct Beams {
    const void* logits;     // (sentences, width, vocabulary)
    const float* totals;    // (sentences, width), of each hypothesis; -INFINITY: there is none
    const int64_t* never;   // (excluded), tokens that are not chosen
    int64_t sentences, vocabulary;
    int32_t width, excluded;
    int32_t count;  // of candidates for each sentence
    int32_t bits;   // of the logits: 16: bfloat16; 32: float
};
}

namespace {

template <class T>
float largest(const T* z, int count) {
    float found = -INFINITY;
#pragma omp simd reduction(max : found)
    for (int i = 0; i < count; ++i) {
        const float x = as_float(z[i]);
        found = x > found ? x : found;
    }
    return found;
}

// e^x for x <= 0; e^{-87} below, which is nothing beside the 1 of the largest.
template <class X>
X share(X x) {
    const X least = X{} - 87.0f;
    return exponential_within(x < least ? least : x);
}

// The largest logit of a row and the logarithm of the sum of e^{z - largest}; `high`: the largest logit of each part of AT_ONCE.
template <class T>
void survey(const T* z, int64_t count, float* high, float* highest, float* logarithm) {
    float most = -INFINITY;
    for (int64_t first = 0; first < count; first += AT_ONCE) {
        const float here = first + AT_ONCE <= count ? largest(z + first, AT_ONCE) : largest(z + first, int(count - first));
        high[first / AT_ONCE] = here;
        most = here > most ? here : most;
    }
    Lanes one = {}, other = {};
    int64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        one += share(lanes(z + i) - most);
        other += share(lanes(z + i + LANES) - most);
    }
    float sum = total(one + other);
    for (; i < count; ++i) sum += share(as_float(z[i]) - most);
    *highest = most;
    *logarithm = natural_logarithm(sum);
}

// The candidates of a sentence so far, the best first; of equal sums the one with the lower index.
struct Ranking {
    float *totals, *own;
    int64_t* index;
    int32_t count;

    float least() const { return totals[count - 1]; }

    void add(float sum, float log_probability, int64_t at) {  // more than the least, and of a higher index than all before
        int32_t place = count - 1;
        for (; place > 0 && totals[place - 1] < sum; --place)
            totals[place] = totals[place - 1], own[place] = own[place - 1], index[place] = index[place - 1];
        totals[place] = sum, own[place] = log_probability, index[place] = at;
    }
};

template <class T>
void rank_sentence(const Beams& beams, int64_t sentence, float* high, Ranking ranking) {
    const int64_t vocabulary = beams.vocabulary;
    for (int32_t n = 0; n < ranking.count; ++n) {
        ranking.totals[n] = ranking.own[n] = -INFINITY;
        ranking.index[n] = 0;
    }
    for (int32_t row = 0; row < beams.width; ++row) {
        const int64_t number = sentence * beams.width + row;
        const T* z = static_cast<const T*>(beams.logits) + number * vocabulary;
        const float before = beams.totals[number];
        float highest, logarithm;
        survey(z, vocabulary, high, &highest, &logarithm);
        if (logarithm != logarithm) {  // NaN or infinity among the logits, which the caller tells
            ranking.totals[0] = NAN;
            return;
        }
        auto passes = [&](float logit) { return ((logit - highest) - logarithm) + before > ranking.least(); };
        for (int64_t first = 0; first < vocabulary; first += TILE) {
            if (first % AT_ONCE == 0 && !passes(high[first / AT_ONCE])) {
                first += AT_ONCE - TILE;
                continue;
            }
            const int own = int(vocabulary - first < TILE ? vocabulary - first : TILE);
            if (!passes(largest(z + first, own))) continue;
            for (int64_t token = first; token < first + own; ++token) {
                if (!passes(as_float(z[token]))) continue;
                bool chosen = true;
                for (int32_t n = 0; n < beams.excluded; ++n) chosen = chosen && beams.never[n] != token;
                const float log_probability = (as_float(z[token]) - highest) - logarithm;
                if (chosen) ranking.add(log_probability + before, log_probability, row * vocabulary + token);
            }
        }
    }
}

template <class T>
void rank_all(const Beams& beams, int threads, float* scratch, float* totals, float* own, int64_t* index) {
    const int64_t parts = (beams.vocabulary + AT_ONCE - 1) / AT_ONCE, count = beams.count;
#pragma omp parallel num_threads(threads)
    {
        const int64_t number = omp_get_thread_num(), every = omp_get_num_threads();
        for (int64_t n = beams.sentences * number / every; n < beams.sentences * (number + 1) / every; ++n)
            rank_sentence<T>(beams, n, scratch + number * parts,
                             {totals + n * count, own + n * count, index + n * count, beams.count});
    }
}

}  // namespace

extern "C" {

// scratch: (threads, parts) float, a part for each started 256 tokens of the vocabulary.
// totals, own: (sentences, count) float, the sums in descending order and the log-probability of each token; where there are fewer
// candidates -INFINITY; the first is NaN where logits are NaN or infinite. index: hypothesis * vocabulary + token.
void regard_candidates(const Beams* beams, int32_t threads, float* scratch, float* totals, float* own, int64_t* index) {
    (beams->bits == 32 ? rank_all<float> : rank_all<uint16_t>)(*beams, threads, scratch, totals, own, index);
}
}
