/*
 * Groups: members of communicators, and the sums of what collectives moved within them. A collective adds to one cell,
 * however many members there are; the flush thread sends cells (traffic.c), and spreads them over the members for the
 * logical matrix. Threads add without a lock; places of groups change under the lock of comms.c.
 */
#include "groups.h"

#include <stdlib.h>
#include <string.h>

#include "algorithms.h"
#include "comm.h"
#include "limits.h"
#include "memory.h"
#include "operations.h"
#include "peer_sums.h"
#include "shim.h"
#include "threads.h"
#include "world.h"

enum {
    FIRST_CELLS = 16, /* of a group; most programs use a handful */
    CELLS_GROW = 4,   /* each further piece has so many times the cells of the one before */
    PIECES = 4,       /* of a group: 1,360 cells; collectives beyond them count by peer */
    PROBES = 8
};

struct tl_collective tl_no_collective = {.of = &tl_no_collective};
struct tl_group tl_groups[TL_GROUPS_LIMIT];
size_t tl_groups_used;
pthread_mutex_t tl_comms_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t members_held;
static struct tl_peer *folded;

#define EVERYONE(Name) [TL_OP_##Name] = TL_SHAPE_EVERYONE
#define FROM_ROOT(Name) [TL_OP_##Name] = TL_SHAPE_FROM_ROOT
#define TO_ROOT(Name) [TL_OP_##Name] = TL_SHAPE_TO_ROOT
#define HIGHER(Name) [TL_OP_##Name] = TL_SHAPE_HIGHER
#define THREE(SHAPE, Name, name) SHAPE(Name), SHAPE(I##name), SHAPE(Name##_init)
const uint8_t tl_shapes[TL_OPERATION_LIMIT] = {
    THREE(EVERYONE, Barrier, barrier), THREE(EVERYONE, Allreduce, allreduce), THREE(EVERYONE, Allgather, allgather),
    THREE(EVERYONE, Allgatherv, allgatherv), THREE(EVERYONE, Alltoall, alltoall),
    THREE(EVERYONE, Reduce_scatter_block, reduce_scatter_block), THREE(FROM_ROOT, Bcast, bcast),
    THREE(FROM_ROOT, Scatter, scatter), THREE(TO_ROOT, Reduce, reduce), THREE(TO_ROOT, Gather, gather),
    THREE(HIGHER, Scan, scan), THREE(HIGHER, Exscan, exscan),
};

/* ---- cells ---- */

static uint32_t place_of(uint64_t key, uint32_t space) {
    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 40) & (space - 1);
}

static struct tl_collectives *make_piece(uint32_t space) {
    struct tl_collectives *piece = malloc(sizeof *piece);
    void *cells = NULL;
    if (!piece || posix_memalign(&cells, TL_CACHE_LINE, space * sizeof *piece->cells) != 0) {
        free(piece);
        return NULL;
    }
    *piece = (struct tl_collectives){.space = space, .cells = memset(cells, 0, space * sizeof *piece->cells)};
    return piece;
}

static void free_piece(struct tl_collectives *piece) {
    free(piece->cells);
    free(piece);
}

