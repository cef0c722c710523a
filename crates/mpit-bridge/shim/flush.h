/* The flush thread: everything that leaves the process, leaves from here. See flush.c. */
#ifndef THROUGHLINE_FLUSH_H
#define THROUGHLINE_FLUSH_H

#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* On the thread that called MPI_Init: connects, sends its HELLO, starts the thread. 0 if there can be none. */
int tl_flush_start(int64_t epoch);
/* Ends the thread, waiting at most a bounded time; 0 if it did not end. */
int tl_flush_stop(void);
/* Everything once more, and goodbye. Only after tl_flush_stop returned 1. */
void tl_flush_finish(enum tl_bye_reason reason);

#pragma GCC visibility pop

#endif
