/*
 * What each operation sends, and to whom. Counts follow Open MPI's coll monitoring (what the caller hands
 * over, to each member that it is meant for), with one difference: gather and reduce are counted in the row of
 * the rank that sends, not of the root that receives, so that a row is always a source. All rules are in
 * protocol/README.md. Called once after each successful operation; must not call MPI but to size datatypes
 * and to translate communicators.
 */
#include "accounting.h"
#include "cells.h"
#include "comm.h"
#include "comms.h"
#include "groups.h"
#include "library.h"
#include "limits.h"
#include "notes.h"
#include "operations.h"
#include "peer_sums.h"
#include "shim.h"
#include "status.h"
#include "threads.h"

/* The thread's own cell of what perhaps another thread began (only its thread may write a cell), in the bin that
 * `call` ends in. */
static struct tl_cell *cell_at(const struct tl_call *call, struct tl_where where) {
    struct tl_thread *self = call->self;
    struct tl_table *table = TL_LIKELY(where.path == self->table->path) ? self->table : tl_table_find(self, where.path);
    if (!table || where.size_class >= TL_SIZE_CLASSES) return NULL;
    struct tl_row *row = row_at(table, where.operation, where.algorithm);
    if (TL_UNLIKELY(!row) && !(row = tl_row_find(self, table, where.operation, where.algorithm))) return NULL;
    bin_of(self, row, where.size_class, end_of(call));
    return &row->cells[where.size_class];
}

void tl_account_done(const struct tl_call *call, struct tl_where where, const struct tl_done *done) {
    struct tl_cell *cell = cell_at(call, where);
    if (!cell) return;
    TL_ADD(&cell->wait_ticks, done->ticks);
    TL_ADD(&cell->completed, done->requests);
    TL_ADD(&cell->received_bytes, done->bytes);
    TL_ADD(&cell->received, done->receives);
}

/* Does this rank hand data to the others / to the root? Intercommunicators: MPI_ROOT is the one root, its
 * own group passes MPI_PROC_NULL, the other group passes the root's rank. */
static int is_root(const struct tl_comm *comm, int root) {
    return comm && (comm->inter ? root == tl_library.root : root == comm->rank);
}
static int sends_to_root(const struct tl_comm *comm, int root) {
    return comm && root >= 0 && (comm->inter || root != comm->rank);
}
/* The root as a cell names it; in an intercommunicator TL_NO_ROOT for those of the root's group who have no part. */
static int root_of(const struct tl_comm *comm, int root) {
    if (TL_LIKELY(!comm || !comm->inter)) return root;
    return root == tl_library.root ? TL_ROOT_SELF : root >= 0 ? root : TL_NO_ROOT;
}
/* Ranks of an intercommunicator's root group hand nothing over, and those of it that pass MPI_PROC_NULL have no buffer: what
 * they name as count and type is not looked at. Said by the argument alone, as the communicator may not be known. */
static int contributes(int root) {
    return root >= 0;
}
static int takes_part(int root) {
    return root >= 0 || root == tl_library.root;
}

void tl_note_time(tl_callp call) {
    record(call, 0, 0);
}

void tl_note_message(tl_callp call, int64_t count, tl_handle type, int dest, tl_handle comm) {
    if (dest < 0) { /* MPI_PROC_NULL: nothing is sent */
        record(call, 0, 0);
        return;
    }
    int64_t bytes = bytes_of(call, count, type);
    record(call, bytes, bytes);
    to_member(call, comm_of(call, comm), dest, bytes);
}

/* A receive sends nothing; its class is that of the buffer offered. */
void tl_note_receive(tl_callp call, int64_t count, tl_handle type) {
    record(call, bytes_of(call, count, type), 0);
}

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

/* MPI-IO. */
void tl_note_bytes(tl_callp call, int64_t count, tl_handle type) {
    int64_t bytes = bytes_of(call, count, type);
    record(call, bytes, bytes);
}

void tl_note_barrier(tl_callp call, tl_handle comm) {
    record(call, 0, 0);
    collective(call, comm_of(call, comm), TL_NO_ROOT, 0);
}