/* Another thread may take the place, or hang up its piece, at the same time. */
static struct tl_collective *find_in(struct tl_collectives *piece, uint64_t key) {
    for (uint32_t i = 0, at = place_of(key, piece->space); i < PROBES && i < piece->space; i++) {
        struct tl_collective *cell = &piece->cells[(at + i) & (piece->space - 1)];
        uint64_t held = __atomic_load_n(&cell->key, __ATOMIC_ACQUIRE);
        if (held == 0 && __atomic_compare_exchange_n(&cell->key, &held, key, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return cell;
        if (held == key) return cell;
    }
    return NULL;
}

static struct tl_collective *find(struct tl_group *group, uint64_t key) {
    struct tl_collectives **place = &group->all;
    uint32_t space = FIRST_CELLS;
    for (int i = 0; i < PIECES; i++, space *= CELLS_GROW) {
        struct tl_collectives *piece = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (!piece) {
            struct tl_collectives *made = make_piece(space);
            if (!made) return NULL;
            if (__atomic_compare_exchange_n(place, &piece, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) piece = made;
            else free_piece(made);
        }
        struct tl_collective *cell = find_in(piece, key);
        if (cell) return cell;
        place = &piece->next;
    }
    return NULL;
}

/* To the peers themselves. */
static void spread(struct tl_thread *self, const struct tl_comm *comm, int operation, int root, int64_t block) {
    switch (tl_shapes[operation]) {
    case TL_SHAPE_FROM_ROOT:
        if (comm->inter ? root != TL_ROOT_SELF : root != comm->rank) return;
        break;
    case TL_SHAPE_TO_ROOT:
        if (root >= 0 && (comm->inter || root != comm->rank)) add_member(self, operation, comm, root, block);
        return;
    case TL_SHAPE_HIGHER:
        for (int i = comm->rank + 1; i < comm->size; i++) add_member(self, operation, comm, i, block);
        return;
    case TL_SHAPE_EVERYONE: break;
    default: return;
    }
    for (int i = 0; i < comm->size; i++)
        if (comm->inter || i != comm->rank) add_member(self, operation, comm, i, block);
}

struct tl_collective *tl_collective_find(struct tl_thread *self, struct tl_comm *comm, int operation, int root,
                                         int64_t block) {
    /* What was observed inside another operation does not apply to this one. */
    int algorithm = tl_algorithm_operation(self->algorithm) == operation ? self->algorithm : 0;
    struct tl_collective *cell = find(comm->group, tl_collective_key(operation, algorithm, self->last_class, root));
    if (!cell) {
        spread(self, comm, operation, root, block);
        return NULL;
    }
    TL_STORE(&cell->of, self->last_cell ? (const void *)self->last_cell : &tl_no_collective);
    __atomic_store_n(&comm->last, cell, __ATOMIC_RELEASE);
    return cell;
}

/* ---- the logical matrix ---- */

static int world_rank(const struct tl_group *group, int member) {
    return group->world ? group->world[member] : member;
}

static void fold_member(const struct tl_group *group, int member, struct tl_peer update) {
    int peer = world_rank(group, member);
    if (peer < 0) return;
    TL_ADD(&folded[peer].bytes, update.bytes); /* written under the lock, read by the flush thread without it */
    TL_ADD(&folded[peer].messages, update.messages);
}

static void fold_members(const struct tl_group *group, int first, struct tl_peer update) {
    if (!update.bytes && !update.messages) return;
    for (int i = first; i < group->size; i++)
        if (group->inter || i != group->rank) fold_member(group, i, update);
}

/* What a cell has grown by since the last time. */
static struct tl_peer take_update(struct tl_collective *cell) {
    uint64_t bytes = TL_LOAD(&cell->bytes), calls = TL_LOAD(&cell->calls);
    struct tl_peer update = {bytes - cell->bytes_folded, (uint32_t)calls - cell->calls_folded};
    cell->bytes_folded = bytes;
    cell->calls_folded = (uint32_t)calls;
    return update;
}

static void fold(struct tl_group *group) {
    struct tl_peer everyone = {0}, higher = {0};
    for (struct tl_collectives *piece = __atomic_load_n(&group->all, __ATOMIC_ACQUIRE); piece && folded;
         piece = __atomic_load_n(&piece->next, __ATOMIC_ACQUIRE))
        for (uint32_t i = 0; i < piece->space; i++) {
            struct tl_collective *cell = &piece->cells[i];
            uint64_t key = __atomic_load_n(&cell->key, __ATOMIC_ACQUIRE);
            if (!key) continue;
            struct tl_peer update = take_update(cell);
            uint32_t root = tl_key_root(key);
            int is_root = group->inter ? root == TL_KEY_ROOT_SELF : (int)root == group->rank;
            int shape = tl_shapes[tl_key_operation(key)];
            if (shape == TL_SHAPE_EVERYONE || (shape == TL_SHAPE_FROM_ROOT && is_root)) {
                everyone.bytes += update.bytes;
                everyone.messages += update.messages;
            } else if (shape == TL_SHAPE_HIGHER) {
                higher.bytes += update.bytes;
                higher.messages += update.messages;
            } else if (shape == TL_SHAPE_TO_ROOT && !is_root && root < (uint32_t)group->size) {
                fold_member(group, (int)root, update);
            }
        }
    fold_members(group, 0, everyone);
    fold_members(group, group->rank + 1, higher);
}

void tl_comms_fold(void) {
    pthread_mutex_lock(&tl_comms_lock);
    for (size_t i = 0; i < tl_groups_used; i++)
        if (tl_groups[i].live) fold(&tl_groups[i]);
    pthread_mutex_unlock(&tl_comms_lock);
}

const struct tl_peer *tl_comms_folded(void) {
    return folded;
}

int tl_groups_start(void) {
    if (!folded) folded = tl_memory((size_t)tl_world_size * sizeof *folded); /* sessions share one world */
    return folded != NULL;
}

/* ---- places ---- */

static uint64_t hash_of(const struct tl_members *members) {
    uint64_t hash = (uint64_t)members->size << 33 ^ (uint64_t)(uint32_t)members->rank << 1;
    for (int i = 0; members->world && i < members->size; i++)
        hash = (hash ^ (uint32_t)members->world[i]) * 0x9e3779b97f4a7c15u;
    return hash;
}

static int are_same(const struct tl_members *a, const struct tl_members *b) {
    return a->size == b->size && a->rank == b->rank && !a->world == !b->world &&
           (!a->world || memcmp(a->world, b->world, (size_t)a->size * sizeof *a->world) == 0);
}

static struct tl_members members_of(const struct tl_group *group) {
    return (struct tl_members){group->world, group->size, group->rank};
}

/* How many of them are held. */
static size_t listed(const struct tl_members *members) {
    return members->world ? (size_t)members->size : 0;
}

static int is_sent(const struct tl_group *group) {
    for (const struct tl_collectives *piece = group->all; piece; piece = piece->next)
        for (uint32_t i = 0; i < piece->space; i++)
            if ((uint32_t)piece->cells[i].calls != piece->cells[i].calls_sent) return 0;
    return 1;
}

static void release(struct tl_group *group) {
    fold(group);
    for (struct tl_collectives *piece = group->all, *next; piece; piece = next) {
        next = piece->next;
        free_piece(piece);
    }
    struct tl_members members = members_of(group);
    members_held -= listed(&members) + listed(&group->own);
    free(group->world);
    free(group->own.world);
    *group = (struct tl_group){.generation = group->generation};
}

/* Groups that no communicator has any more: first those with everything sent. */
static int reclaim(int unsent_too) {
    int found = 0;
    for (size_t i = 0; i < tl_groups_used; i++) {
        struct tl_group *group = &tl_groups[i];
        if (!group->live || group->references > 0 || !(unsent_too || is_sent(group))) continue;
        release(group);
        found = 1;
    }
    return found;
}

int tl_groups_have_space(size_t members) {
    if (members_held + members > TL_MEMBERS_LIMIT) reclaim(0);
    if (members_held + members > TL_MEMBERS_LIMIT) reclaim(1);
    return members_held + members <= TL_MEMBERS_LIMIT;
}

static struct tl_group *free_place(void) {
    if (tl_groups_used < TL_GROUPS_LIMIT) return &tl_groups[tl_groups_used++];
    if (!reclaim(0)) reclaim(1);
    for (size_t i = 0; i < TL_GROUPS_LIMIT; i++)
        if (!tl_groups[i].live) return &tl_groups[i];
    return NULL;
}

static struct tl_group *find_group(uint64_t hash, const struct tl_members *members, int inter,
                                   const struct tl_members *own) {
    for (size_t i = 0; i < tl_groups_used; i++) {
        struct tl_group *group = &tl_groups[i];
        if (!group->live || group->hash != hash || group->inter != inter) continue;
        struct tl_members held = members_of(group);
        if (are_same(&held, members) && are_same(&group->own, own)) return group;
    }
    return NULL;
}

struct tl_group *tl_group_take(struct tl_members members, int inter, struct tl_members own) {
    uint64_t hash = hash_of(&members) ^ (inter ? ~hash_of(&own) : 0);
    struct tl_group *group = find_group(hash, &members, inter, &own);
    if (group) {
        free(members.world);
        free(own.world);
    } else if ((group = free_place()) != NULL) {
        *group = (struct tl_group){.world = members.world, .size = members.size, .rank = members.rank, .own = own,
                                   .inter = inter, .live = 1, .hash = hash, .generation = group->generation + 1};
        members_held += listed(&members) + listed(&own);
    }
    if (group) group->references++;
    return group;
}

void tl_group_leave(struct tl_group *group) {
    if (group) group->references--;
}
