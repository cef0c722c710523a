/* A part of a program that is loaded with dlopen and brings its MPI library along. */
#include <mpi.h>
#include <stddef.h>

int part(int calls);

int part(int calls) {
    int x = 1, y = 0, rank = -1;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < calls; i++) MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return y * 100 + rank;
}
