/*
 * A tool such as mpiP or Darshan: counts the program's allreduces in a wrapper of its own and says at the end how
 * many it saw. Built with -DNEXT it goes on with the next MPI_X in link order, else with PMPI_X. With -DSTARTS it also has
 * MPI_Init and MPI_Init_thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int observed;

#ifdef NEXT
static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}
#endif

int MPI_Allreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    int (*go_on)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm) = PMPI_Allreduce;
#ifdef NEXT
    void *found = next("MPI_Allreduce");
    memcpy(&go_on, &found, sizeof go_on);
#endif
    observed++;
    return go_on(out, in, count, type, op, comm);
}

#ifdef STARTS
int MPI_Init(int *argc, char ***argv) {
    return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    return PMPI_Init_thread(argc, argv, required, provided);
}
#endif

int MPI_Finalize(void) {
    int rank;
    int (*go_on)(void) = PMPI_Finalize;
#ifdef NEXT
    void *found = next("MPI_Finalize");
    memcpy(&go_on, &found, sizeof go_on);
#endif
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("tool: %d allreduces\n", observed), fflush(stdout);
    return go_on();
}
