/*
 * Two threads receive the same, one after the other, and the second one's request gets the handle of the first one's
 * while the first thread is still inside MPI_Wait.
 */
#include <pthread.h>
#include <semaphore.h>

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Irecv(void *, int, int, int, int, int, int *);
int MPI_Wait(int *, void *);

enum { WORLD = 0x44000000, TYPE = 0x4c00080b, MULTIPLE = 3 };
static sem_t given_back, begun, ended;
static int is_second; /* the handle is given back for the second time */

void stub_given_back(void);
void stub_given_back(void) {
    if (is_second) return;
    is_second = 1;
    sem_post(&given_back);
    sem_wait(&begun);
}

static void *first(void *unused) {
    double in;
    int request;
    MPI_Irecv(&in, 1, TYPE, 0, 0, WORLD, &request);
    MPI_Wait(&request, (void *)1);
    sem_post(&ended);
    return unused;
}

static void *second(void *unused) {
    double in;
    int request;
    sem_wait(&given_back);
    MPI_Irecv(&in, 1, TYPE, 0, 0, WORLD, &request);
    sem_post(&begun);
    sem_wait(&ended);
    MPI_Wait(&request, (void *)1);
    return unused;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[2];
    sem_init(&given_back, 0, 0);
    sem_init(&begun, 0, 0);
    sem_init(&ended, 0, 0);
    MPI_Init_thread(&argc, &argv, MULTIPLE, &provided);
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return MPI_Finalize();
}
