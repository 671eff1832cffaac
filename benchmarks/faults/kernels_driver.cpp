// Calls the compiled kernels as `kernels.py` tells it on its standard input, and says what came out.
//
// All of a program, so that it runs under any sanitizer and under an emulator of another processor. Each array stands in an allocation
// of exactly its size; what the kernels are to write themselves is filled with NaN beforehand.

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "decoding.cpp"

namespace {

// A runtime for threads that sanitizers understand: new ones for each parallel region.
int wanted = 1;
thread_local int own_number = 0, own_count = 1;
pthread_barrier_t everyone;

void in_parallel(void (*body)(void*), void* data, unsigned, unsigned) {
    pthread_barrier_init(&everyone, nullptr, unsigned(wanted));
    auto work = [=](int number) {
        own_number = number, own_count = wanted;
        body(data);
        own_number = 0, own_count = 1;
    };
    std::vector<std::thread> threads;
    for (int number = 1; number < wanted; ++number) threads.emplace_back(work, number);
    work(0);
    for (auto& thread : threads) thread.join();
    pthread_barrier_destroy(&everyone);
}

void wait_for_all() { pthread_barrier_wait(&everyone); }
int number_of_own() { return own_number; }
int number_of_all() { return own_count; }

template <class T>
T read_one() {
    T found;
    if (std::fread(&found, sizeof(found), 1, stdin) != 1) std::exit(0);
    return found;
}

struct Array {
    char* allocated;
    char* start;
    int64_t size;
    bool output;
    std::vector<char> given;
};

Array read_array() {
    int64_t size = read_one<int64_t>();
    int32_t shift = read_one<int32_t>(), output = read_one<int32_t>();
    Array array = {static_cast<char*>(std::malloc(size + shift)), nullptr, size, output != 0, std::vector<char>(size)};
    array.start = array.allocated + shift;
    if (size && std::fread(array.given.data(), 1, size, stdin) != size_t(size)) std::exit(3);
    if (size) std::memcpy(array.start, array.given.data(), size);
    return array;
}

uint8_t* scratch_of(int64_t bytes) {
    void* scratch = std::malloc(bytes);
    if (bytes) std::memset(scratch, 0xff, bytes);
    return static_cast<uint8_t*>(scratch);
}

// A case: which function, on how many threads; the arrays, of which the first holds the arguments; where pointers to others stand.
void run_case() {
    const int32_t function = read_one<int32_t>();
    wanted = read_one<int32_t>();
    const int32_t count = read_one<int32_t>(), pointers = read_one<int32_t>();
    std::vector<Array> arrays;
    for (int32_t n = 0; n < count; ++n) arrays.push_back(read_array());
    for (int32_t n = 0; n < pointers; ++n) {
        const int32_t array = read_one<int32_t>(), at = read_one<int32_t>(), to = read_one<int32_t>();
        std::memcpy(arrays[array].start + at, &arrays[to].start, sizeof(char*));
        std::memcpy(arrays[array].given.data() + at, &arrays[to].start, sizeof(char*));
    }
    int64_t a[20] = {};
    std::memcpy(a, arrays[0].start, size_t(arrays[0].size));
    auto at = [&](int place) { return reinterpret_cast<void*>(a[place]); };
    uint8_t* scratch;
    if (function == 1) {
        const auto* w = static_cast<const Linear*>(at(0));
        scratch = scratch_of(regard_linear_scratch(w, int32_t(a[2])));
        regard_linear(w, static_cast<const float*>(at(1)), int32_t(a[2]), static_cast<float*>(at(3)), int32_t(a[4]), scratch);
    } else if (function == 3) {
        const auto* blocks = static_cast<const Block*>(at(0));
        const auto* past = static_cast<const Cache*>(at(7));
        const int32_t steps = int32_t(a[4]), rows = int32_t(a[5]);
        scratch = scratch_of(regard_blocks_scratch(blocks, rows, past->columns + steps, wanted));
        *static_cast<int32_t*>(at(16)) =
            regard_greedy(blocks, int32_t(a[1]), static_cast<const Embedding*>(at(2)), static_cast<int64_t*>(at(3)), steps, rows,
                          static_cast<const int64_t*>(at(6)), past, static_cast<const uint8_t* const*>(at(8)),
                          static_cast<const Head*>(at(9)), static_cast<float*>(at(10)), static_cast<const int64_t*>(at(11)),
                          int32_t(a[12]), static_cast<const int64_t*>(at(13)), int32_t(a[14]), static_cast<float*>(at(15)),
                          wanted, scratch);
    } else if (function == 4) {
        const auto* tables = static_cast<const WordTables*>(at(0));
        const auto* text = static_cast<const Text*>(at(1));
        scratch = scratch_of(regard_word2vec_scratch(tables->stride, a[3], text->negative));
        regard_word2vec(tables, text, int32_t(a[2]), a[3], float(a[4]) / 1000, scratch);
    } else if (function == 6) {
        const int32_t longest = int32_t(a[7]), width = int32_t(a[4]);
        const int64_t room = regard_texts_scratch(longest, width);
        scratch = scratch_of(room * wanted * 4);
        regard_texts(at(0), static_cast<const int32_t*>(at(1)), int32_t(a[2]), int32_t(a[3]), width, int32_t(a[5]),
                     float(a[6]) / 1000, wanted, reinterpret_cast<float*>(scratch), room, at(8));
    } else if (function == 7) {
        scratch = nullptr;
        const auto* loss = static_cast<const Loss*>(at(0));
        auto *losses = static_cast<float*>(at(1)), *highest = static_cast<float*>(at(2)), *logarithms = static_cast<float*>(at(3));
        regard_loss(loss, losses, highest, logarithms, static_cast<uint8_t*>(at(4)), wanted);
        regard_loss_gradient(loss, highest, logarithms, float(a[5]) / 1000, at(6), wanted);
    } else if (function == 8) {
        scratch = nullptr;
        regard_dropout(at(0), a[1], int32_t(a[2]), uint64_t(a[3]), int32_t(a[4]), float(a[5]) / 1000, at(6), wanted);
    } else if (function == 9) {
        const auto* texts = static_cast<const Texts*>(at(0));
        const int64_t room = regard_attention_scratch(int32_t(a[1]), int32_t(a[2]), texts->width);
        scratch = scratch_of(room * wanted * 4);
        regard_attention(texts, wanted, reinterpret_cast<float*>(scratch), room, at(4));
        std::memset(scratch, 0xff, size_t(room) * size_t(wanted) * 4);
        regard_attention_gradient(texts, at(3), wanted, reinterpret_cast<float*>(scratch), room, at(5), at(6), at(7));
    } else if (function == 10) {
        const auto* all = static_cast<const Additive*>(at(0));
        scratch = scratch_of(int64_t(wanted) * (all->asking + 1) * all->width * 4);
        regard_additive(all, wanted, static_cast<float*>(at(2)));
        regard_additive_gradient(all, static_cast<const float*>(at(1)), wanted, reinterpret_cast<float*>(scratch), at(3), at(4),
                                 static_cast<float*>(at(5)));
    } else if (function == 12) {
        const auto* all = static_cast<const Recurrent*>(at(0));
        const auto* passed = static_cast<const Passed*>(at(1));
        const int64_t room = regard_recurrent_scratch(all, wanted);
        scratch = scratch_of(room);
        regard_recurrent(all, passed, wanted, scratch);
        std::memset(scratch, 0xff, size_t(room));
        regard_recurrent_gradient(all, passed, static_cast<const PassedGradients*>(at(2)), wanted, scratch);
    } else if (function == 13) {
        const auto* all = static_cast<const LSTM*>(at(0));
        const auto* passed = static_cast<const LSTMPassed*>(at(1));
        const int64_t room = regard_lstm_scratch(all, wanted);
        scratch = scratch_of(room);
        regard_lstm(all, passed, wanted, scratch);
        std::memset(scratch, 0xff, size_t(room));
        regard_lstm_gradient(all, passed, static_cast<const LSTMGradients*>(at(2)), wanted, scratch);
    } else if (function == 11) {
        const auto* beams = static_cast<const Beams*>(at(0));
        scratch = scratch_of(int64_t(wanted) * ((beams->vocabulary + AT_ONCE - 1) / AT_ONCE) * 4);
        regard_candidates(beams, wanted, reinterpret_cast<float*>(scratch), static_cast<float*>(at(1)), static_cast<float*>(at(2)),
                          static_cast<int64_t*>(at(3)));
    } else if (function == 5) {
        scratch = nullptr;
        *static_cast<double*>(at(6)) =
            regard_glove(static_cast<const CountTables*>(at(0)), static_cast<const Count*>(at(1)),
                         static_cast<const float*>(at(2)), static_cast<const float*>(at(3)), a[4], 0.05f, float(a[5]) / 1000);
    } else {
        const auto* blocks = static_cast<const Block*>(at(0));
        const auto *past = static_cast<const Cache*>(at(6)), *source = static_cast<const Cache*>(at(9));
        const int32_t rows = int32_t(a[3]);
        const int32_t columns = source && source->columns > past->columns ? source->columns : past->columns;
        scratch = scratch_of(regard_blocks_scratch(blocks, rows, columns, wanted));
        regard_blocks(blocks, int32_t(a[1]), static_cast<float*>(at(2)), rows, int32_t(a[4]), static_cast<const int64_t*>(at(5)),
                      past, static_cast<const uint8_t* const*>(at(7)), static_cast<const Span* const*>(at(8)), source,
                      static_cast<const uint8_t*>(at(10)), int32_t(a[11]), static_cast<float*>(at(12)),
                      static_cast<const Head*>(at(13)), static_cast<float*>(at(14)), wanted, scratch);
    }
    std::free(scratch);
    int32_t changed = 0;  // arrays that were not to be written
    for (const Array& array : arrays)
        changed += !array.output && array.size && std::memcmp(array.start, array.given.data(), array.size) != 0;
    std::fwrite(&changed, sizeof(changed), 1, stdout);
    for (const Array& array : arrays) {
        if (array.output) std::fwrite(array.start, 1, array.size, stdout);
        std::free(array.allocated);
    }
    std::fflush(stdout);
}

}  // namespace

int main() {
    const Runtime runtime = {in_parallel, wait_for_all, number_of_own, number_of_all};
    regard_runtime(&runtime);
    for (;;) run_case();
}
