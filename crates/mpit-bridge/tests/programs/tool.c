/* A program that looks at MPI_T and at its thread level itself: rank 0 prints what it finds. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, before, after, provided = -1, variables = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Query_thread(&before);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Query_thread(&after);
    MPI_T_cvar_get_num(&variables);
    if (rank == 0)
        printf("level %d, then %d; provided %d; control variables %s\n", before, after, provided,
               variables >= 0 ? "there" : "not there");
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
