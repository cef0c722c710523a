/* finalize: all but the last rank wait for it in MPI_Finalize, for so many milliseconds, and end directly after it. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    double one = 1, sum;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 100; i++) MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == size - 1) usleep((useconds_t)(argc > 1 ? atoi(argv[1]) : 0) * 1000u);
    MPI_Finalize();
    _exit(0);
}
