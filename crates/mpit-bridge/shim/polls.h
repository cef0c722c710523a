/*
 * Tests and probes that fail, in a row, at once. Programs ask so between steps of their own; the library takes 10 to 50 ns
 * for that, and reading the clock twice and looking up the requests as much again. So one of about 64 is timed and stands
 * for those after it. Each is counted, and what succeeds is always accounted whole. Must not call MPI.
 */
#ifndef THROUGHLINE_POLLS_H
#define THROUGHLINE_POLLS_H

#include "clock.h"
#include "shim.h"

enum {
    TL_POLLS_FEWEST = 32, TL_POLLS_SPREAD = 63, /* not timed after one that is: 32 to 95. A fixed number would always
                                                  meet the same one of several requests that are asked in turn */
    TL_POLLS_DENSE = 4096 /* ticks from one to the next, at most: 1 to 4 us. Rarer ones cost nothing */
};

/* Constant in each wrapper. */
static inline int tl_is_poll(int operation) {
    return operation == TL_OP_Test || operation == TL_OP_Testany || operation == TL_OP_Testall ||
           operation == TL_OP_Testsome || operation == TL_OP_Iprobe || operation == TL_OP_Improbe;
}

/* Programs ask for arrivals and departures in turn, by different functions: each has its own row. */
_Static_assert(TL_OP_Improbe - TL_OP_Test < TL_POLL_KINDS && TL_OP_Testsome > TL_OP_Test && TL_OP_Iprobe > TL_OP_Test,
               "numbers of polls are close together");
static inline struct tl_polls *tl_polls_of(struct tl_thread *self, int operation) {
    return &self->polls[operation - TL_OP_Test];
}

/* Is this call to be timed? Only with a poll's operation it may not. */
static inline int tl_is_timed(struct tl_thread *self, int operation) {
    if (!tl_is_poll(operation)) return 1;
    const struct tl_polls *polls = tl_polls_of(self, operation);
    return !polls->left || polls->table != self->table || TL_LOAD(&tl_tracing);
}

/* Are its requests only looked up if it succeeds (requests.h)? Whether MPI_Testall may be given statuses hangs on them. */
static inline int tl_looks_later(int operation, int is_timed) {
    return !is_timed && operation != TL_OP_Testall;
}

/* Accounts a poll's time and count. 0 where that was all: it has failed and was not timed. The operation is the call's,
 * as a constant: in a program that does nothing but ask, each instruction here shows. */
int tl_note_timed_poll(struct tl_call *call, int succeeded);
static inline int tl_note_poll(struct tl_call *call, int operation, int succeeded) {
    struct tl_polls *polls = tl_polls_of(call->self, operation);
    if (call->start || succeeded) return tl_note_timed_poll(call, succeeded);
    TL_ADD(&polls->cell->calls, 1);
    polls->left--;
    return 0;
}

#endif
