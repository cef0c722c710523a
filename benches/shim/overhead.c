/*
 * What the shim adds to a call, measured in one run: blocks of calls through MPI_X (and so through the shim)
 * alternate with blocks of the same calls through PMPI_X (past it). Printed: `WHAT ADDED`, the median over all pairs
 * of neighbouring blocks of the difference in a call's nanoseconds; on standard error also the medians both ways.
 *
 *   overhead CALLS      2 ranks: 8-byte round trips (halved: one send and one receive), 8-byte allreduces, and tests of
 *                       16 requests, none of them complete, then in turn with a test of one
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCK = 5000, PENDING = 16 };

static int rank;
static char out[8], in[8], pending_in[PENDING];
static MPI_Request pending[PENDING];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void messages_past(void) {
    for (int i = 0; i < BLOCK; i++) {
        if (rank == 0) PMPI_Send(out, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        PMPI_Recv(in, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) PMPI_Send(out, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void messages_through(void) {
    for (int i = 0; i < BLOCK; i++) {
        if (rank == 0) MPI_Send(out, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(out, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void allreduce_past(void) {
    double mine = 1, sum;
    for (int i = 0; i < BLOCK; i++) PMPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void allreduce_through(void) {
    double mine = 1, sum;
    for (int i = 0; i < BLOCK; i++) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void testany_past(void) {
    int index, flag;
    for (int i = 0; i < BLOCK; i++) PMPI_Testany(PENDING, pending, &index, &flag, MPI_STATUS_IGNORE);
}

static void testany_through(void) {
    int index, flag;
    for (int i = 0; i < BLOCK; i++) MPI_Testany(PENDING, pending, &index, &flag, MPI_STATUS_IGNORE);
}

static void in_turn_past(void) {
    int index, flag;
    for (int i = 0; i < BLOCK; i++) {
        PMPI_Testany(PENDING, pending, &index, &flag, MPI_STATUS_IGNORE);
        PMPI_Test(&pending[0], &flag, MPI_STATUS_IGNORE);
    }
}

static void in_turn_through(void) {
    int index, flag;
    for (int i = 0; i < BLOCK; i++) {
        MPI_Testany(PENDING, pending, &index, &flag, MPI_STATUS_IGNORE);
        MPI_Test(&pending[0], &flag, MPI_STATUS_IGNORE);
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, long count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

static double block(void (*calls)(void), double per_call) {
    PMPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    calls();
    return (now() - start) / BLOCK / per_call;
}

static void compare(const char *name, long calls, void (*past)(void), void (*through)(void), double per_call) {
    long blocks = calls / BLOCK;
    double *without = calloc((size_t)blocks, sizeof(double)), *with = calloc((size_t)blocks, sizeof(double)),
           *added = calloc((size_t)blocks, sizeof(double));
    block(past, 1);
    block(through, 1);
    for (long i = 0; i < blocks; i++) {
        without[i] = block(past, per_call);
        with[i] = block(through, per_call);
        added[i] = with[i] - without[i];
    }
    if (rank == 0) {
        fprintf(stderr, "%-10s past the shim %7.1f ns, through it %7.1f ns a call\n", name, median(without, blocks),
                median(with, blocks));
        printf("%s %.1f\n", name, median(added, blocks));
    }
    free(without);
    free(with);
    free(added);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long calls = argc > 1 ? atol(argv[1]) : 1000000;
    if (size != 2 || calls < BLOCK) {
        fprintf(stderr, "overhead: needs 2 ranks and at least %d calls\n", BLOCK);
        MPI_Abort(MPI_COMM_WORLD, 64);
    }
    /* A round trip has two messages one after the other, each a send and a receive on the critical path. */
    compare("sendrecv", calls, messages_past, messages_through, 4);
    compare("allreduce", calls, allreduce_past, allreduce_through, 1);
    for (int i = 0; i < PENDING; i++)
        MPI_Irecv(&pending_in[i], 1, MPI_BYTE, 1 - rank, i + 1, MPI_COMM_WORLD, &pending[i]);
    compare("testany", calls, testany_past, testany_through, 1);
    compare("in_turn", calls, in_turn_past, in_turn_through, 2);
    PMPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < PENDING; i++) MPI_Send(out, 1, MPI_BYTE, 1 - rank, i + 1, MPI_COMM_WORLD);
    MPI_Waitall(PENDING, pending, (MPI_Status[PENDING]){{0}});
    MPI_Finalize();
    return 0;
}
