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
#include "requests.h"
#include "shim.h"
#include "threads.h"
#include "world.h"

enum {
    LONG_MS = 500, /* what hangs is reported after 0.5 to 1.1 s, as pushes are a second apart */
    AWAITED_MS = 50 /* a shorter one at a push is mostly over soon, and is left for the next push */
};

static int reported; /* something is open, as far as the receiver knows */
static int64_t due;  /* CLOCK_MONOTONIC: when an awaited call becomes long; 0: none is */

/* Which operations have a communicator and a rank among their arguments. */
enum { HAS_COMM = 1, HAS_PEER = 2 };
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
#define HAS_wide
#define HAS_text
#define HAS_status
#define HAS_statuses
#define HAS_tested
#define HAS_waited
#define HAS_begun
#define HAS_made
#define HAS_pending
#define HAS_pendings
#define HAS_out
#define ARGUMENTS(number, Name, name, parameters, note) [TL_OP_##Name] = 0 parameters(HAS, NOTHING),
static const uint8_t arguments[TL_OPERATION_LIMIT] = {TL_OPERATIONS(ARGUMENTS)};

/* The call that a thread is in; 0 where it is in none that is timed, or has gone on meanwhile. */
struct now {
    uint64_t start;
    int operation, peer;
    tl_handle comm;
    struct tl_frame_mark frame;
};
static int look(struct tl_thread *thread, struct now *now) {
    now->start = __atomic_load_n(&thread->open_start, __ATOMIC_ACQUIRE);
    if (!now->start) return 0;
    now->operation = __atomic_load_n(&thread->depth, __ATOMIC_ACQUIRE);
    now->comm = __atomic_load_n(&thread->open_comm, __ATOMIC_ACQUIRE);
    now->peer = __atomic_load_n(&thread->open_peer, __ATOMIC_ACQUIRE);
    now->frame = (struct tl_frame_mark){TL_LOAD(&thread->frame.at), TL_LOAD(&thread->frame.returns_to)};
    if (now->start == TL_LOAD(&thread->open_in_doubt)) return 0;
    return TL_LOAD(&thread->open_start) == now->start && now->operation > 0 && now->operation < TL_OPERATION_LIMIT;
}

/* A communicator that no call on it has been counted of yet is not known, but for the world. */
static void describe(struct tl_open_call *call, const struct now *now) {
    int has = arguments[now->operation];
    tl_handle handle = tl_same(now->comm);
    if (!(has & HAS_COMM)) return;
    if (handle == tl_same(tl_library.comm_world)) {
        call->comm = TL_OPEN_IN_WORLD;
        call->comm_size = (uint32_t)tl_world_size;
        if (has & HAS_PEER && now->peer >= 0 && now->peer < tl_world_size) call->peer = (uint32_t)now->peer;
        return;
    }
    pthread_mutex_lock(&tl_comms_lock);
    const struct tl_comm *comm = tl_comm_known(handle);
    if (comm) {
        call->comm = comm->number;
        call->comm_size = (uint32_t)comm->size;
        int peer = has & HAS_PEER && now->peer >= 0 && now->peer < comm->size ? now->peer : -1;
        call->peer = (uint32_t)(peer >= 0 && comm->world ? comm->world[peer] : peer);
    }
    pthread_mutex_unlock(&tl_comms_lock);
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

static void begin(struct tl_frame *frame, int64_t now) {
    tl_frame_begin(frame, TL_OPEN);
    tl_put_u64(frame, (uint64_t)now);
}

void tl_open_calls_push(struct tl_frame *frame, int (*patience)(void)) {
    struct tl_moment now = {0};
    double scale = 1.0;
    int count = 0;
    due = 0;
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        struct now open;
        if (!look(thread, &open)) continue;
        if (!now.monotonic) {
            now = tl_clock_moment();
            scale = tl_clock_scale(&now);
        }
        int64_t age = now.ticks > open.start ? (int64_t)((double)(now.ticks - open.start) * scale) : 0;
        if (!is_long(age, now.monotonic) || tl_frame_has_changed(open.frame)) continue;
        struct tl_open_call call = {.operation = (uint16_t)open.operation, .thread = (uint16_t)thread->number, .peer = UINT32_MAX};
        call.start = now.monotonic - age;
        describe(&call, &open);
        call.pending = tl_requests_pending(thread, &call.oldest);
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
