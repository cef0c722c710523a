/*
 * Every call that takes an array of counts, with arrays that end where memory ends: blocking, nonblocking and, in MPI 4, persistent
 * and with large counts; on the world, on a pair that has the handle of a larger communicator, between groups of unequal size, in place,
 * and with neighbours. And calls that take arrays of requests. 4 ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "guarded.h"

enum { RANKS = 4 };

/* What all calls of one communicator need: one int to and from each. */
static int *send_counts, *receive_counts, *places, *to_all, *from_all;
static MPI_Datatype *types;
static MPI_Request request;
#if MPI_VERSION >= 4
static MPI_Count *large_sends, *large_receives;
static MPI_Aint *large_places;
#endif

static int *ints(int count, int first, int step) {
    int *made = guarded((size_t)count * sizeof *made);
    for (int i = 0; i < count; i++) made[i] = first + i * step;
    return made;
}

/* Arrays for so many that are sent to and received from. */
static void arrays(int sends, int receives) {
    int most = sends > receives ? sends : receives;
    send_counts = ints(sends, 1, 0);
    receive_counts = ints(receives, 1, 0);
    places = ints(most, 0, 1);
    to_all = ints(sends, 7, 0);
    from_all = ints(receives, 0, 0);
    types = guarded((size_t)most * sizeof *types);
    for (int i = 0; i < most; i++) types[i] = MPI_INT;
#if MPI_VERSION >= 4
    large_sends = guarded((size_t)sends * sizeof *large_sends);
    large_receives = guarded((size_t)receives * sizeof *large_receives);
    large_places = guarded((size_t)most * sizeof *large_places);
    for (int i = 0; i < sends; i++) large_sends[i] = 1;
    for (int i = 0; i < receives; i++) large_receives[i] = 1;
    for (int i = 0; i < most; i++) large_places[i] = i;
#endif
}

static void finish(void) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A call in its forms; in w forms displacements are bytes, and all of one int lie at 0. */
#define SMALL(Name, name, ...) \
    do { \
        MPI_##Name(__VA_ARGS__); \
        MPI_I##name(__VA_ARGS__, &request); \
        finish(); \
    } while (0)
#if MPI_VERSION >= 4
#define PERSISTENT(Name, ...) \
    do { \
        MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request); \
        MPI_Start(&request); \
        MPI_Wait(&request, MPI_STATUS_IGNORE); \
        MPI_Request_free(&request); \
    } while (0)
#define LARGE(Name, ...) MPI_##Name##_c(__VA_ARGS__)
#else
#define PERSISTENT(Name, ...) ((void)0)
#define LARGE(Name, ...) ((void)0)
#endif
#define ALL_FORMS(Name, name, ...) \
    do { \
        SMALL(Name, name, __VA_ARGS__); \
        PERSISTENT(Name, __VA_ARGS__); \
    } while (0)

/* With the root's arrays at the root only, which is rank 0, or as a group's root says. */
static void rooted(MPI_Comm comm, int root, int is_root, int takes_part) {
    int *counts = is_root ? receive_counts : NULL, *at = is_root ? places : NULL;
    int count = takes_part ? 1 : 0, *one = takes_part ? ints(1, 3, 0) : NULL;
    ALL_FORMS(Gatherv, gatherv, one, count, MPI_INT, is_root ? from_all : NULL, counts, at, MPI_INT, root, comm);
    ALL_FORMS(Scatterv, scatterv, is_root ? from_all : NULL, counts, at, MPI_INT, one, count, MPI_INT, root, comm);
}

static void everyone(MPI_Comm comm, int in_place) {
    const void *from = in_place ? MPI_IN_PLACE : (const void *)to_all;
    int *bytes = ints(RANKS, 0, 0);
    ALL_FORMS(Allgatherv, allgatherv, from, 1, MPI_INT, from_all, receive_counts, places, MPI_INT, comm);
    ALL_FORMS(Alltoallv, alltoallv, from, send_counts, places, MPI_INT, from_all, receive_counts, places, MPI_INT, comm);
    ALL_FORMS(Alltoallw, alltoallw, from, send_counts, bytes, types, from_all, receive_counts, bytes, types, comm);
    LARGE(Alltoallv, from, large_sends, large_places, MPI_INT, from_all, large_receives, large_places, MPI_INT, comm);
    LARGE(Allgatherv, from, 1, MPI_INT, from_all, large_receives, large_places, MPI_INT, comm);
}

