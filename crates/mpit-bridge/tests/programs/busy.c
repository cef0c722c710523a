/*
 * Calls without a pause, more of them than trace mode takes: a ring of messages and a sum in each round, two barriers at the end.
 *
 *   busy ROUNDS PAUSE_US
 */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 1024 };

int main(int argc, char **argv) {
    char out[BYTES] = {0}, in[BYTES];
    double one = 1, sum;
    int me, ranks, rounds = argc > 1 ? atoi(argv[1]) : 10, pause_us = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < rounds; i++) {
        MPI_Send(out, BYTES, MPI_CHAR, (me + 1) % ranks, 0, MPI_COMM_WORLD);
        MPI_Recv(in, BYTES, MPI_CHAR, (me + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (pause_us) usleep((unsigned)pause_us);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
