/*
 * What the shim costs by itself: blocks of the same calls past it and through it into a library that returns at once
 * (crates/mpit-bridge/tests/programs/stub_mpi.c), each thread on its own communicators, 64 in all, to 1,024 random peers.
 *
 *   stub THREADS CALLS
 *   stub count              a block of each kind past the shim and through it, for callgrind; prints `KIND CALLS`
 *
 * Prints `WHAT VALUE` lines: nanoseconds added to a call, as processor time of the calling thread (wall time on fewer
 * processors than threads is time of others); share of a core that the flush thread took; resident memory in KiB.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../crates/mpit-bridge/include/throughline.h"

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Isend(const void *, int, int, int, int, int, int *), PMPI_Isend(const void *, int, int, int, int, int, int *);
int MPI_Waitall(int, int *, void *), PMPI_Waitall(int, int *, void *);
int MPI_Send(const void *, int, int, int, int, int), PMPI_Send(const void *, int, int, int, int, int);
int MPI_Recv(void *, int, int, int, int, int, void *), PMPI_Recv(void *, int, int, int, int, int, void *);
int MPI_Test(int *, int *, void *), PMPI_Test(int *, int *, void *);
int MPI_Testany(int, int *, int *, int *, void *), PMPI_Testany(int, int *, int *, int *, void *);
int MPI_Allreduce(const void *, void *, int, int, int, int), PMPI_Allreduce(const void *, void *, int, int, int, int);

enum {
    WINDOW = 64, ROUNDS = 100, KINDS = 6, PENDING = 16, RANKS = 1024, WORLD = 0x44000000, COMMS = 64, TYPE = 0x4c00080b,
    SUM = 0x58000003, THREADS = 64, SHARE_SECONDS = 10, STEPS = 2000, COMPUTED_NS = 1100000
};
static long blocks;
static int threads;
static double added[THREADS][KINDS];
static const char *const kinds[KINDS] = {"isend_waitall", "send", "recv", "allreduce", "test", "testany"};

static double now(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static unsigned next(unsigned *random) {
    return *random = *random * 1664525u + 1013904223u;
}

/* One function for each way and kind, never inlined: callgrind counts the instructions of each by its name. */
#define TL_BLOCK(way, kind, each, after) \
    __attribute__((noinline)) static void way##_##kind(int first, unsigned random) { \
        double out = 0, in = 0; \
        int requests[WINDOW] = {0}, index = 0, flag = 0; \
        (void)out, (void)in, (void)requests, (void)index, (void)flag; \
        for (int round = 0; round < ROUNDS; round++) { \
            for (int i = 0; i < WINDOW; i++) { \
                int comm = WORLD + first + (int)(next(&random) >> 20) % (COMMS / threads); \
                int peer = (int)(random >> 22); \
                (void)peer, (void)comm; \
                each; \
            } \
            after; \
        } \
    }
