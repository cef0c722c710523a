/*
 * Communicators: which world rank is meant by a rank of one. Translated once, on first use, with local MPI
 * calls only, and retained until the communicator is freed.
 *
 * What goes to "each other member" (allreduce, alltoall ...) is added up here per communicator, so that a
 * call costs the same on 4 ranks and on 4,000; the flush thread folds it into the peers' sums.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shim.h"

enum { SLOT_FREE_AGAIN = 1, PROBES = 32 };

int tl_shared_comms;

static struct tl_comm slots[TL_COMM_SLOTS];
static uint16_t touched[TL_COMM_SLOTS]; /* slots that ever held one: what the flush thread looks at */
static size_t touched_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tl_handle world_group;
static int have_world_group;
static size_t members_held;
static struct tl_peer *folded;

static size_t first_slot(tl_handle handle) {
    uint64_t mixed = (uint64_t)handle * 0x9e3779b97f4a7c15u;
    return (size_t)(mixed >> 53) % TL_COMM_SLOTS;
}

static struct tl_comm *lookup(tl_handle handle) {
    size_t start = first_slot(handle);
    for (size_t i = 0; i < PROBES; i++) {
        struct tl_comm *slot = &slots[(start + i) % TL_COMM_SLOTS];
        tl_handle held = __atomic_load_n(&slot->handle, __ATOMIC_ACQUIRE);
        if (held == handle) return slot;
        if (held == 0) return NULL;
    }
    return NULL;
}

static struct tl_comm *free_slot(tl_handle handle) {
    size_t start = first_slot(handle);
    for (size_t i = 0; i < PROBES; i++) {
        struct tl_comm *slot = &slots[(start + i) % TL_COMM_SLOTS];
        tl_handle held = TL_LOAD(&slot->handle);
        if (held == 0 || held == SLOT_FREE_AGAIN) return slot;
    }
    return NULL;
}

/* World ranks of all members of a group, or NULL with *same set where they are the numbers themselves. */
static int *translate(tl_handle group, int size, int *same) {
    *same = 0;
    if (!have_world_group || members_held + (size_t)size > TL_MEMBERS_LIMIT) return NULL;
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
    if (!*same) {
        members_held += (size_t)size;
        return to;
    }
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

/* Fills a slot from the library's answers. Returns 0 if one of them fails. */
static int describe(struct tl_comm *comm, tl_handle handle, int is_window) {
    tl_handle group = 0;
    int same = 0;
    comm->inter = 0;
    if (!(is_window ? describe_window(comm, handle, &group) : describe_comm(comm, handle, &group))) return 0;
    int *world = translate(tl_same(group), comm->size, &same);
    tl_library.group_free(&group);
    if (!world && !same) return 0;
    comm->id = 0;
    comm->number = 0;
    comm->world = world;
    comm->everyone_bytes = comm->everyone_messages = 0;
    comm->folded_bytes = comm->folded_messages = 0;
    comm->serial++;
    comm->target_count = -1;
    return 1;
}

static struct tl_comm *find(struct tl_thread *self, tl_handle handle, int is_window) {
    struct tl_comm *comm = lookup(handle);
    if (TL_UNLIKELY(!comm)) {
        pthread_mutex_lock(&lock);
        comm = lookup(handle);
        if (!comm && (comm = free_slot(handle)) != NULL) {
            if (describe(comm, handle, is_window)) {
                if (TL_LOAD(&comm->handle) == 0) touched[touched_count++] = (uint16_t)(comm - slots);
                __atomic_store_n(&comm->handle, handle, __ATOMIC_RELEASE);
                if (!is_window) tl_comm_name_look(comm);
            } else {
                comm = NULL;
            }
        }
        pthread_mutex_unlock(&lock);
    }
    if (comm) self->last_comm = comm;
    return comm;
}

/* Where it was the last time, or where it is unless another handle has that place: else it is looked for. */
static struct tl_comm *known(struct tl_thread *self, tl_handle handle) {
    struct tl_comm *comm = self->last_comm;
    if (TL_LIKELY(comm && TL_LOAD(&comm->handle) == handle)) return comm;
    comm = &slots[first_slot(handle)];
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

/* What was sent to everyone since the last time; 0 if nothing was. Call with the lock held, as the next three. */
static int take_update(struct tl_comm *comm, struct tl_peer *update) {
    uint64_t all_bytes = TL_LOAD(&comm->everyone_bytes), all_messages = TL_LOAD(&comm->everyone_messages);
    *update = (struct tl_peer){all_bytes - comm->folded_bytes, all_messages - comm->folded_messages};
    comm->folded_bytes = all_bytes;
    comm->folded_messages = all_messages;
    return update->bytes || update->messages;
}

/* Spreads it over the members; `world` NULL: their numbers are the world's. */
static void spread(struct tl_peer update, int size, const int *world, int own) {
    for (int i = 0; folded && i < size; i++) {
        int peer = world ? world[i] : i;
        if (i == own || peer < 0) continue;
        TL_ADD(&folded[peer].bytes, update.bytes); /* written under the lock, read by the flush thread without it */
        TL_ADD(&folded[peer].messages, update.messages);
    }
}

static void fold(struct tl_comm *comm) {
    struct tl_peer update;
    if (take_update(comm, &update)) spread(update, comm->size, comm->world, comm->rank);
}

/* The world and what was duplicated from it: spread once for all of them. */
static int is_whole_world(const struct tl_comm *comm) {
    return !comm->world && comm->size == tl_world_size && comm->rank == tl_world_rank;
}

void tl_comm_evict(tl_handle handle) {
    handle = tl_same(handle);
    pthread_mutex_lock(&lock);
    struct tl_comm *comm = lookup(handle);
    if (comm) {
        fold(comm);
        if (comm->world) members_held -= (size_t)comm->size;
        free(comm->world);
        free(comm->targets);
        comm->world = comm->targets = NULL;
        comm->target_count = -1;
        __atomic_store_n(&comm->handle, SLOT_FREE_AGAIN, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

void tl_comms_fold(void) {
    struct tl_peer all = {0}, update;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < touched_count; i++) {
        struct tl_comm *comm = &slots[touched[i]];
        tl_handle held = TL_LOAD(&comm->handle);
        if ((held == 0 || held == SLOT_FREE_AGAIN) || !take_update(comm, &update)) continue;
        if (is_whole_world(comm)) {
            all.bytes += update.bytes;
            all.messages += update.messages;
        } else {
            spread(update, comm->size, comm->world, comm->rank);
        }
    }
    if (all.bytes || all.messages) spread(all, tl_world_size, NULL, tl_world_rank);
    pthread_mutex_unlock(&lock);
}

const struct tl_peer *tl_comms_folded(void) {
    return folded;
}

int tl_comms_start(tl_handle group) {
    if (tl_world_size > TL_WORLD_LIMIT) return 0;
    world_group = group;
    have_world_group = 1;
    if (folded) return 1; /* of sessions before this one, in the same world */
    void *memory = mmap(NULL, (size_t)tl_world_size * sizeof *folded, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    folded = memory == MAP_FAILED ? NULL : memory;
    return folded != NULL;
}

/* Gives MPI its group back, before MPI_Finalize. The sums stay for the last flush. */
void tl_comms_stop(void) {
    pthread_mutex_lock(&lock);
    if (have_world_group) tl_library.group_free(&world_group);
    have_world_group = 0;
    pthread_mutex_unlock(&lock);
}
