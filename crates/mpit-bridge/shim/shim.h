/*
 * Inside of the shim: what its files share. The shim is loaded into programs of people who did not ask for
 * it, so three rules hold everywhere: never print (but with THROUGHLINE_DEBUG), never wait for the agent
 * inside an MPI call, never call MPI for communication.
 *
 * Nothing here may depend on the layout of an mpi.h: handles are passed on as the 64-bit registers they
 * came in (Open MPI: pointers; MPICH: 32-bit integers whose upper half is undefined), pointers as pointers.
 */
#ifndef THROUGHLINE_SHIM_H
#define THROUGHLINE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "library.h"
#include "operations.h"

#define TL_VERSION "0.1.0"

#define TL_EXPORT __attribute__((visibility("default")))
#define TL_LIKELY(x) __builtin_expect(!!(x), 1)
#define TL_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Single writer, other reader: plain instructions, but no tearing and no reordering by the compiler. */
#define TL_LOAD(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define TL_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
/* In one instruction where there is one, which clang makes of two atomic accesses, and gcc does not. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define TL_ADD(p, v) \
    __asm__ volatile("add%z0 %1, %0" : "+m"(*(p)) : "er"((__typeof__(*(p)))(v)) : "cc")
#else
#define TL_ADD(p, v) TL_STORE((p), TL_LOAD(p) + (v))
#endif

/* All that follows is the shim's own: reached directly, never through the dynamic linker's tables. */
#pragma GCC visibility push(hidden)

enum {
    TL_CACHE_LINE = 64,
    TL_SIZE_CLASSES = 42,      /* 0, 1, 2, 4 ... 2^40 bytes and more: 1 TiB is beyond any one message */
    TL_TYPES_KNOWN = 8,        /* datatypes whose size a thread keeps at a time; a power of two */
    TL_THREADS_LIMIT = 1024,   /* threads of one process that record; further ones pass through uncounted */
    TL_COMM_SLOTS = 2048,      /* communicators translated at a time; messages on further ones count as unknown */
    TL_REGION_LIMIT = 256,     /* regions by name, "none" included: annotations of a program, not of its iterations */
    TL_PATH_LIMIT = 1024,      /* paths of nested regions, "outside of all" included; further ones count in the path around */
    TL_PATH_BYTES = 2000,      /* of a path's text: it is part of a key of the database, whose rows hold 2,700 bytes */
    TL_ALGORITHM_LIMIT = 128,  /* functions of algorithms.c, "none" included */
    TL_WORLD_LIMIT = 1 << 20,  /* ranks; a larger world records operations but no peers */
    TL_MEMBERS_LIMIT = 1 << 24 /* translated members of all communicators together: 64 MiB of int */
};

/* Which form a wrapper has; decides how arrays of counts and of handles are read. The last three are those of MPICH's
 * mpi_f08 where there is a buffer, which comes as a descriptor (wrappers_fortran.c). */
enum tl_form {
    TL_FORM_C,
    TL_FORM_LARGE,
    TL_FORM_FORTRAN,
    TL_FORM_F08,
    TL_FORM_F08TS,
    TL_FORM_F08TS_LARGE,
    TL_FORM_F08TS_C, /* the same by another name */
    TL_FORM_COUNT
};

/* What was counted of one size class. One cache line: the threads' sums must not share any. */
struct tl_cell {
    uint64_t until; /* ticks: what ends from here on belongs to a later bin (readings.c); 0: never used */
    uint64_t calls, bytes, ticks;
    uint32_t longest, shortest; /* calls, as tl_ticks_code; the shortest one of this bin, all ones where there is none */
    uint64_t wait_ticks;          /* inside Wait and Test calls, for requests that these calls began */
    uint32_t completed, received; /* of those requests; of the receives among them. Modulo 2^32: only differences count */
    uint64_t received_bytes;
};
_Static_assert(sizeof(struct tl_cell) == TL_CACHE_LINE, "a cell is one cache line");

/* A call's ticks in 32 bits, in the same order: exact below 2^27 (some 50 ms), from there on to 27 bits. */
enum { TL_CODE_BITS = 27 };
#define TL_NO_CODE UINT32_MAX
static inline uint32_t tl_ticks_code(uint64_t ticks) {
    if (TL_LIKELY(ticks >> TL_CODE_BITS == 0)) return (uint32_t)ticks;
    unsigned shift = 64 - TL_CODE_BITS - (unsigned)__builtin_clzll(ticks);
    return (shift << (TL_CODE_BITS - 1)) + (uint32_t)(ticks >> shift);
}
static inline uint64_t tl_ticks_of(uint32_t code) {
    if (code >> TL_CODE_BITS == 0) return code;
    unsigned shift = (code >> (TL_CODE_BITS - 1)) - 1;
    return (uint64_t)(code - (shift << (TL_CODE_BITS - 1))) << shift;
}

