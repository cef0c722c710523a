/* Messages that really went, also inside collectives. See wire.c. */
#ifndef THROUGHLINE_WIRE_H
#define THROUGHLINE_WIRE_H

#include <stdint.h>

#include "threads.h"

#pragma GCC visibility push(hidden)

/* 1 while counting; 0 before, and where the library can't be observed at it. */
extern int tl_wire_counts;
/* The library sends a message, within the call that this thread is in. */
void tl_wire_message(int peer, uint64_t bytes, int tag);

/* By the environment or the agent's file, so before any agent is spoken to. */
int tl_wire_requested(void);
/* It was requested, and the library's monitoring stays off: reported as the setting `wire`. */
void tl_wire_missing(const char *because);
/* After MPI_Init: counting begins. */
void tl_wire_start(void);
/* The agent wants it, or does not. The program's environment, being nearer, wins. */
void tl_wire_want(int wanted);
/* Whether it is to be reported: somebody requested it. */
int tl_wire_reported(void);
/* Whether messages have been reported: those are all that this process sends; with one-sided operations and persistent
 * sends, or without. The monitoring layer may be missing although it is wanted (--mca pml ob1). */
int tl_wire_measures(void);
int tl_wire_measures_one_sided(void);
int tl_wire_measures_persistent(void);
/* Messages of an operation by world rank; NULL: there are none. */
const struct tl_peer *tl_wire_by(int operation);

#pragma GCC visibility pop

#endif
