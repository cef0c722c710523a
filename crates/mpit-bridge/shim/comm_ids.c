/*
 * A name for each communicator in trace mode that all its members find without querying each other: a hash of the
 * parent's name, of the world ranks of the members in their order, and of how many communicators this process
 * has made of the same parent and the same members before. Making a communicator is collective over its members,
 * so that all of them have made as many. Different communicators may have one name only by an accident of 64 bits.
 *
 * Communicators that came about in a way that is not followed (MPI_Comm_spawn, sessions) have no name, and their
 * messages no number: better no arrow than a wrong one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "comm.h"
#include "comm_ids.h"
#include "comms.h"
#include "form.h"
#include "library.h"
#include "notes.h"
#include "shim.h"
#include "threads.h"
#include "trace.h"

enum { NAME_OF_WORLD = 1, KINDS = 4096 /* different parents and members, a power of two */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t kind;
    uint32_t made;
} kinds[KINDS];

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t value = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
    return value ^ (value >> 29);
}

static int is_null(tl_handle handle) {
    enum { MPICH_NULL = 0x04000000, STANDARD_NULL = 0x100 };
    static void *openmpi_null;
    if (tl_library.family != TL_FAMILY_OPENMPI) return handle == MPICH_NULL || handle == STANDARD_NULL;
    if (!openmpi_null) openmpi_null = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null");
    if (!openmpi_null) openmpi_null = tl_find("ompi_mpi_comm_null");
    return !openmpi_null || handle == (tl_handle)openmpi_null;
}

/* The members' world ranks in their order; 0 if one is of another world. */
static uint64_t of_members(int size, const int *world) {
    uint64_t value = (uint64_t)size;
    for (int i = 0; i < size; i++) {
        int rank = world ? world[i] : i;
        if (rank < 0) return 0;
        value = mix(value, (uint64_t)rank);
    }
    return value ? value : 1;
}

/* The own group of an intercommunicator, which tl_comm does not hold. */
static uint64_t of_own_group(tl_handle handle) {
    tl_handle group = 0, world = 0;
    int size = 0;
    uint64_t value = 0;
    if (tl_library.comm_size(handle, &size) != 0 || size <= 0 || tl_library.comm_group(handle, &group) != 0) return 0;
    int *from = malloc((size_t)size * 2 * sizeof *from), *to = from + size;
    if (from && tl_library.comm_group(tl_library.comm_world, &world) == 0) {
        for (int i = 0; i < size; i++) from[i] = i;
        if (tl_library.group_translate_ranks(tl_same(group), size, from, tl_same(world), to) == 0)
            value = of_members(size, to);
        tl_library.group_free(&world);
    }
    free(from);
    tl_library.group_free(&group);
    return value;
}

/* How many of this kind there were before; -1 where there are too many kinds. */
static int64_t made_before(uint64_t kind) {
    int64_t before = -1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < KINDS && before < 0; i++) {
        size_t at = (kind + i) % KINDS;
        if (!kinds[at].kind) kinds[at].kind = kind;
        if (kinds[at].kind == kind) before = kinds[at].made++;
    }
    pthread_mutex_unlock(&lock);
    return before;
}

uint64_t tl_comm_id(const struct tl_comm *comm) {
    if (!comm) return 0;
    return comm->handle == tl_library.comm_world ? NAME_OF_WORLD : TL_LOAD(&comm->id);
}

/* An intercommunicator has the same name on both sides: it is made of both groups, and of no parent, as each
 * side has its own. */
static void name_made(struct tl_thread *self, tl_handle parent, tl_handle handle) {
    handle = tl_same(handle);
    if (is_null(handle)) return;
    struct tl_comm *comm = tl_comm_find(self, handle);
    uint64_t from = tl_comm_id(tl_comm_find(self, parent));
    if (!comm) return;
    uint64_t members = of_members(comm->size, comm->world);
    if (comm->inter) {
        uint64_t own = of_own_group(handle);
        members = members && own ? (members ^ own) | 1 : 0;
        from = 2;
    }
    uint64_t kind = members && from ? mix(from, members) | 1 : 0;
    int64_t before = kind ? made_before(kind) : -1;
    TL_STORE(&comm->id, before < 0 ? 0 : mix(kind, (uint64_t)before) | 1u << 1);
}

/* The handle that a program finds at an address, in C or in Fortran. */
static tl_handle made_at(enum tl_form form, const void *address) {
    if (tl_is_fortran(form)) return tl_library.comm_f2c(*(const int *)address);
    return tl_library.handle_bytes == 8 ? *(const tl_handle *)address : *(const int *)address;
}

/* Followed in trace mode only. MPI_Comm_idup has no note: its communicator may not be looked at before it is complete. */
void tl_note_made(tl_callp call, tl_handle parent, const void *made) {
    tl_note_time(call);
    if (TL_UNLIKELY(TL_LOAD(&tl_tracing))) name_made(call->self, parent, made_at(call->form, made));
}