/* One operation in one region by one algorithm. */
struct tl_row {
    struct tl_row *next; /* in the table's chain; never changes */
    void *reported;          /* the flush thread's own (bins.c) */
    uint64_t used;       /* bit n: something was recorded in class n */
    uint16_t operation, algorithm, region;
    struct tl_cell cells[TL_SIZE_CLASSES] __attribute__((aligned(TL_CACHE_LINE)));
};

/* What one thread recorded while it was in one path of regions. */
struct tl_table {
    struct tl_row *rows[TL_OPERATION_LIMIT];   /* by operation, where no algorithm was observed */
    struct tl_row *observed[TL_ALGORITHM_LIMIT]; /* by algorithm, each of which belongs to one operation */
    struct tl_row *all;                        /* chain of all rows, for the flush thread */
    struct tl_table *next;                     /* in the thread's chain; never changes */
    uint64_t visits, elapsed_ticks, own_ticks; /* of the path (regions.c), without what goes on */
    uint16_t path, region; /* the path, and its innermost region */
};

/* Names a cell for any thread: what a request stores of the call that began it. */
struct tl_where {
    uint16_t path, operation, size_class, algorithm;
};

struct tl_peer {
    uint64_t bytes, messages;
};

/* Peers of one operation, in one of these places: by the operation's number, and what some operations read beside what they
 * send. The first holds what stands in the logical matrix only: its operation is modelled from other sums (groups.h). */
enum {
    TL_LOGICAL_ONLY = 0,
    TL_READ_BY_GET_ACCUMULATE = TL_OPERATION_LIMIT,
    TL_READ_BY_RGET_ACCUMULATE,
    TL_READ_BY_FETCH_AND_OP,
    TL_READ_BY_COMPARE_AND_SWAP,
    TL_PEER_SLOTS
};

/* One communicator, translated. Written under the lock in comms.c, read without it by the threads using it. */
struct tl_comm {
    tl_handle handle; /* 0: slot never used, 1: free again */
    int rank;         /* own rank; -1 in an intercommunicator */
    int size;         /* members that can be addressed: the remote group's in an intercommunicator */
    int inter;
    uint32_t number;  /* its name's in NAMES frames (comm_names.c), 0: it has none */
    uint64_t id;      /* its name in traces (comm_ids.c), 0: none */
    int *world;       /* world rank of each, -1 if not in MPI_COMM_WORLD; NULL: same numbers as the world */
    struct tl_collective *last; /* sums that the call before was added to (groups.h) */
    struct tl_group *group; /* its members, whose list `world` is; NULL once it is freed (groups.h) */
    uint64_t serial;  /* counts what the slot has held */
    int target_count; /* neighbours that a neighbourhood collective sends to; -1: not queried yet (topology.c) */
    int *targets;     /* their ranks in the communicator; MPI_PROC_NULL is retained, as counts are by position */
    struct tl_comm *next_spare;
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
    uint64_t open_start; /* ticks: when the call began that it is in; 0: it is in none, or in one that is not timed */
    uint64_t open_in_doubt; /* the same of a call that may be over: another one began before it ended (frames.c) */
    tl_handle open_comm; /* that call's communicator and peer (open_calls.c); of a call before where it has none */
    int open_peer;
    struct tl_row_now rows[TL_POLL_FORMS * TL_POLL_KINDS];
    struct tl_polls polls[TL_POLL_KINDS];
    struct tl_type types[TL_TYPES_KNOWN];
    uint64_t unknown_messages; /* peer or communicator not translatable */
    uint64_t lost_calls;       /* no memory for their row */
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
    struct tl_leaving leaving; /* what it frees at the moment (comms.c) */
    struct tl_comm *spare_comm;
    const char *stack_low, *stack_high; /* its own one, once it was looked up (frames.c) */
    struct tl_stack *stack;                   /* open regions (regions.c); made with the first */
    int level;                                /* of MPI_Pcontrol */
    struct tl_table *all_tables; /* chain, for the flush thread */
    struct tl_table *tables[];   /* by path, TL_PATH_LIMIT; none where it does not record */
};

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
extern int tl_tracing;      /* 1 in trace mode (trace.h); read where a call has been noted */
extern int tl_world_size, tl_world_rank;
extern int tl_shared_comms; /* several threads may use one communicator: its sums need atomic additions */
/* The thread's area; at first tl_nobody, so that wrappers need not check whether there is one. */
extern __thread struct tl_thread *tl_self __attribute__((tls_model("initial-exec")));
extern struct tl_thread tl_nobody; /* always "inside a call" */

