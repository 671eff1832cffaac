// The OpenMP runtime, PyTorch's own, whose addresses are given when the library is opened.
//
// Nothing is linked: another runtime would have threads of its own that wait for PyTorch's cores, and the file that PyTorch brings
// has another name in each installation. GCC calls the functions below; they pass these calls on to the given addresses.

#pragma once

extern "C" {

struct Runtime {
    void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
    void (*barrier)();
    int (*thread_num)();
    int (*num_threads)();
};

static Runtime runtime;

// Before any other call.
void regard_runtime(const Runtime* given) { runtime = *given; }

#pragma GCC visibility push(hidden)
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
    runtime.parallel(body, data, threads, flags);
}
void GOMP_barrier() { runtime.barrier(); }
int omp_get_thread_num() { return runtime.thread_num(); }
int omp_get_num_threads() { return runtime.num_threads(); }
#pragma GCC visibility pop
}
