/* threads CALLS: 4 threads a rank at a time, each exchanges CALLS times 16 bytes with the same thread of rank ^ 1. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, BYTES = 16 };
static long calls;
static int rank;
static pthread_barrier_t together;

static void *exchange(void *number) {
    int tag = (int)(long)number;
    char out[BYTES] = {0}, in[BYTES];
    pthread_barrier_wait(&together);
    for (long i = 0; i < calls; i++)
        MPI_Sendrecv(out, BYTES, MPI_BYTE, rank ^ 1, tag, in, BYTES, MPI_BYTE, rank ^ 1, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    pthread_barrier_wait(&together);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    calls = argc > 1 ? atol(argv[1]) : 1;
    if (provided != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 9);
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, exchange, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    if (rank == 0) puts("done");
    MPI_Finalize();
    return 0;
}
