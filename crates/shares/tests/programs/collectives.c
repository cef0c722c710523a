/*
 * collectives REQUESTS OUTPUT: makes the collective calls that a file lists, one a line, and writes to OUTPUT.RANK what
 * Open MPI's monitoring layer counted for each: lines `REQUEST PEER BYTES MESSAGES`.
 *
 * A request: OPERATION ALGORITHM ROOT COUNT STEP IN_PLACE. ALGORITHM is the number of coll_tuned_OPERATION_algorithm, -1 for
 * the library's own choice. Rank r has a block of COUNT + (r % 3) * STEP ints in the v-variants and reduce_scatter, COUNT in
 * all others. Link with -rdynamic; start with --mca pml ^ucx,cm
 * --mca pml_monitoring_enable 1 --mca coll_tuned_use_dynamic_rules 1.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64, VARIABLE = 128 };

/* Open MPI 4.1 sets this operation's algorithm only at the start. */
static const char FIXED[] = "allgatherv";
/* Before the name of an operation between two groups. */
static const char BETWEEN[] = "between_";

static int rank, size;
static struct {
    unsigned long bytes, messages;
} *sent;

static void fail(const char *what) {
    fprintf(stderr, "collectives: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *room(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) fail("no memory");
    return memory;
}

/* Stands before the function by which the monitoring layer counts each message that the library sends, inside collectives
 * too. */
void mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag);
void mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag) {
    (void)tag;
    if (!sent || world_rank < 0 || world_rank >= size) return;
    sent[world_rank].bytes += bytes;
    sent[world_rank].messages++;
}

/* The layer's cache of names is of no use here, and Open MPI 4.1 crashes in it where communicators of two groups are freed. */
void mca_common_monitoring_coll_cache_name(MPI_Comm comm);
void mca_common_monitoring_coll_cache_name(MPI_Comm comm) {
    (void)comm;
}

/* The algorithm applies to communicators made from now on. What can't be set at run time must have been set before. */
static void choose(const char *operation, int algorithm) {
    char name[VARIABLE];
    int index, length, now = 0;
    MPI_T_cvar_handle handle;
    snprintf(name, sizeof name, "coll_%s_%s_algorithm", *operation == 'i' ? "libnbc" : "tuned", operation);
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) {
        if (algorithm > 0) fail("no setting for this operation's algorithm");
        return;
    }
    if (algorithm < 0) algorithm = 0;
    if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &length) != MPI_SUCCESS) fail("a setting can't be read");
    MPI_T_cvar_write(handle, &algorithm);
    MPI_T_cvar_read(handle, &now);
    if (now != algorithm) {
        fprintf(stderr, "collectives: %s is %d, not %d\n", name, now, algorithm);
        fail("the setting can't be written");
    }
    MPI_T_cvar_handle_free(&handle);
}

static int *out, *in, *parts, *places;

static void call(const char *name, MPI_Comm comm, int root, int count, int in_place) {
    const int mine = parts[rank];
    const void *from = in_place ? MPI_IN_PLACE : out;
    const void *at_root = in_place && rank == root ? MPI_IN_PLACE : out;
    void *root_in = in_place && rank == root ? MPI_IN_PLACE : in;
    if (!strcmp(name, "allgather")) MPI_Allgather(from, count, MPI_INT, in, count, MPI_INT, comm);
    else if (!strcmp(name, "allgatherv")) MPI_Allgatherv(from, mine, MPI_INT, in, parts, places, MPI_INT, comm);
    else if (!strcmp(name, "allreduce")) MPI_Allreduce(from, in, count, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "alltoall")) MPI_Alltoall(from, count, MPI_INT, in, count, MPI_INT, comm);
    else if (!strcmp(name, "alltoallv")) {
        for (int i = 0; i < size; i++) {
            parts[i] = count;
            places[i] = i * count;
        }
        MPI_Alltoallv(from, parts, places, MPI_INT, in, parts, places, MPI_INT, comm);
    } else if (!strcmp(name, "barrier")) MPI_Barrier(comm);
    else if (!strcmp(name, "bcast")) MPI_Bcast(out, count, MPI_INT, root, comm);
    else if (!strcmp(name, "exscan")) MPI_Exscan(from, in, count, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "gather")) MPI_Gather(at_root, count, MPI_INT, in, count, MPI_INT, root, comm);
    else if (!strcmp(name, "gatherv")) MPI_Gatherv(at_root, mine, MPI_INT, in, parts, places, MPI_INT, root, comm);
    else if (!strcmp(name, "reduce")) MPI_Reduce(at_root, in, count, MPI_INT, MPI_SUM, root, comm);
    else if (!strcmp(name, "reduce_scatter")) MPI_Reduce_scatter(from, in, parts, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "reduce_scatter_block")) MPI_Reduce_scatter_block(from, in, count, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "scan")) MPI_Scan(from, in, count, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "scatter")) MPI_Scatter(out, count, MPI_INT, root_in, count, MPI_INT, root, comm);
    else if (!strcmp(name, "scatterv")) MPI_Scatterv(out, parts, places, MPI_INT, root_in, mine, MPI_INT, root, comm);
    else fail("no such operation");
}

