/*
 * Stretches of the thread that called MPI_Init: a call, or what lies between two. At the end of one that was longer than the gate the
 * thread reads its own processor clock, so that what it was off the processor since the reading before is known to lie in this
 * stretch: a thread that is put aside makes its stretch long. See stretches.c.
 */
#ifndef THROUGHLINE_STRETCHES_H
#define THROUGHLINE_STRETCHES_H

#include <stdint.h>

#include "clock.h"
#include "frame.h"
#include "shim.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

enum tl_stretch { TL_OUTSIDE, TL_INSIDE, TL_STRETCH_KINDS };

/* MPI has started, in this thread. */
void tl_stretches_start(void);
/* A thread ends. */
void tl_stretches_left(const struct tl_thread *thread);
/* A stretch longer than the gate has ended. */
void tl_stretch_ended(enum tl_stretch kind);

/* Ticks in which the thread had no processor outside of MPI, as of its last reading; 0 of other threads than the one that called MPI_Init. */
uint64_t tl_off_outside(const struct tl_thread *self);

/* Around each call that is timed. The clock is read before the call is marked as open: a thread may be put aside here for long, which
 * is no part of the call. Other threads than the one that called MPI_Init have a gate that nothing passes. */
static inline uint64_t tl_call_begin(struct tl_thread *self) {
    uint64_t now = tl_ticks();
    if (TL_UNLIKELY(now - self->left > TL_LOAD(&self->gate))) tl_stretch_ended(TL_OUTSIDE);
    tl_open(self, now);
    return now;
}

/* What the flush thread relies on: `left` is stored before the sum, and the sum before the call is closed. */
static inline uint64_t tl_call_end(struct tl_thread *self, uint64_t start) {
    uint64_t now = tl_ticks(), ticks = now - start;
    if (TL_UNLIKELY(ticks > TL_LOAD(&self->gate))) tl_stretch_ended(TL_INSIDE);
    __atomic_store_n(&self->left, now, __ATOMIC_RELEASE);
    TL_ADD(&self->mpi_ticks, ticks);
    tl_close(self);
    return ticks;
}

/* The flush thread: what is known of the thread now. 0 where nothing is, or the thread is just between two states. */
int tl_account_now(struct tl_account *account);

#pragma GCC visibility pop

#endif
