/*
 * Annotated regions: a stack for each thread, and with each change of its top another table for what the thread records,
 * so that MPI calls pay nothing for regions. There is a table for each path of nested regions (paths.c), in which its sums
 * stand; the flush thread adds to them what is going on, which it reads under a sequence number, and makes a region's sums of
 * those of the paths that end with it.
 *
 * Ways in: the header throughline.h, MPI_Pcontrol, NVTX 2's functions (annotations.c) and Caliper's (caliper.c), where the
 * program calls them, and NVTX 3's by injection (nvtx.c).
 */
#define _GNU_SOURCE
#include "regions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bins.h"
#include "cells.h"
#include "clock.h"
#include "environment.h"
#include "frame.h"
#include "limits.h"
#include "paths.h"
#include "polls.h"
#include "shim.h"
#include "threads.h"

enum { DEPTH_LIMIT = 64 }; /* regions open in one thread; deeper ones count in the one around them */

struct open_region {
    uint64_t hash;
    uint64_t owner; /* who may end it (regions.h); 0: it is ended by name, or as the innermost one */
    uint64_t started;
    uint16_t path;   /* where it counts: the one around it if it was refused */
    uint16_t counts; /* it has a path of its own */
    uint16_t closed; /* it has ended, and stands here until what it has around itself ends */
};

/* A range that another thread ended: the thread that has it open takes it from here with its next region. */
enum { ENDED_ELSEWHERE = 16, ENDING = 1 };
struct ended {
    uint64_t owner; /* 0: free; ENDING: being written */
    uint64_t at;
};

/* Of one thread; only that writes. */
struct tl_stack {
    uint32_t version; /* odd while it changes */
    int depth, beyond; /* open ones, and those deeper than the limit */
    uint64_t since;    /* when the innermost one became it */
    uint64_t ranges;   /* started with an id of their own, so far */
    int any_ended;     /* `ended` is not empty */
    struct ended ended[ENDED_ELSEWHERE];
    struct open_region open[DEPTH_LIMIT];
};

static uint64_t refused, mismatched;
static double scale; /* of ticks to nanoseconds, when sums were taken last */
static int last_region, last_path; /* those that may be reported: their names are */
static struct tl_region_sums reported_regions[TL_REGION_LIMIT], reported_paths[TL_PATH_LIMIT];

