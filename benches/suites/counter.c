/*
 * Counts a program's calls of MPI and the bytes that it hands over, by function: an independent truth for what the shim
 * reports. Loaded behind the shim by LD_PRELOAD; it knows nothing of it. Wrappers and names are generated from the
 * installed mpi.h (wrappers.inc, names.inc); bytes follow "What is counted" of crates/mpit-bridge/protocol/README.md.
 * A question to the library never has an argument that the call itself did not use.
 *
 * Each rank writes MPI_COUNTER_DIR/PID.txt when MPI has started, has ended, and when the process ends.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum function {
#define NAME(name) F_##name,
#include "names.inc"
#undef NAME
    FUNCTIONS
};
static const char *const names[] = {
#define NAME(name) #name,
#include "names.inc"
#undef NAME
};
static uint64_t calls[FUNCTIONS], bytes_handed[FUNCTIONS];

static pid_t owner;         /* the process that started MPI: a forked child has its memory */
static int64_t start_time;  /* UTC, when MPI's start ended */
static int rank = -1, world_size;
static int users;           /* MPI_Init and each open session */
static int has_fortran;     /* Fortran bindings that pass the C functions by */

/* ---- calls within calls ---- */

/*
 * What the library, or a callback of an operation, calls within a call is not the program's. The frame of the outermost
 * open call of the thread, as stacks grow downwards: a call from a frame above it says that it was left by longjmp or a throw.
 */
static __thread const char *open_frame;

static int enter(const char *frame) {
    if (open_frame && frame < open_frame) return 0;
    open_frame = frame;
    return 1;
}

/* At the end of a wrapper's block, also where an exception leaves it. */
static void leave(const int *is_outermost) {
    if (*is_outermost) open_frame = NULL;
}

static int is_within(const char *frame) {
    return open_frame && frame < open_frame;
}

