/* Calls with arguments that they do not use: MPI_DATATYPE_NULL where nothing is sent, and types that only the root has. Whether a
 * library takes them is its own matter: each rank counts the errors that its handler was called for, and rank 0 prints them. 4 ranks. */
#include <mpi.h>
#include <stdio.h>

static int errors;
static void count_comm(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, errors++; }
static void count_win(MPI_Win *win, int *code, ...) { (void)win, (void)code, errors++; }
static void count_file(MPI_File *file, int *code, ...) { (void)file, (void)code, errors++; }

static const MPI_Datatype none = MPI_DATATYPE_NULL;
static int zeros[8], from[8], to[8];
static MPI_Errhandler counting;

static void finish(const char *what) {
    int all = 0, rank;
    MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("%s: %d errors\n", what, all);
    errors = 0;
}

static void messages(int rank) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(NULL, 0, none, rank ^ 1, 1, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, none, rank ^ 1, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    finish("messages of no element");
    MPI_Recv(NULL, 0, none, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, none, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Sendrecv(NULL, 0, none, MPI_PROC_NULL, 0, NULL, 0, none, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    finish("messages to nobody");
    MPI_Send_init(NULL, 0, none, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    finish("persistent message to nobody");
}

static void collectives(int rank) {
    MPI_Datatype types[8] = {none, none, none, none, none, none, none, none};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Alltoallv(NULL, zeros, zeros, none, NULL, zeros, zeros, none, MPI_COMM_WORLD);
    finish("alltoallv of nothing");
    MPI_Alltoallw(NULL, zeros, zeros, types, NULL, zeros, zeros, types, MPI_COMM_WORLD);
    finish("alltoallw of nothing");
    MPI_Ialltoallv(NULL, zeros, zeros, none, NULL, zeros, zeros, none, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    finish("ialltoallv of nothing");
    MPI_Allgather(MPI_IN_PLACE, 0, none, to, 1, MPI_INT, MPI_COMM_WORLD);
    finish("allgather in place");
    MPI_Gather(from, 1, MPI_INT, rank ? NULL : to, rank ? -1 : 1, rank ? none : MPI_INT, 0, MPI_COMM_WORLD);
    finish("gather");
    MPI_Scatter(rank ? NULL : from, 1, rank ? none : MPI_INT, rank ? (void *)to : MPI_IN_PLACE, 1, rank ? MPI_INT : none, 0,
                MPI_COMM_WORLD);
    finish("scatter in place");
    MPI_Scatterv(rank ? NULL : from, rank ? NULL : zeros, rank ? NULL : zeros, rank ? none : MPI_INT, to, 0, MPI_INT, 0,
                 MPI_COMM_WORLD);
    finish("scatterv of nothing");
}

/* Ranks 0 and 1, where rank 0 is the root and rank 1 has no part, and the others. */
static void between_groups(int rank) {
    MPI_Comm half, between;
    int root = rank == 0 ? MPI_ROOT : rank == 1 ? MPI_PROC_NULL : 0, uninvolved = rank == 1, count = uninvolved ? 0 : 4;
    MPI_Datatype type = uninvolved ? none : MPI_INT;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 5, &between);
    MPI_Comm_set_errhandler(between, counting);
    MPI_Bcast(uninvolved ? NULL : from, count, type, root, between);
    finish("bcast between groups");
#if MPI_VERSION < 5 /* MPICH 5.0 ends by itself */
    MPI_Reduce(uninvolved ? NULL : from, uninvolved ? NULL : to, count, type, MPI_SUM, root, between);
    finish("reduce between groups");
#endif
    MPI_Gather(rank < 2 ? NULL : from, rank < 2 ? 0 : 1, rank < 2 ? none : MPI_INT, rank == 0 ? to : NULL, rank == 0 ? 1 : 0,
               rank == 0 ? MPI_INT : none, root, between);
    finish("gather between groups");
    MPI_Scatter(rank == 0 ? from : NULL, rank == 0 ? 1 : 0, rank == 0 ? MPI_INT : none, rank < 2 ? NULL : to, rank < 2 ? 0 : 1,
                rank < 2 ? none : MPI_INT, root, between);
    finish("scatter between groups");
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void without_neighbours(void) {
    MPI_Comm alone;
    int no[1] = {0};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, no, no, 0, no, no, MPI_INFO_NULL, 0, &alone);
    MPI_Comm_set_errhandler(alone, counting);
    MPI_Neighbor_allgather(NULL, 0, none, NULL, 0, none, alone);
    finish("neighbor_allgather without neighbours");
    MPI_Neighbor_alltoallv(NULL, NULL, NULL, none, NULL, NULL, NULL, none, alone);
    finish("neighbor_alltoallv without neighbours");
    MPI_Comm_free(&alone);
}

static void windows(void) {
    MPI_Win win;
    MPI_Errhandler handler;
    MPI_Win_create_errhandler(count_win, &handler);
    MPI_Win_create(to, sizeof to, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_fence(0, win);
    MPI_Put(NULL, 0, none, MPI_PROC_NULL, 0, 0, none, win);
    finish("put to nobody");
    MPI_Get_accumulate(NULL, 0, none, from, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, win);
    MPI_Win_fence(0, win);
    finish("get_accumulate of nothing");
    MPI_Win_free(&win);
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv) {
    MPI_Errhandler of_files;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(count_comm, &counting);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, counting);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, counting);
    MPI_File_create_errhandler(count_file, &of_files);
    MPI_File_set_errhandler(MPI_FILE_NULL, of_files);
    messages(rank);
    collectives(rank);
    between_groups(rank);
    without_neighbours();
    windows();
    MPI_Finalize();
    return 0;
}
