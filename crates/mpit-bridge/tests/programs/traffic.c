/* Operations whose traffic is known: on parts of the world, with roots other than 0, one-sided, on communicators that are
 * freed at once. Each is called several times; 4 ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, BYTES = 1 << 16, TIMES = 10 };
static char from[BYTES], to[BYTES * RANKS];

/* Ranks 3, 1 and 0, in this order; the other one has none. */
static MPI_Comm part(int rank) {
    MPI_Comm made;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2 ? MPI_UNDEFINED : 1, -rank, &made);
    return made;
}

static void on_a_part(int rank) {
    MPI_Comm comm = part(rank);
    if (comm == MPI_COMM_NULL) return;
    for (int i = 0; i < TIMES; i++) {
        MPI_Allreduce(from, to, 1000, MPI_INT, MPI_SUM, comm);
        MPI_Bcast(from, 3000, MPI_CHAR, 2, comm);
    }
    MPI_Comm_free(&comm);
}

/* Each as large as the one before and freed at once; the groups are the same. */
static void on_freed(int rank) {
    for (int i = 0; i < TIMES; i++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
        MPI_Allgather(from, 200, MPI_CHAR, to, 200, MPI_CHAR, comm);
        MPI_Comm_free(&comm);
    }
}

static void on_the_world(int rank) {
    int counts[RANKS], offsets[RANKS], recvcounts[RANKS], recvoffsets[RANKS];
    for (int i = 0; i < RANKS; i++) {
        counts[i] = 100 * (rank + 1) + i;
        recvcounts[i] = 100 * (i + 1) + rank;
        offsets[i] = recvoffsets[i] = 1000 * i;
    }
    for (int i = 0; i < TIMES; i++) {
        MPI_Bcast(from, 16384, MPI_CHAR, 1, MPI_COMM_WORLD);
        MPI_Reduce(from, to, 2000, MPI_INT, MPI_MAX, 3, MPI_COMM_WORLD);
        MPI_Gather(from, 700, MPI_CHAR, to, 700, MPI_CHAR, 2, MPI_COMM_WORLD);
        MPI_Scatter(from, 900, MPI_CHAR, to, 900, MPI_CHAR, 1, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, to, 16000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Alltoall(from, 512, MPI_CHAR, to, 512, MPI_CHAR, MPI_COMM_WORLD);
        MPI_Alltoallv(from, counts, offsets, MPI_CHAR, to, recvcounts, recvoffsets, MPI_CHAR, MPI_COMM_WORLD);
        MPI_Scan(from, to, 100, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Sendrecv(from, 4096, MPI_CHAR, (rank + 1) % RANKS, 5, to, 4096, MPI_CHAR, (rank + RANKS - 1) % RANKS, 5,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Persistent, and a nonblocking collective that other calls drive. */
static void later(int rank) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Send_init(from, 300, MPI_CHAR, (rank + 2) % RANKS, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(to, 300, MPI_CHAR, (rank + 2) % RANKS, 6, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < TIMES; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    for (int i = 0; i < TIMES; i++) {
        MPI_Iallreduce(from, to, 50, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
}

static void one_sided(int rank) {
    MPI_Win window;
    MPI_Win_create(from, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < TIMES; i++) {
        MPI_Win_fence(0, window);
        MPI_Get(to, 800, MPI_CHAR, (rank + 1) % RANKS, 0, 800, MPI_CHAR, window);
        MPI_Put(to + 2000, 60, MPI_CHAR, (rank + 3) % RANKS, 1000, 60, MPI_CHAR, window);
        MPI_Win_fence(0, window);
    }
    for (int i = 0; i < TIMES; i++) {
        int one = 1, before;
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 2000, MPI_SUM, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS) MPI_Abort(MPI_COMM_WORLD, 64);
    on_a_part(rank);
    on_freed(rank);
    on_the_world(rank);
    later(rank);
    if (argc > 1 && strcmp(argv[1], "one-sided") == 0) one_sided(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("done\n");
    MPI_Finalize();
    return 0;
}
