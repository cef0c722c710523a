/*
 * Calls that go on for long: what a rank that waits for others, perhaps for ever, is in, since when, and with whom. A call is
 * counted when it returns, so without these such a rank is silent.
 *
 * Wrappers store the call, as their arguments have it, in the thread's area (tl_open). It is read here while the thread goes
 * on: the start is stored last and cleared first, so what stands between two readings of the same start is that call's. A call that
 * an error handler has left is not reported (frames.c).
 */
#include "open_calls.h"

#include <pthread.h>

#include "channel.h"
#include "clock.h"
#include "comm.h"
#include "comms.h"
#include "frame.h"
#include "frames.h"
#include "groups.h"
#include "library.h"
#include "operations.h"
#include "polls.h"
#include "processes.h"
#include "requests.h"
#include "shim.h"
#include "threads.h"
#include "world.h"

enum {
    LONG_MS = 500, /* what hangs is reported after 0.5 to 1.1 s, as pushes are a second apart */
    AWAITED_MS = 50, /* a shorter one at a push is mostly over soon, and is left for the next push */
    TESTED_MS = 2000 /* one of a row of polls is timed each millisecond, as long as the thread has a processor */
};

static int reported; /* something is open, as far as the receiver knows */
static int others_may;          /* the level of threads permits calls of several */
static unsigned threads_before; /* threads of the process at the end of MPI_Init: the library's own, and the shim's */
static int64_t due;  /* CLOCK_MONOTONIC: when an awaited call becomes long; 0: none is */

/* Which operations have a communicator and a rank among their arguments. */
enum { HAS_COMM = 1, HAS_PEER = 2, HAS_TAG = 4, HAS_REQUESTS = 8 };
#define NOTHING()
#define HAS(kind, name) HAS_##kind
#define HAS_cbuf
#define HAS_buf
#define HAS_count
#define HAS_counts
#define HAS_displs
#define HAS_type
#define HAS_types
#define HAS_op
#define HAS_comm | HAS_COMM
#define HAS_win
#define HAS_handle
#define HAS_rank | HAS_PEER
#define HAS_integer
#define HAS_tag | HAS_TAG
#define HAS_wide
#define HAS_text
#define HAS_status
#define HAS_statuses
#define HAS_tested
#define HAS_waited
#define HAS_begun
#define HAS_made
#define HAS_pending | HAS_REQUESTS
#define HAS_pendings | HAS_REQUESTS
#define HAS_out
#define ARGUMENTS(number, Name, name, parameters, note) [TL_OP_##Name] = 0 parameters(HAS, NOTHING),
static const uint8_t arguments[TL_OPERATION_LIMIT] = {TL_OPERATIONS(ARGUMENTS)};

/* The call that a thread is in; 0 where it is in none that is timed, or has gone on meanwhile. */
struct now {
    uint64_t start;
    int operation;
    struct tl_requested of;
    unsigned requests;
    const uint64_t *request;
    struct tl_frame_mark frame;
};

static void look_at_arguments(struct tl_thread *thread, struct now *now) {
    now->of.comm = __atomic_load_n(&thread->open_comm, __ATOMIC_ACQUIRE);
    now->of.peer = __atomic_load_n(&thread->open_peer, __ATOMIC_ACQUIRE);
    now->of.tag = __atomic_load_n(&thread->open_tag, __ATOMIC_ACQUIRE);
    now->requests = __atomic_load_n(&thread->open_requests, __ATOMIC_ACQUIRE);
    now->request = __atomic_load_n(&thread->open_request, __ATOMIC_ACQUIRE);
}

static int look(struct tl_thread *thread, struct now *now) {
    now->start = __atomic_load_n(&thread->open_start, __ATOMIC_ACQUIRE);
    if (!now->start) return 0;
    now->operation = __atomic_load_n(&thread->depth, __ATOMIC_ACQUIRE);
    look_at_arguments(thread, now);
    now->frame = (struct tl_frame_mark){TL_LOAD(&thread->frame.at), TL_LOAD(&thread->frame.returns_to)};
    if (now->start == TL_LOAD(&thread->open_in_doubt)) return 0;
    return TL_LOAD(&thread->open_start) == now->start && now->operation > 0 && now->operation < TL_OPERATION_LIMIT;
}

/* In a row of polls that fail, since when. It is over if the last one that was timed is not of this moment. */
static int look_at_tests(struct tl_thread *thread, struct now *now, uint64_t ticks, double scale) {
    uint64_t last = __atomic_load_n(&thread->tests_last, __ATOMIC_ACQUIRE);
    now->start = __atomic_load_n(&thread->tests_since, __ATOMIC_ACQUIRE);
    now->operation = TL_LOAD(&thread->tests_operation);
    now->frame = (struct tl_frame_mark){0};
    look_at_arguments(thread, now);
    return now->start && now->start == TL_LOAD(&thread->tests_since) &&
           (ticks <= last || (double)(ticks - last) * scale < TESTED_MS * 1e6);
}

/* Of these a negative source is any; of others a negative rank is none. */
static int takes_any(int operation) {
    return operation == TL_OP_Recv || operation == TL_OP_Irecv || operation == TL_OP_Probe || operation == TL_OP_Mprobe ||
           operation == TL_OP_Iprobe || operation == TL_OP_Improbe;
}

