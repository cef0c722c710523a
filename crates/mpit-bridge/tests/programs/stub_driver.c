/* stub_driver THREADS CALLS: sends to changing peers, allreduces on changing communicators, frees some. */
#include <pthread.h>
#include <stdlib.h>

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Send(const void *, int, int, int, int, int);
int MPI_Allreduce(const void *, void *, int, int, int, int);
int MPI_Comm_free(int *);

enum { RANKS = 64, WORLD = 0x44000000, COMMS = 16, TYPE = 0x4c00080b, SUM = 0x58000003 };
static long calls;

static void *work(void *number) {
    long thread = (long)number;
    double out = 0, in = 0;
    for (long i = 0; i < calls; i++) {
        MPI_Send(&out, 1, TYPE, (int)((i * 7 + thread) % RANKS), 0, WORLD);
        /* Each thread has communicators of its own, so that nobody frees what another uses. */
        int comm = WORLD + 1 + (int)(thread * COMMS + i % COMMS);
        MPI_Allreduce(&out, &in, 1, TYPE, SUM, i % 2 ? WORLD : comm);
        if (i % 1000 == 0) MPI_Comm_free(&comm);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1, provided;
    pthread_t id[64];
    calls = argc > 2 ? atol(argv[2]) : 1;
    if (threads < 1 || threads > 64) return 64;
    MPI_Init_thread(&argc, &argv, 3, &provided);
    for (long t = 0; t < threads; t++) pthread_create(&id[t], NULL, work, (void *)t);
    for (int t = 0; t < threads; t++) pthread_join(id[t], NULL);
    return MPI_Finalize();
}
