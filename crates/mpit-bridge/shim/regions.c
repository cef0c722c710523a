/*
 * Annotated regions: a stack for each thread, and with each change of its top another table for what the thread records,
 * so that MPI calls pay nothing for regions. Sums of a region stand in its table; the flush thread adds to them what is
 * going on, which it reads under a sequence number.
 *
 * Ways in: the header throughline.h, MPI_Pcontrol, Caliper's C functions and NVTX 2's dynamic ones, where the program
 * calls them (annotations.c).
 */
#define _GNU_SOURCE
#include "regions.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bins.h"
#include "clock.h"
#include "polls.h"

enum {
    DEPTH_LIMIT = 64, /* regions open in one thread; deeper ones count in the one around them */
    BUCKETS = 1024
};

struct open_region {
    uint64_t hash;
    uint64_t started;
    uint16_t region; /* where it counts: the one around it if it was refused */
    uint16_t counts; /* it has a name of its own */
};

/* Of one thread; only that writes. */
struct tl_stack {
    uint32_t version; /* odd while it changes */
    int depth, beyond; /* open ones, and those deeper than the limit */
    uint64_t since;    /* when the innermost one became it */
    struct open_region open[DEPTH_LIMIT];
};

static struct {
    uint64_t hash;
    uint16_t region;
} buckets[BUCKETS];
static int regions; /* with a number: 1 to this */
static uint64_t refused, mismatched;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tl_region_sums reported[TL_REGION_LIMIT];

static uint64_t hash_of(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; name[i] && i < TL_NAME_LIMIT; i++) hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3u;
    return hash ? hash : 1;
}

static int find(uint64_t hash, size_t *at) {
    for (size_t i = 0; i < BUCKETS; i++) {
        *at = (hash + i) % BUCKETS;
        uint64_t held = __atomic_load_n(&buckets[*at].hash, __ATOMIC_ACQUIRE);
        if (held == hash) return buckets[*at].region;
        if (held == 0) return 0;
    }
    return 0;
}

