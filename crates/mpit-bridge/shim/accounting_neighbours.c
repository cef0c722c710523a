/* What neighbourhood collectives send, and to whom. Rules are in protocol/README.md; otherwise as accounting.c. */
#include "accounting.h"
#include "comm.h"
#include "comms.h"
#include "notes.h"
#include "peer_sums.h"
#include "shim.h"
#include "threads.h"
#include "topology.h"

/* Where neighbours are not known. */
static void note_no_neighbourhood(tl_callp call) {
    record(call, 0, 0);
    unknown(call->self, 1);
}

static struct tl_comm *neighbourhood(tl_callp call, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    if (comm && tl_comm_neighbours(comm)) return comm;
    note_no_neighbourhood(call);
    return NULL;
}

/* A block to each neighbour there is; returns how many there are. */
static int to_neighbours(tl_callp call, const struct tl_comm *comm, int64_t block) {
    int there = 0;
    for (int i = 0; i < comm->target_count; i++) {
        if (comm->targets[i] < 0) continue;
        there++;
        to_member(call, comm, comm->targets[i], block);
    }
    return there;
}

void tl_note_neighbor_allgather(tl_callp call, int64_t count, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = neighbourhood(call, handle);
    if (!comm) return;
    int64_t block = bytes_of(call, count, type);
    record(call, block, block);
    to_neighbours(call, comm, block);
}

void tl_note_neighbor_alltoall(tl_callp call, int64_t count, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = neighbourhood(call, handle);
    if (!comm) return;
    int64_t block = bytes_of(call, count, type);
    int there = to_neighbours(call, comm, block);
    record(call, block, block * there);
}

void tl_note_neighbor_blocks(tl_callp call, const void *counts, const void *types, tl_handle type,
                             tl_handle handle) {
    struct tl_comm *comm = tl_comm_find_with_neighbours(call->self, handle);
    if (!comm) {
        note_no_neighbourhood(call);
        return;
    }
    struct blocks blocks = {counts, types, type, -1};
    int64_t total = 0;
    int there = 0;
    for (int i = 0; i < comm->target_count; i++) {
        if (comm->targets[i] < 0) continue;
        int64_t bytes = block_at(call, &blocks, i);
        total += bytes;
        there++;
        to_member(call, comm, comm->targets[i], bytes);
    }
    record(call, there ? total / there : 0, total);
}
