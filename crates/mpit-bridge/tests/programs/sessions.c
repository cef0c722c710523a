/*
 * sessions [again]: no MPI_Init. Two sessions at once; in each a communicator of all processes, an allreduce of 80
 * bytes on it and a message of 10 bytes to the next rank. `again`: then two more, and MPI_Init with one more
 * allreduce, which MPICH 4.0 does not survive by itself.
 */
#include <mpi.h>
#include <stdio.h>

static char out[128], in[128];

static void in_session(MPI_Session session) {
    MPI_Group group;
    MPI_Comm all;
    int rank, size;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "throughline.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
    MPI_Group_free(&group);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(out, in, 10, MPI_DOUBLE, MPI_SUM, all);
    MPI_Sendrecv(out, 10, MPI_BYTE, (rank + 1) % size, 0, in, 10, MPI_BYTE, (rank + size - 1) % size, 0, all,
                 MPI_STATUS_IGNORE);
    MPI_Comm_free(&all);
    if (rank == 0) puts("done");
}

static void two(void) {
    MPI_Session one, other;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &one);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &other);
    in_session(one);
    MPI_Session_finalize(&one);
    in_session(other);
    MPI_Session_finalize(&other);
}

int main(int argc, char **argv) {
    two();
    if (argc < 2) return 0;
    two();
    MPI_Init(&argc, &argv);
    MPI_Allreduce(out, in, 10, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