/* library.c */
void *tl_find(const char *symbol);
void *tl_find_data(const char *symbol);
extern void *tl_next_functions[TL_FORM_COUNT][TL_OPERATION_LIMIT];
void *tl_next_find(enum tl_form form, int operation, const void *caller);
int tl_library_open(void);
/* Bytes of a handle, of whatever library this is. */
int tl_library_handle_bytes(void);
/* The C handle of a session that Fortran knows by this number; 0: the library does not report. */
tl_handle tl_library_session(int number);
const char *tl_library_version(void);

/* caller_library.c: what the caller at this address would have called without the shim */
#define TL_CALLER __builtin_return_address(0) /* only in a wrapper itself */
extern int tl_several_libraries;
void tl_caller_library_check(void); /* at each MPI_Init: is it another library's? */
void *tl_find_for(const char *symbol, const void *caller);

/* memory.c: zeroed and aligned to cache lines, so that two threads never write to one; NULL when there is none */
void *tl_memory(size_t size);

/* threads.c */
struct tl_thread *tl_thread_attach(void);
/* frames.c: a wrapper is entered while the thread is inside of one, or has no area yet. The thread where this call is to be
 * recorded, NULL where not. */
struct tl_thread *tl_enter_anew(struct tl_thread *self, struct tl_frame_mark frame);
/* Whether a wrapper of this frame has ended, as seen from a later one of the same thread, or from the flush thread. */
int tl_frame_is_over(struct tl_thread *self, struct tl_frame_mark before, struct tl_frame_mark now);
int tl_frame_has_changed(struct tl_frame_mark frame);
/* NULL where the thread has none. */
static inline struct tl_thread *tl_thread_attached(void) {
    return tl_self == &tl_nobody ? NULL : tl_self;
}
/* From any thread: no call that begins from now on is recorded. */
void tl_recording_stop(void);
struct tl_thread *tl_threads(void);
uint64_t tl_threads_refused(void);
/* The row of an operation in a table; made where there is none yet. NULL without memory, which is counted. */
struct tl_row *tl_row_find(struct tl_thread *self, struct tl_table *table, int operation, int algorithm);
/* The thread's table of a path, made where there is none yet; NULL without memory. */
struct tl_table *tl_table_find(struct tl_thread *self, int path);
struct tl_peer *tl_peers_create(struct tl_thread *self, int slot);

/* comms.c */
/* `group`: that of the world; retained until tl_comms_stop. */
int tl_comms_start(tl_handle group);
void tl_comms_stop(void);
extern struct tl_comm tl_no_comm; /* what no handle is of: a thread's last one, at first */
struct tl_comm *tl_comm_find(struct tl_thread *self, tl_handle handle);
/* The group of a window, which stands in the same table. */
struct tl_comm *tl_window_find(struct tl_thread *self, tl_handle handle);
/* Fills in `targets` once; 0 where the library does not report. */
int tl_comm_neighbours(struct tl_comm *comm);
/* How many there are, as the library says now; -1: it does not report. */
int tl_comm_neighbours_now(const struct tl_comm *comm);
/* As tl_comm_find, where an array of the program is to be read by the size: that is queried once more. A communicator may
 * have been freed where the shim could not see it, and another one have its handle. */
struct tl_comm *tl_comm_find_now(struct tl_thread *self, tl_handle handle);
/* The same for its neighbours. NULL: not known. */
struct tl_comm *tl_comm_find_with_neighbours(struct tl_thread *self, tl_handle handle);
void tl_comm_evict(tl_handle handle);
/* Around the call that frees one. The library may give the handle to another thread's next communicator at once. */
struct tl_leaving tl_comm_leave(tl_handle handle, struct tl_frame_mark frame);
void tl_comm_left(struct tl_leaving before);
/* groups.c: adds what collectives sent to the sums by peer; these */
int tl_groups_start(void);
void tl_comms_fold(void);
const struct tl_peer *tl_comms_folded(void);

/* comm_names.c: a communicator has been translated; the program has named one */
void tl_comm_name_look(struct tl_comm *comm);
void tl_comm_name_set(tl_handle handle, const char *name);

/* finalize_hook.c: MPI_Finalize ends recording, even if the wrapper of that name is not called */
void tl_finalize_hook_register(void);

