/*
 * What operations beyond messages and collectives send: one-sided, MPI-IO, neighbourhood collectives, and
 * received bytes. Rules are in protocol/README.md; otherwise as accounting.c.
 */
#include "accounting.h"
#include "comm.h"
#include "comms.h"
#include "form.h"
#include "library.h"
#include "notes.h"
#include "operations.h"
#include "peer_sums.h"
#include "shim.h"
#include "status.h"
#include "threads.h"
#include "topology.h"

/* ---- received bytes ---- */

/* `status` is always one that the library has filled in: the wrapper passes its own instead of IGNORE. */
void tl_note_received(tl_callp call, const void *status) {
    received(call, tl_status_bytes(status));
}

void tl_note_receives(tl_callp call) {
    if (call->self->capture) call->self->capture->receives = 1;
    call->receives = 1;
}

/* MPI_Isendrecv and its like. MPICH, 4.0 to 5.0, makes them by a schedule, whose request has a status that nobody
 * writes: it reports whatever had the request before. So what came is not known there, nor under the MPI-5 ABI. */
void tl_note_receives_too(tl_callp call) {
    if (tl_library.family == TL_FAMILY_OPENMPI) tl_note_receives(call);
    else TL_ADD(&call->self->untracked_requests, 1);
}

/* Each start of a partitioned receive gets all its partitions; libraries differ in what its status says. */
void tl_note_partitions(tl_callp call, int64_t count, tl_handle type, int source) {
    int64_t bytes = bytes_of(call, count, type);
    record(call, bytes, 0);
    tl_note_receives(call);
    if (call->self->capture) call->self->capture->receive_bytes = source < 0 ? 0 : bytes;
}

/* ---- MPI-IO ---- */

void tl_note_bytes(tl_callp call, int64_t count, tl_handle type) {
    int64_t bytes = bytes_of(call, count, type);
    record(call, bytes, bytes);
}

/* ---- one-sided ---- */

static void to_target(tl_callp call, int slot, int target, tl_handle win, int64_t bytes) {
    add_member(call->self, slot, tl_window_find(call->self, win), target, bytes);
}

void tl_note_put(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win) {
    int64_t bytes = target < 0 ? 0 : bytes_of(call, count, type);
    record(call, bytes, bytes);
    if (target >= 0) to_target(call, call->operation, target, win, bytes);
}

/* The target sends: nothing in this rank's row of the matrix, and traffic the other way (traffic.c). */
void tl_note_get(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win) {
    int64_t bytes = target < 0 ? 0 : bytes_of(call, count, type);
    record(call, bytes, 0);
    received(call, bytes);
    if (target >= 0) to_target(call, call->operation, target, win, bytes);
}

/* Where what an operation reads stands beside what it sends. */
static int read_slot(int operation) {
    switch (operation) {
    case TL_OP_Get_accumulate: return TL_READ_BY_GET_ACCUMULATE;
    case TL_OP_Rget_accumulate: return TL_READ_BY_RGET_ACCUMULATE;
    case TL_OP_Fetch_and_op: return TL_READ_BY_FETCH_AND_OP;
    default: return TL_READ_BY_COMPARE_AND_SWAP;
    }
}

/* With MPI_NO_OP nothing goes to the target; the origin's buffer is not looked at, nor are its type and count. */
void tl_note_get_accumulate(tl_callp call, int64_t count, tl_handle type, int64_t result_count,
                            tl_handle result_type, int target, tl_handle op, tl_handle win) {
    if (target < 0) {
        record(call, 0, 0);
        return;
    }
    if (tl_is_fortran(call->form)) op = tl_library.op_f2c ? tl_library.op_f2c((int)op) : 0;
    int64_t back = bytes_of(call, result_count, result_type);
    if (tl_same(op) == tl_library.no_op) {
        record(call, back, 0);
    } else {
        int64_t bytes = bytes_of(call, count, type);
        record(call, bytes, bytes);
        to_target(call, call->operation, target, win, bytes);
    }
    received(call, back);
    to_target(call, read_slot(call->operation), target, win, back);
}

void tl_note_compare_and_swap(tl_callp call, tl_handle type, int target, tl_handle win) {
    tl_note_put(call, 1, type, target, win);
    if (target < 0) return;
    int64_t back = bytes_of(call, 1, type);
    received(call, back);
    to_target(call, read_slot(call->operation), target, win, back);
}

/* ---- neighbourhood collectives ---- */

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
