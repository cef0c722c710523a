/*
 * Each call that makes or frees a communicator, a window or a file, once; and a send that fails. 2 ranks. made FOLDER
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static char space[1000 + MPI_BSEND_OVERHEAD];

static MPI_Comm of_comms(int rank) {
    MPI_Comm comm, inter, merged, kept;
    MPI_Group group;
    int size = 2, none = 0, one = 1, index[2] = {1, 2}, edges[2] = {1, 0}, other = 1 - rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &kept);
    MPI_Comm_dup_with_info(kept, MPI_INFO_NULL, &comm);
    MPI_Comm_free(&comm);
    MPI_Comm_group(kept, &group);
    MPI_Comm_create(kept, group, &comm);
    MPI_Comm_disconnect(&comm);
    MPI_Comm_create_group(kept, group, 7, &comm);
    MPI_Comm_free(&comm);
    MPI_Comm_split_type(kept, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    MPI_Comm_free(&comm);
    MPI_Cart_create(kept, 1, &size, &none, 0, &comm);
    MPI_Cart_sub(comm, &one, &merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&comm);
    MPI_Graph_create(kept, 2, index, edges, 0, &comm);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create(kept, 1, &rank, &one, &other, &one, MPI_INFO_NULL, 0, &comm);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(kept, 1, &other, &one, 1, &other, &one, MPI_INFO_NULL, 0, &comm);
    MPI_Comm_free(&comm);
    MPI_Comm_split(kept, rank, 0, &comm);
    MPI_Intercomm_create(comm, 0, kept, other, 8, &inter);
    MPI_Intercomm_merge(inter, rank, &merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    return kept;
}

static void of_windows(MPI_Comm comm) {
    MPI_Win window;
    void *base;
    MPI_Win_create(space, 100, 1, MPI_INFO_NULL, comm, &window);
    MPI_Win_free(&window);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window);
    MPI_Win_free(&window);
    MPI_Win_allocate(100, 1, MPI_INFO_NULL, comm, (void *)&base, &window);
    MPI_Win_free(&window);
    MPI_Win_allocate_shared(100, 1, MPI_INFO_NULL, comm, (void *)&base, &window);
    MPI_Win_free(&window);
}

static void of_files(MPI_Comm comm, const char *folder, int rank) {
    MPI_File file;
    char name[600];
    snprintf(name, sizeof name, "%s/made", folder);
    MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL);
    MPI_File_set_info(file, MPI_INFO_NULL);
    MPI_File_set_atomicity(file, 0);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_close(&file);
    if (rank == 0) MPI_File_delete(name, MPI_INFO_NULL);
}

int main(int argc, char **argv) {
    int rank, bytes;
    void *buffer;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm comm = of_comms(rank);
    of_windows(comm);
    of_files(comm, argv[1], rank);
    MPI_Buffer_attach(space, sizeof space);
    MPI_Buffer_detach((void *)&buffer, &bytes);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (MPI_Send(space, 1, MPI_CHAR, 99, 0, comm) == MPI_SUCCESS) return 1;
    MPI_Comm_free(&comm);
    return MPI_Finalize();
}
