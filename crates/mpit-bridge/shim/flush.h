/* The flush thread: everything that leaves the process, leaves from here. See flush.c. */
#ifndef THROUGHLINE_FLUSH_H
#define THROUGHLINE_FLUSH_H

#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* On the thread that called MPI_Init: connects, sends its HELLO, starts the thread. 0 if there can be none. */
int tl_flush_start(int64_t epoch);
/* On the thread that calls MPI_Finalize: from here on the flush thread calls nothing of MPI, which ends, and is idle. Waits at most
 * a bounded time; 0 if it did not come to rest: then it ends as soon as it does, and says goodbye itself. */
int tl_flush_pause(void);
/* All sums and records of a trace so far, while variables can be read. Only after tl_flush_pause returned 1. */
void tl_flush_last(void);
/* The thread goes on, and reports the call that is open (MPI_Finalize) and nothing else. */
void tl_flush_resume(void);
/* Ends the thread, waiting at most a bounded time; 0 if it did not end: then it sends the rest and its goodbye itself. */
int tl_flush_stop(enum tl_bye_reason reason);
/* Where the process ends: waits a bounded time for a thread that does so. */
void tl_flush_await(void);
/* What is not sent yet, and goodbye. Only after tl_flush_stop returned 1. `with_pvars`: variables can still be read. */
void tl_flush_finish(enum tl_bye_reason reason, int with_pvars);

#pragma GCC visibility pop

#endif
