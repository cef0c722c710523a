/* Neighbours of a communicator with a topology. See topology.c. */
#ifndef THROUGHLINE_TOPOLOGY_H
#define THROUGHLINE_TOPOLOGY_H

#include "comm.h"

#pragma GCC visibility push(hidden)

/* Fills in `targets` once; 0 where the library does not report. */
int tl_comm_neighbours(struct tl_comm *comm);
/* How many there are, as the library says now; -1: it does not report. */
int tl_comm_neighbours_now(const struct tl_comm *comm);

#pragma GCC visibility pop

#endif
