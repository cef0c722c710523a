/* Names of communicators in traces. See comm_ids.c. */
#ifndef THROUGHLINE_COMM_IDS_H
#define THROUGHLINE_COMM_IDS_H

#include <stdint.h>

#include "comm.h"
#include "library.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

/* A name for a communicator that all its members agree on; 0: none. */
uint64_t tl_comm_id(const struct tl_comm *comm);

#pragma GCC visibility pop

#endif
