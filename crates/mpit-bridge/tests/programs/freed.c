/*
 * Communicators and windows that are used while they are freed, by callbacks of their attributes, or freed where nobody sees it, by
 * PMPI_Comm_free. What comes next has their handle and other members, and arrays as long as they are many. 4 ranks.
 */
#include <mpi.h>
#include <stdio.h>

#include "guarded.h"

enum { ROUNDS = 20 };
static int word, words[4];

static int used_comm(MPI_Comm comm, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    MPI_Barrier(comm);
    return MPI_SUCCESS;
}

/* Open MPI has taken the window's functions away by then. */
static int used_win(MPI_Win win, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
#ifdef MPICH
    MPI_Put(&word, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
#else
    (void)win;
#endif
    return MPI_SUCCESS;
}

/* One int to each of the two members. */
static void exchange(int rank) {
    static const int places[4] = {0, 1, 2, 3};
    MPI_Comm pair;
    int size;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &pair);
    MPI_Comm_size(pair, &size);
    int *counts = guarded((size_t)size * sizeof *counts);
    for (int i = 0; i < size; i++) counts[i] = 1;
    MPI_Alltoallv(words, counts, places, MPI_INT, words + 2, counts, places, MPI_INT, pair);
    MPI_Comm_free(&pair);
}

static void comms(int rank) {
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm all;
        int key;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, used_comm, &key, NULL);
        MPI_Comm_dup(MPI_COMM_WORLD, &all);
        MPI_Comm_set_attr(all, key, NULL);
        MPI_Comm_free(&all);
        MPI_Comm_free_keyval(&key);
        exchange(rank);
        MPI_Comm_dup(MPI_COMM_WORLD, &all);
        MPI_Barrier(all);
        PMPI_Comm_free(&all);
        exchange(rank);
    }
}

/* In the opposite order, and then in the world's: to the next rank. */
static void windows(int rank, int size) {
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Win win;
        int key;
        MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, used_win, &key, NULL);
        MPI_Win_create(words, sizeof words, sizeof *words, MPI_INFO_NULL, reversed, &win);
        MPI_Win_set_attr(win, key, NULL);
        MPI_Win_fence(0, win);
        MPI_Win_free(&win);
        MPI_Win_free_keyval(&key);
        MPI_Win_create(words, sizeof words, sizeof *words, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        MPI_Accumulate(&word, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, MPI_SUM, win);
        MPI_Win_fence(0, win);
        MPI_Win_free(&win);
    }
    MPI_Comm_free(&reversed);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comms(rank);
    windows(rank, size);
    if (rank == 0) puts("done");
    MPI_Finalize();
    return 0;
}
