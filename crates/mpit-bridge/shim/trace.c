/*
 * Trace mode: what is recorded and how it leaves. Each thread writes fixed records into a ring of its own; the
 * flush thread drains the rings into TRACE frames. Bounded three times: by the rings, by records a second, by
 * records in all. What finds no space is counted, by a gap in the records' numbers; the last record has a number, too,
 * so that a gap at the end shows.
 */
#define _GNU_SOURCE
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "channel.h"
#include "environment.h"
#include "frame.h"
#include "messages.h"
#include "records.h"
#include "shim.h"
#include "threads.h"
#include "trace_clock.h"
#include "world.h"

/* A rank's share. 20,000 a second are 1.1 MB/s to the agent; the agent's own limits may lower both. */
enum { RECORDS_PER_SECOND = 20000, RECORDS_IN_ALL = 10000000, BURST_SECONDS = 2 };

struct tl_ring {
    uint16_t thread;
    uint64_t head;    /* written by the thread */
    uint64_t tail;    /* written by the flush thread */
    uint32_t skipped; /* records since the last one that found space; read by the flush thread when the thread has stopped */
    struct tl_record records[TL_RING_RECORDS];
};

int tl_tracing;

static int requested, allowed = 1, started;
static uint64_t per_second = RECORDS_PER_SECOND, in_all = RECORDS_IN_ALL;
static uint32_t rings;
static uint64_t number; /* of the next record */
static double allowance;
static struct tl_frame frame;
static size_t frame_empty;

static uint64_t environment(const char *name, uint64_t most) {
    const char *text = getenv(name);
    long long value = text ? atoll(text) : 0;
    return value > 0 && (uint64_t)value < most ? (uint64_t)value : most;
}

void tl_trace_configure(void) {
    const char *text = getenv("THROUGHLINE_TRACE");
    requested = text && *text && strcmp(text, "0") != 0 && strcmp(text, "off") != 0 && strcmp(text, "no") != 0;
    per_second = environment("THROUGHLINE_TRACE_RATE", per_second);
    in_all = environment("THROUGHLINE_TRACE_RECORDS", in_all);
}

void tl_trace_allow(uint64_t mode) {
    allowed = mode > 0;
    if (mode >= 2 && !started) requested = 1;
    if (!allowed) tl_trace_stop();
}

void tl_trace_limits(uint64_t rate, uint64_t records) {
    if (rate && rate < per_second) per_second = rate;
    uint64_t share = records && tl_world_size > 0 ? records / (uint64_t)tl_world_size + 1 : 0;
    if (share && share < in_all) in_all = share;
}

int tl_trace_wanted(void) {
    return requested && allowed;
}

/* Only here, so that the counts of all ranks begin with the first message. */
void tl_trace_start(void) {
    if (!tl_trace_wanted() || !tl_messages_start()) return;
    tl_trace_clock_start(tl_world_rank);
    allowance = (double)per_second;
    TL_STORE(&started, 1);
    TL_STORE(&tl_tracing, 1);
    tl_debug("tracing, at most %llu records a second", (unsigned long long)per_second);
}

int tl_trace_started(void) {
    return TL_LOAD(&started);
}

void tl_trace_stop(void) {
    TL_STORE(&tl_tracing, 0);
}

static void put(void *self, const struct tl_record *record) {
    tl_trace_put(self, record);
}

void tl_trace_finish(void) {
    if (!TL_LOAD(&started)) return;
    tl_trace_stop();
    struct tl_thread *self = tl_thread_attached() ? tl_self : tl_thread_attach();
    if (self) tl_messages_finish(put, self);
}

/* ---- the recording threads ---- */

static struct tl_ring *ring_create(struct tl_thread *self) {
    struct tl_ring *ring =
        mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring == MAP_FAILED) return NULL;
    ring->thread = (uint16_t)(__atomic_fetch_add(&rings, 1, __ATOMIC_RELAXED));
    __atomic_store_n(&self->ring, ring, __ATOMIC_RELEASE);
    return ring;
}

