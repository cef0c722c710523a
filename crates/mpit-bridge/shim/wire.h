/* Messages that really went, also inside collectives. See wire.c. */
#ifndef THROUGHLINE_WIRE_H
#define THROUGHLINE_WIRE_H

#include "shim.h"

#pragma GCC visibility push(hidden)

/* By world rank, while counting; NULL before and where the library can't be observed at it. */
extern struct tl_peer *tl_wire;

/* After MPI_Init: counting begins. */
void tl_wire_start(void);
/* The agent wants it, or does not. The program's environment, being nearer, wins. */
void tl_wire_want(int wanted);
/* What there is to report: NULL if nobody requested it. */
const struct tl_peer *tl_wire_reported(void);

#pragma GCC visibility pop

#endif
