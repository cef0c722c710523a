/*
 * wire OPERATION BYTES TIMES: so many collectives with so many bytes in each block. Rank 0 prints nothing.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int size, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 64);
    int bytes = atoi(argv[2]), times = atoi(argv[3]);
    char *out = calloc((size_t)size, (size_t)bytes), *in = calloc((size_t)size, (size_t)bytes);
    for (int i = 0; i < times; i++) {
        if (strcmp(argv[1], "allreduce") == 0)
            MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        else if (strcmp(argv[1], "bcast") == 0)
            MPI_Bcast(out, bytes, MPI_BYTE, i % size, MPI_COMM_WORLD);
        else if (strcmp(argv[1], "alltoall") == 0)
            MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        else
            MPI_Abort(MPI_COMM_WORLD, 64);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
