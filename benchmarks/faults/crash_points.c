// Ends the process at the k-th operation that changes something in a folder: loaded before all other libraries (LD_PRELOAD), it
// stands before the C library's functions, so it sees what Python and the libraries written in Rust do alike.
//
// Just before the operation; in the middle of one that writes bytes, so that a half is there.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[4096];
static long at = -1, counted = 0;

// Count what is done under a folder from now on, and end at the number `k`; never where it is negative.
void crash_at(const char* folder, long k) {
    snprintf(root, sizeof root, "%s/", folder);
    at = k, counted = 0;
}

long crash_count(void) { return counted; }

static void die(void) { kill(getpid(), SIGKILL); }

// Whether this operation is the one to end at.
static int due(const char* place) {
    if (!*root || strncmp(place, root, strlen(root)) != 0) return 0;
    return counted++ == at;
}

static int due_file(int file) {
    char link[64], place[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = *root ? readlink(link, place, sizeof place - 1) : -1;
    if (length < 0) return 0;
    place[length] = 0;
    return due(place);
}

static int due_path(int folder, const char* path) {
    char link[64], place[8192];
    if (!*root || !path) return 0;
    if (*path == '/') return due(path);
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, place, 4095);
    if (length < 0) return 0;
    snprintf(place + length, sizeof place - length, "/%s", path);
    return due(place);
}

#define REAL(result, name, ...)                                        \
    static result (*real)(__VA_ARGS__);                                \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define OPEN(name)                                                     \
    int name(const char* path, int flags, ...) {                       \
        REAL(int, name, const char*, int, ...);                        \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        int mode = va_arg(more, int);                                  \
        va_end(more);                                                  \
        if ((flags & CHANGES) && due_path(AT_FDCWD, path)) die();      \
        return real(path, flags, mode);                                \
    }
#define OPENAT(name)                                                   \
    int name(int folder, const char* path, int flags, ...) {           \
        REAL(int, name, int, const char*, int, ...);                   \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        int mode = va_arg(more, int);                                  \
        va_end(more);                                                  \
        if ((flags & CHANGES) && due_path(folder, path)) die();        \
        return real(folder, path, flags, mode);                        \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void* bytes, size_t count) {
    REAL(ssize_t, write, int, const void*, size_t);
    if (due_file(file)) {
        real(file, bytes, count / 2);
        die();
    }
    return real(file, bytes, count);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec*, int);
    if (due_file(file)) {
        real(file, parts, count / 2);
        die();
    }
    return real(file, parts, count);
}

#define ON_FILE(result, name, given, passed, ...)                      \
    result name given {                                                \
        REAL(result, name, __VA_ARGS__);                               \
        if (due_file(file)) die();                                     \
        return real passed;                                            \
    }
ON_FILE(ssize_t, pwrite, (int file, const void* b, size_t n, off_t o), (file, b, n, o), int, const void*, size_t, off_t)
ON_FILE(ssize_t, pwrite64, (int file, const void* b, size_t n, off_t o), (file, b, n, o), int, const void*, size_t, off_t)
ON_FILE(ssize_t, sendfile, (int file, int from, off_t* o, size_t n), (file, from, o, n), int, int, off_t*, size_t)
ON_FILE(ssize_t, sendfile64, (int file, int from, off_t* o, size_t n), (file, from, o, n), int, int, off_t*, size_t)
ON_FILE(int, fsync, (int file), (file), int)
ON_FILE(int, fdatasync, (int file), (file), int)
ON_FILE(int, ftruncate, (int file, off_t n), (file, n), int, off_t)
ON_FILE(int, ftruncate64, (int file, off_t n), (file, n), int, off_t)

#define ON_PATH(name, folder, given, passed, ...)                      \
    int name given {                                                   \
        REAL(int, name, __VA_ARGS__);                                  \
        if (due_path(folder, path)) die();                             \
        return real passed;                                            \
    }
ON_PATH(unlink, AT_FDCWD, (const char* path), (path), const char*)
ON_PATH(rmdir, AT_FDCWD, (const char* path), (path), const char*)
ON_PATH(mkdir, AT_FDCWD, (const char* path, mode_t mode), (path, mode), const char*, mode_t)
ON_PATH(chmod, AT_FDCWD, (const char* path, mode_t mode), (path, mode), const char*, mode_t)
ON_PATH(rename, AT_FDCWD, (const char* path, const char* to), (path, to), const char*, const char*)
ON_PATH(unlinkat, folder, (int folder, const char* path, int flags), (folder, path, flags), int, const char*, int)
ON_PATH(mkdirat, folder, (int folder, const char* path, mode_t mode), (folder, path, mode), int, const char*, mode_t)
ON_PATH(renameat, folder, (int folder, const char* path, int b, const char* to), (folder, path, b, to), int, const char*, int,
        const char*)
ON_PATH(renameat2, folder, (int folder, const char* path, int b, const char* to, unsigned f), (folder, path, b, to, f), int,
        const char*, int, const char*, unsigned)