void tl_note_bcast(tl_callp call, int64_t count, tl_handle type, int root, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    int64_t bytes = takes_part(root) ? bytes_of(call, count, type) : 0;
    record(call, bytes, is_root(comm, root) ? bytes : 0);
    collective(call, comm, root_of(comm, root), bytes);
}

void tl_note_allreduce(tl_callp call, int64_t count, tl_handle type, tl_handle comm) {
    int64_t bytes = bytes_of(call, count, type);
    record(call, bytes, bytes);
    collective(call, comm_of(call, comm), TL_NO_ROOT, bytes);
}

void tl_note_reduce(tl_callp call, int64_t count, tl_handle type, int root, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    int64_t bytes = takes_part(root) ? bytes_of(call, count, type) : 0;
    record(call, bytes, contributes(root) ? bytes : 0);
    collective(call, comm, root_of(comm, root), bytes);
}

void tl_note_scan(tl_callp call, int64_t count, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    int64_t bytes = bytes_of(call, count, type);
    record(call, bytes, bytes);
    collective(call, comm, TL_NO_ROOT, bytes);
}

/* Of a scatter: the root may pass MPI_IN_PLACE with any type, and whether this rank is the root is not known where the
 * communicator is not. */
static int receives(const struct tl_comm *comm, int root) {
    return comm && contributes(root);
}

/* The root's own part of a gather with MPI_IN_PLACE lies in the receive buffer already. */
void tl_note_gather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype, int64_t recvcount,
                    tl_handle recvtype, int root, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    int64_t bytes = 0;
    if (contributes(root))
        bytes = in_place(sendbuf) ? bytes_of(call, recvcount, recvtype) : bytes_of(call, sendcount, sendtype);
    record(call, bytes, bytes);
    collective(call, comm, root_of(comm, root), bytes);
}

void tl_note_gatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                     const void *recvcounts, tl_handle recvtype, int root, tl_handle handle) {
    struct tl_comm *comm = in_place(sendbuf) ? tl_comm_find_now(call->self, handle) : comm_of(call, handle);
    int64_t bytes = 0;
    if (in_place(sendbuf)) /* allowed at the root only, where recvcounts is given */
        bytes = is_root(comm, root) ? bytes_of(call, count_at(call, recvcounts, comm->rank), recvtype) : 0;
    else if (contributes(root))
        bytes = bytes_of(call, sendcount, sendtype);
    record(call, bytes, bytes);
    if (sends_to_root(comm, root) || !comm) to_member(call, comm, root, bytes);
}

void tl_note_scatter(tl_callp call, int64_t sendcount, tl_handle sendtype, int64_t recvcount, tl_handle recvtype,
                     int root, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    int64_t block = 0;
    if (is_root(comm, root)) {
        block = bytes_of(call, sendcount, sendtype);
        record(call, block, block * comm->size);
    } else {
        if (receives(comm, root)) block = bytes_of(call, recvcount, recvtype);
        record(call, block, 0);
    }
    collective(call, comm, root_of(comm, root), block);
}

void tl_note_scatterv(tl_callp call, const void *sendcounts, tl_handle sendtype, int64_t recvcount,
                      tl_handle recvtype, int root, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find_now(call->self, handle);
    if (!is_root(comm, root)) {
        record(call, receives(comm, root) ? bytes_of(call, recvcount, recvtype) : 0, 0);
        if (!comm) unknown(call->self, 1);
        return;
    }
    struct blocks blocks = {sendcounts, NULL, sendtype, -1};
    int64_t total = 0;
    for (int i = 0; i < comm->size; i++) {
        int64_t bytes = block_at(call, &blocks, i);
        total += bytes;
        if (i != comm->rank) to_member(call, comm, i, bytes);
    }
    record(call, total / comm->size, total);
}

void tl_note_allgather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                       int64_t recvcount, tl_handle recvtype, tl_handle comm) {
    int64_t bytes = in_place(sendbuf) ? bytes_of(call, recvcount, recvtype) : bytes_of(call, sendcount, sendtype);
    record(call, bytes, bytes);
    collective(call, comm_of(call, comm), TL_NO_ROOT, bytes);
}