static void scatters(MPI_Comm comm, int total) {
    int *from = ints(total, 1, 0), *to = ints(1, 0, 0);
    ALL_FORMS(Reduce_scatter, reduce_scatter, from, to, receive_counts, MPI_INT, MPI_SUM, comm);
    LARGE(Reduce_scatter, from, to, large_receives, MPI_INT, MPI_SUM, comm);
}

static void within(MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    arrays(size, size);
    rooted(comm, 0, rank == 0, 1);
    everyone(comm, 0);
    everyone(comm, 1);
    scatters(comm, size);
}

/* Groups of three and one, and of two and two. */
static void between(int rank, int first_group) {
    MPI_Comm half, inter;
    int size, remote, side = rank >= first_group;
    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side ? 0 : first_group, 9, &inter);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &remote);
    arrays(remote, remote);
    everyone(inter, 0);
    rooted(inter, side ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, !side && rank == 0, side);
    /* As many elements in both groups: each member of a group of one gets all of them. */
    receive_counts = ints(size, RANKS * remote, 0);
    int *from = ints(size * RANKS * remote, 1, 0), *to = ints(RANKS * remote, 0, 0);
    SMALL(Reduce_scatter, reduce_scatter, from, to, receive_counts, MPI_INT, MPI_SUM, inter);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void with_neighbours(MPI_Comm comm, int sends, int receives) {
    arrays(sends, receives);
    int *one = ints(1, 5, 0);
    ALL_FORMS(Neighbor_allgatherv, neighbor_allgatherv, one, 1, MPI_INT, from_all, receive_counts, places, MPI_INT, comm);
    ALL_FORMS(Neighbor_alltoallv, neighbor_alltoallv, to_all, send_counts, places, MPI_INT, from_all, receive_counts, places,
              MPI_INT, comm);
#ifndef MPICH /* version 4.0 itself reads as many elements of the arrays as the communicator has members */
    MPI_Aint *bytes = guarded((size_t)(sends > receives ? sends : receives) * sizeof *bytes);
    ALL_FORMS(Neighbor_alltoallw, neighbor_alltoallw, to_all, send_counts, bytes, types, from_all, receive_counts, bytes, types,
              comm);
#endif
}

/* A line that ends, so that its first and last rank have MPI_PROC_NULL on one side; then each rank sends to those above it. */
static void neighbours(int rank) {
    const int dimension[1] = {RANKS}, is_ring[1] = {0};
    int above[RANKS], below[RANKS], weights[RANKS] = {1, 1, 1, 1};
    MPI_Comm line, upwards;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dimension, is_ring, 0, &line);
    with_neighbours(line, 2, 2);
    MPI_Comm_free(&line);
    for (int i = 0; i < RANKS; i++) above[i] = rank + 1 + i, below[i] = i;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank, below, weights, RANKS - 1 - rank, above, weights, MPI_INFO_NULL, 0,
                                   &upwards);
    with_neighbours(upwards, RANKS - 1 - rank, rank);
    MPI_Comm_free(&upwards);
}

/* Arrays of requests, with statuses wanted and not. */
static void requests(int rank) {
    int to = (rank + 1) % RANKS, from = (rank + RANKS - 1) % RANKS, done, flag;
    for (int count = 1; count <= 150; count += 149) {
        MPI_Request *all = guarded(2 * (size_t)count * sizeof *all);
        MPI_Status *statuses = guarded(2 * (size_t)count * sizeof *statuses);
        int *indices = ints(2 * count, 0, 0), *words = ints(2 * count, 0, 0);
        for (int way = 0; way < 6; way++) {
            for (int i = 0; i < count; i++) {
                MPI_Irecv(&words[i], 1, MPI_INT, from, way, MPI_COMM_WORLD, &all[i]);
                MPI_Isend(&words[count + i], 1, MPI_INT, to, way, MPI_COMM_WORLD, &all[count + i]);
            }
            MPI_Status *given = way % 2 ? MPI_STATUSES_IGNORE : statuses;
            if (way < 2) MPI_Waitall(2 * count, all, given);
            for (done = 0; way / 2 == 1 && done != MPI_UNDEFINED;) MPI_Waitsome(2 * count, all, &done, indices, given);
            for (flag = 0; way / 2 == 2 && !flag;) MPI_Testall(2 * count, all, &flag, given);
        }
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Comm copy, pair;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS) MPI_Abort(MPI_COMM_WORLD, 64);
    within(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    within(copy);
    MPI_Comm_free(&copy);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &pair);
    within(pair);
    MPI_Comm_free(&pair);
    between(rank, 3);
    between(rank, 2);
    neighbours(rank);
    requests(rank);
    if (rank == 0) puts("done");
    MPI_Finalize();
    return 0;
}
