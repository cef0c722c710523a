/* MPI_Finalize in a handler of the program's end that was registered before MPI_Init: it runs after those registered later. */
#include <mpi.h>
#include <stdlib.h>

static void at_end(void) {
    for (int i = 0; i < 10; i++) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}

int main(int argc, char **argv) {
    atexit(at_end);
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 5; i++) MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
