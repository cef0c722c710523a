/*
 * Collectives whose sides differ: on intercommunicators of one and all other ranks, both ways round, and among neighbours of
 * graphs, of whom some have many, one or none. Results are checked, and all communicators are freed, or disconnected.
 * 2 to 16 ranks.
 */
#include <mpi.h>
#include <stdio.h>

enum { RANKS = 16, BLOCK = 100 };
static int wrong, rank, size;
static int from[RANKS * BLOCK], to[RANKS * BLOCK], counts[RANKS], places[RANKS];

static void check(int good) {
    wrong |= !good;
}

static void fill(int value) {
    for (int i = 0; i < RANKS * BLOCK; i++) from[i] = value;
    for (int i = 0; i < RANKS * BLOCK; i++) to[i] = -1;
}

/* Each rank sends its number in its group, and BLOCK of them; the root is rank 0 of the world. */
static void across(MPI_Comm comm, int is_roots_group) {
    int own, others;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_remote_size(comm, &others);
    int is_root = rank == 0, root = !is_roots_group ? 0 : is_root ? MPI_ROOT : MPI_PROC_NULL, sum = others * (others - 1) / 2;
    fill(own);
    MPI_Barrier(comm);
    MPI_Gatherv(from, BLOCK, MPI_INT, to, counts, places, MPI_INT, root, comm);
    for (int i = 0; is_root && i < others; i++) check(to[i * BLOCK + BLOCK - 1] == i);
    MPI_Request request;
    MPI_Igatherv(from, BLOCK, MPI_INT, to, counts, places, MPI_INT, root, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Scatterv(from, counts, places, MPI_INT, to, BLOCK, MPI_INT, root, comm);
    if (!is_roots_group) check(to[0] == 0);
    MPI_Allgather(from, BLOCK, MPI_INT, to, BLOCK, MPI_INT, comm);
    for (int i = 0; i < others; i++) check(to[i * BLOCK] == i);
    MPI_Alltoallv(from, counts, places, MPI_INT, to, counts, places, MPI_INT, comm);
    for (int i = 0; i < others; i++) check(to[i * BLOCK] == i);
    MPI_Allreduce(from, to, BLOCK, MPI_INT, MPI_SUM, comm);
    check(to[0] == sum);
    MPI_Bcast(is_root ? from : to, BLOCK, MPI_INT, root, comm);
    if (!is_roots_group) check(to[0] == 0);
}

/* Rank 0 or the last one alone, against all others. */
static void between_groups(int alone) {
    MPI_Comm own, between, copy, merged;
    int is_alone = rank == alone, members;
    MPI_Comm_split(MPI_COMM_WORLD, is_alone, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, is_alone ? (alone == 0) : alone, 7, &between);
    int is_roots_group = is_alone == (alone == 0);
    across(between, is_roots_group);
    MPI_Comm_dup(between, &copy);
    across(copy, is_roots_group);
    MPI_Intercomm_merge(between, is_alone, &merged);
    MPI_Comm_size(merged, &members);
    check(members == size);
    MPI_Barrier(merged);
    MPI_Comm_disconnect(&copy);
    MPI_Comm_free(&between);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&own);
}

static void among_neighbours(MPI_Comm comm, const int *sources, int incoming) {
    MPI_Aint bytes[RANKS];
    MPI_Datatype types[RANKS];
    MPI_Request request;
    for (int i = 0; i < RANKS; i++) types[i] = MPI_INT;
    for (int i = 0; i < RANKS; i++) bytes[i] = (MPI_Aint)sizeof(int) * places[i];
    for (int way = 0; way < 5; way++) {
        fill(rank);
        if (way == 0) MPI_Neighbor_alltoallv(from, counts, places, MPI_INT, to, counts, places, MPI_INT, comm);
        if (way == 1) MPI_Neighbor_alltoallw(from, counts, bytes, types, to, counts, bytes, types, comm);
        if (way == 2) MPI_Neighbor_allgatherv(from, BLOCK, MPI_INT, to, counts, places, MPI_INT, comm);
        if (way == 3) MPI_Neighbor_alltoall(from, BLOCK, MPI_INT, to, BLOCK, MPI_INT, comm);
        if (way == 4) {
            MPI_Ineighbor_alltoallv(from, counts, places, MPI_INT, to, counts, places, MPI_INT, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        for (int i = 0; i < incoming; i++) check(to[i * BLOCK] == sources[i] && to[i * BLOCK + BLOCK - 1] == sources[i]);
    }
    MPI_Comm_free(&comm);
}

/* From all others to rank 0, which sends to nobody; a chain that leaves out the last rank; nobody to nobody. */
static void on_graphs(void) {
    MPI_Comm comm;
    int sources[RANKS], root = 0, incoming = rank == 0 ? size - 1 : 0;
    for (int i = 0; i < incoming; i++) sources[i] = i + 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, incoming, sources, counts, rank > 0, &root, counts, MPI_INFO_NULL, 0, &comm);
    among_neighbours(comm, sources, incoming);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, sources, counts, 0, &root, counts, MPI_INFO_NULL, 0, &comm);
    among_neighbours(comm, sources, 0);
    int ends[RANKS], edges[2 * RANKS], edge = 0;
    for (int i = 0; i < size; i++) {
        if (i == rank) incoming = 0;
        for (int step = -1; step <= 1; step += 2) {
            if (i == size - 1 || i + step < 0 || i + step >= size - 1) continue;
            if (i == rank) sources[incoming++] = i + step;
            edges[edge++] = i + step;
        }
        ends[i] = edge;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, ends, edges, 0, &comm);
    among_neighbours(comm, sources, incoming);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2 || size > RANKS) MPI_Abort(MPI_COMM_WORLD, 64);
    for (int i = 0; i < RANKS; i++) counts[i] = BLOCK;
    for (int i = 0; i < RANKS; i++) places[i] = i * BLOCK;
    between_groups(0);
    between_groups(size - 1);
    on_graphs();
    int any_wrong = 0;
    MPI_Reduce(&wrong, &any_wrong, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) puts(any_wrong ? "wrong" : "done");
    MPI_Finalize();
    return 0;
}
