/* Sums over all threads, one time bin after the other. See bins.c. Flush thread only. */
#ifndef THROUGHLINE_BINS_H
#define THROUGHLINE_BINS_H

#include "frame.h"

#pragma GCC visibility push(hidden)

/* Adds the cells that changed since the last bin, or all of them, to `frame` as one bin that ends now. Whenever the
 * frame is full, `full` must send it and begin another one. */
void tl_bins_collect(struct tl_frame *frame, int everything, void (*full)(void));

/* Calls and time of all operations in one region so far. */
void tl_bins_of_region(int region, uint64_t *calls, uint64_t *nanoseconds);

#pragma GCC visibility pop

#endif
