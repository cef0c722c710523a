/* What the wrappers hand to accounting: one function for each way in which operations send; see protocol/README.md for the rules. */
#ifndef THROUGHLINE_NOTES_H
#define THROUGHLINE_NOTES_H

#include <stdint.h>

#include "cells.h"
#include "library.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

/* `call` has waited for what calls recorded in a cell began: so many ticks for so many requests; some
 * of these have received so many bytes. */
struct tl_done {
    uint64_t ticks, bytes;
    uint32_t requests, receives;
};
void tl_account_done(const struct tl_call *call, struct tl_where where, const struct tl_done *done);

typedef struct tl_call *tl_callp;
void tl_note_time(tl_callp call);
void tl_note_made(tl_callp call, tl_handle parent, const void *made);
void tl_note_message(tl_callp call, int64_t count, tl_handle type, int dest, tl_handle comm);
void tl_note_receive(tl_callp call, int64_t count, tl_handle type);
void tl_note_received(tl_callp call, const void *status);
void tl_note_receives(tl_callp call);
void tl_note_receives_too(tl_callp call);
void tl_note_partitions(tl_callp call, int64_t count, tl_handle type, int source);
void tl_note_bytes(tl_callp call, int64_t count, tl_handle type);
void tl_note_put(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win);
void tl_note_get(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win);
void tl_note_get_accumulate(tl_callp call, int64_t count, tl_handle type, int64_t result_count,
                            tl_handle result_type, int target, tl_handle op, tl_handle win);
void tl_note_compare_and_swap(tl_callp call, tl_handle type, int target, tl_handle win);
void tl_note_barrier(tl_callp call, tl_handle comm);
void tl_note_bcast(tl_callp call, int64_t count, tl_handle type, int root, tl_handle comm);
void tl_note_allreduce(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_reduce(tl_callp call, int64_t count, tl_handle type, int root, tl_handle comm);
void tl_note_scan(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_gather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype, int64_t recvcount,
                    tl_handle recvtype, int root, tl_handle comm);
void tl_note_gatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                     const void *recvcounts, tl_handle recvtype, int root, tl_handle comm);
void tl_note_scatter(tl_callp call, int64_t sendcount, tl_handle sendtype, int64_t recvcount, tl_handle recvtype,
                     int root, tl_handle comm);
void tl_note_scatterv(tl_callp call, const void *sendcounts, tl_handle sendtype, int64_t recvcount,
                      tl_handle recvtype, int root, tl_handle comm);
void tl_note_allgather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                       int64_t recvcount, tl_handle recvtype, tl_handle comm);
void tl_note_allgatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                        const void *recvcounts, tl_handle recvtype, tl_handle comm);
void tl_note_alltoall(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                      int64_t recvcount, tl_handle recvtype, tl_handle comm);
void tl_note_alltoallv(tl_callp call, const void *sendbuf, const void *sendcounts, tl_handle sendtype,
                       const void *recvcounts, tl_handle recvtype, tl_handle comm);
void tl_note_alltoallw(tl_callp call, const void *sendbuf, const void *sendcounts, const void *sendtypes,
                       const void *recvcounts, const void *recvtypes, tl_handle comm);
void tl_note_reduce_scatter(tl_callp call, const void *recvcounts, tl_handle type, tl_handle comm);
void tl_note_reduce_scatter_block(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_neighbor_allgather(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_neighbor_alltoall(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_neighbor_blocks(tl_callp call, const void *counts, const void *types, tl_handle type, tl_handle comm);

#pragma GCC visibility pop

#endif
