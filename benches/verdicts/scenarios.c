/*
 * scenarios: programs with a known fault each, for the verdicts' bench. Plain MPI-2.
 *
 *   scenarios NAME SECONDS
 *
 * hang       the last rank sleeps; all others are in a barrier
 * late       even ranks compute, then send to the odd rank beside them, which waits in MPI_Recv
 * core       each rank has a CPU of its own; beside the last one another process runs on the same CPU
 * small      both ranks of a pair send 8 bytes back and forth
 * mapping    ranks exchange with the one beside them: much, where placed well on one node
 * healthy    all ranks compute alike, then an allreduce
 *
 * Each rank takes its times by its own clock. The last line is what rank 0 knows of all, as JSON.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1, SMALL = 8, LARGE = 1 << 16 };

static int rank, size;
static double waited, inside, computed; /* seconds of this rank */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double processor(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* So many seconds of work, however long that takes. */
static void compute(double seconds) {
    double begun = now(), until = processor() + seconds;
    volatile double sink = 0;
    while (processor() < until)
        for (int i = 0; i < 1000; i++) sink += i;
    computed += now() - begun;
}

/* On a CPU of its own among those that it may use. */
static void bind_to_own(int place) {
    cpu_set_t all, own;
    if (sched_getaffinity(0, sizeof all, &all)) return;
    int number = place % CPU_COUNT(&all);
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && number-- == 0) CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
}

/* Takes half of the CPU that this process is bound to, until it ends. */
static pid_t start_neighbour(void) {
    pid_t parent = getpid(), child = fork();
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent) {}
    _exit(0);
}

static void do_hang(double until) {
    (void)until;
    if (rank == size - 1) sleep(3600);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The message says when it was sent: what the receiver waited before, it waited for the sender. */
static void do_late(double until) {
    int other = rank ^ 1, goes_on = 1;
    double message[2];
    while (goes_on) {
        if (rank % 2 == 0) {
            compute(0.02);
            message[0] = now();
            message[1] = message[0] < until;
            goes_on = message[1] != 0;
            MPI_Send(message, 2, MPI_DOUBLE, other, TAG, MPI_COMM_WORLD);
        } else {
            double begun = now();
            MPI_Recv(message, 2, MPI_DOUBLE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            inside += now() - begun;
            if (message[0] > begun) waited += message[0] - begun;
            goes_on = message[1] != 0;
        }
    }
}

/* Computes alike, then all wait for the last: the time of all others in excess of its own is waiting. */
static void do_steps(double until, double work) {
    int goes_on = 1;
    while (goes_on) {
        double in = now() < until, out;
        compute(work);
        double begun = now();
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        inside += now() - begun;
        goes_on = out != 0;
    }
}

static void exchange(double until, int bytes, double work) {
    int other = rank ^ 1, goes_on = 1;
    char *out = calloc(1, (size_t)bytes), *in = calloc(1, (size_t)bytes);
    while (goes_on) {
        if (work > 0) compute(work);
        out[0] = now() < until;
        double begun = now();
        MPI_Sendrecv(out, bytes, MPI_BYTE, other, TAG, in, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        inside += now() - begun;
        goes_on = out[0] && in[0];
    }
    free(out);
    free(in);
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: scenarios NAME SECONDS\n");
        return 64;
    }
    const char *name = arguments[1];
    int is_core = !strcmp(name, "core");
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pid_t neighbour = 0;
    if (is_core) {
        bind_to_own(rank);
        if (rank == size - 1) neighbour = start_neighbour();
    }
    double begun = now(), until = begun + atof(arguments[2]);
    if (!strcmp(name, "hang")) do_hang(until);
    else if (!strcmp(name, "late")) do_late(until);
    else if (is_core || !strcmp(name, "healthy")) do_steps(until, 0.02);
    else if (!strcmp(name, "small")) exchange(until, SMALL, 0);
    else if (!strcmp(name, "mapping")) exchange(until, LARGE, 0.002);
    else return 64;
    double own[4] = {now() - begun, inside, waited, computed}, all[4];
    if (neighbour > 0) kill(neighbour, SIGKILL);
    MPI_Reduce(own, all, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"scenario\": \"%s\", \"ranks\": %d, \"seconds\": %.3f, \"inside\": %.3f, \"waited\": %.3f, \"computed\": %.3f}\n", name, size,
               all[0], all[1], all[2], all[3]);
    MPI_Finalize();
    return 0;
}