static void add(enum function function, int64_t bytes) {
    __atomic_fetch_add(&calls[function], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&bytes_handed[function], (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* ---- bytes ---- */

static int64_t sized(int64_t count, MPI_Datatype type) {
    if (count == 0) return 0;
    MPI_Count size = 0;
#ifdef HAS_Type_size_x
    PMPI_Type_size_x(type, &size);
#else
    PMPI_Type_size_c(type, &size);
#endif
    return count * (int64_t)size;
}

static int64_t count_at(const void *counts, int is_large, int i) {
    return is_large ? (int64_t)((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
}

static int is_inter(MPI_Comm comm) {
    int inter = 0;
    PMPI_Comm_test_inter(comm, &inter);
    return inter;
}

static int own_rank(MPI_Comm comm) {
    int own = -1;
    PMPI_Comm_rank(comm, &own);
    return own;
}

static int own_size(MPI_Comm comm) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

/* Members that a rank sends to: of the remote group in an intercommunicator. */
static int others(MPI_Comm comm) {
    int size = 0;
    if (!is_inter(comm)) return own_size(comm);
    PMPI_Comm_remote_size(comm, &size);
    return size;
}

static int is_root(MPI_Comm comm, int root) {
    return is_inter(comm) ? root == MPI_ROOT : root == own_rank(comm);
}

/* Hands data to a root. */
static int contributes(MPI_Comm comm, int root) {
    return root >= 0 || !is_inter(comm);
}

static int64_t message(int64_t count, MPI_Datatype type, int dest) {
    return dest == MPI_PROC_NULL ? 0 : sized(count, type);
}

static int64_t from_root(int64_t count, MPI_Datatype type, int root, MPI_Comm comm) {
    return is_root(comm, root) ? sized(count, type) : 0;
}

static int64_t to_root(int64_t count, MPI_Datatype type, int root, MPI_Comm comm) {
    return contributes(comm, root) ? sized(count, type) : 0;
}

static int64_t gathered(const void *sendbuf, int64_t sendcount, MPI_Datatype sendtype, int64_t recvcount,
                        MPI_Datatype recvtype, int root, MPI_Comm comm) {
    if (!contributes(comm, root)) return 0;
    return sendbuf == MPI_IN_PLACE ? sized(recvcount, recvtype) : sized(sendcount, sendtype);
}

static int64_t gathered_v(const void *sendbuf, int64_t sendcount, MPI_Datatype sendtype, const void *recvcounts,
                          int is_large, MPI_Datatype recvtype, int root, MPI_Comm comm) {
    if (!contributes(comm, root)) return 0;
    if (sendbuf != MPI_IN_PLACE) return sized(sendcount, sendtype);
    return sized(count_at(recvcounts, is_large, own_rank(comm)), recvtype);
}

static int64_t summed(const void *counts, int is_large, MPI_Datatype type, int number) {
    int64_t total = 0;
    for (int i = 0; i < number; i++) total += count_at(counts, is_large, i);
    return sized(total, type);
}

static int64_t scattered(int64_t count, MPI_Datatype type, int root, MPI_Comm comm) {
    return is_root(comm, root) ? sized(count, type) * others(comm) : 0;
}

static int64_t scattered_v(const void *counts, int is_large, MPI_Datatype type, int root, MPI_Comm comm) {
    return is_root(comm, root) ? summed(counts, is_large, type, others(comm)) : 0;
}

static int64_t one_block(const void *sendbuf, int64_t sendcount, MPI_Datatype sendtype, int64_t recvcount,
                         MPI_Datatype recvtype) {
    return sendbuf == MPI_IN_PLACE ? sized(recvcount, recvtype) : sized(sendcount, sendtype);
}

static int64_t one_block_v(const void *sendbuf, int64_t sendcount, MPI_Datatype sendtype, const void *recvcounts,
                           int is_large, MPI_Datatype recvtype, MPI_Comm comm) {
    if (sendbuf != MPI_IN_PLACE) return sized(sendcount, sendtype);
    return sized(count_at(recvcounts, is_large, own_rank(comm)), recvtype);
}

static int64_t exchanged_v(const void *sendbuf, const void *sendcounts, MPI_Datatype sendtype, const void *recvcounts,
                           MPI_Datatype recvtype, int is_large, MPI_Comm comm) {
    if (sendbuf == MPI_IN_PLACE) return summed(recvcounts, is_large, recvtype, others(comm));
    return summed(sendcounts, is_large, sendtype, others(comm));
}

static int64_t exchanged_w(const void *sendbuf, const void *sendcounts, const MPI_Datatype *sendtypes,
                           const void *recvcounts, const MPI_Datatype *recvtypes, int is_large, MPI_Comm comm) {
    int64_t total = 0;
    const void *counts = sendbuf == MPI_IN_PLACE ? recvcounts : sendcounts;
    const MPI_Datatype *types = sendbuf == MPI_IN_PLACE ? recvtypes : sendtypes;
    for (int i = others(comm); i-- > 0;) {
        int64_t count = count_at(counts, is_large, i);
        if (count) total += sized(count, types[i]);
    }
    return total;
}

/* ---- neighbourhoods ---- */

static int cart_targets(MPI_Comm comm, int **targets) {
    int dimensions = 0;
    PMPI_Cartdim_get(comm, &dimensions);
    *targets = calloc(2 * (size_t)dimensions + 1, sizeof(int));
    for (int i = 0; i < dimensions; i++) PMPI_Cart_shift(comm, i, 1, *targets + 2 * i, *targets + 2 * i + 1);
    return 2 * dimensions;
}

static int graph_targets(MPI_Comm comm, int **targets) {
    int number = 0, own = own_rank(comm);
    PMPI_Graph_neighbors_count(comm, own, &number);
    *targets = calloc((size_t)number + 1, sizeof(int));
    PMPI_Graph_neighbors(comm, own, number, *targets);
    return number;
}

static int dist_graph_targets(MPI_Comm comm, int **targets) {
    int in = 0, out = 0, weighted = 0;
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    *targets = calloc((size_t)out + 1, sizeof(int));
    int *sources = calloc((size_t)in + 1, sizeof(int));
    int *weights_in = calloc((size_t)in + 1, sizeof(int)), *weights_out = calloc((size_t)out + 1, sizeof(int));
    PMPI_Dist_graph_neighbors(comm, in, sources, weighted ? weights_in : MPI_UNWEIGHTED, out, *targets,
                              weighted ? weights_out : MPI_UNWEIGHTED);
    free(sources), free(weights_in), free(weights_out);
    return out;
}

/* Those that a rank sends to in neighbourhood collectives, MPI_PROC_NULL among them. */
static int targets_of(MPI_Comm comm, int **targets) {
    int topology = MPI_UNDEFINED;
    PMPI_Topo_test(comm, &topology);
    if (topology == MPI_CART) return cart_targets(comm, targets);
    if (topology == MPI_GRAPH) return graph_targets(comm, targets);
    if (topology == MPI_DIST_GRAPH) return dist_graph_targets(comm, targets);
    *targets = NULL;
    return 0;
}

static int64_t to_neighbours(int64_t count, MPI_Datatype type, MPI_Comm comm) {
    int *targets, number = targets_of(comm, &targets), there = 0;
    for (int i = 0; i < number; i++) there += targets[i] != MPI_PROC_NULL;
    free(targets);
    return there ? sized(count, type) * there : 0;
}

static int64_t to_neighbours_v(const void *counts, int is_large, MPI_Datatype type, const MPI_Datatype *types,
                               MPI_Comm comm) {
    int64_t total = 0;
    int *targets, number = targets_of(comm, &targets);
    for (int i = 0; i < number; i++) {
        int64_t count = targets[i] == MPI_PROC_NULL ? 0 : count_at(counts, is_large, i);
        if (count) total += sized(count, types ? types[i] : type);
    }
    free(targets);
    return total;
}

/* ---- persistent requests: a start counts as a call of the function that made the request ---- */

struct made {
    MPI_Request request;
    enum function function;
    int64_t bytes;
    struct made *next;
};
enum { CHAINS = 4096 };
static struct made *chains[CHAINS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct made **chain_of(MPI_Request request) {
    uint64_t key = 0;
    memcpy(&key, &request, sizeof request);
    return &chains[(key * 0x9e3779b97f4a7c15) >> 52];
}

/* Takes it out; NULL if there is none. */
static struct made *taken(MPI_Request request) {
    for (struct made **at = chain_of(request); *at; at = &(*at)->next) {
        struct made *found = *at;
        if (found->request != request) continue;
        *at = found->next;
        return found;
    }
    return NULL;
}

static void put(struct made *made) {
    struct made **chain = chain_of(made->request);
    made->next = *chain;
    *chain = made;
}

static void request_made(MPI_Request request, enum function function, int64_t bytes) {
    pthread_mutex_lock(&lock);
    struct made *made = taken(request);
    if (!made) made = calloc(1, sizeof *made);
    *made = (struct made){request, function, bytes, NULL};
    put(made);
    pthread_mutex_unlock(&lock);
}

static void request_freed(const MPI_Request *request) {
    if (!request) return;
    pthread_mutex_lock(&lock);
    free(taken(*request));
    pthread_mutex_unlock(&lock);
}

/* The library may have given it another handle. */
static void request_started(MPI_Request before, MPI_Request after, enum function started_by) {
    pthread_mutex_lock(&lock);
    struct made *made = taken(before);
    if (made) {
        add(made->function, made->bytes);
        made->request = after;
        put(made);
    } else {
        add(started_by, 0);
    }
    pthread_mutex_unlock(&lock);
}

static MPI_Request *requests_before(int count, const MPI_Request *requests) {
    if (count <= 0 || !requests) return NULL;
    MPI_Request *before = malloc((size_t)count * sizeof *before);
    memcpy(before, requests, (size_t)count * sizeof *before);
    return before;
}

static void requests_started(int count, MPI_Request *before, const MPI_Request *after, enum function started_by) {
    for (int i = 0; before && i < count; i++) request_started(before[i], after[i], started_by);
}

/* ---- what is written ---- */

static void write_file(const char *state) {
    const char *folder = getenv("MPI_COUNTER_DIR");
    char name[4096], unfinished[4096];
    if (!folder || getpid() != owner) return;
    if (snprintf(name, sizeof name, "%s/%d.txt", folder, (int)owner) >= (int)sizeof name) return;
    snprintf(unfinished, sizeof unfinished, "%s/%d.new", folder, (int)owner);
    FILE *file = fopen(unfinished, "w");
    if (!file) return;
    fprintf(file, "state %s\npid %d\nstart %lld\nrank %d\nsize %d\nfortran %d\n", state, (int)owner,
            (long long)start_time, rank, world_size, has_fortran);
    for (int i = 0; i < FUNCTIONS; i++) {
        if (calls[i])
            fprintf(file, "MPI_%s %llu %llu\n", names[i], (unsigned long long)calls[i],
                    (unsigned long long)bytes_handed[i]);
    }
    if (fclose(file) == 0) rename(unfinished, name);
}

static int is_in_program(const char *word) {
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), found = 0;
    struct stat data;
    if (file < 0) return 0;
    if (fstat(file, &data) == 0) {
        void *text = mmap(NULL, (size_t)data.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (text != MAP_FAILED) {
            found = memmem(text, (size_t)data.st_size, word, strlen(word)) != NULL;
            munmap(text, (size_t)data.st_size);
        }
    }
    close(file);
    return found;
}

/* Open MPI's bindings of Fortran call PMPI_X; MPICH's call MPI_X, but for those of mpi_f08. */
static int look_for_fortran(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    const char *name = info->dlpi_name;
    if (strstr(name, "libmpi_mpifh")) has_fortran = 1;
    if (strstr(name, "libmpichfort") || strstr(name, "libmpifort")) has_fortran |= is_in_program("_f08");
    return 0;
}

static void started(int has_world) {
    if (__atomic_fetch_add(&users, 1, __ATOMIC_ACQ_REL) > 0) return;
    if (!start_time) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        start_time = now.tv_sec * 1000000000ll + now.tv_nsec;
        owner = getpid();
        dl_iterate_phdr(look_for_fortran, NULL);
    }
    if (has_world) {
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
    }
    write_file("running");
}

static void finished(void) {
    if (__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL) == 0) write_file("finalized");
}

static __attribute__((destructor)) void at_end(void) {
    if (start_time) write_file(users > 0 ? "ended" : "finalized");
}

#include "wrappers.inc"