#define TL_BLOCKS(way, P) \
    TL_BLOCK(way, isend_waitall, P##MPI_Isend(&out, 1, TYPE, peer, 0, comm, &requests[i]), P##MPI_Waitall(WINDOW, requests, (void *)1)) \
    TL_BLOCK(way, send, P##MPI_Send(&out, 1, TYPE, peer, 0, comm), ) \
    TL_BLOCK(way, recv, P##MPI_Recv(&in, 1, TYPE, peer, 0, comm, (void *)1), ) \
    TL_BLOCK(way, allreduce, P##MPI_Allreduce(&out, &in, 1, TYPE, SUM, comm), ) \
    TL_BLOCK(way, test, P##MPI_Test(requests, &flag, (void *)1), ) \
    TL_BLOCK(way, testany, P##MPI_Testany(PENDING, requests, &index, &flag, (void *)1), ) \
    static void (*const way[KINDS])(int, unsigned) = {way##_isend_waitall, way##_send, way##_recv, way##_allreduce, \
                                                      way##_test, way##_testany};
TL_BLOCKS(past, P)
TL_BLOCKS(through, )
TL_BLOCKS(warm, )

static void *work(void *number) {
    int first = (int)(long)number * (COMMS / threads);
    double *times = calloc((size_t)blocks, sizeof(double));
    for (int kind = 0; kind < KINDS; kind++) {
        double calls = ROUNDS * (kind == 0 ? WINDOW + 1.0 : WINDOW);
        for (long b = 0; b < blocks; b++) {
            unsigned random = (unsigned)b * 2654435761u + 1;
            double t0 = now(CLOCK_THREAD_CPUTIME_ID);
            past[kind](first, random);
            double t1 = now(CLOCK_THREAD_CPUTIME_ID);
            through[kind](first, random);
            times[b] = ((now(CLOCK_THREAD_CPUTIME_ID) - t1) - (t1 - t0)) / calls;
        }
        qsort(times, (size_t)blocks, sizeof(double), ascending);
        added[(long)number][kind] = times[blocks / 2];
    }
    free(times);
    return NULL;
}

/* Nanoseconds that the shim's thread has run; -1 without one. */
static double flush_time(void) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    double found = -1;
    while (tasks && (entry = readdir(tasks))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (!fgets(name, sizeof name, file)) name[0] = '\0';
        fclose(file);
        if (strcmp(name, "throughline\n") != 0) continue;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", entry->d_name);
        file = fopen(path, "r");
        if (file && fscanf(file, "%lf", &found) != 1) found = -1;
        if (file) fclose(file);
    }
    if (tasks) closedir(tasks);
    return found;
}

static long resident_kib(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    long kib = -1;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (file) fclose(file);
    return kib;
}

/* A program that calls now and then, as it would: the thread has something to send each second. */
static void share(void) {
    double before = flush_time(), start = now(CLOCK_MONOTONIC);
    if (before < 0) return;
    for (unsigned i = 0; now(CLOCK_MONOTONIC) - start < SHARE_SECONDS * 1e9; i++) {
        through[i % KINDS](0, i);
        usleep(10000);
    }
    printf("flush_share %.4f\n", (flush_time() - before) / (now(CLOCK_MONOTONIC) - start) * 100);
}

/* Begin and end of two regions, one within the other, in a thread that has been in them before. */
static void regions(void) {
    double *times = calloc((size_t)blocks, sizeof(double));
    for (long b = 0; b < blocks; b++) {
        double start = now(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < ROUNDS * WINDOW / 4; i++) {
            throughline_region_begin("timestep");
            throughline_region_begin("exchange");
            throughline_region_end("exchange");
            throughline_region_end("timestep");
        }
        times[b] = (now(CLOCK_THREAD_CPUTIME_ID) - start) / (ROUNDS * WINDOW);
    }
    qsort(times, (size_t)blocks, sizeof(double), ascending);
    printf("region_1 %.1f\n", times[blocks / 2]);
    free(times);
}

/* A send after a millisecond of computing, past the shim and through it in turn: the medians' difference, wall time. */
static void after_computing(void) {
    static double past_ns[STEPS], through_ns[STEPS];
    double out = 0;
    for (int i = 0; i < 2 * STEPS; i++) {
        double computed = now(CLOCK_MONOTONIC) + COMPUTED_NS, start;
        while ((start = now(CLOCK_MONOTONIC)) < computed) {
        }
        if (i % 2) MPI_Send(&out, 1, TYPE, 1, 0, WORLD);
        else PMPI_Send(&out, 1, TYPE, 1, 0, WORLD);
        (i % 2 ? through_ns : past_ns)[i / 2] = now(CLOCK_MONOTONIC) - start;
    }
    qsort(past_ns, STEPS, sizeof(double), ascending);
    qsort(through_ns, STEPS, sizeof(double), ascending);
    printf("after_computing %.0f\n", through_ns[STEPS / 2] - past_ns[STEPS / 2]);
}

/* Each block once, after what is only done the first time. */
static void once(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        warm[kind](0, 1);
        past[kind](0, 1);
        through[kind](0, 1);
    }
}

int main(int argc, char **argv) {
    int provided, counting = argc > 1 && strcmp(argv[1], "count") == 0;
    pthread_t id[THREADS];
    threads = argc > 1 && !counting ? atoi(argv[1]) : 1;
    blocks = (argc > 2 ? atol(argv[2]) : 1000000) / (WINDOW * ROUNDS);
    if (threads < 1 || threads > THREADS || blocks < 1) return 64;
    MPI_Init_thread(&argc, &argv, threads > 1 ? 3 : 0, &provided);
    if (counting) {
        once();
        for (int kind = 0; kind < KINDS; kind++) printf("%s %d\n", kinds[kind], ROUNDS * (kind == 0 ? WINDOW + 1 : WINDOW));
        return MPI_Finalize();
    }
    for (long t = 0; t < threads; t++) pthread_create(&id[t], NULL, work, (void *)t);
    for (int t = 0; t < threads; t++) pthread_join(id[t], NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        double mean = 0;
        for (int t = 0; t < threads; t++) mean += added[t][kind] / threads;
        printf("%s_%d %.1f\n", kinds[kind], threads, mean);
    }
    if (threads == 1) regions();
    if (threads == 1) after_computing();
    if (threads == 1) share();
    printf("resident_%d %ld\n", threads, resident_kib());
    return MPI_Finalize();
}
