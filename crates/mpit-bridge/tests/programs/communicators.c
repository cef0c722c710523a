/*
 * Operations on communicators that are not the world, with 4 ranks: reversed, of an intercommunicator, freed
 * and made again at once, in place, immediate, to nobody. tests/mpi/exact.rs knows each count.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static char out[4096], in[4096];

/* Members (2,0) and (3,1): rank 0 of each sends 100 bytes to rank 1; then both reduce 40 bytes. */
static void reversed_halves(int rank, MPI_Comm *half) {
    int own;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, half);
    MPI_Comm_rank(*half, &own);
    if (own == 0) MPI_Send(out, 100, MPI_BYTE, 1, 1, *half);
    else MPI_Recv(in, 100, MPI_BYTE, 0, 1, *half, MPI_STATUS_IGNORE);
    MPI_Allreduce(out, in, 10, MPI_INT, MPI_SUM, *half);
}

/* Between the halves: 60 bytes from world 2 to world 3; then 16 bytes from each rank to both of the others. */
static void between_halves(int rank, MPI_Comm half) {
    MPI_Comm between;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 2 : 3, 7, &between);
    if (rank == 2) MPI_Send(out, 60, MPI_BYTE, 0, 2, between);
    if (rank == 3) MPI_Recv(in, 60, MPI_BYTE, 0, 2, between, MPI_STATUS_IGNORE);
    MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, between);
    MPI_Comm_free(&between);
}

/* The library gives the same handle to communicators in turn; their rank 0 is world rank 3, then 0. */
static void made_again(int rank) {
    for (int i = 0; i < 20; i++) {
        MPI_Comm turn;
        MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? rank : -rank, &turn);
        MPI_Bcast(out, 1, MPI_BYTE, 0, turn);
        MPI_Comm_free(&turn);
    }
}

static void in_place(int rank) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, 30, MPI_BYTE, MPI_COMM_WORLD);
    if (rank == 2) MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 20, MPI_BYTE, 2, MPI_COMM_WORLD);
    else MPI_Gather(out, 20, MPI_BYTE, NULL, 0, MPI_DATATYPE_NULL, 2, MPI_COMM_WORLD);
}

static void immediate(int rank, int size) {
    MPI_Request requests[5];
    MPI_Status statuses[5];
    int sum[6];
    MPI_Iallreduce(out, sum, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(in, 12, MPI_BYTE, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(in + 2048, 7, MPI_BYTE, (rank + size - 1) % size, 3, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(out, 7, MPI_BYTE, (rank + 1) % size, 3, MPI_COMM_WORLD, &requests[4]);
    MPI_Waitall(5, requests, statuses);
}

/* A strided type of 3 x 2 ints counts 24 bytes; to MPI_PROC_NULL nothing goes. */
static void types(int rank, int size) {
    MPI_Datatype strided;
    MPI_Type_vector(3, 2, 5, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    MPI_Sendrecv(out, 1, strided, (rank + 1) % size, 4, in, 1, strided, (rank + size - 1) % size, 4,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&strided);
    MPI_Send(out, 999, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm half;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    reversed_halves(rank, &half);
    between_halves(rank, half);
    MPI_Comm_free(&half);
    made_again(rank);
    in_place(rank);
    immediate(rank, size);
    types(rank, size);
    if (rank == 0) puts("done");
    MPI_Finalize();
    return 0;
}
