/*
 * osu ROUNDS: latency, bandwidth, allreduce, alltoall and bcast over message sizes, in the manner of the usual MPI
 * micro-benchmarks. Rank 0 prints a line for each test and size: the time of one operation in microseconds and a sum
 * of what was received, which must be the same in each run.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 18, WINDOW = 16, WARM_UP = 16 };

static int rank, ranks;
static long rounds;
static unsigned char *out, *in;
static MPI_Request requests[WINDOW];
static MPI_Status statuses[WINDOW];

static void latency(int bytes) {
    if (rank == 0) {
        MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void bandwidth(int bytes) {
    char done = 0;
    if (rank == 0) {
        for (int i = 0; i < WINDOW; i++) MPI_Isend(out, bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, statuses);
        MPI_Recv(&done, 1, MPI_BYTE, 1, WINDOW, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        for (int i = 0; i < WINDOW; i++) MPI_Irecv(in, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, statuses);
        MPI_Send(&done, 1, MPI_BYTE, 0, WINDOW, MPI_COMM_WORLD);
    }
}

static void allreduce(int bytes) {
    MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
}

static void alltoall(int bytes) {
    MPI_Alltoall(out, bytes / ranks, MPI_BYTE, in, bytes / ranks, MPI_BYTE, MPI_COMM_WORLD);
}

static void bcast(int bytes) {
    MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void measure(const char *name, void (*operation)(int), int bytes) {
    /* About the same time for each size. */
    long times = bytes <= 1024 ? rounds : rounds * 1024 / bytes + 1;
    unsigned long sum = 0, total = 0;
    memset(in, 0, LARGEST);
    for (int i = 0; i < WARM_UP; i++) operation(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < times; i++) operation(bytes);
    double seconds = MPI_Wtime() - begin;
    for (int i = 0; i < bytes; i++) sum = sum * 31 + in[i];
    MPI_Reduce(&sum, &total, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%-10s %8d bytes %12.3f us sum %lu\n", name, bytes, seconds / (double)times * 1e6, total);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*operation)(int);
    } tests[] = {{"latency", latency}, {"bandwidth", bandwidth}, {"allreduce", allreduce},
                 {"alltoall", alltoall}, {"bcast", bcast}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rounds = argc > 1 ? atol(argv[1]) : 20000;
    out = malloc(LARGEST);
    in = malloc(LARGEST);
    if (!out || !in || ranks < 2) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < LARGEST; i++) out[i] = (unsigned char)(i * 7 + rank);
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++)
        for (int bytes = 8; bytes <= LARGEST; bytes *= 8) measure(tests[t].name, tests[t].operation, bytes);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
