/*
 * Groups of ranks that communicators have, and what their collectives moved: by operation, algorithm, root and size
 * class. Communicators with the same members in the same order share a group, so that what one has counted outlives it.
 * See groups.c.
 */
#ifndef THROUGHLINE_GROUPS_H
#define THROUGHLINE_GROUPS_H

#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include "comm.h"
#include "limits.h"
#include "operations.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

enum {
    TL_GROUPS_LIMIT = 4096, /* twice the communicators that are translated at a time */
    TL_NO_ROOT = -1,        /* the operation has none */
    TL_ROOT_SELF = -2       /* of an intercommunicator: this rank is the root */
};

enum { TL_REPORTED_NOTHING, TL_REPORTED_MEMBERS, TL_REPORTED_ALL /* the own group, too */ };

/* Of a key's number of the root, what stands for the two above. */
#define TL_KEY_NO_ROOT ((uint32_t)TL_NO_ROOT)
#define TL_KEY_ROOT_SELF ((uint32_t)TL_ROOT_SELF)

/* Who gets the block of a call, as far as the arguments say. */
enum tl_shape {
    TL_SHAPE_NONE,      /* counted apart, or nobody */
    TL_SHAPE_EVERYONE,  /* each other member */
    TL_SHAPE_FROM_ROOT, /* each other member, from the root */
    TL_SHAPE_TO_ROOT,   /* the root */
    TL_SHAPE_HIGHER     /* each member of a higher rank */
};
extern const uint8_t tl_shapes[TL_OPERATION_LIMIT];

/* One operation by one algorithm, with one root, in one size class. One cache line. */
struct tl_collective {
    uint64_t key;                          /* 0: never used */
    uint64_t calls, bytes;                 /* bytes: of the blocks of all calls */
    uint64_t bytes_folded, bytes_sent;     /* the part of them already in the logical matrix, under the lock; sent */
    uint32_t calls_folded, calls_sent;     /* the same of calls, modulo 2^32; what is sent is the flush thread's own */
    uint64_t skip;                         /* which calls are sampled: samples.h */
    const void *of; /* cell of a thread's row (tl_thread.last_cell) with this operation, algorithm and class */
};
_Static_assert(sizeof(struct tl_collective) == TL_CACHE_LINE, "a cell is one cache line");

struct tl_collectives {
    struct tl_collectives *next;
    uint32_t space; /* cells, a power of two */
    struct tl_collective *cells;
};

/* Ranks in their order. */
struct tl_members {
    int *world;     /* world rank of each, -1 if not in MPI_COMM_WORLD; NULL: same numbers as the world */
    int size, rank; /* rank: the own one; -1: it is not among them */
};

struct tl_group {
    int *world;
    int size, rank; /* as in tl_members; the remote group of an intercommunicator */
    struct tl_members own; /* the group of an intercommunicator that this rank is in; elsewhere nobody */
    int inter;
    int references; /* communicators and windows that have it */
    int live, reported; /* reported: what of it has been sent, TL_REPORTED_... */
    uint32_t generation; /* counts what the place has held */
    uint64_t hash;
    struct tl_collectives *all;
};

extern struct tl_group tl_groups[TL_GROUPS_LIMIT];
extern size_t tl_groups_used; /* places that ever held one */
extern pthread_mutex_t tl_comms_lock; /* of communicators and groups; never held while MPI communicates */

static inline uint64_t tl_collective_key(int operation, int algorithm, int size_class, int root) {
    return (uint64_t)operation << 56 | (uint64_t)algorithm << 48 | (uint64_t)size_class << 40 | (uint32_t)root;
}
static inline int tl_key_operation(uint64_t key) {
    return (int)(key >> 56);
}
static inline int tl_key_algorithm(uint64_t key) {
    return (int)(key >> 48 & 0xff);
}
static inline int tl_key_class(uint64_t key) {
    return (int)(key >> 40 & 0xff);
}
static inline uint32_t tl_key_root(uint64_t key) {
    return (uint32_t)key;
}

/* The group of these members, and of an intercommunicator the own one; it takes over their `world`. NULL where there is no
 * space, and those stay the caller's. Call with the lock held, as the next two. */
struct tl_group *tl_group_take(struct tl_members members, int inter, struct tl_members own);
void tl_group_leave(struct tl_group *group);
/* Whether so many more members may be held. */
int tl_groups_have_space(size_t members);

/* Stands for the cell of a call before where there was none. */
extern struct tl_collective tl_no_collective;
/* The cell of the call just recorded, made where there is none yet; NULL where there is no space: then it has been added to
 * the peers themselves. Any thread. */
struct tl_collective *tl_collective_find(struct tl_thread *self, struct tl_comm *comm, int operation, int root,
                                         int64_t block);

/* Adds what collectives sent to the sums by peer; these */
int tl_groups_start(void);
void tl_comms_fold(void);
const struct tl_peer *tl_comms_folded(void);

#pragma GCC visibility pop

#endif
