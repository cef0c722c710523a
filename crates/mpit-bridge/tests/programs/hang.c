/* Ranks that wait for the last one: in a barrier, in a receive, for requests, in a row of tests. It comes after so many milliseconds,
 * or kills itself then. 5 ranks.
 *   hang MILLISECONDS [kill] */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 5, LAST = RANKS - 1 };

static void pause_for(int milliseconds) {
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    while (nanosleep(&left, &left) != 0) {
    }
}

int main(int argc, char **argv) {
    int rank, size, values[2] = {1, 2};
    MPI_Comm reversed;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS || argc < 2) MPI_Abort(MPI_COMM_WORLD, 64);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Comm_set_name(reversed, "reversed");
    MPI_Barrier(reversed);
    if (rank == LAST) {
        pause_for(atoi(argv[1]));
        if (argc > 2 && strcmp(argv[2], "kill") == 0) kill(getpid(), SIGKILL);
        MPI_Send(values, 1, MPI_INT, LAST - 1, 7, reversed);
        for (int i = 0; i < 2; i++) MPI_Send(&values[i], 1, MPI_INT, 2, 30 + i, MPI_COMM_WORLD);
        MPI_Send(values, 1, MPI_INT, 3, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(values, 1, MPI_INT, 0, 7, reversed, MPI_STATUS_IGNORE); /* world's last is the first of these */
    } else if (rank == 2) {
        for (int i = 0; i < 2; i++) MPI_Irecv(&values[i], 1, MPI_INT, LAST, 30 + i, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(2, requests, statuses);
    } else if (rank == 3) {
        int came = 0;
        MPI_Irecv(values, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, requests);
        while (!came) MPI_Test(requests, &came, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("done\n");
    MPI_Finalize();
    return 0;
}
