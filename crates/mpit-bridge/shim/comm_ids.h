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
/* One was made, of `parent`. `made` may be MPI_COMM_NULL. */
void tl_comm_made(struct tl_thread *self, tl_handle parent, tl_handle made);

#pragma GCC visibility pop

#endif
