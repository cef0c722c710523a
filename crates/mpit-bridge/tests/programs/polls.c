/*
 * polls FAILING: two ranks. Rank 0 queries each way for messages that it lets rank 1 send only after it has queried FAILING
 * times, and prints `OPERATION CALLS NANOSECONDS`: how often it has called it, and within which time.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGES = 3, BYTES = 1000, GO = 99 };

static MPI_Status *volatile ignored = MPI_STATUSES_IGNORE; /* MPICH's is not the array that its prototype has */
static char buffers[MESSAGES][BYTES];
static MPI_Request requests[MESSAGES];
static long failing, calls;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Each queries once; 1 if all that it requests has come. */
static int test(void) {
    static int at;
    int flag;
    MPI_Test(&requests[at], &flag, MPI_STATUS_IGNORE);
    if (flag) at = (at + 1) % MESSAGES;
    return flag && at == 0;
}

static int testany(void) {
    static int come;
    int flag, index;
    MPI_Testany(MESSAGES, requests, &index, &flag, MPI_STATUS_IGNORE);
    if (flag) come = (come + 1) % MESSAGES;
    return flag && come == 0;
}

static int testall(void) {
    int flag;
    MPI_Testall(MESSAGES, requests, &flag, ignored);
    return flag;
}

static int testsome(void) {
    static int come;
    int count, indices[MESSAGES];
    MPI_Testsome(MESSAGES, requests, &count, indices, ignored);
    come = (come + (count > 0 ? count : 0)) % MESSAGES;
    return count > 0 && come == 0;
}

/* Two functions in turn; for the second nothing ever comes. */
static int iprobe(void) {
    int flag, never;
    MPI_Message none;
    MPI_Iprobe(1, MESSAGES, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Improbe(1, GO, MPI_COMM_WORLD, &never, &none, MPI_STATUS_IGNORE);
    return flag;
}

static void query(const char *name, int (*operation)(void), int receives) {
    int go = 0;
    for (int i = 0; receives && i < MESSAGES; i++)
        MPI_Irecv(buffers[i], BYTES, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
    long long begin = now();
    for (calls = 1; calls <= failing; calls++)
        if (operation()) exit(1); /* nothing can have come */
    MPI_Send(&go, 1, MPI_INT, 1, GO, MPI_COMM_WORLD);
    while (!operation()) calls++;
    long long lasted = now() - begin;
    printf("%s %ld %lld\n", name, calls, lasted);
    if (!receives) printf("improbe %ld %lld\n", calls, lasted);
    if (!receives) MPI_Recv(buffers[0], BYTES, MPI_BYTE, 1, MESSAGES, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void answer(int receives) {
    int go;
    MPI_Recv(&go, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; receives && i < MESSAGES; i++)
        MPI_Send(buffers[i], BYTES - i, MPI_BYTE, 0, i, MPI_COMM_WORLD);
    if (!receives) MPI_Send(buffers[0], 1, MPI_BYTE, 0, MESSAGES, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*operation)(void);
        int receives;
    } ways[] = {{"test", test, 1}, {"testany", testany, 1}, {"testall", testall, 1}, {"testsome", testsome, 1},
                {"iprobe", iprobe, 0}};
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    failing = argc > 1 ? atol(argv[1]) : 1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (rank == 0) query(ways[i].name, ways[i].operation, ways[i].receives);
        if (rank == 1) answer(ways[i].receives);
    }
    MPI_Finalize();
    return 0;
}