uint16_t tl_trace_thread(struct tl_thread *self) {
    struct tl_ring *ring = self->ring ? self->ring : ring_create(self);
    return ring ? ring->thread : 0;
}

void tl_trace_put(struct tl_thread *self, const struct tl_record *record) {
    struct tl_ring *ring = self->ring ? self->ring : ring_create(self);
    if (!ring) return;
    uint64_t head = ring->head;
    if (TL_UNLIKELY(head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >= TL_RING_RECORDS)) {
        TL_ADD(&ring->skipped, 1);
        return;
    }
    struct tl_record *place = &ring->records[head % TL_RING_RECORDS];
    *place = *record;
    place->skipped = ring->skipped;
    TL_STORE(&ring->skipped, 0);
    __atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
}

/* ---- the flush thread ---- */

static void frame_open(void) {
    tl_frame_begin(&frame, TL_TRACE);
    tl_put_u64(&frame, number);
    frame_empty = frame.length;
}

static void frame_close(int (*patience)(void)) {
    if (frame.length > frame_empty) tl_channel_send(&frame, patience());
    frame.length = 0;
}

static void put_record(const struct tl_record *r, const struct tl_ticking *now, int (*patience)(void)) {
    if (frame.length + TL_TRACE_RECORD_BYTES > TL_FRAME_LIMIT) frame_close(patience);
    if (frame.length == 0) frame_open();
    struct tl_trace_line line = {
        .start = tl_trace_time(now, r->start), .end = tl_trace_time(now, r->end), .comm = r->comm, .bytes = r->bytes,
        .peer = r->peer, .tag = r->tag, .sequence = r->sequence,
        .operation = r->operation, .kind = r->kind, .thread = r->thread, .region = r->region,
    };
    tl_put_trace_line(&frame, &line);
    number++;
}

/* Numbers that stand for nothing: a frame's records are numbered one after the other, so a new one begins. */
static void skip_numbers(uint64_t more, int (*patience)(void)) {
    if (!more) return;
    frame_close(patience);
    number += more;
}

static void drain(struct tl_ring *ring, enum tl_trace_part part, int (*patience)(void)) {
    uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
    struct tl_ticking now = tl_trace_ticking();
    while (ring->tail != head && number < in_all && (part != TL_TRACE_SOME || allowance >= 1)) {
        const struct tl_record *next = &ring->records[ring->tail % TL_RING_RECORDS];
        skip_numbers(next->skipped, patience);
        put_record(next, &now, patience);
        __atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
        allowance -= 1;
    }
    if (part == TL_TRACE_ALL_AND_END) skip_numbers(TL_LOAD(&ring->skipped), patience);
}

static void put_end(uint64_t records, int (*patience)(void)) {
    tl_trace_stop();
    TL_STORE(&started, 0);
    struct tl_record end = {
        .kind = TL_TRACE_END, .bytes = records, .peer = TL_TRACE_NOBODY, .sequence = TL_TRACE_UNNUMBERED};
    struct tl_ticking now = tl_trace_ticking();
    end.start = end.end = now.ticks;
    put_record(&end, &now, patience);
}

void tl_trace_push(int milliseconds, enum tl_trace_part part, int (*patience)(void)) {
    if (!TL_LOAD(&started)) return;
    allowance += (double)per_second * milliseconds / 1000;
    if (allowance > (double)per_second * BURST_SECONDS) allowance = (double)per_second * BURST_SECONDS;
    for (struct tl_thread *t = tl_threads(); t; t = t->next) {
        struct tl_ring *ring = __atomic_load_n(&t->ring, __ATOMIC_ACQUIRE);
        if (ring) drain(ring, part, patience);
    }
    if (number >= in_all) put_end(0, patience);
    else if (part == TL_TRACE_ALL_AND_END) put_end(number + 1, patience);
    frame_close(patience);
}
