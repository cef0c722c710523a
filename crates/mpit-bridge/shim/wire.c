/*
 * The `wire` matrix: messages that the library really sends, also inside collectives, by Open MPI's own monitoring
 * (component pml_monitoring). Opt-in, as it costs 0.1 us a message: requested by THROUGHLINE_WIRE=1, or by a file called like
 * the agent's socket with `.wire` at its end, by which the agent requests everybody's. The component is switched on within
 * MPI_Init, and observed by standing before its exported function (wire_openmpi.c); its own counters go on as usual.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"
#include "limits.h"
#include "memory.h"
#include "names.h"
#include "operations.h"
#include "shim.h"
#include "threads.h"
#include "world.h"

int tl_wire_counts;
static struct tl_peer *by_operation[TL_OPERATION_LIMIT];
/* The operations with messages reported: any; one-sided ones; persistent sends, which Open MPI 4.1 starts without
 * its monitoring layer. */
static int has_messages, has_one_sided, has_persistent;
static int wanted;
static const char *missing_because;

/* 1: yes, 0: no, -1: the environment does not say. */
static int requested_by_environment(void) {
    const char *text = getenv("THROUGHLINE_WIRE");
    if (!text || !*text) return -1;
    return strcmp(text, "0") != 0 && strcmp(text, "off") != 0 && strcmp(text, "no") != 0;
}

static int agent_wants(void) {
    const char *socket = getenv("THROUGHLINE_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
    char path[256];
    if (socket && *socket) {
        snprintf(path, sizeof path, "%s.wire", socket);
        return access(path, F_OK) == 0;
    }
    if (access("/run/throughline/mpi.sock.wire", F_OK) == 0) return 1;
    snprintf(path, sizeof path, "%s/throughline/mpi.sock.wire", run ? run : "");
    return run && *run && access(path, F_OK) == 0;
}

int tl_wire_requested(void) {
    int requested = requested_by_environment();
    return requested == 1 || (requested < 0 && agent_wants());
}

void tl_wire_missing(const char *because) {
    missing_because = because;
}

void tl_wire_start(void) {
    char setting[128];
    snprintf(setting, sizeof setting, "wire=%s", missing_because ? missing_because : "");
    if (missing_because) tl_name_add(TL_NAME_SETTING, 0, 0, 0, setting);
    wanted = requested_by_environment() == 1;
    if (tl_library.family != TL_FAMILY_OPENMPI || tl_world_size <= 0 || tl_world_size > TL_WORLD_LIMIT) return;
    __atomic_store_n(&tl_wire_counts, 1, __ATOMIC_RELEASE);
}

/* Two threads may make one at a time: the space of the second one stays unused. */
static struct tl_peer *make(int operation) {
    struct tl_peer *made = tl_memory((size_t)tl_world_size * sizeof *made), *before = NULL;
    if (!made) return NULL;
    TL_STORE(&has_messages, 1);
    if (__atomic_compare_exchange_n(&by_operation[operation], &before, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    return before;
}

/* Of collectives that go on, any call may drive the messages; their tags, as all of the library's own, are negative. */
static int operation_of(int tag) {
    const struct tl_thread *self = tl_self;
    int operation = TL_LOAD(&self->depth);
    int starts = operation == TL_OP_Start || operation == TL_OP_Startall;
    if (operation >= TL_OPERATION_LIMIT) operation = TL_NO_OPERATION;
    if (tag >= 0) return starts ? TL_OP_Send_init : operation;
    int is_collective = (operation >= TL_OP_Bcast && operation <= TL_OP_Ireduce_scatter_block) ||
                        (operation >= 54 && operation <= TL_OP_Ineighbor_alltoallw) || operation == TL_OP_Barrier ||
                        operation == TL_OP_Ibarrier;
    return is_collective || !self->nonblocking ? operation : self->nonblocking;
}

/* One-sided operations, and those by which they complete. */
static int is_one_sided(int operation) {
    return (operation >= TL_OP_Put && operation <= TL_OP_Rget_accumulate) ||
           (operation >= TL_OP_Fetch_and_op && operation <= TL_OP_Win_sync);
}

void tl_wire_message(int peer, uint64_t bytes, int tag) {
    if (peer < 0 || peer >= tl_world_size) return;
    int operation = operation_of(tag);
    if (operation == TL_OP_Finalize) return; /* what the library sends itself to end */
    if (TL_UNLIKELY(tag >= 0 && is_one_sided(operation))) TL_STORE(&has_one_sided, 1);
    if (TL_UNLIKELY(tag >= 0 && operation == TL_OP_Send_init)) TL_STORE(&has_persistent, 1);
    struct tl_peer *peers = __atomic_load_n(&by_operation[operation], __ATOMIC_ACQUIRE);
    if (TL_UNLIKELY(!peers) && !(peers = make(operation))) return;
    /* Any thread may drive the library. */
    __atomic_fetch_add(&peers[peer].bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&peers[peer].messages, 1, __ATOMIC_RELAXED);
}

void tl_wire_want(int setting) {
    if (requested_by_environment() < 0) wanted = setting;
}

int tl_wire_reported(void) {
    return wanted && TL_LOAD(&tl_wire_counts);
}

int tl_wire_measures(void) {
    return tl_wire_reported() && TL_LOAD(&has_messages);
}

int tl_wire_measures_one_sided(void) {
    return tl_wire_measures() && TL_LOAD(&has_one_sided);
}

int tl_wire_measures_persistent(void) {
    return tl_wire_measures() && TL_LOAD(&has_persistent);
}

const struct tl_peer *tl_wire_by(int operation) {
    return __atomic_load_n(&by_operation[operation], __ATOMIC_ACQUIRE);
}