void tl_note_allgatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                        const void *recvcounts, tl_handle recvtype, tl_handle handle) {
    struct tl_comm *comm = in_place(sendbuf) ? tl_comm_find_now(call->self, handle) : comm_of(call, handle);
    int64_t bytes;
    if (!in_place(sendbuf)) bytes = bytes_of(call, sendcount, sendtype);
    else bytes = comm && !comm->inter ? bytes_of(call, count_at(call, recvcounts, comm->rank), recvtype) : 0;
    record(call, bytes, bytes);
    collective(call, comm, TL_NO_ROOT, bytes);
}

void tl_note_alltoall(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                      int64_t recvcount, tl_handle recvtype, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    int64_t block = in_place(sendbuf) ? bytes_of(call, recvcount, recvtype) : bytes_of(call, sendcount, sendtype);
    record(call, block, comm ? block * comm->size : 0);
    collective(call, comm, TL_NO_ROOT, block);
}

/* The v and w forms: one block for each member. `slot` is whose peers they are; their mean is returned. `comm` is as
 * tl_comm_find_now has it. */
static int64_t note_blocks(tl_callp call, int slot, struct blocks blocks, const struct tl_comm *comm) {
    if (!comm) {
        record(call, 0, 0);
        return 0;
    }
    int64_t total = 0;
    for (int i = 0; i < comm->size; i++) {
        int64_t bytes = block_at(call, &blocks, i);
        total += bytes;
        if (i != comm->rank) add_member(call->self, slot, comm, i, bytes);
    }
    int64_t mean = comm->size ? total / comm->size : 0;
    record(call, mean, total);
    return mean;
}

static void note_exchange(tl_callp call, struct blocks blocks, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find_now(call->self, handle);
    note_blocks(call, call->operation, blocks, comm);
    if (!comm) unknown(call->self, 1);
}

void tl_note_alltoallv(tl_callp call, const void *sendbuf, const void *sendcounts, tl_handle sendtype,
                       const void *recvcounts, tl_handle recvtype, tl_handle comm) {
    struct blocks received = {recvcounts, NULL, recvtype, -1}, sent = {sendcounts, NULL, sendtype, -1};
    note_exchange(call, in_place(sendbuf) ? received : sent, comm);
}

void tl_note_alltoallw(tl_callp call, const void *sendbuf, const void *sendcounts, const void *sendtypes,
                       const void *recvcounts, const void *recvtypes, tl_handle comm) {
    struct blocks received = {recvcounts, recvtypes, 0, -1}, sent = {sendcounts, sendtypes, 0, -1};
    note_exchange(call, in_place(sendbuf) ? received : sent, comm);
}

/* Members of the own group of an intercommunicator. */
static int own_size(const struct tl_comm *comm) {
    int size = 0;
    return tl_library.comm_size(comm->handle, &size) == 0 ? size : 0;
}

/* Between two groups the counts are those that the own group receives. Each member hands over as many elements in all, and
 * in which parts they are scattered there, only the other group knows. */
void tl_note_reduce_scatter(tl_callp call, const void *recvcounts, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find_now(call->self, handle);
    if (!comm || !comm->inter) {
        struct blocks blocks = {recvcounts, NULL, type, -1};
        int64_t block = note_blocks(call, TL_LOGICAL_ONLY, blocks, comm);
        collective(call, comm, TL_NO_ROOT, block);
        return;
    }
    int64_t total = 0;
    for (int i = own_size(comm); i-- > 0;) total += count_at(call, recvcounts, i);
    total = bytes_of(call, total, type);
    record(call, comm->size ? total / comm->size : 0, total);
    unknown(call->self, (uint64_t)comm->size);
}

void tl_note_reduce_scatter_block(tl_callp call, int64_t count, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = comm_of(call, handle);
    int64_t block = bytes_of(call, count, type);
    int64_t total = comm ? block * (comm->inter ? own_size(comm) : comm->size) : 0;
    if (comm && comm->inter && comm->size) block = total / comm->size;
    record(call, block, total);
    collective(call, comm, TL_NO_ROOT, block);
}
