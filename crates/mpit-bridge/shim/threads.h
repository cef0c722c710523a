/* The recording area of each thread. See threads.c. */
#ifndef THROUGHLINE_THREADS_H
#define THROUGHLINE_THREADS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "cells.h"
#include "form.h"
#include "library.h"
#include "limits.h"
#include "operations.h"
#include "shim.h"

#pragma GCC visibility push(hidden)

/* What a thread without records, and calls that are no operation, are inside of. */
enum { TL_NO_CALL = TL_OPERATION_LIMIT };

struct tl_capture;
struct tl_comm;

struct tl_peer {
    uint64_t bytes, messages;
};

/* Peers of one operation, in one of these places: by the operation's number, and what some operations read beside what they
 * send. The first holds what only the logical matrix has: its operation is modelled from other sums (groups.h). */
enum {
    TL_LOGICAL_ONLY = 0,
    TL_READ_BY_GET_ACCUMULATE = TL_OPERATION_LIMIT,
    TL_READ_BY_RGET_ACCUMULATE,
    TL_READ_BY_FETCH_AND_OP,
    TL_READ_BY_COMPARE_AND_SWAP,
    TL_PEER_SLOTS
};

/* The size of a datatype that never goes away (types.c); negative: it may, so that the library is queried each time. */
struct tl_type {
    tl_handle handle;
    int64_t size;
};

enum { TL_POLL_KINDS = 12, TL_POLL_FORMS = 3 }; /* polls.h */

/* A row of tests or probes by one function that fail (polls.h). */
struct tl_polls {
    struct tl_cell *cell;    /* where they are counted; NULL: there is no row */
    uint64_t from, until;    /* its calls when the last one was timed, and when the next one is to be */
    struct tl_table *table;
    uint64_t last, ticks;    /* when that one began, and how long it took */
    int pace;                /* how long the next stretch without a timed one may be */
};

/* What a call of a row that goes on needs (polls_fast_path.h), in one cache line: between two calls the program has emptied
 * the caches. */
struct tl_row_now {
    int left;            /* so many calls may take the fast path; 0: the next one takes the usual path */
    int handle_bytes;    /* of C's handles */
    void *next;          /* the function that is wrapped */
    struct tl_cell *cell;
    const void *ignored; /* the status that C programs pass where they want none */
    const void *requested;   /* the array of requests of the call before; the row itself if there is none */
    int many, bytes;     /* how many they were, and the size of that */
} __attribute__((aligned(TL_CACHE_LINE)));

/* A wrapper's frame and the return address in it: while both agree, the wrapper has not returned. */
struct tl_frame_mark {
    void *const *at;
    void *returns_to;
};

/* A communicator or window that is being freed: callbacks of its attributes may still use it. */
struct tl_leaving {
    tl_handle handle; /* 0: none */
    struct tl_frame_mark frame; /* of the wrapper that frees it */
    struct tl_comm *comm;       /* as a callback needed it */
};

/* What one thread recorded; only that thread writes, the flush thread reads. Retained when the thread ends. */
struct tl_thread {
    struct tl_thread *next;
    int depth;         /* inside a wrapper, that of this operation: calls that MPI makes to itself pass through */
    int algorithm;     /* slot of the algorithm observed inside the present call; 0: none */
    struct tl_frame_mark frame; /* of the wrapper that it is inside of, or was last */
    int in_use;
    int nonblocking;   /* the nonblocking or persistent collective called last */
    int interrupted;   /* its rows of polls have ended (tl_recording_stop): written by others, taken back by the thread */
    int last_class;    /* size class of the call recorded last */
    int64_t last_bytes; /* what it handed over */
    struct tl_cell *last_cell; /* where it was recorded; NULL: nowhere */
    struct tl_table *table; /* of the path of regions that it is in */
    struct tl_comm *last_comm;
    uint64_t rows_open;  /* bit n: rows[n].left may not be 0 */
    uint64_t gate, left, mpi_ticks; /* stretches.h */
    uint64_t open_start; /* ticks: when the call began that it is in; 0: it is in none, or in one that is not timed */
    uint64_t open_in_doubt; /* the same of a call that may be over: another one began before it ended (frames.c) */
    tl_handle open_comm; /* that call's communicator, peer and tag (open_calls.c); of a call before where it has none */
    int open_peer, open_tag;
    unsigned open_requests;  /* how many requests it waits for or tests, */
    uint64_t *open_request;  /* and their entry (requests.c), where it is one */
    uint64_t tests_since, tests_last; /* ticks: nothing but polls that fail, one after the other (polls.c); 0: not so */
    int tests_operation;
    uint64_t row_start, row_count, row_in, row_between, row_off; /* of them (polls.c) */
    struct tl_row_now rows[TL_POLL_FORMS * TL_POLL_KINDS];
    struct tl_polls polls[TL_POLL_KINDS];
    struct tl_type types[TL_TYPES_KNOWN];
    uint64_t unknown_messages; /* peer or communicator not translatable */
    uint64_t lost_calls;       /* no memory for their row */
    int64_t persistent_active;   /* persistent requests that it has started, less those that it found complete */
    uint64_t untracked_requests; /* did not fit into the table (requests.c): no waiting time, no received bytes */
    uint64_t merged_bins;        /* ends of bins that found no space (readings.c): one with the next bin */
    uint64_t request_stamp;
    int number;                  /* below TL_THREADS_LIMIT; no other area has it */
    struct tl_capture *capture; /* set while a persistent request is made (persistent.c) */
    void *looked, *statuses;    /* space for calls with many requests (requests.c) */
    size_t looked_bytes, statuses_bytes;
    struct tl_peer *peers[TL_PEER_SLOTS]; /* of each place by world rank; made on first use */
    struct tl_log *log;        /* cells as they were at the ends of bins (readings.c); made with the first */
    struct tl_ring *ring;      /* trace mode; mapped on first use */
    uint64_t starts_at;        /* ticks: when the MPI_Start or MPI_Startall began that it is in; trace mode */
    struct tl_leaving leaving; /* what it frees at the moment (comms.c) */
    struct tl_comm *spare_comm;
    const char *stack_low, *stack_high; /* its own one, once it was looked up (frames.c) */
    struct tl_stack *stack;                   /* open regions (regions.c); made with the first */
    int level;                                /* of MPI_Pcontrol */
    struct tl_table *all_tables; /* chain, for the flush thread */
    struct tl_table *tables[];   /* by path, TL_PATH_LIMIT; none where it does not record */
};

