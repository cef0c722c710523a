/*
 * What each operation sends, and to whom. Counts follow Open MPI's coll monitoring (what the caller hands
 * over, to each member that it is meant for), with one difference: gather and reduce stand in the row of
 * the rank that sends, not of the root that receives, so that a row is always a source. All rules are in
 * protocol/README.md. Called once after each successful operation; must not call MPI but to size datatypes
 * and to translate communicators.
 */
#include "accounting.h"

/* The thread's own cell of what perhaps another thread began: only its thread may write a cell. */
static struct tl_cell *cell_at(struct tl_thread *self, struct tl_where where) {
    struct tl_table *table = tl_table_find(self, where.region);
    struct tl_row *row = table ? tl_row_find(self, table, where.operation, where.algorithm) : NULL;
    if (!row || where.size_class >= TL_SIZE_CLASSES) return NULL;
    TL_STORE(&row->used, row->used | (uint64_t)1 << where.size_class);
    return &row->cells[where.size_class];
}

void tl_account_wait(struct tl_thread *self, struct tl_where where, uint64_t ticks) {
    struct tl_cell *cell = cell_at(self, where);
    if (!cell) return;
    TL_ADD(&cell->wait_ticks, ticks);
    TL_ADD(&cell->completed, 1);
}

void tl_account_received(struct tl_thread *self, struct tl_where where, int64_t bytes) {
    struct tl_cell *cell = cell_at(self, where);
    if (!cell || bytes < 0) return;
    TL_ADD(&cell->received_bytes, (uint64_t)bytes);
    TL_ADD(&cell->received, 1);
}

/* Does this rank hand data to the others / to the root? Intercommunicators: MPI_ROOT is the one root, its
 * own group passes MPI_PROC_NULL, the other group passes the root's rank. */
static int is_root(const struct tl_comm *comm, int root) {
    return comm && (comm->inter ? root == tl_library.root : root == comm->rank);
}
static int sends_to_root(const struct tl_comm *comm, int root) {
    return comm && root >= 0 && (comm->inter || root != comm->rank);
}
static int contributes(const struct tl_comm *comm, int root) {
    return !comm || !comm->inter || root >= 0;
}

void tl_note_time(tl_callp call) {
    record(call, 0, 0);
}

void tl_note_message(tl_callp call, int64_t count, tl_handle type, int dest, tl_handle comm) {
    if (dest < 0) { /* MPI_PROC_NULL: nothing is sent */
        record(call, 0, 0);
        return;
    }
    int64_t bytes = bytes_of(count, type);
    record(call, bytes, bytes);
    to_member(call->self, tl_comm_find(call->self, comm), dest, bytes);
}

/* A receive sends nothing; its class is that of the buffer offered. */
void tl_note_receive(tl_callp call, int64_t count, tl_handle type) {
    record(call, bytes_of(count, type), 0);
}

void tl_note_barrier(tl_callp call, tl_handle comm) {
    record(call, 0, 0);
    to_everyone(call->self, tl_comm_find(call->self, comm), 0);
}

void tl_note_bcast(tl_callp call, int64_t count, tl_handle type, int root, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t bytes = bytes_of(count, type);
    int sends = is_root(comm, root);
    record(call, bytes, sends ? bytes : 0);
    if (sends || !comm) to_everyone(call->self, comm, bytes);
}

void tl_note_allreduce(tl_callp call, int64_t count, tl_handle type, tl_handle comm) {
    int64_t bytes = bytes_of(count, type);
    record(call, bytes, bytes);
    to_everyone(call->self, tl_comm_find(call->self, comm), bytes);
}

void tl_note_reduce(tl_callp call, int64_t count, tl_handle type, int root, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t bytes = bytes_of(count, type);
    record(call, bytes, contributes(comm, root) ? bytes : 0);
    if (sends_to_root(comm, root) || !comm) to_member(call->self, comm, root, bytes);
}

void tl_note_scan(tl_callp call, int64_t count, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t bytes = bytes_of(count, type);
    record(call, bytes, bytes);
    if (!comm) unknown(call->self, 1);
    for (int i = comm ? comm->rank + 1 : 0; comm && i < comm->size; i++) to_member(call->self, comm, i, bytes);
}

/* The root's own part of a gather with MPI_IN_PLACE lies in the receive buffer already. */
void tl_note_gather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype, int64_t recvcount,
                    tl_handle recvtype, int root, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t bytes = 0;
    if (contributes(comm, root))
        bytes = in_place(sendbuf) ? bytes_of(recvcount, recvtype) : bytes_of(sendcount, sendtype);
    record(call, bytes, bytes);
    if (sends_to_root(comm, root) || !comm) to_member(call->self, comm, root, bytes);
}

