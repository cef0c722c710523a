/* Calls that go on for long. See open_calls.c. Flush thread only. */
#ifndef THROUGHLINE_OPEN_CALLS_H
#define THROUGHLINE_OPEN_CALLS_H

#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* MPI has started: whether other threads than the one that called MPI_Init may call it. */
void tl_open_calls_start(int several_threads);
/* Sends what each thread is in for long, by `frame`; nothing where nothing is open, nor was at the time before. */
void tl_open_calls_push(struct tl_frame *frame, int (*patience)(void));
/* Nanoseconds until a call that was not long at the last push will be, if it goes on: then it is time to push. */
int64_t tl_open_calls_wait(void);
/* The receiver knows nothing: what is open is sent, and nothing is not. */
void tl_open_calls_again(void);

#pragma GCC visibility pop

#endif