/* The number of a region, a new one where there is space. 0: none. */
static int number_of(const char *name, uint64_t hash) {
    size_t at;
    int region = find(hash, &at);
    if (region) return region;
    pthread_mutex_lock(&lock);
    region = find(hash, &at);
    if (!region && regions + 1 < TL_REGION_LIMIT &&
        tl_name_add(TL_NAME_REGION, (uint32_t)regions + 1, 0, 0, name)) {
        region = regions + 1;
        buckets[at].region = (uint16_t)region;
        __atomic_store_n(&buckets[at].hash, hash, __ATOMIC_RELEASE);
        __atomic_store_n(&regions, region, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return region;
}

static void count(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static int switched_off(void) {
    static int known; /* 1: on, 2: off; several threads find the same */
    int value = TL_LOAD(&known);
    if (!value) {
        const char *text = getenv("THROUGHLINE_SHIM");
        value = text && (strcmp(text, "off") == 0 || strcmp(text, "0") == 0 || strcmp(text, "no") == 0) ? 2 : 1;
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

/* The thread goes on in the table of another region. */
static void switch_to(struct tl_thread *self, int region, uint64_t now) {
    struct tl_stack *stack = self->stack;
    TL_ADD(&self->table->own_ticks, now - stack->since);
    TL_STORE(&stack->since, now);
    struct tl_table *table = tl_table_find(self, region);
    self->table = table ? table : self->tables[0];
    tl_polls_interrupt(self);
}

static int is_open_below(const struct tl_stack *stack, int depth, int region) {
    for (int i = 0; i < depth; i++)
        if (stack->open[i].region == region && stack->open[i].counts) return 1;
    return 0;
}

void tl_region_begin(const char *name) {
    struct tl_thread *self = name && *name ? me() : NULL;
    if (!self) return;
    struct tl_stack *stack = self->stack;
    if (stack->depth >= DEPTH_LIMIT) {
        stack->beyond++;
        count(&refused);
        return;
    }
    uint64_t hash = hash_of(name), now = tl_ticks();
    int region = number_of(name, hash), counts = region != 0 && tl_table_find(self, region) != NULL;
    if (!counts) {
        count(&refused);
        region = self->table->region;
    }
    change(stack);
    struct open_region *top = &stack->open[stack->depth];
    top->hash = hash;
    TL_STORE(&top->started, now);
    TL_STORE(&top->region, (uint16_t)region);
    TL_STORE(&top->counts, (uint16_t)counts);
    TL_STORE(&stack->depth, stack->depth + 1);
    switch_to(self, region, now);
    if (counts) TL_ADD(&self->table->visits, 1);
    changed(stack);
}

static void pop(struct tl_thread *self) {
    struct tl_stack *stack = self->stack;
    uint64_t now = tl_ticks();
    change(stack);
    int depth = stack->depth - 1;
    const struct open_region *top = &stack->open[depth];
    struct tl_table *table = self->tables[top->region];
    if (top->counts && table && !is_open_below(stack, depth, top->region))
        TL_ADD(&table->elapsed_ticks, now - top->started);
    TL_STORE(&stack->depth, depth);
    switch_to(self, depth ? stack->open[depth - 1].region : 0, now);
    changed(stack);
}

void tl_region_end(const char *name) {
    struct tl_thread *self = me();
    if (!self) return;
    struct tl_stack *stack = self->stack;
    if (stack->beyond > 0) {
        stack->beyond--;
        return;
    }
    int at = stack->depth - 1;
    if (name && *name) {
        uint64_t hash = hash_of(name);
        while (at >= 0 && stack->open[at].hash != hash) at--;
    }
    if (at < 0) {
        count(&mismatched);
        return;
    }
    for (int open = stack->depth; open > at; open--) {
        if (open > at + 1) count(&mismatched);
        pop(self);
    }
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
    self->level = self->stack->beyond = 0;
    while (self->stack->depth > 0) {
        count(&mismatched);
        pop(self);
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
            to->open[i].region = TL_LOAD(&stack->open[i].region);
            to->open[i].counts = TL_LOAD(&stack->open[i].counts);
        }
        if (__atomic_fetch_add(&stack->version, 0, __ATOMIC_SEQ_CST) == before) return 1;
    }
    return 0;
}

/* What is going on in a thread, on top of what its tables hold. */
static void add_running(const struct tl_thread *thread, uint64_t now, uint64_t *elapsed, uint64_t *own) {
    static struct tl_stack at;
    struct tl_stack *stack = __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE);
    if (!stack || !TL_LOAD(&stack->depth) || !copy(stack, &at) || at.depth == 0) return;
    for (int i = 0; i < at.depth; i++)
        if (at.open[i].counts && !is_open_below(&at, i, at.open[i].region) && now > at.open[i].started)
            elapsed[at.open[i].region] += now - at.open[i].started;
    if (now > at.since) own[at.open[at.depth - 1].region] += now - at.since;
}

static int differ(const struct tl_region_sums *a, const struct tl_region_sums *b) {
    return a->visits != b->visits || a->mpi_calls != b->mpi_calls || a->own_nanoseconds > b->own_nanoseconds ||
           a->nanoseconds > b->nanoseconds;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

int tl_regions_put(struct tl_frame *frame, int everything) {
    static uint64_t elapsed[TL_REGION_LIMIT], own[TL_REGION_LIMIT], visits[TL_REGION_LIMIT];
    int last = __atomic_load_n(&regions, __ATOMIC_ACQUIRE), put = 0;
    if (last == 0) return 0;
    memset(elapsed, 0, sizeof elapsed);
    memset(own, 0, sizeof own);
    memset(visits, 0, sizeof visits);
    for (const struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        const struct tl_table *table = __atomic_load_n(&thread->all_tables, __ATOMIC_ACQUIRE);
        for (; table; table = table->next) {
            elapsed[table->region] += TL_LOAD(&table->elapsed_ticks);
            own[table->region] += TL_LOAD(&table->own_ticks);
            visits[table->region] += TL_LOAD(&table->visits);
        }
        add_running(thread, tl_ticks(), elapsed, own);
    }
    struct tl_moment moment = tl_clock_moment();
    double scale = tl_clock_scale(&moment);
    for (int region = 1; region <= last; region++) {
        struct tl_region_sums now = {.region = (uint32_t)region, .visits = visits[region]};
        /* Sums of a moment in which a stack changed, or the scale was measured anew, may lie a little lower. */
        now.nanoseconds = larger((uint64_t)((double)elapsed[region] * scale), reported[region].nanoseconds);
        now.own_nanoseconds = larger((uint64_t)((double)own[region] * scale), reported[region].own_nanoseconds);
        tl_bins_of_region(region, &now.mpi_calls, &now.mpi_nanoseconds);
        if (!everything && !differ(&now, &reported[region])) continue;
        if (frame->length + TL_REGION_BYTES > TL_FRAME_LIMIT) break;
        tl_put_region(frame, &now);
        reported[region] = now;
        put++;
    }
    return put;
}

uint64_t tl_regions_refused(void) {
    return TL_LOAD(&refused);
}

uint64_t tl_regions_mismatched(void) {
    return TL_LOAD(&mismatched);
}