void tl_note_gatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                     const void *recvcounts, tl_handle recvtype, int root, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t bytes = 0;
    if (in_place(sendbuf)) /* allowed at the root only, where recvcounts is given */
        bytes = is_root(comm, root) ? bytes_of(count_at(call, recvcounts, comm->rank), recvtype) : 0;
    else if (contributes(comm, root))
        bytes = bytes_of(sendcount, sendtype);
    record(call, bytes, bytes);
    if (sends_to_root(comm, root) || !comm) to_member(call->self, comm, root, bytes);
}

void tl_note_scatter(tl_callp call, int64_t sendcount, tl_handle sendtype, int64_t recvcount, tl_handle recvtype,
                     int root, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    if (is_root(comm, root)) {
        int64_t block = bytes_of(sendcount, sendtype);
        record(call, block, block * comm->size);
        to_everyone(call->self, comm, block);
    } else {
        record(call, contributes(comm, root) ? bytes_of(recvcount, recvtype) : 0, 0);
        if (!comm) unknown(call->self, 1);
    }
}

void tl_note_scatterv(tl_callp call, const void *sendcounts, tl_handle sendtype, int64_t recvcount,
                      tl_handle recvtype, int root, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    if (!is_root(comm, root)) {
        record(call, contributes(comm, root) ? bytes_of(recvcount, recvtype) : 0, 0);
        if (!comm) unknown(call->self, 1);
        return;
    }
    int64_t element = bytes_of(1, sendtype), total = 0;
    for (int i = 0; i < comm->size; i++) {
        int64_t bytes = count_at(call, sendcounts, i) * element;
        total += bytes;
        if (i != comm->rank) to_member(call->self, comm, i, bytes);
    }
    record(call, total / comm->size, total);
}

void tl_note_allgather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                       int64_t recvcount, tl_handle recvtype, tl_handle comm) {
    int64_t bytes = in_place(sendbuf) ? bytes_of(recvcount, recvtype) : bytes_of(sendcount, sendtype);
    record(call, bytes, bytes);
    to_everyone(call->self, tl_comm_find(call->self, comm), bytes);
}

void tl_note_allgatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                        const void *recvcounts, tl_handle recvtype, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t bytes;
    if (!in_place(sendbuf)) bytes = bytes_of(sendcount, sendtype);
    else bytes = comm && !comm->inter ? bytes_of(count_at(call, recvcounts, comm->rank), recvtype) : 0;
    record(call, bytes, bytes);
    to_everyone(call->self, comm, bytes);
}

void tl_note_alltoall(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                      int64_t recvcount, tl_handle recvtype, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t block = in_place(sendbuf) ? bytes_of(recvcount, recvtype) : bytes_of(sendcount, sendtype);
    record(call, block, comm ? block * comm->size : 0);
    to_everyone(call->self, comm, block);
}

/* The v and w forms: one block for each member; `types` is NULL where all have the type `type`. */
static void note_blocks(tl_callp call, const void *counts, const void *types, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    if (!comm) {
        record(call, 0, 0);
        unknown(call->self, 1);
        return;
    }
    int64_t element = types ? 0 : bytes_of(1, type), total = 0;
    for (int i = 0; i < comm->size; i++) {
        int64_t count = count_at(call, counts, i);
        int64_t bytes = types ? (count ? bytes_of(count, type_at(call, types, i)) : 0) : count * element;
        total += bytes;
        if (i != comm->rank) to_member(call->self, comm, i, bytes);
    }
    record(call, total / comm->size, total);
}

void tl_note_alltoallv(tl_callp call, const void *sendbuf, const void *sendcounts, tl_handle sendtype,
                       const void *recvcounts, tl_handle recvtype, tl_handle comm) {
    if (in_place(sendbuf)) note_blocks(call, recvcounts, NULL, recvtype, comm);
    else note_blocks(call, sendcounts, NULL, sendtype, comm);
}

void tl_note_alltoallw(tl_callp call, const void *sendbuf, const void *sendcounts, const void *sendtypes,
                       const void *recvcounts, const void *recvtypes, tl_handle comm) {
    if (in_place(sendbuf)) note_blocks(call, recvcounts, recvtypes, 0, comm);
    else note_blocks(call, sendcounts, sendtypes, 0, comm);
}

/* In an intercommunicator the counts describe the own group, whose size is not kept: peers stay unknown. */
void tl_note_reduce_scatter(tl_callp call, const void *recvcounts, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    if (comm && comm->inter) {
        record(call, 0, 0);
        unknown(call->self, 1);
        return;
    }
    note_blocks(call, recvcounts, NULL, type, handle);
}

void tl_note_reduce_scatter_block(tl_callp call, int64_t count, tl_handle type, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(call->self, handle);
    int64_t block = bytes_of(count, type);
    record(call, block, comm ? block * comm->size : 0);
    to_everyone(call->self, comm, block);
}
