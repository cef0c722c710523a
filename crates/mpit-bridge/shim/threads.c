/*
 * The recording area of each thread. Areas are made on a thread's first MPI call, chained for the flush
 * thread, and reused after the thread ended; they are never freed, so that the flush thread needs no lock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "algorithms.h"
#include "cells.h"
#include "comm.h"
#include "limits.h"
#include "memory.h"
#include "paths.h"
#include "shim.h"
#include "threads.h"
#include "world.h"

/* Everything passes through. An algorithm stands there already, so that none is noted. */
struct tl_thread tl_nobody = {.depth = TL_NO_CALL, .algorithm = 1};
__thread struct tl_thread *tl_self __attribute__((tls_model("initial-exec"))) = &tl_nobody;

int tl_recording;
struct tl_comm tl_no_comm = {.handle = TL_SLOT_FREE_AGAIN};

static struct tl_thread *all_threads;
static uint64_t refused;
static int thread_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key_made;
/* The same for a thread that can't record. */
static struct tl_thread passing = {.depth = TL_NO_CALL, .algorithm = 1};

/* thread_end.c's. */
static void (*when_left)(struct tl_thread *thread);

void tl_threads_when_left(void (*close)(struct tl_thread *thread)) {
    when_left = close;
}

static void thread_ended(void *area) {
    struct tl_thread *thread = area;
    if (when_left) when_left(thread);
    tl_close(thread); /* a call that it was left from, or ended in */
    tl_self = &tl_nobody;
    __atomic_store_n(&thread->in_use, 0, __ATOMIC_RELEASE);
}

static void make_key(void) {
    key_made = pthread_key_create(&key, thread_ended) == 0;
}

/* A used area whose thread has ended, or a new one. Call with the lock held. */
static struct tl_thread *take_area(void) {
    for (struct tl_thread *t = all_threads; t; t = t->next)
        if (!__atomic_load_n(&t->in_use, __ATOMIC_ACQUIRE)) return t;
    if (thread_count >= TL_THREADS_LIMIT) return NULL;
    struct tl_thread *made = tl_memory(sizeof *made + TL_PATH_LIMIT * sizeof *made->tables);
    if (!made || !tl_table_find(made, 0)) return NULL;
    made->number = thread_count++;
    for (int i = 0; i < TL_POLL_FORMS * TL_POLL_KINDS; i++) tl_row_end(&made->rows[i]);
    made->next = all_threads;
    __atomic_store_n(&all_threads, made, __ATOMIC_RELEASE);
    return made;
}

struct tl_thread *tl_thread_attach(void) {
    pthread_once(&key_once, make_key);
    pthread_mutex_lock(&lock);
    struct tl_thread *self = key_made ? take_area() : NULL;
    if (self) {
        self->in_use = 1;
        self->depth = self->nonblocking = 0;
        self->gate = UINT64_MAX;
        self->left = self->mpi_ticks = 0;
        self->stack_low = self->stack_high = NULL;
        self->leaving = (struct tl_leaving){0};
        self->last_comm = &tl_no_comm;
        self->table = self->tables[0];
    } else {
        refused++;
    }
    pthread_mutex_unlock(&lock);
    tl_self = self ? self : &passing;
    if (self) pthread_setspecific(key, self);
    return self;
}

/* Threads that attach at the same time see either that recording has ended, or are in the chain here. */
void tl_recording_stop(void) {
    TL_STORE(&tl_recording, 0);
    pthread_mutex_lock(&lock);
    for (struct tl_thread *t = all_threads; t; t = t->next) __atomic_store_n(&t->interrupted, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

struct tl_thread *tl_threads(void) {
    return __atomic_load_n(&all_threads, __ATOMIC_ACQUIRE);
}

uint64_t tl_threads_refused(void) {
    return TL_LOAD(&refused);
}

struct tl_table *tl_table_find(struct tl_thread *self, int path) {
    if (path < 0 || path >= TL_PATH_LIMIT) return NULL;
    struct tl_table *table = self->tables[path];
    if (TL_LIKELY(table != NULL)) return table;
    table = tl_memory(sizeof *table);
    if (!table) return NULL;
    table->path = (uint16_t)path;
    table->region = tl_paths[path].region;
    table->next = self->all_tables;
    self->tables[path] = table;
    __atomic_store_n(&self->all_tables, table, __ATOMIC_RELEASE);
    return table;
}

static struct tl_row *make_row(struct tl_table *table, int operation, int algorithm) {
    struct tl_row *row = tl_memory(sizeof *row);
    if (!row) return NULL;
    row->operation = (uint16_t)operation;
    row->algorithm = (uint16_t)algorithm;
    row->region = table->region;
    row->next = table->all;
    __atomic_store_n(&table->all, row, __ATOMIC_RELEASE);
    return row;
}

struct tl_row *tl_row_find(struct tl_thread *self, struct tl_table *table, int operation, int algorithm) {
    /* What was observed inside another operation (a window's creation calls allreduce) does not apply to this one. */
    if (algorithm && tl_algorithm_operation(algorithm) != operation) algorithm = 0;
    struct tl_row **place = algorithm ? &table->observed[algorithm] : &table->rows[operation];
    if (!*place) *place = make_row(table, operation, algorithm);
    if (!*place) TL_ADD(&self->lost_calls, 1);
    return *place;
}

/* Of a large world only the pages of ranks really talked to become resident. */
struct tl_peer *tl_peers_create(struct tl_thread *self, int slot) {
    if (tl_world_size <= 0 || tl_world_size > TL_WORLD_LIMIT) return NULL;
    struct tl_peer *memory = tl_memory((size_t)tl_world_size * sizeof *memory);
    if (memory) __atomic_store_n(&self->peers[slot], memory, __ATOMIC_RELEASE);
    return memory;
}

/* A thread's stack also holds the thread-local variables of the program and all its libraries, which may be
 * megabytes of Fortran THREADPRIVATE: glibc reports how much, by a function that other runtimes rely on as well. */
size_t tl_stack_bytes(const pthread_attr_t *attributes) {
    enum { OWN_BYTES = 256 * 1024 };
    size_t (*least)(const pthread_attr_t *);
    void *found = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");
    if (!found) return OWN_BYTES;
    memcpy(&least, &found, sizeof least);
    return OWN_BYTES + least(attributes);
}
