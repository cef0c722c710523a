// An error handler that throws through the call that failed; the program catches it, and 100 barriers follow.
#include <mpi.h>

#include <cstdio>

static void handler(MPI_Comm *, int *code, ...) { throw *code; }

static void fail() {
    int word = 0;
    MPI_Send(&word, 1, MPI_INT, 9999, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Errhandler handles;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(handler, &handles);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handles);
    for (int i = 0; i < 10; i++) {
        try {
            fail();
        } catch (int) {
            if (rank == 0) std::puts("caught");
        }
        for (int k = 0; k < 10; k++) MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
