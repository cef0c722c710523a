/* Each rank but the last opens FOLDER/nvidiaRANK, waits until FOLDER/close is there, and closes it. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, file = -1;
    char path[512];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s/nvidia%d", argv[1], rank);
    if (rank < size - 1 && (file = open(path, O_RDWR)) < 0) return 1;
    snprintf(path, sizeof path, "%s/close", argv[1]);
    while (access(path, F_OK) != 0) usleep(10000);
    if (file >= 0) close(file);
    MPI_Finalize();
    return 0;
}
