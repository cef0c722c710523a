/* Clocks of the ranks held against rank 0's, in trace mode only. See sync.c and rendezvous.c. */
#ifndef THROUGHLINE_SYNC_H
#define THROUGHLINE_SYNC_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "sync_burst.h"

#pragma GCC visibility push(hidden)

enum { TL_SYNC_POINTS = 64 };

/* In MPI_Init, after tl_trace_start. Ranks but 0 look for rank 0 in the background, and rank 0 answers there. */
void tl_sync_start(void);
/* The points since the last call, at most TL_SYNC_POINTS, and the number of the first: one that found no space has
 * one as well. */
size_t tl_sync_take(struct tl_sync_point *points, uint64_t *number);
/* Before the last push: a last comparison, if rank 0 answers within a few milliseconds. */
void tl_sync_last(void);
/* After MPI_Finalize, or at the end of the process: nothing is answered any more. */
void tl_sync_stop(void);
/* On the flush thread: sends what tl_sync_take gives. */
void tl_sync_push(int patience_ms);

#pragma GCC visibility pop

#endif
