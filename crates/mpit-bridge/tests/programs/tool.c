/* A program that looks at MPI_T and at its thread level itself, also while MPI_T is not initialized: rank 0 prints what it finds. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static const char *answer(int code) {
    return code == MPI_SUCCESS ? "success" : code == MPI_T_ERR_NOT_INITIALIZED ? "not initialized" : "something else";
}

/* After a second, as the shim reads variables each second. */
static void look(int rank, const char *when) {
    int variables;
    sleep(1);
    const char *cvars = answer(MPI_T_cvar_get_num(&variables)), *pvars = answer(MPI_T_pvar_get_num(&variables));
    if (rank == 0) printf("%s: %s, %s\n", when, cvars, pvars);
}

int main(int argc, char **argv) {
    int rank, before, after, provided = -1, variables = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    look(rank, "before");
    MPI_Query_thread(&before);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Query_thread(&after);
    MPI_T_cvar_get_num(&variables);
    if (rank == 0)
        printf("level %d, then %d; provided %d; control variables %s\n", before, after, provided,
               variables >= 0 ? "there" : "not there");
    MPI_T_finalize();
    look(rank, "after");
    const char *again = answer(MPI_T_finalize());
    if (rank == 0) printf("once too often: %s\n", again);
    MPI_Finalize();
    return 0;
}