/* The process that a rank among the arguments is. */
static uint32_t peer_of(int operation, int peer, const struct tl_comm *comm) {
    if (!(arguments[operation] & HAS_PEER) || peer >= (comm ? comm->size : tl_world_size)) return TL_OPEN_NO_PEER;
    if (peer < 0) return takes_any(operation) ? TL_OPEN_ANY_PEER : TL_OPEN_NO_PEER;
    return (uint32_t)(comm && comm->world ? comm->world[peer] : peer);
}

static int32_t tag_of(int operation, int tag) {
    if (!(arguments[operation] & HAS_TAG)) return TL_OPEN_NO_TAG;
    return tag < 0 ? TL_OPEN_ANY_TAG : tag;
}

/* A communicator that no call on it has been counted of yet is not known, but for the world. */
static void describe(struct tl_open_call *call, int operation, const struct tl_requested *of) {
    tl_handle handle = tl_same(of->comm);
    call->tag = tag_of(operation, of->tag);
    if (!(arguments[operation] & HAS_COMM)) return;
    if (handle == tl_same(tl_library.comm_world)) {
        call->comm = TL_OPEN_IN_WORLD;
        call->comm_size = (uint32_t)tl_world_size;
        call->peer = peer_of(operation, of->peer, NULL);
        return;
    }
    pthread_mutex_lock(&tl_comms_lock);
    const struct tl_comm *comm = tl_comm_known(handle);
    if (comm) {
        call->comm = comm->number;
        call->comm_size = (uint32_t)comm->size;
        call->peer = peer_of(operation, of->peer, comm);
    }
    pthread_mutex_unlock(&tl_comms_lock);
}

/* What a call is about, and the request that it waits for; of several the thread's oldest one. */
static void describe_all(struct tl_open_call *call, struct tl_thread *thread, const struct now *open) {
    describe(call, open->operation, &open->of);
    int has_requests = arguments[open->operation] & HAS_REQUESTS;
    struct tl_pending pending = tl_requests_pending(thread, has_requests ? open->request : NULL);
    struct tl_open_call oldest = {.peer = TL_OPEN_NO_PEER, .tag = TL_OPEN_NO_TAG};
    if (pending.operation > 0 && pending.operation < TL_OPERATION_LIMIT) describe(&oldest, pending.operation, &pending.of);
    call->pending = pending.count;
    call->requests = has_requests ? open->requests : 0;
    call->oldest = (uint16_t)pending.operation;
    call->oldest_peer = oldest.peer;
    call->oldest_tag = oldest.tag;
}

/* Whether a call has gone on for long; else it may be awaited. */
static int is_long(int64_t age, int64_t now) {
    int64_t left = (int64_t)LONG_MS * 1000000 - age;
    if (left <= 0) return 1;
    if (age >= (int64_t)AWAITED_MS * 1000000 && (!due || now + left < due)) due = now + left;
    return 0;
}

int64_t tl_open_calls_wait(void) {
    return due ? due - tl_clock(CLOCK_MONOTONIC) : INT64_MAX;
}

void tl_open_calls_start(int several_threads) {
    TL_STORE(&others_may, several_threads);
    TL_STORE(&threads_before, tl_process_threads());
}

/* Threads that have called MPI and go on. */
static unsigned threads_that_called(void) {
    unsigned count = 0;
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next)
        count += __atomic_load_n(&thread->in_use, __ATOMIC_ACQUIRE) != 0;
    return count;
}

/* A hang is one only where nobody is left who might call: of the threads that were started since MPI_Init, those that have not called yet
 * may. The thread that called MPI_Init is among those before. */
static void begin(struct tl_frame *frame, int64_t now) {
    unsigned called = threads_that_called(), all = TL_LOAD(&others_may) ? tl_process_threads() : 0;
    unsigned known = TL_LOAD(&threads_before) + (called ? called - 1 : 0);
    tl_frame_begin(frame, TL_OPEN);
    tl_put_u64(frame, (uint64_t)now);
    tl_put_u32(frame, called);
    tl_put_u32(frame, all > known ? all - known : 0);
}

void tl_open_calls_push(struct tl_frame *frame, int (*patience)(void)) {
    struct tl_moment now = {0};
    double scale = 1.0;
    int count = 0;
    due = 0;
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        struct now open;
        int is_in_call = look(thread, &open);
        if (!is_in_call && !TL_LOAD(&thread->tests_since)) continue;
        if (!now.monotonic) {
            now = tl_clock_moment();
            scale = tl_clock_scale(&now);
        }
        if ((!is_in_call || tl_is_poll(open.operation)) && !look_at_tests(thread, &open, now.ticks, scale)) continue;
        int64_t age = now.ticks > open.start ? (int64_t)((double)(now.ticks - open.start) * scale) : 0;
        if (!is_long(age, now.monotonic) || tl_frame_has_changed(open.frame)) continue;
        struct tl_open_call call = {.operation = (uint16_t)open.operation, .thread = (uint16_t)thread->number};
        call.peer = TL_OPEN_NO_PEER;
        call.start = now.monotonic - age;
        describe_all(&call, thread, &open);
        if (!count++) begin(frame, now.monotonic);
        tl_put_open_call(frame, &call);
    }
    if (!count && !reported) return;
    if (!count) begin(frame, tl_clock(CLOCK_MONOTONIC));
    /* Where it is lost, the next one says the same. */
    reported = !tl_channel_send(frame, patience()) || count > 0;
}

void tl_open_calls_again(void) {
    reported = 0;
}
