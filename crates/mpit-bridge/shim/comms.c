/*
 * Communicators: which world rank is meant by a rank of one. Translated once, on first use, with local MPI
 * calls only, and retained until the communicator is freed.
 *
 * What collectives move within one is added up in the group of its members (groups.c), which outlives it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "comm.h"
#include "comm_names.h"
#include "comms.h"
#include "frames.h"
#include "groups.h"
#include "library.h"
#include "limits.h"
#include "memory.h"
#include "shim.h"
#include "threads.h"
#include "topology.h"
#include "world.h"

enum { PROBES = 32 };

int tl_shared_comms;

/* A handle's place in the table is far from that of the next handle, and a slot is larger than a cache line: so places hold the
 * numbers of slots, which are taken in turn, and only so much memory is touched as there are communicators. */
static uint16_t places[TL_COMM_SLOTS];
static struct tl_comm slots[TL_COMM_SLOTS + 1]; /* the first one is that of places without a slot */
static uint16_t slots_used;                     /* changes under the lock */
_Static_assert(TL_COMM_SLOTS < UINT16_MAX, "places hold the numbers of slots");
static tl_handle world_group;
static int have_world_group;

static size_t first_slot(tl_handle handle) {
    uint64_t mixed = (uint64_t)handle * 0x9e3779b97f4a7c15u;
    return (size_t)(mixed >> 53) % TL_COMM_SLOTS;
}

static struct tl_comm *slot_at(size_t place) {
    return &slots[TL_LOAD(&places[place % TL_COMM_SLOTS])];
}

static struct tl_comm *lookup(tl_handle handle) {
    size_t start = first_slot(handle);
    for (size_t i = 0; i < PROBES; i++) {
        struct tl_comm *slot = slot_at(start + i);
        tl_handle held = __atomic_load_n(&slot->handle, __ATOMIC_ACQUIRE);
        if (held == handle) return slot;
        if (held == 0) return NULL;
    }
    return NULL;
}

const struct tl_comm *tl_comm_known(tl_handle handle) {
    return lookup(handle);
}

static struct tl_comm *free_slot(tl_handle handle) {
    size_t start = first_slot(handle);
    for (size_t i = 0; i < PROBES; i++) {
        struct tl_comm *slot = slot_at(start + i);
        if (slot == slots) {
            TL_STORE(&places[(start + i) % TL_COMM_SLOTS], ++slots_used);
            return slot_at(start + i);
        }
        tl_handle held = TL_LOAD(&slot->handle);
        if (held == 0 || held == TL_SLOT_FREE_AGAIN) return slot;
    }
    return NULL;
}

/* World ranks of all members of a group, or NULL with *same set where they are the numbers themselves. */
static int *translate(tl_handle group, int size, int *same) {
    *same = 0;
    if (!have_world_group || !tl_groups_have_space((size_t)size)) return NULL;
    int *from = malloc((size_t)size * sizeof *from);
    int *to = malloc((size_t)size * sizeof *to);
    if (!from || !to) goto failed;
    for (int i = 0; i < size; i++) from[i] = i;
    if (tl_library.group_translate_ranks(group, size, from, world_group, to) != 0) goto failed;
    *same = 1;
    for (int i = 0; i < size; i++) {
        if (to[i] < 0 || to[i] >= tl_world_size) to[i] = -1; /* MPI_UNDEFINED: a process of another world */
        if (to[i] != i) *same = 0;
    }
    free(from);
    if (!*same) return to;
    free(to);
    return NULL;
failed:
    free(from);
    free(to);
    return NULL;
}

/* Members of a window are those of its group. */
static int describe_window(struct tl_comm *window, tl_handle handle, tl_handle *group) {
    if (!tl_library.win_get_group || !tl_library.group_size || !tl_library.group_rank) return 0;
    if (tl_library.win_get_group(handle, group) != 0) return 0;
    return tl_library.group_size(tl_same(*group), &window->size) == 0 &&
           tl_library.group_rank(tl_same(*group), &window->rank) == 0;
}

