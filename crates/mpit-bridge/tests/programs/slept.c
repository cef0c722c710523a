/*
 * Rank 0 sleeps for 0.6 s before each of two barriers, and computes for 0.2 s of its processor's time. Each rank prints its number and how
 * long it was outside of MPI by its own clock. 2 ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    double began = seconds(CLOCK_MONOTONIC), inside = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 2; round++) {
        if (rank == 0) usleep(600000);
        double before = seconds(CLOCK_MONOTONIC);
        MPI_Barrier(MPI_COMM_WORLD);
        inside += seconds(CLOCK_MONOTONIC) - before;
    }
    double until = seconds(CLOCK_THREAD_CPUTIME_ID) + 0.2;
    while (rank == 0 && seconds(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
    printf("%d %.3f\n", rank, seconds(CLOCK_MONOTONIC) - began - inside);
    fflush(stdout);
    return MPI_Finalize();
}
