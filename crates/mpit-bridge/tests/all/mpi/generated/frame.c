/* What stands around the generated statements. THREADS is defined when it is compiled. Functions that are called
 * here and are wrapped are called by their second names, which the shim does not see. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8, COMMS = 8, BETWEEN = 7, KINDS = 5, BUFFER = 1 << 20, SHARED = 1 << 16, REQUESTS = 8 };

struct context {
    MPI_Comm comm[COMMS];
    int rank[COMMS], size[COMMS]; /* between two groups: the other one's */
    int root_between;
    MPI_Win window[2];
    MPI_Group group[2];
    MPI_File file;
    char name[4096];
    char *out, *in;
    long tests;
};
static struct context contexts[THREADS];
static MPI_Datatype types[KINDS];
static pthread_barrier_t meeting;

static void checked(int status, int line) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (status == MPI_SUCCESS) return;
    MPI_Error_string(status, text, &length);
    fprintf(stderr, "line %d: %s\n", line, text);
    MPI_Abort(MPI_COMM_WORLD, 70);
}
#define check(call) checked(call, __LINE__)

static void expect(int value, int wanted, int line) {
    if (value == wanted) return;
    fprintf(stderr, "line %d: %d in place of %d\n", line, value, wanted);
    MPI_Abort(MPI_COMM_WORLD, 71);
}

static void is_ready(MPI_Request request, int line) {
    for (int flag = 0; !flag; sched_yield()) checked(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE), line);
}
#define ready(request) is_ready(request, __LINE__)

/* A request that the program completes itself. */
static int query(void *unused, MPI_Status *status) {
    (void)unused;
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    MPI_Status_set_cancelled(status, 0);
    return MPI_Status_set_elements(status, MPI_BYTE, 0);
}
static int let_go(void *unused) {
    (void)unused;
    return MPI_SUCCESS;
}
static int give_up(void *unused, int complete) {
    (void)unused;
    (void)complete;
    return MPI_SUCCESS;
}

static void *work(void *argument) {
    struct context *x = argument;
    int flag = 0, arrived = 0, which = 0, done = 0, mode = MPI_MODE_CREATE | MPI_MODE_RDWR, indices[REQUESTS];
    int sc[RANKS_MAX], rc[RANKS_MAX], sd[RANKS_MAX], rd[RANKS_MAX], parts[RANKS_MAX], parts_c[RANKS_MAX];
    MPI_Count sc_c[RANKS_MAX], rc_c[RANKS_MAX];
    MPI_Aint sd_c[RANKS_MAX], rd_c[RANKS_MAX], addresses[RANKS_MAX], addresses_c[RANKS_MAX];
    MPI_Datatype many[RANKS_MAX];
    MPI_Request requests[REQUESTS];
    MPI_Status statuses[REQUESTS];
    MPI_Message message;
    long tests = 0;
    (void)arrived;
#include "statements.c"
    x->tests = tests;
    return NULL;
}

static void neighbours(struct context *x, int rank, int size) {
    int none = 0, before[2] = {(rank + 2 * size - 1) % size, (rank + 2 * size - 2) % size};
    int after[2] = {(rank + 1) % size, (rank + 2) % size}, index[RANKS_MAX], edges[2 * RANKS_MAX];
    check(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &none, 0, &x->comm[4]));
    check(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, before, MPI_UNWEIGHTED, 2, after, MPI_UNWEIGHTED,
                                         MPI_INFO_NULL, 0, &x->comm[5]));
    for (int i = 0; i < size; i++) {
        index[i] = 2 * i + 2;
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    check(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &x->comm[6]));
}

/* Even and odd ranks, if there are both; the leader of either is its highest rank. */
static void between(struct context *x, int rank, int size) {
    int last = size - 1, other = rank % 2 == last % 2 ? last - 1 : last;
    x->comm[BETWEEN] = MPI_COMM_NULL;
    if (size < 2) return;
    check(MPI_Intercomm_create(x->comm[2], 0, MPI_COMM_WORLD, other, 3, &x->comm[BETWEEN]));
    check(MPI_Comm_rank(x->comm[BETWEEN], &x->rank[BETWEEN]));
    check(MPI_Comm_remote_size(x->comm[BETWEEN], &x->size[BETWEEN]));
    x->root_between = rank % 2 ? 0 : x->rank[BETWEEN] ? MPI_PROC_NULL : MPI_ROOT;
}

static void set_up(struct context *x, const char *folder, int thread) {
    int rank, size;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    check(MPI_Comm_size(MPI_COMM_WORLD, &size));
    check(MPI_Comm_dup(MPI_COMM_WORLD, &x->comm[0]));
    check(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &x->comm[1]));
    check(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &x->comm[2]));
    check(MPI_Comm_split(MPI_COMM_WORLD, size > 1 && rank == size - 1 ? MPI_UNDEFINED : 0, rank, &x->comm[3]));
    neighbours(x, rank, size);
    between(x, rank, size);
    for (int i = 0; i < BETWEEN; i++) {
        if (x->comm[i] == MPI_COMM_NULL) continue;
        check(MPI_Comm_rank(x->comm[i], &x->rank[i]));
        check(MPI_Comm_size(x->comm[i], &x->size[i]));
    }
    for (int i = 0; i < 2; i++) {
        void *shared = calloc(1, SHARED);
        check(MPI_Win_create(shared, SHARED, 1, MPI_INFO_NULL, x->comm[i], &x->window[i]));
        check(MPI_Comm_group(x->comm[i], &x->group[i]));
    }
    x->out = calloc(1, BUFFER);
    x->in = calloc(1, BUFFER);
    snprintf(x->name, sizeof x->name, "%s/file.%d", folder, thread);
}

int main(int argc, char **argv) {
    int provided = 0, rank;
    long tests = 0;
    pthread_t threads[THREADS];
    if (THREADS == 1) check(MPI_Init(&argc, &argv));
    else check(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    if (argc < 2 || (THREADS > 1 && provided != MPI_THREAD_MULTIPLE)) MPI_Abort(MPI_COMM_WORLD, 64);
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)); /* communicators made of it inherit it */
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    types[0] = MPI_BYTE;
    types[1] = MPI_INT;
    types[2] = MPI_DOUBLE;
    check(MPI_Type_vector(3, 2, 5, MPI_INT, &types[3]));
    check(MPI_Type_contiguous(7, MPI_BYTE, &types[4]));
    check(MPI_Type_commit(&types[3]));
    check(MPI_Type_commit(&types[4]));
    static char attached[8 << 20];
    check(MPI_Buffer_attach(attached, sizeof attached));
    for (int i = 0; i < THREADS; i++) set_up(&contexts[i], argv[1], i);
    pthread_barrier_init(&meeting, NULL, THREADS);
    if (THREADS == 1) work(&contexts[0]);
    for (int i = 0; THREADS > 1 && i < THREADS; i++) pthread_create(&threads[i], NULL, work, &contexts[i]);
    for (int i = 0; THREADS > 1 && i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        tests += contexts[i].tests;
        for (int w = 0; w < 2; w++) check(MPI_Win_free(&contexts[i].window[w]));
        for (int c = 0; c < COMMS; c++)
            if (contexts[i].comm[c] != MPI_COMM_NULL) check(MPI_Comm_free(&contexts[i].comm[c]));
    }
    check(MPI_Type_free(&types[3]));
    check(MPI_Type_free(&types[4]));
    void *buffer;
    int bytes;
    check(MPI_Buffer_detach(&buffer, &bytes));
    printf("tests %d %ld\n", rank, tests);
    MPI_Finalize();
    return 0;
}