static int describe_comm(struct tl_comm *comm, tl_handle handle, tl_handle *group) {
    comm->rank = -1;
    if (tl_library.comm_test_inter(handle, &comm->inter) != 0) return 0;
    if (comm->inter)
        return tl_library.comm_remote_size(handle, &comm->size) == 0 &&
               tl_library.comm_remote_group(handle, group) == 0;
    return tl_library.comm_size(handle, &comm->size) == 0 && tl_library.comm_rank(handle, &comm->rank) == 0 &&
           tl_library.comm_group(handle, group) == 0;
}

/* World ranks of a group's members; gives the group back. */
static int list(struct tl_members *members, tl_handle group) {
    int same = 0;
    members->world = translate(tl_same(group), members->size, &same);
    tl_library.group_free(&group);
    return members->world || same;
}

/* The group of an intercommunicator that this rank is in. */
static int describe_own(struct tl_members *own, tl_handle handle) {
    tl_handle group = 0;
    return tl_library.comm_size(handle, &own->size) == 0 && tl_library.comm_rank(handle, &own->rank) == 0 &&
           tl_library.comm_group(handle, &group) == 0 && list(own, group);
}

/* Fills a slot from the library's answers. Returns 0 if one of them fails. */
static int describe(struct tl_comm *comm, tl_handle handle, int is_window) {
    tl_handle group = 0;
    comm->inter = 0;
    if (!(is_window ? describe_window(comm, handle, &group) : describe_comm(comm, handle, &group))) return 0;
    struct tl_members members = {.size = comm->size, .rank = comm->rank}, own = {0};
    if (!list(&members, group)) return 0;
    int good = !comm->inter || describe_own(&own, handle);
    comm->group = good ? tl_group_take(members, comm->inter, own) : NULL;
    if (!comm->group) {
        free(members.world);
        free(own.world);
        return 0;
    }
    comm->id = 0;
    comm->number = 0;
    comm->world = comm->group->world;
    comm->last = &tl_no_collective;
    comm->serial++;
    comm->target_count = -1;
    return 1;
}

/* What this thread is freeing, while a callback of an attribute of it is at work: described for this thread alone, as it must not
 * be in the table when another thread gets its handle. */
static struct tl_comm *find_leaving(struct tl_thread *self, tl_handle handle, int is_window) {
    struct tl_comm *comm = self->leaving.comm;
    if (!comm) {
        pthread_mutex_lock(&tl_comms_lock);
        comm = self->spare_comm ? self->spare_comm : tl_memory(sizeof *comm);
        if (comm) self->spare_comm = comm->next_spare;
        if (comm && describe(comm, handle, is_window)) {
            TL_STORE(&comm->handle, handle);
            self->leaving.comm = comm;
        } else if (comm) {
            comm->next_spare = self->spare_comm;
            self->spare_comm = comm;
            comm = NULL;
        }
        pthread_mutex_unlock(&tl_comms_lock);
    }
    if (comm) self->last_comm = comm;
    return comm;
}

/* Is it? Not where the call that frees it was left by a jump. */
static int is_leaving(struct tl_thread *self, tl_handle handle) {
    if (TL_LIKELY(self->leaving.handle != handle)) return 0;
    if (!tl_frame_is_over(self, self->leaving.frame, TL_FRAME)) return 1;
    self->leaving = (struct tl_leaving){0};
    return 0;
}

static struct tl_comm *find(struct tl_thread *self, tl_handle handle, int is_window) {
    if (TL_UNLIKELY(is_leaving(self, handle))) return find_leaving(self, handle, is_window);
    struct tl_comm *comm = lookup(handle);
    if (TL_UNLIKELY(!comm)) {
        pthread_mutex_lock(&tl_comms_lock);
        comm = lookup(handle);
        if (!comm && (comm = free_slot(handle)) != NULL) {
            if (describe(comm, handle, is_window)) {
                __atomic_store_n(&comm->handle, handle, __ATOMIC_RELEASE);
                if (!is_window) tl_comm_name_look(comm);
            } else {
                comm = NULL;
            }
        }
        pthread_mutex_unlock(&tl_comms_lock);
    }
    if (comm) self->last_comm = comm;
    return comm;
}

/* Where it was the last time, or where it is unless another handle has that place: else it is looked for. */
static struct tl_comm *known(struct tl_thread *self, tl_handle handle) {
    struct tl_comm *comm = self->last_comm;
    if (TL_LIKELY(TL_LOAD(&comm->handle) == handle)) return comm;
    comm = slot_at(first_slot(handle));
    if (__atomic_load_n(&comm->handle, __ATOMIC_ACQUIRE) != handle) return NULL;
    return self->last_comm = comm;
}

