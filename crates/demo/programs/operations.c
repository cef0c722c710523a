/*
 * operations: one MPI operation again and again, for the emulated fabric and its bench. Plain MPI-2, any number of ranks.
 *
 *   operations OPERATION BYTES SECONDS [PAUSE_MS]
 *
 * BYTES is what a rank hands to one call (of one block, where a call has a block for each rank). All ranks end after the same
 * number of calls. The last line says how many and what one took: `OPERATION BYTES calls N mean_us U`.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 1, BATCH_LIMIT = 64 };

struct run {
    int rank, size, bytes;
    char *send, *receive; /* BYTES for each rank */
    int *counts;          /* of reduce_scatter */
    MPI_Win window;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Ranks 2k send to 2k+1; with an odd number the last one has nobody. */
static void do_p2p(struct run *r) {
    int other = r->rank ^ 1;
    if (other >= r->size) return;
    if (r->rank % 2 == 0) MPI_Send(r->send, r->bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
    else MPI_Recv(r->receive, r->bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Both neighbours of a ring, as a halo of one dimension. */
static void do_halo(struct run *r) {
    int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
    MPI_Sendrecv(r->send, r->bytes, MPI_BYTE, next, TAG, r->receive, r->bytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(r->send, r->bytes, MPI_BYTE, before, TAG, r->receive, r->bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Messages that are posted and then waited for, to the rank half-way round. */
static void do_isend(struct run *r) {
    MPI_Request requests[2];
    int to = (r->rank + r->size / 2) % r->size, from = (r->rank + r->size - r->size / 2) % r->size;
    MPI_Irecv(r->receive, r->bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(r->send, r->bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void do_alltoall(struct run *r) {
    MPI_Alltoall(r->send, r->bytes, MPI_BYTE, r->receive, r->bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void do_allreduce(struct run *r) {
    MPI_Allreduce(r->send, r->receive, r->bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void do_reduce(struct run *r) {
    MPI_Reduce(r->send, r->receive, r->bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void do_bcast(struct run *r) { MPI_Bcast(r->send, r->bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void do_allgather(struct run *r) {
    MPI_Allgather(r->send, r->bytes, MPI_BYTE, r->receive, r->bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void do_reduce_scatter(struct run *r) {
    MPI_Reduce_scatter(r->send, r->receive, r->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void do_gather(struct run *r) {
    MPI_Gather(r->send, r->bytes, MPI_BYTE, r->receive, r->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void do_scatter(struct run *r) {
    MPI_Scatter(r->send, r->bytes, MPI_BYTE, r->receive, r->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void do_put(struct run *r) {
    MPI_Put(r->send, r->bytes, MPI_BYTE, (r->rank + 1) % r->size, 0, r->bytes, MPI_BYTE, r->window);
    MPI_Win_fence(0, r->window);
}

static void do_get(struct run *r) {
    MPI_Get(r->receive, r->bytes, MPI_BYTE, (r->rank + r->size / 2) % r->size, 0, r->bytes, MPI_BYTE, r->window);
    MPI_Win_fence(0, r->window);
}

static const struct operation {
    const char *name;
    void (*call)(struct run *);
    int has_window;
} OPERATIONS[] = {
    {"p2p", do_p2p, 0},           {"halo", do_halo, 0},
    {"isend", do_isend, 0},       {"alltoall", do_alltoall, 0},
    {"allreduce", do_allreduce, 0}, {"reduce", do_reduce, 0},
    {"bcast", do_bcast, 0},       {"allgather", do_allgather, 0},
    {"reduce_scatter", do_reduce_scatter, 0}, {"gather", do_gather, 0},
    {"scatter", do_scatter, 0},   {"put", do_put, 1},
    {"get", do_get, 1},
};
enum { OPERATION_COUNT = sizeof OPERATIONS / sizeof OPERATIONS[0] };

/* Calls until the time is over. The root decides, once a batch, so that all ranks make the same number. */
static long repeat(const struct operation *operation, struct run *r, double seconds, long pause_ms) {
    double begin = now();
    long calls = 0;
    int batch = 1;
    while (batch > 0) {
        double start = now();
        for (int i = 0; i < batch; i++) {
            operation->call(r);
            if (pause_ms > 0) {
                struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
                nanosleep(&pause, NULL);
            }
        }
        calls += batch;
        double took = now() - start;
        if (took < 0.25 && batch < BATCH_LIMIT) batch *= 2;
        else if (took > 1.0 && batch > 1) batch /= 2;
        if (now() - begin > seconds) batch = 0;
        MPI_Bcast(&batch, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return calls;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s OPERATION BYTES SECONDS [PAUSE_MS]\n", argv[0]);
        return 64;
    }
    const struct operation *operation = NULL;
    for (int i = 0; i < OPERATION_COUNT; i++)
        if (strcmp(argv[1], OPERATIONS[i].name) == 0) operation = &OPERATIONS[i];
    struct run r = {.bytes = atoi(argv[2])};
    double seconds = atof(argv[3]);
    long pause_ms = argc > 4 ? atol(argv[4]) : 0;
    if (!operation || r.bytes < (int)sizeof(float) || seconds <= 0 || pause_ms < 0) {
        fprintf(stderr, "%s: unknown operation, or numbers out of range\n", argv[0]);
        return 64;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.size);
    r.send = calloc((size_t)r.size, (size_t)r.bytes);
    r.receive = calloc((size_t)r.size, (size_t)r.bytes);
    r.counts = calloc((size_t)r.size, sizeof *r.counts);
    if (!r.send || !r.receive || !r.counts) {
        fprintf(stderr, "%s: no memory\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    for (int i = 0; i < r.size; i++) r.counts[i] = r.bytes / (int)sizeof(float);
    if (operation->has_window) {
        MPI_Win_create(r.send, r.bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r.window);
        MPI_Win_fence(0, r.window);
    }
    double begin = now();
    long calls = repeat(operation, &r, seconds, pause_ms);
    if (r.rank == 0) printf("%s %d calls %ld mean_us %.1f\n", operation->name, r.bytes, calls, (now() - begin) / (double)calls * 1e6);
    if (operation->has_window) MPI_Win_free(&r.window);
    MPI_Finalize();
    free(r.send);
    free(r.receive);
    free(r.counts);
    return 0;
}
