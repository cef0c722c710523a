/*
 * osu TIMES: latency, bandwidth, allreduce, alltoall and bcast, each over the sizes and with the number of rounds that
 * the OSU micro-benchmarks have without options (their manual: powers of two to 4 MiB, collectives to 1 MiB; 10,000
 * rounds for latency and 1,000 above 8 KiB; 100 windows of 64 for bandwidth and 20 above; 1,000 rounds for collectives
 * and 100 above), all of it TIMES times. Rank 0 prints a line for each test and size: the time of one operation in
 * microseconds and a sum of what was received, which must be the same in each run.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 22, LARGEST_COLLECTIVE = 1 << 20, LARGE = 1 << 13, WINDOW = 64, WARM_UP = 10 };

static int rank, ranks;
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

static void measure(const char *name, void (*operation)(int), int bytes, int rounds) {
    unsigned long sum = 0, total = 0;
    memset(in, 0, LARGEST);
    for (int i = 0; i < WARM_UP; i++) operation(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < rounds; i++) operation(bytes);
    double seconds = MPI_Wtime() - begin;
    for (int i = 0; i < bytes; i++) sum = sum * 31 + in[i];
    MPI_Reduce(&sum, &total, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%-10s %8d bytes %12.3f us sum %lu\n", name, bytes, seconds / rounds * 1e6, total);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*operation)(int);
        int largest, rounds, rounds_large;
    } tests[] = {{"latency", latency, LARGEST, 10000, 1000},
                 {"bandwidth", bandwidth, LARGEST, 100, 20},
                 {"allreduce", allreduce, LARGEST_COLLECTIVE, 1000, 100},
                 {"alltoall", alltoall, LARGEST_COLLECTIVE, 1000, 100},
                 {"bcast", bcast, LARGEST_COLLECTIVE, 1000, 100}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int times = argc > 1 ? atoi(argv[1]) : 1;
    out = malloc(LARGEST);
    in = malloc(LARGEST);
    if (!out || !in || ranks < 2) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < LARGEST; i++) out[i] = (unsigned char)(i * 7 + rank);
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++)
        for (int bytes = 1; bytes <= tests[t].largest; bytes *= 2)
            measure(tests[t].name, tests[t].operation, bytes, times * (bytes > LARGE ? tests[t].rounds_large : tests[t].rounds));
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
