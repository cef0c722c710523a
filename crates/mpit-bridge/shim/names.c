/*
 * What is reported once: names of regions, algorithms and communicators, by which frames carry numbers only, and
 * settings of the library. Written by any thread that meets something new, read by the flush thread, which reports
 * all of it again after each reconnect. Nothing is ever taken out.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "frame.h"

enum { NAMES_LIMIT = 2048 }; /* 1,023 paths, 255 regions, as many algorithms and named communicators, and settings */

struct name {
    uint16_t kind;
    uint32_t number, size, place;
    const char *text;
};

static struct name names[NAMES_LIMIT];
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int tl_name_add(enum tl_name_kind kind, uint32_t number, uint32_t size, uint32_t place, const char *text) {
    if (!*text) return 0;
    char *copy = strndup(text, TL_NAME_LIMIT);
    if (!copy) return 0;
    pthread_mutex_lock(&lock);
    size_t at = count;
    if (at < NAMES_LIMIT) {
        names[at] = (struct name){(uint16_t)kind, number, size, place, copy};
        __atomic_store_n(&count, at + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    if (at >= NAMES_LIMIT) free(copy);
    return at < NAMES_LIMIT;
}

size_t tl_names_put(struct tl_frame *frame, size_t from) {
    size_t end = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
    while (from < end && frame->length + TL_NAME_BYTES + TL_NAME_LIMIT <= TL_FRAME_LIMIT) {
        const struct name *name = &names[from++];
        tl_put_name(frame, name->kind, name->number, name->size, name->place, name->text);
    }
    return from;
}

size_t tl_names_count(void) {
    return __atomic_load_n(&count, __ATOMIC_ACQUIRE);
}
