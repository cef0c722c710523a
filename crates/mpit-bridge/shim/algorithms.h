/*
 * Algorithms of Open MPI's collectives: the functions `ompi_coll_base_OPERATION_intra_ALGORITHM` that its library
 * exports (4.1.4 has all but the two called sparbit, 5.0.7 has all). Their names are what is reported. Functions that
 * others are made of (bcast_intra_generic) are not here: what a call is recorded under is the first one it meets.
 */
#ifndef THROUGHLINE_ALGORITHMS_H
#define THROUGHLINE_ALGORITHMS_H

#include <stdint.h>

#include "limits.h"

#define TL_ALGORITHMS(X) \
    X(Allgather, allgather, basic_linear) \
    X(Allgather, allgather, bruck) \
    X(Allgather, allgather, neighborexchange) \
    X(Allgather, allgather, recursivedoubling) \
    X(Allgather, allgather, ring) \
    X(Allgather, allgather, sparbit) \
    X(Allgather, allgather, two_procs) \
    X(Allgatherv, allgatherv, basic_default) \
    X(Allgatherv, allgatherv, bruck) \
    X(Allgatherv, allgatherv, neighborexchange) \
    X(Allgatherv, allgatherv, ring) \
    X(Allgatherv, allgatherv, sparbit) \
    X(Allgatherv, allgatherv, two_procs) \
    X(Allreduce, allreduce, basic_linear) \
    X(Allreduce, allreduce, nonoverlapping) \
    X(Allreduce, allreduce, recursivedoubling) \
    X(Allreduce, allreduce, redscat_allgather) \
    X(Allreduce, allreduce, ring) \
    X(Allreduce, allreduce, ring_segmented) \
    X(Alltoall, alltoall, basic_linear) \
    X(Alltoall, alltoall, bruck) \
    X(Alltoall, alltoall, linear_sync) \
    X(Alltoall, alltoall, pairwise) \
    X(Alltoall, alltoall, two_procs) \
    X(Alltoallv, alltoallv, basic_linear) \
    X(Alltoallv, alltoallv, pairwise) \
    X(Barrier, barrier, basic_linear) \
    X(Barrier, barrier, bruck) \
    X(Barrier, barrier, doublering) \
    X(Barrier, barrier, recursivedoubling) \
    X(Barrier, barrier, tree) \
    X(Barrier, barrier, two_procs) \
    X(Bcast, bcast, basic_linear) \
    X(Bcast, bcast, binomial) \
    X(Bcast, bcast, bintree) \
    X(Bcast, bcast, chain) \
    X(Bcast, bcast, knomial) \
    X(Bcast, bcast, pipeline) \
    X(Bcast, bcast, scatter_allgather) \
    X(Bcast, bcast, scatter_allgather_ring) \
    X(Bcast, bcast, split_bintree) \
    X(Exscan, exscan, linear) \
    X(Exscan, exscan, recursivedoubling) \
    X(Gather, gather, basic_linear) \
    X(Gather, gather, binomial) \
    X(Gather, gather, linear_sync) \
    X(Reduce, reduce, basic_linear) \
    X(Reduce, reduce, binary) \
    X(Reduce, reduce, binomial) \
    X(Reduce, reduce, chain) \
    X(Reduce, reduce, in_order_binary) \
    X(Reduce, reduce, pipeline) \
    X(Reduce, reduce, redscat_gather) \
    X(Reduce_scatter, reduce_scatter, basic_recursivehalving) \
    X(Reduce_scatter, reduce_scatter, butterfly) \
    X(Reduce_scatter, reduce_scatter, nonoverlapping) \
    X(Reduce_scatter, reduce_scatter, ring) \
    X(Reduce_scatter_block, reduce_scatter_block, butterfly) \
    X(Reduce_scatter_block, reduce_scatter_block, recursivedoubling) \
    X(Reduce_scatter_block, reduce_scatter_block, recursivehalving) \
    X(Scan, scan, linear) \
    X(Scan, scan, recursivedoubling) \
    X(Scatter, scatter, basic_linear) \
    X(Scatter, scatter, binomial) \
    X(Scatter, scatter, linear_nb)

#pragma GCC visibility push(hidden)

/* A slot for each: what a thread's table and a call's thread hold. */
enum tl_algorithm {
    TL_NO_SLOT = 0,
#define TL_ENUM(Name, operation, algorithm) TL_ALG_##operation##_##algorithm,
    TL_ALGORITHMS(TL_ENUM)
#undef TL_ENUM
    TL_ALGORITHM_END
};
_Static_assert((int)TL_ALGORITHM_END <= (int)TL_ALGORITHM_LIMIT, "more algorithms than a thread's table holds");

/* The function's name after `_intra_`. */
extern const char *const tl_algorithm_names[TL_ALGORITHM_LIMIT];

/* A setting requests this algorithm in all calls of the operation. `name` is retained, not copied. After MPI_Init, before
 * anything is reported. */
void tl_algorithm_force(int operation, const char *name);

#pragma GCC visibility pop

extern const uint8_t tl_algorithm_operations[TL_ALGORITHM_LIMIT]; /* the operation that the slot belongs to */
static inline int tl_algorithm_operation(int slot) {
    return tl_algorithm_operations[slot];
}
/* Number of the algorithm's name in NAMES frames, 0 for none, and how it is known. Flush thread only. */
uint16_t tl_algorithm_reported(int operation, int slot, uint16_t *source);

#endif
