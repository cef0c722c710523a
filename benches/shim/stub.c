/*
 * What the shim costs by itself: the same calls past it and through it into a library that returns at once
 * (crates/mpit-bridge/tests/programs/stub_mpi.c), on each of several threads, to changing peers.
 *
 *   stub THREADS CALLS
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Send(const void *, int, int, int, int, int), PMPI_Send(const void *, int, int, int, int, int);
int MPI_Allreduce(const void *, void *, int, int, int, int), PMPI_Allreduce(const void *, void *, int, int, int, int);

enum { BLOCK = 10000, RANKS = 64, WORLD = 0x44000000, COMMS = 64, TYPE = 0x4c00080b, SUM = 0x58000003, THREADS = 64 };
static long blocks;
static double results[THREADS][4];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *work(void *number) {
    double out = 0, in = 0, *times[4];
    for (int k = 0; k < 4; k++) times[k] = calloc((size_t)blocks, sizeof(double));
    for (long b = 0; b < blocks; b++) {
        unsigned random = (unsigned)b * 2654435761u + 1;
        double t0 = now();
        for (int i = 0; i < BLOCK; i++) {
            random = random * 1664525u + 1013904223u;
            PMPI_Send(&out, 1, TYPE, (int)(random >> 26), 0, WORLD);
        }
        double t1 = now();
        for (int i = 0; i < BLOCK; i++) {
            random = random * 1664525u + 1013904223u;
            MPI_Send(&out, 1, TYPE, (int)(random >> 26), 0, WORLD);
        }
        double t2 = now();
        for (int i = 0; i < BLOCK; i++) PMPI_Allreduce(&out, &in, 1, TYPE, SUM, WORLD + i % COMMS);
        double t3 = now();
        for (int i = 0; i < BLOCK; i++) MPI_Allreduce(&out, &in, 1, TYPE, SUM, WORLD + i % COMMS);
        double t4 = now();
        times[0][b] = (t1 - t0) / BLOCK;
        times[1][b] = (t2 - t1) / BLOCK;
        times[2][b] = (t3 - t2) / BLOCK;
        times[3][b] = (t4 - t3) / BLOCK;
    }
    for (int k = 0; k < 4; k++) {
        qsort(times[k], (size_t)blocks, sizeof(double), ascending);
        results[(long)number][k] = times[k][blocks / 2];
        free(times[k]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1, provided;
    pthread_t id[THREADS];
    blocks = (argc > 2 ? atol(argv[2]) : 1000000) / BLOCK;
    if (threads < 1 || threads > THREADS || blocks < 1) return 64;
    MPI_Init_thread(&argc, &argv, threads > 1 ? 3 : 0, &provided);
    for (long t = 0; t < threads; t++) pthread_create(&id[t], NULL, work, (void *)t);
    double mean[4] = {0};
    for (int t = 0; t < threads; t++) {
        pthread_join(id[t], NULL);
        for (int k = 0; k < 4; k++) mean[k] += results[t][k] / threads;
    }
    printf("%d thread(s): send to random peers, added %5.1f ns; allreduce on 64 communicators, added %5.1f ns\n",
           threads, mean[1] - mean[0], mean[3] - mean[2]);
    return MPI_Finalize();
}