/* The same of the operations that go on after their call; the name is that of the blocking one. */
static void call_nonblocking(const char *name, MPI_Comm comm, int root, int count, int in_place) {
    const int mine = parts[rank];
    const void *from = in_place ? MPI_IN_PLACE : out;
    const void *at_root = in_place && rank == root ? MPI_IN_PLACE : out;
    void *root_in = in_place && rank == root ? MPI_IN_PLACE : in;
    MPI_Request request = MPI_REQUEST_NULL;
    if (!strcmp(name, "allgather")) MPI_Iallgather(from, count, MPI_INT, in, count, MPI_INT, comm, &request);
    else if (!strcmp(name, "allgatherv")) MPI_Iallgatherv(from, mine, MPI_INT, in, parts, places, MPI_INT, comm, &request);
    else if (!strcmp(name, "allreduce")) MPI_Iallreduce(from, in, count, MPI_INT, MPI_SUM, comm, &request);
    else if (!strcmp(name, "alltoall")) MPI_Ialltoall(from, count, MPI_INT, in, count, MPI_INT, comm, &request);
    else if (!strcmp(name, "barrier")) MPI_Ibarrier(comm, &request);
    else if (!strcmp(name, "bcast")) MPI_Ibcast(out, count, MPI_INT, root, comm, &request);
    else if (!strcmp(name, "exscan")) MPI_Iexscan(from, in, count, MPI_INT, MPI_SUM, comm, &request);
    else if (!strcmp(name, "gather")) MPI_Igather(at_root, count, MPI_INT, in, count, MPI_INT, root, comm, &request);
    else if (!strcmp(name, "reduce")) MPI_Ireduce(at_root, in, count, MPI_INT, MPI_SUM, root, comm, &request);
    else if (!strcmp(name, "reduce_scatter"))
        MPI_Ireduce_scatter(from, in, parts, MPI_INT, MPI_SUM, comm, &request);
    else if (!strcmp(name, "reduce_scatter_block"))
        MPI_Ireduce_scatter_block(from, in, count, MPI_INT, MPI_SUM, comm, &request);
    else if (!strcmp(name, "scan")) MPI_Iscan(from, in, count, MPI_INT, MPI_SUM, comm, &request);
    else if (!strcmp(name, "scatter")) MPI_Iscatter(out, count, MPI_INT, root_in, count, MPI_INT, root, comm, &request);
    else fail("no such nonblocking operation");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Between the first half of the ranks, in which the root is, and the others. */
static void call_between(const char *name, MPI_Comm comm, int root, int count) {
    const int is_first = rank < size / 2;
    const int here = !is_first ? root : rank == root ? MPI_ROOT : MPI_PROC_NULL;
    if (!strcmp(name, "allgather")) MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm);
    else if (!strcmp(name, "allreduce")) MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm);
    else if (!strcmp(name, "alltoall")) MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm);
    else if (!strcmp(name, "bcast")) MPI_Bcast(out, count, MPI_INT, here, comm);
    else if (!strcmp(name, "gather")) MPI_Gather(out, count, MPI_INT, in, count, MPI_INT, here, comm);
    else if (!strcmp(name, "reduce")) MPI_Reduce(out, in, count, MPI_INT, MPI_SUM, here, comm);
    else if (!strcmp(name, "scatter")) MPI_Scatter(out, count, MPI_INT, in, count, MPI_INT, here, comm);
    else fail("no such operation between groups");
}

/* Needs --mca coll ^monitoring: Open MPI 4.1 crashes otherwise. */
static MPI_Comm two_groups(void) {
    MPI_Comm half, both;
    const int is_first = rank < size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, is_first, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_first ? size / 2 : 0, 0, &both);
    MPI_Comm_free(&half);
    return both;
}

static void measure(int number, const char *line, FILE *to) {
    char name[NAME];
    int algorithm, root, count, step, in_place;
    if (sscanf(line, "%63s %d %d %d %d %d", name, &algorithm, &root, &count, &step, &in_place) != 6)
        fail("a request is OPERATION ALGORITHM ROOT COUNT STEP IN_PLACE");
    const int each = count + 2 * step;
    parts = room((size_t)size * sizeof(int));
    places = room((size_t)size * sizeof(int));
    out = room((size_t)each * (size_t)size * sizeof(int));
    in = room((size_t)each * (size_t)size * sizeof(int));
    int total = 0;
    for (int r = 0; r < size; r++) {
        parts[r] = count + r % 3 * step;
        places[r] = total;
        total += parts[r];
    }
    MPI_Comm comm;
    choose(name, algorithm);
    const int is_between = !strncmp(name, BETWEEN, sizeof BETWEEN - 1);
    if (is_between) comm = two_groups();
    else MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(MPI_COMM_WORLD);
    memset(sent, 0, (size_t)size * sizeof *sent);
    if (is_between) call_between(name + sizeof BETWEEN - 1, comm, root, count);
    else if (*name == 'i') call_nonblocking(name + 1, comm, root, count, in_place);
    else call(name, comm, root, count, in_place);
    for (int peer = 0; peer < size; peer++)
        if (sent[peer].messages) fprintf(to, "%d %d %lu %lu\n", number, peer, sent[peer].bytes, sent[peer].messages);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    if (algorithm > 0 && strcmp(name, FIXED)) choose(name, -1);
    free(parts);
    free(places);
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3) fail("two arguments: the file of requests, and the output's name");
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    sent = room((size_t)size * sizeof *sent);
    char path[4096], line[256];
    snprintf(path, sizeof path, "%s.%d", argv[2], rank);
    FILE *requests = fopen(argv[1], "r"), *to = fopen(path, "w");
    if (!requests || !to) fail("a file can't be opened");
    for (int number = 0; fgets(line, sizeof line, requests); number++) measure(number, line, to);
    fclose(requests);
    if (fclose(to)) fail("the output can't be written");
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