/* No program has a row for an array of requests: the next call does not test the same as the one before. */
static inline void tl_row_end(struct tl_row_now *row) {
    row->left = 0;
    row->requested = row;
}

struct tl_call {
    struct tl_thread *self;
    int operation;
    enum tl_form form;
    uint64_t ticks;
    int receives; /* its request's status reports received bytes */
    uint64_t start; /* ticks; 0: it was not timed (polls.h) */
    uint64_t others_ticks; /* of calls before it that waited for the same and were not timed */
};

extern int tl_recording;    /* 1 between MPI_Init and MPI_Finalize, unless switched off; read in each wrapper */
/* The thread's area; at first tl_nobody, so that wrappers need not check whether there is one. */
extern __thread struct tl_thread *tl_self __attribute__((tls_model("initial-exec")));
extern struct tl_thread tl_nobody; /* always "inside a call" */

extern struct tl_comm tl_no_comm; /* what no handle is of: a thread's last one, at first */
struct tl_thread *tl_thread_attach(void);
/* NULL where the thread has none. */
static inline struct tl_thread *tl_thread_attached(void) {
    return tl_self == &tl_nobody ? NULL : tl_self;
}
/* From any thread: no call that begins from now on is recorded. */
void tl_recording_stop(void);
struct tl_thread *tl_threads(void);
uint64_t tl_threads_refused(void);
/* How much the stack of a thread of the shim takes. */
size_t tl_stack_bytes(const pthread_attr_t *attributes);
/* What is to be closed of a thread that ends, by that thread. */
void tl_threads_when_left(void (*close)(struct tl_thread *thread));
/* The row of an operation in a table; made where there is none yet. NULL without memory, which is counted. */
struct tl_row *tl_row_find(struct tl_thread *self, struct tl_table *table, int operation, int algorithm);
/* The thread's table of a path, made where there is none yet; NULL without memory. */
struct tl_table *tl_table_find(struct tl_thread *self, int path);
struct tl_peer *tl_peers_create(struct tl_thread *self, int slot);

/* Between the two a call is open (stretches.h). The flush thread reports what is open for long, so that a rank that hangs is not
 * silent. What a call is about is stored before (wrappers.h). */
static inline void tl_open(struct tl_thread *self, uint64_t start) {
    __atomic_store_n(&self->open_start, start, __ATOMIC_RELEASE);
}
static inline void tl_close(struct tl_thread *self) {
    __atomic_store_n(&self->open_start, 0, __ATOMIC_RELEASE);
}

/* Collectives whose messages go while the program is elsewhere. */
static inline int tl_goes_on(int operation) {
    return (operation >= TL_OP_Ibcast && operation <= TL_OP_Ireduce_scatter_block && operation % 2 == 0) ||
           (operation >= TL_OP_Ineighbor_allgather && operation <= TL_OP_Ineighbor_alltoallw && operation % 2 == 1) ||
           (operation >= 54 && operation <= 69) || (operation >= 80 && operation <= 84) || operation == TL_OP_Ibarrier ||
           operation == 152; /* those of MPI 4, which not all objects have: ..._init */
}

/* To be called within the wrapper, after its note and before anything else is recorded by this thread. */
static inline struct tl_where tl_account_last(const struct tl_call *call) {
    const struct tl_thread *self = call->self;
    return (struct tl_where){self->table->path, (uint16_t)call->operation, (uint16_t)self->last_class,
                             (uint16_t)self->algorithm};
}

#pragma GCC visibility pop

#endif