struct tl_comm *tl_comm_find(struct tl_thread *self, tl_handle handle) {
    handle = tl_same(handle);
    struct tl_comm *comm = known(self, handle);
    return TL_LIKELY(comm != NULL) ? comm : find(self, handle, 0);
}

struct tl_comm *tl_window_find(struct tl_thread *self, tl_handle handle) {
    handle = tl_same(handle);
    struct tl_comm *comm = known(self, handle);
    return TL_LIKELY(comm != NULL) ? comm : find(self, handle, 1);
}

/* Members as the library has them now; 0 if it does not report. */
static int size_now(tl_handle handle) {
    int is_inter = 0, size = 0;
    if (tl_library.comm_test_inter(handle, &is_inter) != 0) return 0;
    return (is_inter ? tl_library.comm_remote_size : tl_library.comm_size)(handle, &size) == 0 ? size : 0;
}

struct tl_comm *tl_comm_find_now(struct tl_thread *self, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find(self, handle);
    if (!comm || TL_LIKELY(comm->size == size_now(comm->handle))) return comm;
    tl_comm_evict(handle);
    return tl_comm_find(self, handle);
}

struct tl_comm *tl_comm_find_with_neighbours(struct tl_thread *self, tl_handle handle) {
    struct tl_comm *comm = tl_comm_find_now(self, handle);
    if (!comm || !tl_comm_neighbours(comm)) return NULL;
    if (TL_LIKELY(comm->target_count == tl_comm_neighbours_now(comm))) return comm;
    tl_comm_evict(handle);
    comm = tl_comm_find(self, handle);
    return comm && tl_comm_neighbours(comm) ? comm : NULL;
}

/* Call with the lock held. */
static void clear(struct tl_comm *comm) {
    tl_group_leave(comm->group);
    free(comm->targets);
    comm->group = NULL;
    comm->last = NULL;
    comm->world = comm->targets = NULL;
    comm->target_count = -1;
    __atomic_store_n(&comm->handle, TL_SLOT_FREE_AGAIN, __ATOMIC_RELEASE);
}

void tl_comm_evict(tl_handle handle) {
    handle = tl_same(handle);
    pthread_mutex_lock(&tl_comms_lock);
    struct tl_comm *comm = lookup(handle);
    if (comm) clear(comm);
    pthread_mutex_unlock(&tl_comms_lock);
}

struct tl_leaving tl_comm_leave(tl_handle handle, struct tl_frame_mark frame) {
    struct tl_thread *self = tl_thread_attached() ? tl_self : tl_thread_attach();
    tl_comm_evict(handle);
    if (!self || !self->table) return (struct tl_leaving){0}; /* a thread that can't record */
    struct tl_leaving before = self->leaving;
    self->leaving = (struct tl_leaving){tl_same(handle), frame, NULL};
    return before;
}

void tl_comm_left(struct tl_leaving before) {
    struct tl_thread *self = tl_thread_attached();
    if (!self || !self->table) return;
    struct tl_comm *comm = self->leaving.comm;
    if (comm) {
        pthread_mutex_lock(&tl_comms_lock);
        clear(comm);
        comm->next_spare = self->spare_comm;
        self->spare_comm = comm;
        pthread_mutex_unlock(&tl_comms_lock);
    }
    self->leaving = before;
}

/* Handles of an earlier session mean nothing in the next one. */
static void evict_all(void) {
    pthread_mutex_lock(&tl_comms_lock);
    for (size_t i = 1; i <= slots_used; i++)
        if (slots[i].group) clear(&slots[i]);
    pthread_mutex_unlock(&tl_comms_lock);
}

int tl_comms_start(tl_handle group) {
    evict_all();
    if (tl_world_size > TL_WORLD_LIMIT) return 0;
    world_group = group;
    have_world_group = 1;
    return tl_groups_start();
}

/* Gives MPI its group back, before MPI_Finalize. The sums stay for the last flush. */
void tl_comms_stop(void) {
    pthread_mutex_lock(&tl_comms_lock);
    if (have_world_group) tl_library.group_free(&world_group);
    have_world_group = 0;
    pthread_mutex_unlock(&tl_comms_lock);
}
