/*
 * Uses functions of MPI 4 where they are there, as mpi4py does: weak references, which are nothing where the library lacks them.
 * With an argument it also looks one up by name, as what is loaded later does, and calls it if it is found.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#if MPI_VERSION < 4
typedef void *MPI_Session;
#endif

int MPI_Bcast_c(void *, MPI_Aint, MPI_Datatype, int, MPI_Comm) __attribute__((weak));
int MPI_Session_init(MPI_Info, MPI_Errhandler, MPI_Session *) __attribute__((weak));

static const char *form;

static int broadcast(void *buffer) {
    form = MPI_Bcast_c ? "large" : "small";
    return MPI_Bcast_c ? MPI_Bcast_c(buffer, 8, MPI_BYTE, 0, MPI_COMM_WORLD)
                       : MPI_Bcast(buffer, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    char buffer[8] = {0};
    int rank;
    int (*later)(void *, MPI_Aint, MPI_Datatype, int, MPI_Comm) = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int status = broadcast(buffer);
    if (rank == 0) printf("%s %d, %s sessions\n", form, status, MPI_Session_init ? "with" : "without");
    void *found = argc > 1 ? dlsym(RTLD_DEFAULT, "MPI_Bcast_c") : NULL;
    memcpy(&later, &found, sizeof later);
    if (later) {
        status = later(buffer, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (rank == 0) printf("later %d\n", status);
        status = later(buffer, (MPI_Aint)1 << 40, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
        if (rank == 0) printf("too large %d\n", status);
    }
    MPI_Finalize();
    return 0;
}
