/* Rank 0 waits in MPI_Recv for rank 1, which sleeps first, while two of its threads are elsewhere: one has sent a message and sleeps, the
 * other one has not called MPI yet. A persistent request is active, another one is not.
 *
 * arguments: milliseconds */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static useconds_t pause_us;

static void *sends(void *unused) {
    int value = 1;
    MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    usleep(pause_us);
    return unused;
}

static void *silent(void *unused) {
    usleep(pause_us);
    return unused;
}

int main(int argc, char **argv) {
    int provided, rank, value = 0, values[2] = {0};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 2);
    pause_us = (useconds_t)atoi(argv[1]) * 1000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        pthread_t one, other;
        if (pthread_create(&one, NULL, sends, NULL) || pthread_create(&other, NULL, silent, NULL)) MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Request persistent[2];
        for (int i = 0; i < 2; i++) MPI_Recv_init(&values[i], 1, MPI_INT, 1, 3 + i, MPI_COMM_WORLD, &persistent[i]);
        MPI_Startall(2, persistent);
        MPI_Wait(&persistent[1], MPI_STATUS_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&persistent[0], MPI_STATUS_IGNORE);
        for (int i = 0; i < 2; i++) MPI_Request_free(&persistent[i]);
        pthread_join(one, NULL);
        pthread_join(other, NULL);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        usleep(pause_us);
        MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    if (rank == 0) printf("done\n");
    return 0;
}
