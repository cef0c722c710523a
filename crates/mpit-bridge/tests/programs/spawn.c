/*
 * spawn COMMAND: two ranks start two processes of this program by COMMAND, which takes the program as its argument, and
 * each of them exchanges messages with one of these: 100 bytes there, 60 back. The first two also sum 8 bytes.
 */
#include <mpi.h>
#include <stdio.h>

enum { PROCESSES = 2, THERE = 100, BACK = 60, TAG = 4 };

int main(int argc, char **argv) {
    char buffer[THERE] = {0};
    double out = 1, in = 0;
    int rank;
    MPI_Comm parent, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        char *arguments[] = {argv[0], NULL};
        if (argc < 2) MPI_Abort(MPI_COMM_WORLD, 64);
        MPI_Comm_spawn(argv[1], arguments, PROCESSES, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                       MPI_ERRCODES_IGNORE);
        MPI_Send(buffer, THERE, MPI_BYTE, rank, TAG, children);
        MPI_Recv(buffer, BACK, MPI_BYTE, rank, TAG, children, MPI_STATUS_IGNORE);
        MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) printf("sum %g\n", in);
        MPI_Comm_disconnect(&children);
    } else {
        MPI_Recv(buffer, THERE, MPI_BYTE, rank, TAG, parent, MPI_STATUS_IGNORE);
        MPI_Send(buffer, BACK, MPI_BYTE, rank, TAG, parent);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    return 0;
}
