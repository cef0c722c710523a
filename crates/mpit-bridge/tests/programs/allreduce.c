/*
 * allreduce CALLS [PAUSE_MS] [STATUS] [FILE]: CALLS allreduces of 8 KiB over all ranks, with a pause after each;
 * rank 0 makes FILE when four fifths of them are done and prints the sum, and every rank ends with STATUS.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ELEMENTS = 1024 };

int main(int argc, char **argv) {
    static double mine[ELEMENTS], sum[ELEMENTS];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long calls = argc > 1 ? atol(argv[1]) : 1;
    long pause = argc > 2 ? atol(argv[2]) : 0;
    for (int i = 0; i < ELEMENTS; i++) mine[i] = rank + 1;
    for (long i = 0; i < calls; i++) {
        MPI_Allreduce(mine, sum, ELEMENTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        struct timespec time = {pause / 1000, (pause % 1000) * 1000000};
        nanosleep(&time, NULL);
        if (rank == 0 && argc > 4 && i == calls / 5 * 4) fclose(fopen(argv[4], "w"));
    }
    if (rank == 0) printf("sum %g\n", sum[ELEMENTS - 1]);
    MPI_Finalize();
    return argc > 3 ? atoi(argv[3]) : 0;
}
