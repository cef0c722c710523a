/*
 * A library that looks like MPICH and returns at once: rank 0 of 64, or of STUB_RANKS. What is left of a call's time is
 * the shim.
 * Communicators are numbers: 0x44000000 is the world, 0x44000001... are duplicates of it. Requests are taken in turn from
 * 256 of each thread: what libraries give out is what was given back last.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 64, REQUEST_NULL = 0x2c000000, REQUEST = -0x54000000 /* 0xac000000: MPICH's, neither built in nor null */ };

static int level, ranks = RANKS;

#define BOTH(returns, name, arguments, body) \
    returns PMPI_##name arguments; \
    returns PMPI_##name arguments body \
    returns MPI_##name arguments; \
    returns MPI_##name arguments body

BOTH(int, Init_thread, (int *argc, char ***argv, int required, int *provided), {
    (void)argc;
    (void)argv;
    const char *given = getenv("STUB_RANKS");
    if (given && atoi(given) > 0) ranks = atoi(given);
    level = required;
    *provided = required;
    return 0;
})
BOTH(int, Finalize, (void), { return 0; })
BOTH(int, Query_thread, (int *provided), {
    *provided = level;
    return 0;
})
BOTH(int, Comm_rank, (int comm, int *rank), {
    (void)comm;
    *rank = 0;
    return 0;
})
BOTH(int, Comm_size, (int comm, int *size), {
    (void)comm;
    *size = ranks;
    return 0;
})
BOTH(int, Comm_remote_size, (int comm, int *size), {
    (void)comm;
    *size = ranks;
    return 0;
})
BOTH(int, Comm_test_inter, (int comm, int *flag), {
    (void)comm;
    *flag = 0;
    return 0;
})
BOTH(int, Comm_group, (int comm, int *group), {
    *group = comm;
    return 0;
})
BOTH(int, Comm_remote_group, (int comm, int *group), {
    *group = comm;
    return 0;
})
BOTH(int, Comm_free, (int *comm), {
    *comm = 0x04000000;
    return 0;
})
BOTH(int, Group_translate_ranks, (int one, int n, const int *ranks, int other, int *found), {
    (void)one;
    (void)other;
    memcpy(found, ranks, (size_t)n * sizeof *found);
    return 0;
})
BOTH(int, Group_free, (int *group), {
    *group = 0;
    return 0;
})
BOTH(int, Type_size, (int type, int *size), {
    *size = type >> 8 & 0xff; /* as MPICH keeps it */
    return 0;
})
BOTH(int, Type_get_envelope, (int type, int *integers, int *addresses, int *types, int *combiner), {
    *integers = *addresses = *types = 0;
    *combiner = type >> 30 == 1 ? 1 : 2; /* named: built in; else contiguous */
    return 0;
})
BOTH(int, Send, (const void *buf, int count, int type, int dest, int tag, int comm), {
    (void)buf;
    (void)count;
    (void)type;
    (void)dest;
    (void)tag;
    (void)comm;
    return 0;
})
/* A status as MPICH keeps it: 64 bits of bytes, where the lowest above is for "cancelled". */
BOTH(int, Status_set_elements_x, (void *status, int type, int64_t count), {
    int64_t halves = (count >> 32) << 33 | (count & 0xffffffff);
    (void)type;
    memcpy(status, &halves, sizeof halves);
    return 0;
})
BOTH(int, Recv, (void *buf, int count, int type, int source, int tag, int comm, void *status), {
    (void)buf;
    (void)source;
    (void)tag;
    (void)comm;
    if (status != (void *)1) PMPI_Status_set_elements_x(status, type, count * (type >> 8 & 0xff));
    return 0;
})
BOTH(int, Isend, (const void *buf, int count, int type, int dest, int tag, int comm, int *request), {
    static __thread int number;
    (void)buf;
    (void)count;
    (void)type;
    (void)dest;
    (void)tag;
    (void)comm;
    *request = REQUEST + (number = (number + 1) & 0xff) + (level >= 3 ? (int)((uintptr_t)&number >> 12 & 0xff) << 16 : 0);
    return 0;
})
BOTH(int, Waitall, (int count, int *requests, void *statuses), {
    (void)statuses;
    for (int i = 0; i < count; i++) requests[i] = REQUEST_NULL;
    return 0;
})
/* All receives have one handle, which is given out again as soon as it was given back: what the program defines as
 * stub_given_back happens in between, while MPI_Wait has not returned yet. */
extern void stub_given_back(void) __attribute__((weak));
static int64_t offered;

BOTH(int, Irecv, (void *buf, int count, int type, int source, int tag, int comm, int *request), {
    (void)buf;
    (void)source;
    (void)tag;
    (void)comm;
    offered = count * (type >> 8 & 0xff);
    *request = REQUEST | 0xff00;
    return 0;
})
BOTH(int, Wait, (int *request, void *status), {
    if (status != (void *)1) PMPI_Status_set_elements_x(status, 0, offered);
    *request = REQUEST_NULL;
    if (stub_given_back) stub_given_back();
    return 0;
})
/* Nothing ever comes of what these request, but where the program defines stub_comes: which of the requests, or none
 * (negative). */
extern int stub_comes(int count) __attribute__((weak));
enum { UNDEFINED = -32766 };

static int complete_one(int count, int *requests, void *status) {
    int index = stub_comes ? stub_comes(count) : -1;
    if (index < 0 || index >= count) return UNDEFINED;
    if (status != (void *)1) PMPI_Status_set_elements_x(status, 0, offered);
    requests[index] = REQUEST_NULL;
    return index;
}
BOTH(int, Test, (int *request, int *flag, void *status), {
    *flag = complete_one(1, request, status) == 0;
    return 0;
})
BOTH(int, Testany, (int count, int *requests, int *index, int *flag, void *status), {
    *index = complete_one(count, requests, status);
    *flag = *index != UNDEFINED;
    return 0;
})
/* Only where stub_tool.c is part of the library. */
extern int stub_tool_count(int bytes) __attribute__((weak));

BOTH(int, Allreduce, (const void *out, void *in, int count, int type, int op, int comm), {
    (void)out;
    (void)in;
    if (stub_tool_count) stub_tool_count(count * (type >> 8 & 0xff));
    (void)op;
    (void)comm;
    return 0;
})
