/*
 * Tests and probes that fail, in a row, at once. Programs poll so between steps of their own, many million times a second;
 * the library takes 10 to 50 ns for that, and reading the clock twice and looking up the requests as much again. So one of
 * many is timed and stands for those after it. Each is counted, and what succeeds is always accounted whole.
 *
 * Those that are not timed take a way of their own through the wrapper (polls_fast_path.h), while the thread's row says so.
 * Must not call MPI.
 */
#ifndef THROUGHLINE_POLLS_H
#define THROUGHLINE_POLLS_H

#include "form.h"
#include "operations.h"
#include "shim.h"
#include "threads.h"
#include "trace.h"

enum {
    TL_POLLS_FEWEST = 32, /* not timed after one that is: 32 to 63 of a new row, and twice as many with each stretch. A
                             fixed number would always meet the same one of several requests that are queried in turn */
    TL_POLLS_PACE = 4,    /* doublings: 512 to 1,023 at most */
    TL_POLLS_TICKS = 1 << 20, /* or as many as take so long, 0.3 to 1 ms: they count in the bin of the timed one */
    TL_POLLS_DENSE = 4096 /* ticks from one to the next, at most: 1 to 4 us. Rarer ones cost nothing */
};

/* Constant in each wrapper. */
static inline int tl_is_poll(int operation) {
    return operation == TL_OP_Test || operation == TL_OP_Testany || operation == TL_OP_Testall ||
           operation == TL_OP_Testsome || operation == TL_OP_Iprobe || operation == TL_OP_Improbe;
}

/* Programs poll for arrivals and departures in turn, by different functions: each has its own row. */
#define TL_POLL_KIND(operation) ((operation) - TL_OP_Test)
_Static_assert(TL_POLL_KIND(TL_OP_Improbe) < TL_POLL_KINDS && TL_OP_Testsome > TL_OP_Test && TL_OP_Iprobe > TL_OP_Test,
               "numbers of polls are close together");
static inline struct tl_polls *tl_polls_of(struct tl_thread *self, int operation) {
    return &self->polls[TL_POLL_KIND(operation)];
}

/* The row of a wrapper: constant in it. Polls have no buffers, and so only three forms. */
static inline int tl_row_number(enum tl_form form, int operation) {
    int place = form == TL_FORM_C ? 0 : form == TL_FORM_FORTRAN ? 1 : 2;
    return place * TL_POLL_KINDS + TL_POLL_KIND(operation);
}

/* Is this call to be timed? Only with a poll's operation it may not. */
static inline int tl_is_timed(struct tl_thread *self, int operation) {
    if (!tl_is_poll(operation)) return 1;
    const struct tl_polls *polls = tl_polls_of(self, operation);
    return !polls->cell || TL_LOAD(&polls->cell->calls) >= polls->until || polls->table != self->table ||
           TL_LOAD(&tl_tracing);
}

/* Are its requests only looked up if it succeeds (requests.h)? Whether MPI_Testall may be given statuses hangs on them. */
static inline int tl_looks_later(int operation, int is_timed) {
    return !is_timed && operation != TL_OP_Testall;
}

/* Accounts a poll's time and count. 0 where that was all: it has failed and was not timed. */
int tl_note_timed_poll(struct tl_call *call, int succeeded);
static inline int tl_note_poll(struct tl_call *call, int operation, int succeeded) {
    if (call->start || succeeded) return tl_note_timed_poll(call, succeeded);
    TL_ADD(&tl_polls_of(call->self, operation)->cell->calls, 1);
    return 0;
}

/* The thread goes on in another region, or recording has ended: its rows' next calls are looked at again. */
static inline void tl_polls_interrupt(struct tl_thread *self) {
    for (; self->rows_open; self->rows_open &= self->rows_open - 1)
        tl_row_end(&self->rows[__builtin_ctzll(self->rows_open)]);
}

/* The thread will not poll any more: its rows end. */
void tl_polls_settle(struct tl_thread *self);

#endif