/* lifecycle.c: MPI_Init has succeeded; MPI_Finalize is about to be called, and has returned */
void tl_started(void);
void tl_finishing(struct tl_frame_mark wrapper);
void tl_finished(void);
/* MPI_Finalize has been called past the wrapper: nobody will see it return. */
void tl_finishing_unseen(void);
/* The same for a session. */
void tl_session_started(tl_handle session);
void tl_session_finishing(void);
int tl_switched_off(void); /* THROUGHLINE_SHIM=off */
extern int tl_noticed;    /* MPI_Init came here, or a session */
void tl_debug_on(void);
void tl_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Milliseconds from the environment; 0 if there are none or they make no sense. */
int tl_environment_ms(const char *name);
/* `value` if it is a sensible number of milliseconds, else `standard`. */
int tl_valid_ms(int value, int standard);

/* algorithms.c */
extern const uint8_t tl_algorithm_operations[TL_ALGORITHM_LIMIT]; /* the operation that the slot belongs to */
static inline int tl_algorithm_operation(int slot) {
    return tl_algorithm_operations[slot];
}
/* Number of the algorithm's name in NAMES frames, 0 for none, and how it is known. Flush thread only. */
uint16_t tl_algorithm_reported(int operation, int slot, uint16_t *source);

/* names.c: what is reported once. `text` is copied. 0 where there is no more space. */
enum tl_name_kind { TL_NAME_REGION = 1, TL_NAME_ALGORITHM = 2, TL_NAME_COMM = 3, TL_NAME_SETTING = 4, TL_NAME_PATH = 5 };
int tl_name_add(enum tl_name_kind kind, uint32_t number, uint32_t size, uint32_t place, const char *text);

/* types.c */
static inline unsigned tl_type_place(tl_handle type) {
    /* MPICH numbers its own from 0 in the lowest byte, Open MPI's lie 512 bytes apart. */
    return (unsigned)((uint64_t)type ^ (uint64_t)type >> 9) % TL_TYPES_KNOWN;
}
void tl_types_start(void);
/* Bytes of one of `count` elements; of types that stay, it is retained in `self`. 0 without a look at the type where there is no
 * element: a call that uses no type may have any, and a query about it would reach the program's error handler. */
int64_t tl_type_size(struct tl_thread *self, tl_handle type, int64_t count);

/* accounting.c: `call` has waited for what calls recorded in a cell began: so many ticks for so many requests, of which
 * some have received so many bytes. */
struct tl_done {
    uint64_t ticks, bytes;
    uint32_t requests, receives;
};
static inline struct tl_where tl_account_last(const struct tl_call *call);
void tl_account_done(const struct tl_call *call, struct tl_where where, const struct tl_done *done);

/* accounting.c: one function for each way in which operations send; see protocol/README.md for the rules */
typedef struct tl_call *tl_callp;
void tl_note_time(tl_callp call);
void tl_note_message(tl_callp call, int64_t count, tl_handle type, int dest, tl_handle comm);
void tl_note_receive(tl_callp call, int64_t count, tl_handle type);
void tl_note_received(tl_callp call, const void *status);
void tl_note_receives(tl_callp call);
void tl_note_receives_too(tl_callp call);
void tl_note_partitions(tl_callp call, int64_t count, tl_handle type, int source);
void tl_note_bytes(tl_callp call, int64_t count, tl_handle type);
void tl_note_put(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win);
void tl_note_get(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win);
void tl_note_get_accumulate(tl_callp call, int64_t count, tl_handle type, int64_t result_count,
                            tl_handle result_type, int target, tl_handle op, tl_handle win);
void tl_note_compare_and_swap(tl_callp call, tl_handle type, int target, tl_handle win);
void tl_note_barrier(tl_callp call, tl_handle comm);
void tl_note_bcast(tl_callp call, int64_t count, tl_handle type, int root, tl_handle comm);
void tl_note_allreduce(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_reduce(tl_callp call, int64_t count, tl_handle type, int root, tl_handle comm);
void tl_note_scan(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_gather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype, int64_t recvcount,
                    tl_handle recvtype, int root, tl_handle comm);
void tl_note_gatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                     const void *recvcounts, tl_handle recvtype, int root, tl_handle comm);
void tl_note_scatter(tl_callp call, int64_t sendcount, tl_handle sendtype, int64_t recvcount, tl_handle recvtype,
                     int root, tl_handle comm);
void tl_note_scatterv(tl_callp call, const void *sendcounts, tl_handle sendtype, int64_t recvcount,
                      tl_handle recvtype, int root, tl_handle comm);
void tl_note_allgather(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                       int64_t recvcount, tl_handle recvtype, tl_handle comm);
void tl_note_allgatherv(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                        const void *recvcounts, tl_handle recvtype, tl_handle comm);
void tl_note_alltoall(tl_callp call, const void *sendbuf, int64_t sendcount, tl_handle sendtype,
                      int64_t recvcount, tl_handle recvtype, tl_handle comm);
