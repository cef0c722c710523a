/*
 * waits MODE [TIMES] [MICROSECONDS]: a program that waits as MODE says, and prints how long by its own clock. All ranks
 * are on one node, whose CLOCK_MONOTONIC they read before each call in question.
 *   late_sender    rank 0 computes before each MPI_Send of 1 MiB to rank 1
 *   late_receiver  rank 1 computes before each MPI_Recv of 1 MiB from rank 0
 *   slow_rank      the last rank computes before each MPI_Allreduce
 *   rotating       another rank does, each time
 *   healthy        nobody does: what is waited is what the machine makes
 *   late_root      rank 0 computes before each MPI_Bcast from it
 *   no_progress    MPI_Isend and MPI_Irecv of 4 MiB, all compute, then MPI_Wait: what goes on only there is no waiting
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMES_LIMIT = 100000, MESSAGE = 1 << 20, LARGE = 4 << 20, ELEMENTS = 16 };

static int rank, ranks, times = 200, microseconds = 5000;
static double *begins;
static char *buffers[2];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Sleeps, so that ranks on few cores do not disturb one another. */
static void compute(int does) {
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000L};
    if (does) nanosleep(&time, NULL);
}

static int is(const char *mode, const char *name) {
    return strcmp(mode, name) == 0;
}

static void collective(const char *mode, int i) {
    double mine[ELEMENTS] = {rank}, sum[ELEMENTS];
    compute(is(mode, "slow_rank") ? rank == ranks - 1 : is(mode, "rotating") ? rank == i * 7 % ranks : 0);
    compute(is(mode, "late_root") && rank == 0);
    begins[i] = now();
    if (is(mode, "late_root")) MPI_Bcast(mine, ELEMENTS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    else MPI_Allreduce(mine, sum, ELEMENTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (is(mode, "late_root")) MPI_Barrier(MPI_COMM_WORLD); /* the others are there when the root computes */
}

static void message(const char *mode, int i) {
    if (rank > 1) return;
    compute(is(mode, "late_sender") ? rank == 0 : rank == 1);
    begins[i] = now();
    if (rank == 0) MPI_Send(buffers[0], MESSAGE, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
    else MPI_Recv(buffers[1], MESSAGE, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange(int i) {
    MPI_Request requests[2];
    int peer = rank ^ 1;
    if (peer >= ranks) return;
    MPI_Irecv(buffers[1], LARGE, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(buffers[0], LARGE, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[1]);
    compute(1);
    begins[i] = now();
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

/* What was waited, by the beginnings of all ranks. */
static double truth(const char *mode, const double *all) {
    double sum = 0;
    for (int i = 0; i < times; i++) {
        double first = all[i], second = ranks > 1 ? all[times + i] : 0, last = first;
        if (is(mode, "late_sender")) sum += first > second ? first - second : 0;
        if (is(mode, "late_receiver")) sum += second > first ? second - first : 0;
        for (int r = 1; r < ranks; r++) last = all[r * times + i] > last ? all[r * times + i] : last;
        if (is(mode, "late_root")) last = first;
        if (is(mode, "late_sender") || is(mode, "late_receiver") || is(mode, "no_progress")) continue;
        for (int r = 0; r < ranks; r++) sum += last > all[r * times + i] ? last - all[r * times + i] : 0;
    }
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *mode = argc > 1 ? argv[1] : "";
    if (argc > 2) times = atoi(argv[2]);
    if (argc > 3) microseconds = atoi(argv[3]);
    if (times < 1 || times > TIMES_LIMIT || microseconds < 0) MPI_Abort(MPI_COMM_WORLD, 64);
    begins = calloc((size_t)times, sizeof *begins);
    for (int i = 0; i < 2; i++) buffers[i] = calloc(1, LARGE);
    double *all = rank == 0 ? calloc((size_t)times * (size_t)ranks, sizeof *all) : NULL;
    nanosleep(&(struct timespec){0, 300000000}, NULL); /* a trace begins some tenths of a second after MPI_Init */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < times; i++) {
        if (is(mode, "late_sender") || is(mode, "late_receiver")) message(mode, i);
        else if (is(mode, "no_progress")) exchange(i);
        else collective(mode, i);
    }
    MPI_Gather(begins, times, MPI_DOUBLE, all, times, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("waited %.6f\n", truth(mode, all));
    MPI_Finalize();
    return 0;
}
