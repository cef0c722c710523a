/*
 * algorithms [BYTES...]: five of each of the collectives whose algorithm depends on the size, with so many bytes in each
 * block. A broadcast's root and everybody's results are checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 5 };

int main(int argc, char **argv) {
    int rank, size, good = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int a = 1; a < argc; a++) {
        int count = atoi(argv[a]) / (int)sizeof(int);
        int *out = malloc((size_t)(count * size) * sizeof(int)), *in = malloc((size_t)(count * size) * sizeof(int));
        if (!out || !in) return 1;
        for (int t = 0; t < TIMES; t++) {
            for (int i = 0; i < count * size; i++) out[i] = rank + i;
            MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            good &= in[count - 1] == size * (size - 1) / 2 + size * (count - 1);
            MPI_Bcast(out, count, MPI_INT, size - 1, MPI_COMM_WORLD);
            good &= out[count - 1] == size - 1 + count - 1;
            for (int i = 0; i < count * size; i++) out[i] = rank;
            MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
            for (int r = 0; r < size; r++) good &= in[r * count] == r;
            MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
            for (int r = 0; r < size; r++) good &= in[r * count] == r;
            MPI_Reduce(out, in, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
            if (rank == 0) good &= in[0] == size * (size - 1) / 2;
            MPI_Barrier(MPI_COMM_WORLD);
        }
        free(out);
        free(in);
    }
    if (rank == 0) puts(good ? "done" : "wrong");
    MPI_Finalize();
    return !good;
}
