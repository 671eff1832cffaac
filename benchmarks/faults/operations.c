// Ends the process at the k-th operation that changes something in a folder, or lets operations fail from the k-th on, or slows
// all of them down: loaded before all other libraries (LD_PRELOAD), it stands before the C library's functions, so it sees what
// Python and the libraries written in Rust do alike.
//
// A process ends just before the operation; in the middle of one that writes bytes, so that a half is there. On a full disk that
// write is cut to a half, as a disk does it that has room for no more, and all that need room after it fail.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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

enum Act { PASS, HALF, END, FAIL };

static char root[4096];
static long at = -1, counted = 0;
static int failure = 0;        // an error number; 0 to end the process
static unsigned int delay = 0;  // microseconds before each operation

static void begin(const char* folder, long k, int error, unsigned int microseconds) {
    snprintf(root, sizeof root, "%s/", folder);
    at = k, counted = 0, failure = error, delay = microseconds;
}

// Count what is done under a folder from now on, and end at the number `k`; never where it is negative.
void crash_at(const char* folder, long k) { begin(folder, k, 0, 0); }

// Fail with this error number from the number `k` on; ENOSPC where room is needed alone, and only such operations are counted.
void fail_at(const char* folder, long k, int error) { begin(folder, k, error, 0); }

void slow_down(const char* folder, unsigned int microseconds) { begin(folder, -1, 0, microseconds); }

long operations(void) { return counted; }

static void die(void) { kill(getpid(), SIGKILL); }

// What to do about an operation.
static enum Act due(const char* place, int room) {
    if (!*root || strncmp(place, root, strlen(root)) != 0) return PASS;
    if (failure == ENOSPC && !room) return PASS;
    if (delay) usleep(delay);
    long number = counted++;
    if (at < 0 || number < at) return PASS;
    if (!failure) return number == at ? END : PASS;
    return number == at && failure == ENOSPC ? HALF : FAIL;
}

static enum Act due_file(int file, int room) {
    char link[64], place[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = *root ? readlink(link, place, sizeof place - 1) : -1;
    if (length < 0) return PASS;
    place[length] = 0;
    return due(place, room);
}

static enum Act due_path(int folder, const char* path, int room) {
    char link[64], place[8192];
    if (!*root || !path) return PASS;
    if (*path == '/') return due(path, room);
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, place, 4095);
    if (length < 0) return PASS;
    snprintf(place + length, sizeof place - length, "/%s", path);
    return due(place, room);
}

#define REAL(result, name, ...)                                        \
    static result (*real)(__VA_ARGS__);                                \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

// End or fail, where that is due, an operation that is not cut to a half.
#define OBEY(what)                                                     \
    do {                                                               \
        enum Act act = what;                                           \
        if (act == END) die();                                         \
        if (act == FAIL || act == HALF) return errno = failure, -1;    \
    } while (0)

#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define OPEN(name)                                                     \
    int name(const char* path, int flags, ...) {                       \
        REAL(int, name, const char*, int, ...);                        \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        int mode = va_arg(more, int);                                  \
        va_end(more);                                                  \
        if (flags & CHANGES) OBEY(due_path(AT_FDCWD, path, flags & O_CREAT)); \
        return real(path, flags, mode);                                \
    }
#define OPENAT(name)                                                   \
    int name(int folder, const char* path, int flags, ...) {           \
        REAL(int, name, int, const char*, int, ...);                   \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        int mode = va_arg(more, int);                                  \
        va_end(more);                                                  \
        if (flags & CHANGES) OBEY(due_path(folder, path, flags & O_CREAT)); \
        return real(folder, path, flags, mode);                        \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void* bytes, size_t count) {
    REAL(ssize_t, write, int, const void*, size_t);
    enum Act act = due_file(file, 1);
    if (act == END) {
        real(file, bytes, count / 2);
        die();
    }
    if (act == HALF && count > 1) return real(file, bytes, count / 2);
    if (act != PASS) return errno = failure, -1;
    return real(file, bytes, count);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec*, int);
    enum Act act = due_file(file, 1);
    if (act == END) {
        real(file, parts, count / 2);
        die();
    }
    if (act == HALF && count > 1) return real(file, parts, count / 2);
    if (act != PASS) return errno = failure, -1;
    return real(file, parts, count);
}

#define ON_FILE(result, name, given, passed, ...)                      \
    result name given {                                                \
        REAL(result, name, __VA_ARGS__);                               \
        OBEY(due_file(file, 1));                                       \
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

#define ON_PATH(name, folder, room, given, passed, ...)                \
    int name given {                                                   \
        REAL(int, name, __VA_ARGS__);                                  \
        OBEY(due_path(folder, path, room));                            \
        return real passed;                                            \
    }
ON_PATH(unlink, AT_FDCWD, 0, (const char* path), (path), const char*)
ON_PATH(rmdir, AT_FDCWD, 0, (const char* path), (path), const char*)
ON_PATH(mkdir, AT_FDCWD, 1, (const char* path, mode_t mode), (path, mode), const char*, mode_t)
ON_PATH(chmod, AT_FDCWD, 0, (const char* path, mode_t mode), (path, mode), const char*, mode_t)
ON_PATH(rename, AT_FDCWD, 0, (const char* path, const char* to), (path, to), const char*, const char*)
ON_PATH(unlinkat, folder, 0, (int folder, const char* path, int flags), (folder, path, flags), int, const char*, int)
ON_PATH(mkdirat, folder, 1, (int folder, const char* path, mode_t mode), (folder, path, mode), int, const char*, mode_t)
ON_PATH(renameat, folder, 0, (int folder, const char* path, int b, const char* to), (folder, path, b, to), int, const char*,
        int, const char*)
ON_PATH(renameat2, folder, 0, (int folder, const char* path, int b, const char* to, unsigned f), (folder, path, b, to, f), int,
        const char*, int, const char*, unsigned)
