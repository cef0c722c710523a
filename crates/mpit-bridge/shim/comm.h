/* One communicator, translated. */
#ifndef THROUGHLINE_COMM_H
#define THROUGHLINE_COMM_H

#include <stdint.h>

#include "library.h"

#pragma GCC visibility push(hidden)

enum { TL_SLOT_FREE_AGAIN = 1 }; /* as a slot's handle */

struct tl_collective;
struct tl_group;

/* One communicator, translated. Written under the lock in comms.c, read without it by the threads using it. */
struct tl_comm {
    tl_handle handle; /* 0: slot never used, 1: free again */
    int rank;         /* own rank; -1 in an intercommunicator */
    int size;         /* members that can be addressed: the remote group's in an intercommunicator */
    int inter;
    uint32_t number;  /* its name's in NAMES frames (comm_names.c), 0: it has none */
    uint64_t id;      /* its name in traces (comm_ids.c), 0: none */
    int *world;       /* world rank of each, -1 if not in MPI_COMM_WORLD; NULL: same numbers as the world */
    struct tl_collective *last; /* sums that the call before was added to (groups.h) */
    struct tl_group *group; /* its members, whose list `world` is; NULL once it is freed (groups.h) */
    uint64_t serial;  /* counts what the slot has held */
    int target_count; /* neighbours that a neighbourhood collective sends to; -1: not queried yet (topology.c) */
    int *targets;     /* their ranks in the communicator; MPI_PROC_NULL is retained, as counts are by position */
    struct tl_comm *next_spare;
};

#pragma GCC visibility pop

#endif
