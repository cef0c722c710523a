/* What stands for polls that were not timed: see polls.h. */
#include "polls.h"

#include "caller_library.h"
#include "cells.h"
#include "clock.h"
#include "comms.h"
#include "form.h"
#include "library.h"
#include "notes.h"
#include "operations.h"
#include "shim.h"
#include "stretches.h"
#include "threads.h"
#include "trace.h"

enum { ROW_SHIFT = 20, ROW_IN_POLLS = 8 };

/* So many polls that were not timed, until `now`: each as long as the one that was, but no longer than since its end, as
 * that one may have been put aside by the system meanwhile. */
static uint64_t like_timed(const struct tl_polls *polls, uint64_t count, uint64_t now) {
    uint64_t since = now - polls->last - polls->ticks, all = count * polls->ticks;
    return all < since ? all : since;
}

/* How many of a row are not timed from now on: `spacing` ticks lie between two of them. */
static uint64_t stretch(int pace, uint64_t start, uint64_t spacing) {
    uint64_t fewest = (uint64_t)TL_POLLS_FEWEST << pace, most = TL_POLLS_TICKS / (spacing | 1);
    uint64_t wanted = fewest + (start & (fewest - 1));
    return wanted < most ? wanted : most;
}

/* May calls of the row take the fast path? Requests of other threads have to be looked up before each call. */
static int has_fast_path(int operation) {
    int queries_requests = operation != TL_OP_Iprobe && operation != TL_OP_Improbe;
    return TL_LOAD(&tl_recording) && !TL_LOAD(&tl_tracing) && !(queries_requests && tl_shared_comms);
}

/* The calls that are not timed from now on take the fast path, where they may; those by another form do not any more. */
static void open_row(struct tl_thread *self, enum tl_form form, int operation) {
    /* What is not observed here stays for the next call; what is, means that tl_recording is 0 by now. */
    if (TL_LOAD(&self->interrupted) && __atomic_exchange_n(&self->interrupted, 0, __ATOMIC_ACQUIRE))
        tl_polls_interrupt(self);
    for (int i = 0; i < TL_POLL_FORMS; i++) tl_row_end(&self->rows[i * TL_POLL_KINDS + TL_POLL_KIND(operation)]);
    const struct tl_polls *polls = tl_polls_of(self, operation);
    void *next = __atomic_load_n(&tl_next_functions[form][operation], __ATOMIC_ACQUIRE);
    if (!next || polls->until <= polls->from || !has_fast_path(operation)) return;
    struct tl_row_now *row = &self->rows[tl_row_number(form, operation)];
    *row = (struct tl_row_now){
        .left = (int)(polls->until - polls->from),
        .handle_bytes = tl_is_fortran(form) ? (int)sizeof(int) : tl_library.handle_bytes,
        .next = next,
        .cell = polls->cell,
        .ignored = tl_library.status_ignore,
        .requested = row,
    };
    self->rows_open |= UINT64_C(1) << tl_row_number(form, operation);
}

/* Whether the thread's last call that was timed is a poll. */
static int was_poll(const struct tl_thread *self) {
    for (int kind = 0; kind < TL_POLL_KINDS; kind++)
        if (self->last_cell && self->polls[kind].cell == self->last_cell) return 1;
    return 0;
}

/* `count` polls, the last one of them timed, and the ticks in and between them: does the thread do nothing but poll in vain, and since
 * when? For the flush thread. The sums over the last million count, without the time between two in which the thread had no processor. A
 * poll that yields its core takes long, and so does the first step afterwards. */
static void note_row(struct tl_thread *self, const struct tl_call *call, int goes_on, uint64_t count, uint64_t in, uint64_t between) {
    if (!goes_on) {
        self->row_start = call->start;
        self->row_count = self->row_in = self->row_between = 0;
        self->row_off = tl_off_outside(self);
        TL_STORE(&self->tests_operation, call->operation);
        TL_STORE(&self->tests_since, 0);
        return;
    }
    if (self->row_count >> ROW_SHIFT) {
        self->row_count /= 2;
        self->row_in /= 2;
        self->row_between /= 2;
    }
    uint64_t off_now = tl_off_outside(self), off = off_now > self->row_off ? off_now - self->row_off : 0;
    self->row_off = off_now;
    self->row_count += count;
    self->row_in += in;
    self->row_between += between > off ? between - off : 0;
    int is_in_vain = self->row_between / self->row_count < TL_POLLS_DENSE || self->row_between < self->row_in / ROW_IN_POLLS;
    TL_STORE(&self->tests_last, call->start + call->ticks);
    __atomic_store_n(&self->tests_since, is_in_vain ? self->row_start : 0, __ATOMIC_RELEASE);
}

int tl_note_timed_poll(struct tl_call *call, int succeeded) {
    struct tl_thread *self = call->self;
    struct tl_polls *polls = tl_polls_of(self, call->operation);
    int goes_on = !succeeded && was_poll(self);
    if (!call->start) {
        call->start = tl_ticks();
        call->ticks = like_timed(polls, 1, call->start);
        call->start -= call->ticks;
    }
    uint64_t untimed = polls->cell ? TL_LOAD(&polls->cell->calls) - polls->from : 0;
    if (untimed) {
        call->others_ticks = like_timed(polls, untimed, call->start);
        TL_ADD(&polls->cell->ticks, call->others_ticks);
        TL_ADD(&self->mpi_ticks, call->others_ticks);
    }
    tl_note_time(call);
    uint64_t spacing = (call->start - polls->last) / (untimed + 1);
    int is_dense = polls->table && spacing < TL_POLLS_DENSE, pace = 0;
    if (is_dense) pace = polls->pace + (!succeeded && untimed && polls->pace < TL_POLLS_PACE);
    uint64_t since = call->start - polls->last, in_polls = polls->ticks + call->others_ticks;
    note_row(self, call, goes_on && polls->table, untimed + 1, in_polls, since > in_polls ? since - in_polls : 0);
    struct tl_cell *cell = self->last_cell;
    uint64_t from = cell ? TL_LOAD(&cell->calls) : 0;
    *polls = (struct tl_polls){
        .cell = cell,
        .from = from,
        .until = from + (cell && !succeeded && is_dense ? stretch(pace, call->start, spacing) : 0),
        .table = self->table,
        .last = call->start,
        .ticks = call->ticks,
        .pace = pace,
    };
    open_row(self, call->form, call->operation);
    return 1;
}

void tl_polls_settle(struct tl_thread *self) {
    tl_polls_interrupt(self);
    for (int kind = 0; kind < TL_POLL_KINDS; kind++) {
        struct tl_polls *polls = &self->polls[kind];
        uint64_t untimed = polls->cell ? TL_LOAD(&polls->cell->calls) - polls->from : 0;
        if (untimed) TL_ADD(&polls->cell->ticks, like_timed(polls, untimed, tl_ticks()));
        *polls = (struct tl_polls){0};
    }
}
