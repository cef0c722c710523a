/*
 * Memory for what is recorded: taken once, zeroed, never given back. Not from the program's malloc: in the flush
 * thread that would set up an arena of its own (glibc maps 64 MiB of addresses for it), and a program that may map no
 * more (RLIMIT_AS) must find its own heap as it would have been. First from a reserve in the object itself, which
 * costs nothing until it is touched and is there when nothing else is; then mapped.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "limits.h"
#include "memory.h"

enum {
    RESERVE_BYTES = 256 * 1024, /* one thread with some thirty kinds of rows, and their sums */
    PIECE_BYTES = 128 * 1024
};

static char reserve[RESERVE_BYTES] __attribute__((aligned(TL_CACHE_LINE)));
static char *next = reserve;
static size_t left = RESERVE_BYTES;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *map(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

#ifdef __SANITIZE_ADDRESS__
/* Each by itself, so that the checker sees where it ends. */
void *tl_memory(size_t size) {
    void *memory = NULL;
    if (posix_memalign(&memory, TL_CACHE_LINE, size) != 0) return NULL;
    (void)map, (void)next, (void)left, (void)lock;
    return memset(memory, 0, size);
}
#else
void *tl_memory(size_t size) {
    size = (size + TL_CACHE_LINE - 1) / TL_CACHE_LINE * TL_CACHE_LINE;
    if (size > PIECE_BYTES) return map(size);
    pthread_mutex_lock(&lock);
    if (size > left) {
        char *piece = map(PIECE_BYTES);
        if (piece) {
            next = piece;
            left = PIECE_BYTES;
        }
    }
    char *memory = size <= left ? next : NULL;
    if (memory) {
        next += size;
        left -= size;
    }
    pthread_mutex_unlock(&lock);
    return memory;
}
#endif
