/* Sums over all threads, one time bin after the other. See bins.c. Flush thread only. */
#ifndef THROUGHLINE_BINS_H
#define THROUGHLINE_BINS_H

#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* Bins end at whole multiples of so many milliseconds of UTC. Before anything is recorded, and on changes. */
void tl_bins_start(int milliseconds);
/* Nanoseconds until the next end of a bin that is a multiple of so many milliseconds of UTC. */
int64_t tl_bins_until(int milliseconds);

enum tl_bins_part {
    TL_BINS_ENDED,     /* what happened in bins that have ended */
    TL_BINS_UNTIL_NOW  /* and in the one that goes on, as a bin that ends now */
};
/* Adds the bins since the last call to `frame`: of each the cells that changed, with their sums at its end; in the last
 * one all cells if `everything` is requested. Whenever the frame is full, `full` must send it and begin another one.
 * Returns how full the fullest thread's log was, in percent. */
int tl_bins_collect(struct tl_frame *frame, enum tl_bins_part part, int everything, void (*full)(void));
/* 1: the next collection should come at the end of each bin, as performance variables are held against it. */
int tl_bins_want_each(void);

/* Calls and time of all operations in one region so far. */
void tl_bins_of_region(int region, uint64_t *calls, uint64_t *nanoseconds);

#pragma GCC visibility pop

#endif
