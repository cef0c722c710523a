/*
 * collectives forward|rooted: each collective once with known sizes on MPI_COMM_WORLD.
 * "rooted" has those whose bytes Open MPI's coll monitoring books at the root that receives them.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 16, BYTES = 1 << 20, STRIDE = 4096 };

static char *out, *in;
static int counts[RANKS_MAX], places[RANKS_MAX], to[RANKS_MAX], from[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];

static void forward(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Barrier(world);
    MPI_Bcast(out, 1000, MPI_INT, 1, world);
    MPI_Allreduce(out, in, 1024, MPI_DOUBLE, MPI_SUM, world);
    MPI_Scan(out, in, 300, MPI_INT, MPI_SUM, world);
    MPI_Exscan(out, in, 301, MPI_INT, MPI_SUM, world);
    MPI_Scatter(out, 500, MPI_INT, in, 500, MPI_INT, 1, world);
    MPI_Allgather(out, 501, MPI_INT, in, 501, MPI_INT, world);
    MPI_Alltoall(out, 50, MPI_INT, in, 50, MPI_INT, world);
    MPI_Alltoallv(out, to, places, MPI_BYTE, in, from, places, MPI_BYTE, world);
    MPI_Alltoallw(out, to, places, types, in, from, places, types, world);
    MPI_Reduce_scatter(out, in, counts, MPI_BYTE, MPI_BOR, world);
    MPI_Reduce_scatter_block(out, in, 100, MPI_INT, MPI_SUM, world);
}

static void rooted(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    int rank;
    MPI_Comm_rank(world, &rank);
    MPI_Reduce(out, in, 1000, MPI_INT, MPI_SUM, 2, world);
    MPI_Gather(out, 500, MPI_INT, in, 500, MPI_INT, 1, world);
    MPI_Gatherv(out, counts[rank], MPI_BYTE, in, counts, places, MPI_BYTE, 3, world);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = calloc(1, BYTES);
    in = calloc(1, BYTES);
    for (int i = 0; i < size; i++) {
        counts[i] = 100 * (i + 1);
        places[i] = i * STRIDE;
        to[i] = 10 * (rank + 1) + i;
        from[i] = 10 * (i + 1) + rank;
        types[i] = MPI_BYTE;
    }
    if (argc > 1 && strcmp(argv[1], "rooted") == 0) rooted();
    else forward();
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
