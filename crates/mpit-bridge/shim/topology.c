/*
 * Neighbours of a communicator with a topology: to whom its neighbourhood collectives send, in the order of
 * their blocks (MPI 4.0, section 8.6). Queried once, with local MPI calls only.
 */
#include <pthread.h>
#include <stdlib.h>

#include "comm.h"
#include "library.h"
#include "shim.h"
#include "topology.h"

enum { NEIGHBOURS_LIMIT = 1 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int *space(int count) {
    if (count < 0 || count > NEIGHBOURS_LIMIT) return NULL;
    return calloc((size_t)count + 1, sizeof(int)); /* one more: none is no failure */
}

/* How many neighbours it sends to and, of a distributed graph, how many send to it; -1: it has none, or the library does not
 * report. */
static int count_now(tl_handle handle, int rank, int *kind, int *in) {
    int count = 0, weighted = 0;
    if (!tl_library.topo_test || tl_library.topo_test(handle, kind) != 0) return -1;
    if (*kind == tl_library.topology_cart)
        return tl_library.cartdim_get && tl_library.cartdim_get(handle, &count) == 0 ? 2 * count : -1;
    if (*kind == tl_library.topology_graph) {
        if (!tl_library.graph_neighbors_count) return -1;
        return tl_library.graph_neighbors_count(handle, rank, &count) == 0 ? count : -1;
    }
    if (*kind != tl_library.topology_dist_graph || !tl_library.dist_graph_neighbors_count) return -1;
    return tl_library.dist_graph_neighbors_count(handle, in, &count, &weighted) == 0 ? count : -1;
}

int tl_comm_neighbours_now(const struct tl_comm *comm) {
    int kind = 0, in = 0;
    return count_now(TL_LOAD(&comm->handle), comm->rank, &kind, &in);
}

/* Each dimension has the neighbour below and then the one above; either may be MPI_PROC_NULL. */
static int *of_cart(tl_handle handle, int count) {
    int *found = space(count);
    if (!found || !tl_library.cart_shift) goto failed;
    for (int d = 0; d < count / 2; d++)
        if (tl_library.cart_shift(handle, d, 1, &found[2 * d], &found[2 * d + 1]) != 0) goto failed;
    return found;
failed:
    free(found);
    return NULL;
}

static int *of_graph(tl_handle handle, int rank, int count) {
    int *found = space(count);
    if (found && tl_library.graph_neighbors && tl_library.graph_neighbors(handle, rank, count, found) == 0) return found;
    free(found);
    return NULL;
}

static int *of_dist_graph(tl_handle handle, int in, int count) {
    int *sources = space(in), *source_weights = space(in), *found = space(count), *weights = space(count);
    int done = tl_library.dist_graph_neighbors && sources && source_weights && found && weights &&
               tl_library.dist_graph_neighbors(handle, in, sources, source_weights, count, found, weights) == 0;
    free(sources);
    free(source_weights);
    free(weights);
    if (done) return found;
    free(found);
    return NULL;
}

static int query(struct tl_comm *comm) {
    tl_handle handle = TL_LOAD(&comm->handle);
    int kind = 0, in = 0, count = count_now(handle, comm->rank, &kind, &in), *found;
    if (count < 0) return 0;
    if (kind == tl_library.topology_cart) found = of_cart(handle, count);
    else if (kind == tl_library.topology_graph) found = of_graph(handle, comm->rank, count);
    else found = of_dist_graph(handle, in, count);
    if (!found) return 0;
    comm->targets = found;
    __atomic_store_n(&comm->target_count, count, __ATOMIC_RELEASE);
    return 1;
}

int tl_comm_neighbours(struct tl_comm *comm) {
    if (TL_LIKELY(__atomic_load_n(&comm->target_count, __ATOMIC_ACQUIRE) >= 0)) return 1;
    pthread_mutex_lock(&lock);
    int known = comm->target_count >= 0 || query(comm);
    pthread_mutex_unlock(&lock);
    return known;
}
