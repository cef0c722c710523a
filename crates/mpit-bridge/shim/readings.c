/*
 * How bins end without anybody being woken for it. A cell knows when its bin ends. The first call after that finds it
 * when it is recorded, and the thread itself writes the cell's sums so far, a reading, into a log of its own; what was
 * not called again keeps its sums until the flush thread comes by. So a thread pays nothing but one comparison for each
 * call, and one copy for each cell in each bin, and the flush thread sleeps through many bins.
 *
 * Sums are since MPI_Init: a full log makes bins coarser, which is counted, and loses nothing.
 */
#include "readings.h"
#include "cells.h"
#include "memory.h"
#include "shim.h"
#include "threads.h"

enum { READINGS = 1024 }; /* of one thread between two visits of the flush thread, which comes more often if needed */

struct tl_log {
    uint64_t head;      /* written by the thread */
    uint64_t base;      /* the same: number of the first reading in the space; what is used again first is at its start */
    uint64_t tail, at;  /* written by the flush thread: released up to, given out up to */
    struct tl_reading space[READINGS];
};

static uint64_t grid_end, grid_length = (uint64_t)1 << 40;

void tl_readings_grid(uint64_t end, uint64_t length) {
    TL_STORE(&grid_end, end);
    TL_STORE(&grid_length, length ? length : 1);
}

/* The end of the bin in which `now` lies. `grid_end` may lie before or after it. */
static uint64_t end_after(uint64_t now) {
    int64_t since = (int64_t)(now - TL_LOAD(&grid_end)), length = (int64_t)TL_LOAD(&grid_length);
    int64_t whole = since / length - (since % length < 0);
    return now + (uint64_t)(length - (since - whole * length));
}

static struct tl_reading *full(struct tl_thread *self) {
    TL_ADD(&self->merged_bins, 1);
    return NULL;
}

static struct tl_reading *append(struct tl_thread *self) {
    struct tl_log *log = self->log;
    if (TL_UNLIKELY(!log)) {
        if (!(log = tl_memory(sizeof *log))) return full(self);
        __atomic_store_n(&self->log, log, __ATOMIC_RELEASE);
    }
    uint64_t tail = __atomic_load_n(&log->tail, __ATOMIC_ACQUIRE);
    if (tail == log->head) TL_STORE(&log->base, log->head); /* nobody reads: begin at the start, in memory already there */
    if (log->head - log->base < READINGS) return &log->space[log->head - log->base];
    return full(self);
}

void tl_reading_turn(struct tl_thread *self, struct tl_row *row, unsigned class, uint64_t now) {
    struct tl_cell *cell = &row->cells[class];
    struct tl_reading *reading = cell->until ? append(self) : NULL;
    if (!cell->until) TL_STORE(&row->used, row->used | (uint64_t)1 << class);
    if (reading) {
        reading->row = row;
        reading->class = class;
        reading->cell = *cell;
        __atomic_store_n(&self->log->head, self->log->head + 1, __ATOMIC_RELEASE);
    }
    TL_STORE(&cell->shortest, TL_NO_CODE);
    __atomic_exchange_n(&cell->until, end_after(now), __ATOMIC_SEQ_CST); /* before what is added to it now */
}

/* ---- the flush thread ---- */

static struct tl_cell copied(const struct tl_cell *cell) {
    return (struct tl_cell){
        .until = __atomic_load_n(&cell->until, __ATOMIC_ACQUIRE),
        .calls = __atomic_load_n(&cell->calls, __ATOMIC_ACQUIRE),
        .bytes = __atomic_load_n(&cell->bytes, __ATOMIC_ACQUIRE),
        .ticks = __atomic_load_n(&cell->ticks, __ATOMIC_ACQUIRE),
        .longest = __atomic_load_n(&cell->longest, __ATOMIC_ACQUIRE),
        .shortest = __atomic_load_n(&cell->shortest, __ATOMIC_ACQUIRE),
        .wait_ticks = __atomic_load_n(&cell->wait_ticks, __ATOMIC_ACQUIRE),
        .completed = __atomic_load_n(&cell->completed, __ATOMIC_ACQUIRE),
        .received = __atomic_load_n(&cell->received, __ATOMIC_ACQUIRE),
        .received_bytes = __atomic_load_n(&cell->received_bytes, __ATOMIC_ACQUIRE),
    };
}

int tl_reading_now(struct tl_row *row, unsigned class, struct tl_reading *reading) {
    reading->row = row;
    reading->class = class;
    reading->cell = copied(&row->cells[class]);
    return reading->cell.until && reading->cell.until == TL_LOAD(&row->cells[class].until);
}

struct tl_reading *tl_readings_next(struct tl_thread *thread) {
    struct tl_log *log = __atomic_load_n(&thread->log, __ATOMIC_ACQUIRE);
    if (!log || log->at == __atomic_load_n(&log->head, __ATOMIC_ACQUIRE)) return NULL;
    /* The thread moves `base` only while nothing is left to be read. */
    return &log->space[log->at++ - TL_LOAD(&log->base)];
}

void tl_readings_leave(struct tl_thread *thread) {
    thread->log->at--;
}

int tl_readings_release(struct tl_thread *thread) {
    struct tl_log *log = __atomic_load_n(&thread->log, __ATOMIC_ACQUIRE);
    if (!log) return 0;
    int percent = (int)((log->at - log->tail) * 100 / READINGS);
    __atomic_store_n(&log->tail, log->at, __ATOMIC_RELEASE);
    return percent;
}