void tl_note_alltoallv(tl_callp call, const void *sendbuf, const void *sendcounts, tl_handle sendtype,
                       const void *recvcounts, tl_handle recvtype, tl_handle comm);
void tl_note_alltoallw(tl_callp call, const void *sendbuf, const void *sendcounts, const void *sendtypes,
                       const void *recvcounts, const void *recvtypes, tl_handle comm);
void tl_note_reduce_scatter(tl_callp call, const void *recvcounts, tl_handle type, tl_handle comm);
void tl_note_reduce_scatter_block(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_neighbor_allgather(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_neighbor_alltoall(tl_callp call, int64_t count, tl_handle type, tl_handle comm);
void tl_note_neighbor_blocks(tl_callp call, const void *counts, const void *types, tl_handle type, tl_handle comm);

static inline int tl_is_fortran(enum tl_form form) {
    return form >= TL_FORM_FORTRAN;
}
/* Counts in arrays have 64 bits. */
static inline int tl_is_large(enum tl_form form) {
    return form == TL_FORM_LARGE || form >= TL_FORM_F08TS_LARGE;
}

/* What a thread without records, and calls that are no operation, are inside of. */
enum { TL_NO_CALL = TL_OPERATION_LIMIT };

/* Collectives whose messages go while the program is elsewhere. */
static inline int tl_goes_on(int operation) {
    return (operation >= TL_OP_Ibcast && operation <= TL_OP_Ireduce_scatter_block && operation % 2 == 0) ||
           (operation >= TL_OP_Ineighbor_allgather && operation <= TL_OP_Ineighbor_alltoallw && operation % 2 == 1) ||
           (operation >= 54 && operation <= 69) || (operation >= 80 && operation <= 84) || operation == TL_OP_Ibarrier ||
           operation == 152; /* those of MPI 4, which not all objects have: ..._init */
}

/* The frame of the function that uses this macro: its first words are the address of the caller's frame and the return address. */
#define TL_FRAME tl_frame_mark_of(__builtin_frame_address(0))
static inline struct tl_frame_mark tl_frame_mark_of(void *const *frame) {
    return (struct tl_frame_mark){frame, frame[1]};
}

/* Read by the flush thread, too. */
static inline void tl_inside(struct tl_thread *self, struct tl_frame_mark frame) {
    TL_STORE(&self->frame.at, frame.at);
    TL_STORE(&self->frame.returns_to, frame.returns_to);
}

/* Starts a call, of a wrapper with this frame; NULL when it is to pass through unrecorded: inside another one, or no memory. */
static inline struct tl_thread *tl_enter(int operation, struct tl_frame_mark frame) {
    struct tl_thread *self = tl_self;
    if (TL_UNLIKELY(self->depth) && !(self = tl_enter_anew(self, frame))) return NULL;
    TL_STORE(&self->depth, operation); /* read by the flush thread, as what follows in wrappers */
    self->algorithm = 0;
    tl_inside(self, frame);
    if (tl_goes_on(operation)) self->nonblocking = operation;
    return self;
}

/* To be called within the wrapper, after its note and before anything else is recorded by this thread. */
static inline struct tl_where tl_account_last(const struct tl_call *call) {
    const struct tl_thread *self = call->self;
    return (struct tl_where){self->table->path, (uint16_t)call->operation, (uint16_t)self->last_class,
                             (uint16_t)self->algorithm};
}

/* Around the call itself: it is open. The flush thread reports what is open for long, so that a rank that hangs is not
 * silent. What a call is about is stored before (wrappers.h). */
static inline void tl_open(struct tl_thread *self, uint64_t start) {
    __atomic_store_n(&self->open_start, start, __ATOMIC_RELEASE);
}
static inline void tl_close(struct tl_thread *self) {
    TL_STORE(&self->open_start, 0);
}

/* What the program would have called without the shim; NULL where there is none. */
#define tl_next(form, operation) tl_next_for((form), (operation), TL_CALLER)
static inline void *tl_next_for(enum tl_form form, int operation, const void *caller) {
    void *found = __atomic_load_n(&tl_next_functions[form][operation], __ATOMIC_ACQUIRE);
    return TL_LIKELY(found != NULL) ? found : tl_next_find(form, operation, caller);
}

static inline tl_handle tl_same(tl_handle handle) {
    return (tl_handle)((uint64_t)handle & tl_library.handle_mask);
}

#pragma GCC visibility pop

#endif
