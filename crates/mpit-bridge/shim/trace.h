/*
 * Trace mode: each call and each message with its times. Off unless requested; then the wrappers pay one
 * branch on tl_tracing. See trace.c for what is recorded, messages.c for how messages are numbered, sync.c
 * for the clocks.
 */
#ifndef THROUGHLINE_TRACE_H
#define THROUGHLINE_TRACE_H

#include <stdint.h>
#include <sys/socket.h>

#include "records.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

struct tl_ring;

/* trace.c. All but the first three are only called while tl_tracing. */
/* In MPI_Init, before the agent is queried: whether the environment requests a trace. */
void tl_trace_configure(void);
/* What the agent allows, from its WELCOME: 0 never, 1 ranks that request it, 2 all. */
void tl_trace_allow(uint64_t mode);
/* Records a second of this rank, and records of the whole job (it has its share of them), from its WELCOME; 0: not reported.
 * The environment can only lower them. */
void tl_trace_limits(uint64_t per_second, uint64_t of_job);
/* At the end of MPI_Init: starts if wanted and allowed. */
int tl_trace_wanted(void);
/* Whether records are still to be sent. */
int tl_trace_started(void);
void tl_trace_start(void);
void tl_trace_stop(void);
/* Before the last push, on the thread that ends MPI: what still waits for its number goes without. */
void tl_trace_finish(void);
/* The number of a thread in its records. */
uint16_t tl_trace_thread(struct tl_thread *self);
void tl_trace_put(struct tl_thread *self, const struct tl_record *record);
/* A call that is recorded in another way than by its wrapper. */
void tl_trace_call(struct tl_thread *self, int operation, uint64_t start, uint64_t end);
/* On the flush thread: sends what was recorded, at the rate that is allowed, or all that is there, or that and how much it was. */
enum tl_trace_part { TL_TRACE_SOME, TL_TRACE_ALL, TL_TRACE_ALL_AND_END };
void tl_trace_push(int milliseconds, enum tl_trace_part part, int (*patience)(void));

extern int tl_tracing;      /* 1 in trace mode (trace.h); read where a call has been noted */

#pragma GCC visibility pop

#endif