static void count(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static int switched_off(void) {
    static int known; /* 1: on, 2: off; several threads find the same */
    int value = TL_LOAD(&known);
    if (!value) {
        value = tl_switched_off() ? 2 : 1;
        TL_STORE(&known, value);
    }
    return value == 2;
}

static struct tl_thread *me(void) {
    if (switched_off()) return NULL;
    struct tl_thread *self = tl_thread_attached() ? tl_self : tl_thread_attach();
    if (!self || !self->table) return NULL; /* a thread that can't record */
    if (!self->stack) {
        tl_clock_start();
        struct tl_stack *made = calloc(1, sizeof *made);
        if (!made) return NULL;
        __atomic_store_n(&self->stack, made, __ATOMIC_RELEASE);
    }
    return self;
}

/* Around each change of what the flush thread copies. Additions, not fences: ThreadSanitizer knows no fences. */
static void change(struct tl_stack *stack) {
    __atomic_fetch_add(&stack->version, 1, __ATOMIC_SEQ_CST);
}

static void changed(struct tl_stack *stack) {
    __atomic_fetch_add(&stack->version, 1, __ATOMIC_SEQ_CST);
}

/* The thread goes on in the table of another path. */
static void switch_to(struct tl_thread *self, int path, uint64_t now) {
    struct tl_stack *stack = self->stack;
    TL_ADD(&self->table->own_ticks, now - stack->since);
    TL_STORE(&stack->since, now);
    struct tl_table *table = tl_table_find(self, path);
    self->table = table ? table : self->tables[0];
    tl_polls_interrupt(self);
}

/* Ends the innermost one. */
static void pop(struct tl_thread *self, uint64_t now) {
    struct tl_stack *stack = self->stack;
    change(stack);
    int depth = stack->depth - 1;
    const struct open_region *top = &stack->open[depth];
    struct tl_table *table = self->tables[top->path];
    if (top->counts && table) TL_ADD(&table->elapsed_ticks, now - top->started);
    TL_STORE(&stack->depth, depth);
    switch_to(self, depth ? stack->open[depth - 1].path : 0, now);
    changed(stack);
}

static void pop_closed(struct tl_thread *self, uint64_t now) {
    struct tl_stack *stack = self->stack;
    while (stack->depth > 0 && stack->open[stack->depth - 1].closed) pop(self, now);
}

/* Ends one that may have others within it, which go on: its time ends, and it stays in their path. */
static void close_at(struct tl_thread *self, int at, uint64_t now) {
    struct tl_stack *stack = self->stack;
    struct open_region *region = &stack->open[at];
    if (at == stack->depth - 1) {
        pop(self, now);
        pop_closed(self, now);
        return;
    }
    change(stack);
    struct tl_table *table = self->tables[region->path];
    if (region->counts && table && now > region->started) TL_ADD(&table->elapsed_ticks, now - region->started);
    TL_STORE(&region->counts, 0);
    region->closed = 1;
    changed(stack);
}

static int find_owned(const struct tl_stack *stack, uint64_t owner) {
    int at = stack->depth - 1;
    while (at >= 0 && (stack->open[at].owner != owner || stack->open[at].closed)) at--;
    return at;
}

/* What other threads ended meanwhile, at the moments that they did. */
static void settle(struct tl_thread *self) {
    struct tl_stack *stack = self->stack;
    if (TL_LIKELY(!TL_LOAD(&stack->any_ended))) return;
    TL_STORE(&stack->any_ended, 0);
    for (int i = 0; i < ENDED_ELSEWHERE; i++) {
        struct ended *ended = &stack->ended[i];
        uint64_t owner = __atomic_load_n(&ended->owner, __ATOMIC_ACQUIRE);
        if (owner <= ENDING) continue;
        int at = find_owned(stack, owner);
        if (at < 0) count(&mismatched);
        /* The innermost one was innermost until now: its own time ends now, too. */
        else close_at(self, at, at == stack->depth - 1 ? tl_ticks() : TL_LOAD(&ended->at));
        __atomic_store_n(&ended->owner, 0, __ATOMIC_RELEASE);
    }
}

static void begin(struct tl_thread *self, const char *name, uint64_t owner) {
    struct tl_stack *stack = self->stack;
    if (stack->depth >= DEPTH_LIMIT) {
        stack->beyond++;
        count(&refused);
        return;
    }
    uint64_t hash = tl_path_hash(name), now = tl_ticks();
    int around = self->table->path, path = tl_path_enter(around, name, hash);
    int counts = path != 0 && tl_table_find(self, path) != NULL;
    if (!counts) {
        count(&refused);
        path = around;
    }
    change(stack);
    struct open_region *top = &stack->open[stack->depth];
    top->hash = hash;
    top->owner = owner;
    top->closed = 0;
    TL_STORE(&top->started, now);
    TL_STORE(&top->path, (uint16_t)path);
    TL_STORE(&top->counts, (uint16_t)counts);
    TL_STORE(&stack->depth, stack->depth + 1);
    switch_to(self, path, now);
    if (counts) TL_ADD(&self->table->visits, 1);
    changed(stack);
}

void tl_region_begin(const char *name) {
    struct tl_thread *self = name && *name ? me() : NULL;
    if (!self) return;
    settle(self);
    begin(self, name, 0);
}

void tl_region_end(const char *name) {
    struct tl_thread *self = me();
    if (!self) return;
    struct tl_stack *stack = self->stack;
    settle(self);
    if (stack->beyond > 0) {
        stack->beyond--;
        return;
    }
    int at = stack->depth - 1;
    if (name && *name) {
        uint64_t hash = tl_path_hash(name);
        while (at >= 0 && (stack->open[at].hash != hash || stack->open[at].closed)) at--;
    }
    if (at < 0) {
        count(&mismatched);
        return;
    }
    for (int open = stack->depth; open > at; open--) {
        if (open > at + 1 && !stack->open[open - 1].closed) count(&mismatched);
        pop(self, tl_ticks());
    }
    pop_closed(self, tl_ticks());
}

/* ---- ranges, which may overlap ---- */

/* How many of this owner are open. */
static int owned(const struct tl_stack *stack, uint64_t owner) {
    int found = 0;
    for (int i = 0; i < stack->depth; i++) found += stack->open[i].owner == owner && !stack->open[i].closed;
    return found;
}

int tl_region_push(const char *name, uint64_t owner) {
    struct tl_thread *self = me();
    if (!self) return -1;
    settle(self);
    int level = owned(self->stack, owner);
    begin(self, name, owner);
    return level;
}

int tl_region_pop(uint64_t owner) {
    struct tl_thread *self = me();
    if (!self) return -1;
    struct tl_stack *stack = self->stack;
    settle(self);
    int level = owned(stack, owner) - 1;
    if (stack->beyond > 0) stack->beyond--;
    else if (level < 0) count(&mismatched);
    else close_at(self, find_owned(stack, owner), tl_ticks());
    return level;
}

void tl_region_pop_open(uint64_t owner) {
    struct tl_thread *self = me();
    if (!self || (self->stack->beyond == 0 && find_owned(self->stack, owner) < 0)) return;
    tl_region_pop(owner);
}

/* An id: that it is one, the thread, and a running number. */
enum { ID_THREAD_BITS = 16, ID_NUMBER_BITS = 47 };
#define ID_MARK (1ull << 63)
_Static_assert(TL_THREADS_LIMIT < 1 << ID_THREAD_BITS && ID_THREAD_BITS + ID_NUMBER_BITS == 63, "an id has a place for each thread");

uint64_t tl_region_start(const char *name) {
    struct tl_thread *self = me();
    if (!self) return 0;
    settle(self);
    uint64_t number = self->stack->ranges++ & ((1ull << ID_NUMBER_BITS) - 1);
    uint64_t id = ID_MARK | (uint64_t)self->number << ID_NUMBER_BITS | number;
    begin(self, name, id);
    return id;
}

/* Leaves it to the thread that has it open, which alone writes its stack. */
static int end_elsewhere(struct tl_stack *stack, uint64_t id) {
    for (int i = 0; i < ENDED_ELSEWHERE; i++) {
        struct ended *ended = &stack->ended[i];
        uint64_t nobody = 0;
        if (!__atomic_compare_exchange_n(&ended->owner, &nobody, ENDING, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
        TL_STORE(&ended->at, tl_ticks());
        __atomic_store_n(&ended->owner, id, __ATOMIC_RELEASE);
        __atomic_store_n(&stack->any_ended, 1, __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

void tl_region_stop(uint64_t id) {
    struct tl_thread *self = me();
    if (!self || !(id & ID_MARK)) return;
    int number = (int)((id & ~ID_MARK) >> ID_NUMBER_BITS);
    if (number == self->number) {
        tl_region_pop(id);
        return;
    }
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        struct tl_stack *stack = thread->number == number ? __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE) : NULL;
        if (stack && end_elsewhere(stack, id)) return;
    }
    count(&mismatched);
}

static const char level_prefix[] = "phase ";

void tl_region_level(int level) {
    struct tl_thread *self = me();
    if (!self) return;
    char name[32];
    if (self->level > 1) {
        snprintf(name, sizeof name, "%s%d", level_prefix, self->level);
        tl_region_end(name);
    }
    self->level = level;
    if (level <= 1) return;
    snprintf(name, sizeof name, "%s%d", level_prefix, level);
    tl_region_begin(name);
}

void tl_regions_close(struct tl_thread *self) {
    if (!self->stack) return;
    settle(self);
    self->level = self->stack->beyond = 0;
    while (self->stack->depth > 0) {
        if (!self->stack->open[self->stack->depth - 1].closed) count(&mismatched);
        pop(self, tl_ticks());
    }
}

/* ---- flush thread ---- */

/* A copy of a thread's stack of one moment; 0 if it kept changing. */
static int copy(struct tl_stack *stack, struct tl_stack *to) {
    for (int tries = 0; tries < 8; tries++) {
        uint32_t before = __atomic_load_n(&stack->version, __ATOMIC_ACQUIRE);
        if (before & 1) continue;
        to->depth = TL_LOAD(&stack->depth);
        to->since = TL_LOAD(&stack->since);
        for (int i = 0; i < to->depth && i < DEPTH_LIMIT; i++) {
            to->open[i].started = TL_LOAD(&stack->open[i].started);
            to->open[i].path = TL_LOAD(&stack->open[i].path);
            to->open[i].counts = TL_LOAD(&stack->open[i].counts);
        }
        if (__atomic_fetch_add(&stack->version, 0, __ATOMIC_SEQ_CST) == before) return 1;
    }
    return 0;
}

/* Sums of all threads, in ticks, by path or by region. */
struct sums {
    uint64_t elapsed, own, visits, mpi_calls, mpi_ticks;
};
static struct sums of_paths[TL_PATH_LIMIT], of_regions[TL_REGION_LIMIT];

/* What is going on in a thread, on top of what its tables hold. */
static void add_running(const struct tl_thread *thread, uint64_t now) {
    static struct tl_stack at;
    struct tl_stack *stack = __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE);
    if (!stack || !TL_LOAD(&stack->depth) || !copy(stack, &at) || at.depth == 0) return;
    for (int i = 0; i < at.depth; i++)
        if (at.open[i].counts && now > at.open[i].started) of_paths[at.open[i].path].elapsed += now - at.open[i].started;
    if (now > at.since) of_paths[at.open[at.depth - 1].path].own += now - at.since;
}

/* MPI calls have their rows by path, so that they pay nothing for it. */
static void add_calls(const struct tl_table *table, struct sums *sums) {
    for (const struct tl_row *row = __atomic_load_n(&table->all, __ATOMIC_ACQUIRE); row; row = row->next)
        for (uint64_t left = TL_LOAD(&row->used); left; left &= left - 1) {
            const struct tl_cell *cell = &row->cells[__builtin_ctzll(left)];
            sums->mpi_calls += TL_LOAD(&cell->calls);
            sums->mpi_ticks += TL_LOAD(&cell->ticks);
        }
}

static void add_threads(void) {
    memset(of_paths, 0, (size_t)(tl_paths_last() + 1) * sizeof *of_paths);
    for (const struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        const struct tl_table *table = __atomic_load_n(&thread->all_tables, __ATOMIC_ACQUIRE);
        for (; table; table = table->next) {
            struct sums *sums = &of_paths[table->path];
            sums->elapsed += TL_LOAD(&table->elapsed_ticks);
            sums->own += TL_LOAD(&table->own_ticks);
            sums->visits += TL_LOAD(&table->visits);
            add_calls(table, sums);
        }
        add_running(thread, tl_ticks());
    }
}

/* A region is in several paths. Where it is within itself, its time counts once. */
static void add_paths(void) {
    memset(of_regions, 0, (size_t)(tl_regions_last() + 1) * sizeof *of_regions);
    for (int path = tl_paths_last(); path > 0; path--) {
        struct sums *region = &of_regions[tl_paths[path].region];
        const struct sums *sums = &of_paths[path];
        if (tl_paths[path].is_outermost) region->elapsed += sums->elapsed;
        region->own += sums->own;
        region->visits += sums->visits;
    }
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* In nanoseconds. Sums of a moment in which a stack changed, or the scale was measured anew, may lie a little lower than what
 * was reported before. */
static struct tl_region_sums scaled(int number, const struct sums *sums, const struct tl_region_sums *before) {
    return (struct tl_region_sums){
        .number = (uint32_t)number,
        .visits = sums->visits,
        .nanoseconds = larger((uint64_t)((double)sums->elapsed * scale), before->nanoseconds),
        .own_nanoseconds = larger((uint64_t)((double)sums->own * scale), before->own_nanoseconds),
        .mpi_calls = sums->mpi_calls,
        .mpi_nanoseconds = larger((uint64_t)((double)sums->mpi_ticks * scale), before->mpi_nanoseconds),
    };
}

static int differ(const struct tl_region_sums *a, const struct tl_region_sums *b) {
    return a->visits != b->visits || a->mpi_calls != b->mpi_calls || a->own_nanoseconds > b->own_nanoseconds ||
           a->nanoseconds > b->nanoseconds;
}

/* Adds an entry if it changed; 0 where the frame is full. */
static int put(struct tl_frame *frame, const struct tl_region_sums *now, struct tl_region_sums *before, int everything) {
    if (!everything && !differ(now, before)) return 1;
    if (frame->length + TL_REGION_BYTES > TL_FRAME_LIMIT) return 0;
    tl_put_region(frame, now);
    *before = *now;
    return 1;
}

void tl_regions_look(void) {
    last_path = tl_paths_last();
    last_region = tl_regions_last();
}

void tl_regions_put(struct tl_frame *frame, int everything) {
    if (last_region == 0) return;
    add_threads();
    add_paths();
    struct tl_moment moment = tl_clock_moment();
    scale = tl_clock_scale(&moment);
    for (int region = 1; region <= last_region; region++) {
        struct tl_region_sums now = scaled(region, &of_regions[region], &reported_regions[region]);
        tl_bins_of_region(region, &now.mpi_calls, &now.mpi_nanoseconds); /* exactly what the cells of operations have */
        if (!put(frame, &now, &reported_regions[region], everything)) return;
    }
}

void tl_paths_put(struct tl_frame *frame, int everything) {
    for (int path = 1; path <= last_path; path++) {
        struct tl_region_sums now = scaled(path, &of_paths[path], &reported_paths[path]);
        if (!put(frame, &now, &reported_paths[path], everything)) return;
    }
}

uint64_t tl_regions_refused(void) {
    return TL_LOAD(&refused);
}

uint64_t tl_regions_mismatched(void) {
    return TL_LOAD(&mismatched);
}
