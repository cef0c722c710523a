/* Collectives between the two groups of intercommunicators: of two and two ranks, whose order is not the world's, and of
 * three and one. Each is called several times; 4 ranks. */
#include <mpi.h>
#include <stdio.h>

enum { RANKS = 4, BYTES = 1 << 16, TIMES = 10 };
static char from[BYTES], to[BYTES * RANKS];

/* Between the ranks of the two values of `side`, in the opposite order; the first and the last rank of the world lead. */
static MPI_Comm made(int rank, int side, int last_side) {
    MPI_Comm own, between;
    MPI_Comm_split(MPI_COMM_WORLD, side, -rank, &own);
    int size, other = side == last_side ? 0 : RANKS - 1;
    MPI_Comm_size(own, &size);
    int leader = side == last_side ? 0 : size - 1;
    MPI_Intercomm_create(own, leader, MPI_COMM_WORLD, other, 7, &between);
    return between;
}

/* The root is rank 0 of the group of rank 0 of the world. */
static void all(MPI_Comm comm, int in_roots_group) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    int root = !in_roots_group ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    for (int i = 0; i < TIMES; i++) {
        MPI_Request request;
        MPI_Allreduce(from, to, 400, MPI_INT, MPI_SUM, comm);
        MPI_Allgather(from, 200, MPI_CHAR, to, 200, MPI_CHAR, comm);
        MPI_Alltoall(from, 512, MPI_CHAR, to, 512, MPI_CHAR, comm);
        MPI_Bcast(from, 3000, MPI_CHAR, root, comm);
        MPI_Reduce(from, to, 2000, MPI_INT, MPI_MAX, root, comm);
        MPI_Gather(from, 700, MPI_CHAR, to, 700, MPI_CHAR, root, comm);
        MPI_Scatter(from, 900, MPI_CHAR, to, 900, MPI_CHAR, root, comm);
        MPI_Ibcast(from, 600, MPI_CHAR, root, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS) MPI_Abort(MPI_COMM_WORLD, 64);
    MPI_Comm pairs = made(rank, rank % 2, 1), three = made(rank, rank == RANKS - 1, 1);
    all(pairs, rank % 2 == 0);
    all(three, rank != RANKS - 1);
    MPI_Comm_free(&pairs);
    MPI_Comm_free(&three);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("done\n");
    MPI_Finalize();
    return 0;
}
