/* A program whose calls are known: a reduction and an exchange with the next rank in each step, at a rate that is constant, on and off
 * each 5 s, a ramp, or bursts. Each rank writes what it called and when by its own clock, FOLDER/RANK, at the end.
 *   courses NAME constant|onoff|ramp|burst SECONDS FOLDER */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Most numbers of a call. */
#define NUMBERS_MAX 8192
/* Calls of a burst, and seconds from one to the next. */
#define BURST 400
#define BURST_SECONDS 10.0

/* As benches/now/log.rs reads it. */
struct call { int64_t ended, elapsed, bytes, is_exchange; };

static struct call *calls;
static size_t count, room;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void add(int64_t began, int64_t bytes, int is_exchange) {
    if (count == room) {
        room = room ? room * 2 : 4096;
        calls = realloc(calls, room * sizeof *calls);
        if (!calls) abort();
    }
    int64_t ended = now();
    calls[count++] = (struct call){ended, ended - began, bytes, is_exchange};
}

/* The pause after the step that is at `t` seconds, and numbers of the next one. */
static double plan(const char *pattern, double t, double seconds, int step, int *numbers) {
    *numbers = 1000;
    if (!strcmp(pattern, "onoff")) return ((int)(t / 5) % 2) ? 5 - (t - 5 * (int)(t / 5)) : 0.01;
    if (!strcmp(pattern, "ramp")) *numbers = 100 + (int)(t / seconds * 6000);
    if (!strcmp(pattern, "burst"))
        return (step + 1) % BURST ? 0 : BURST_SECONDS - (t - BURST_SECONDS * (int)(t / BURST_SECONDS));
    return 0.02;
}

int main(int argc, char **argv) {
    static double out[NUMBERS_MAX], in[NUMBERS_MAX];
    int rank, size, numbers = 1000;
    MPI_Init(&argc, &argv);
    if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 64);
    double seconds = atof(argv[3]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int64_t first = now();
    for (int step = 0;; step++) {
        double t = (double)(now() - first) / 1e9;
        int next = 0;
        double pause = plan(argv[2], t, seconds, step, &next);
        /* The first rank's clock decides for all. */
        double control[3] = {pause, next, t + pause > seconds};
        memset(out, 0, sizeof control);
        if (!rank) memcpy(out, control, sizeof control);
        int64_t began = now();
        MPI_Allreduce(out, in, numbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        add(began, numbers * (int64_t)sizeof(double), 0);
        memcpy(control, in, sizeof control);
        began = now();
        MPI_Sendrecv(out, numbers, MPI_DOUBLE, (rank + 1) % size, 1, in, numbers, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        add(began, numbers * (int64_t)sizeof(double), 1);
        if (control[2] > 0) break;
        usleep((useconds_t)(control[0] * 1e6));
        numbers = (int)control[1];
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", argv[4], rank);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(calls, sizeof *calls, count, file) != count || fclose(file)) MPI_Abort(MPI_COMM_WORLD, 74);
    MPI_Finalize();
    free(calls);
    return 0;
}
