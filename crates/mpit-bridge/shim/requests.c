/*
 * The table of outstanding requests. An entry is taken over, never trusted: a request that was completed where
 * the shim could not see it leaves an entry behind, which the next request of the same handle replaces.
 *
 * With MPI_THREAD_MULTIPLE, a library may give a handle to another thread's new request before the thread that
 * completed the old one is back here. So an entry is one word, changed by compare and swap, that no two
 * requests have in common (it has the thread's number and a running count: threads that do the same have the same
 * counts); who completes a request removes the word that it found before the call and no other. A place's key only
 * changes while it holds no entry, so that key and entry belong together where the entry is the same before and after.
 */
#include "requests.h"

#include <stdlib.h>
#include <string.h>

#include "accounting.h"
#include "captures.h"
#include "cells.h"
#include "comms.h"
#include "form.h"
#include "handles.h"
#include "library.h"
#include "limits.h"
#include "notes.h"
#include "operations.h"
#include "shim.h"
#include "status.h"
#include "threads.h"
#include "trace.h"
#include "trace_calls.h"

enum { SLOTS = 8, CHAIN = 4 };

/* An entry: three flags in its low bits; then the cell of the operation (10 bits of the path, 8 of the operation, 6 of the
 * size class, 7 of the algorithm), a count of 19 bits and the thread's number, or the address of what persistent.c keeps, which
 * no other request has, and a count of 16. */
enum { RECEIVES = 1, PERSISTENT = 2, CANCELLED = 4, FLAGS = 3, CELL_STAMP = 35, THREAD = 54, ADDRESS_STAMP = 48 };
_Static_assert(TL_PATH_LIMIT <= 1 << 10 && TL_OPERATION_LIMIT <= 1 << 8 && TL_SIZE_CLASSES <= 1 << 6 && TL_ALGORITHM_LIMIT <= 1 << 7,
               "a cell has its place in an entry");
_Static_assert(TL_THREADS_LIMIT <= 1 << (64 - THREAD), "a thread's number has its place in an entry");
enum { CLAIMED = 4 }; /* not an entry, but no longer free */
#define ADDRESS_MASK 0x0000fffffffffff8u

/* A place is free while nothing is held; its key stays, so that the next request of that handle has it again. */
struct place {
    uint64_t key, held;
};
struct bucket {
    struct place places[SLOTS];
};
static struct bucket buckets[TL_REQUEST_BUCKETS] __attribute__((aligned(64)));
/* What began the request that is in a place, for who looks at calls that go on for long; apart, as nobody else reads it. */
static struct tl_requested requested[TL_REQUEST_BUCKETS * SLOTS];
static uint8_t overflowed[TL_REQUEST_BUCKETS]; /* something went on to the next bucket, some time */

static int swap(uint64_t *word, uint64_t expected, uint64_t wanted) {
    if (TL_LIKELY(!tl_shared_comms)) {
        if (*word != expected) return 0;
        TL_STORE(word, wanted);
        return 1;
    }
    return __atomic_compare_exchange_n(word, &expected, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint32_t first_bucket(uint64_t key) {
    return (uint32_t)((key * tl_library.request_spread) >> 53) % TL_REQUEST_BUCKETS;
}

/* Is what was read of a place one request's? Not if another thread gave the place to another handle meanwhile. */
static inline int is_one(const struct place *place, uint64_t key, uint64_t held) {
    if (TL_LIKELY(!tl_shared_comms)) return 1;
    return __atomic_load_n(&place->key, __ATOMIC_ACQUIRE) == key && (TL_LOAD(&place->held) | CANCELLED) == (held | CANCELLED);
}

/* The entry of a request, and what it holds; NULL if there is none. */
static inline uint64_t *find(uint64_t key, uint64_t *held) {
    uint32_t at = first_bucket(key);
    for (int i = 0; i < CHAIN; i++) {
        struct place *places = buckets[at].places;
        for (int s = 0; s < SLOTS; s++) {
            if (TL_LOAD(&places[s].key) != key) continue;
            *held = __atomic_load_n(&places[s].held, __ATOMIC_ACQUIRE);
            if (*held > CLAIMED && is_one(&places[s], key, *held)) return &places[s].held;
        }
        if (TL_LIKELY(!TL_LOAD(&overflowed[at]))) return NULL;
        at = (at + 1) % TL_REQUEST_BUCKETS;
    }
    return NULL;
}

static uint64_t *key_of(uint64_t *entry) {
    return entry - 1;
}

static struct tl_requested *requested_of(const uint64_t *entry) {
    return &requested[(size_t)(entry - &buckets[0].places[0].held) / 2];
}

/* Any place of the chain; what the key may hold in another one has been looked for. */
static uint64_t *add_anywhere(uint64_t key, uint64_t held) {
    uint32_t at = first_bucket(key);
    for (int i = 0; i < CHAIN; i++) {
        struct place *places = buckets[at].places;
        for (int s = 0; s < SLOTS; s++) {
            if (TL_LOAD(&places[s].held) != 0 || !swap(&places[s].held, 0, CLAIMED)) continue;
            TL_STORE(&places[s].key, key);
            __atomic_store_n(&places[s].held, held, __ATOMIC_RELEASE);
            return &places[s].held;
        }
        TL_STORE(&overflowed[at], 1);
        at = (at + 1) % TL_REQUEST_BUCKETS;
    }
    return NULL;
}

/* Its entry; NULL: there is no place. */
static uint64_t *add(uint64_t key, uint64_t held) {
    uint32_t at = first_bucket(key);
    struct place *places = buckets[at].places;
    /* Mostly a request of this handle was here before, and its place is free or holds one that was completed unseen. */
    for (int s = 0; s < SLOTS && TL_LIKELY(!TL_LOAD(&overflowed[at])); s++) {
        if (TL_LOAD(&places[s].key) != key) continue;
        uint64_t observed = __atomic_load_n(&places[s].held, __ATOMIC_ACQUIRE);
        if (TL_UNLIKELY(observed == CLAIMED || (observed && !is_one(&places[s], key, observed)))) break;
        if (!swap(&places[s].held, observed, observed ? held : CLAIMED)) break;
        if (observed) return &places[s].held;
        TL_STORE(&places[s].key, key); /* it may have been another's in between */
        __atomic_store_n(&places[s].held, held, __ATOMIC_RELEASE);
        return &places[s].held;
    }
    uint64_t observed, *old = find(key, &observed);
    return old && swap(old, observed, held) ? old : add_anywhere(key, held);
}

static uint32_t cell_bits(struct tl_where where) {
    return (uint32_t)where.path << 21 | (uint32_t)where.operation << 13 | (uint32_t)where.size_class << 7 | where.algorithm;
}

static struct tl_where cell_of(uint32_t bits) {
    return (struct tl_where){(bits >> 21) & 1023, (bits >> 13) & 255, (bits >> 7) & 63, bits & 127};
}

/* Read by the flush thread. */
static uint64_t next_stamp(struct tl_thread *self) {
    uint64_t stamp = self->request_stamp + 1;
    TL_STORE(&self->request_stamp, stamp);
    return stamp;
}

static uint64_t entry_of_cell(struct tl_thread *self, struct tl_where where, unsigned flags) {
    uint64_t count = next_stamp(self) << CELL_STAMP & (((uint64_t)1 << THREAD) - 1);
    return (uint64_t)self->number << THREAD | count | (uint64_t)cell_bits(where) << FLAGS | flags;
}

/* Handles that many requests have at once, being complete already: nobody waits for them. */
static int is_shared(tl_handle request) {
    if (tl_library.family == TL_FAMILY_MPICH) return ((uint32_t)request >> 30) < 2;
    return request == tl_library.request_null || request == tl_library.request_empty;
}

void tl_request_began(struct tl_call *call, tl_handle request) {
    request = tl_same(request);
    if (is_shared(request)) return;
    struct tl_thread *self = call->self;
    uint64_t *entry = add((uint64_t)request, entry_of_cell(self, tl_account_last(call), call->receives ? RECEIVES : 0));
    if (TL_UNLIKELY(!entry)) {
        TL_ADD(&self->untracked_requests, 1);
        return;
    }
    struct tl_requested *of = requested_of(entry);
    TL_STORE(&of->comm, self->open_comm);
    TL_STORE(&of->peer, self->open_peer);
    TL_STORE(&of->tag, self->open_tag);
}

int tl_request_made(struct tl_thread *self, tl_handle request, const void *persistent) {
    uint64_t held = next_stamp(self) << ADDRESS_STAMP | ((uintptr_t)persistent & ADDRESS_MASK) | PERSISTENT;
    if (add((uint64_t)tl_same(request), held)) return 1;
    TL_ADD(&self->untracked_requests, 1);
    return 0;
}

/* Space for what one call tests; NULL if there is none. Belongs to the thread, grows, is used again. */
static void *space(void **held, size_t *bytes, size_t need) {
    if (*bytes >= need) return *held;
    void *grown = realloc(*held, need);
    if (!grown) return NULL;
    *held = grown;
    *bytes = need;
    return grown;
}

void tl_requests_look(struct tl_looked *looked, struct tl_thread *self, enum tl_form form, int count,
                      const void *requests) {
    looked->requests = requests;
    looked->found = looked->few;
    looked->receives = looked->unrequested = looked->later = 0;
    looked->active = 0;
    looked->is_cut = 0;
    looked->count = count < 0 || !requests ? 0 : count;
    if (TL_UNLIKELY(looked->count > TL_LOOKED_FEW)) {
        if (looked->count > TL_LOOKED_LIMIT) looked->count = TL_LOOKED_LIMIT;
        struct tl_found *many = space(&self->looked, &self->looked_bytes, (size_t)looked->count * sizeof *many);
        if (many) looked->found = many;
        else looked->count = TL_LOOKED_FEW;
        looked->is_cut = looked->count < count;
        if (looked->is_cut) TL_ADD(&self->untracked_requests, (uint64_t)(count - looked->count));
    }
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        tl_handle request = tl_same(tl_request_at(form, requests, i));
        found->entry = is_shared(request) ? NULL : find((uint64_t)request, &found->held);
        if (!found->entry) continue;
        const struct tl_capture *stored = tl_found_persistent(found);
        if (stored ? stored->receives : (int)(found->held & RECEIVES)) looked->receives = 1;
        if (!stored || stored->active) looked->active++;
    }
    TL_STORE(&self->open_requests, looked->active);
    TL_STORE(&self->open_request, looked->count == 1 ? looked->found[0].entry : NULL);
}

void *tl_statuses(const struct tl_looked *looked, struct tl_thread *self, enum tl_form form, void *given, void *few) {
    if (!tl_wants_status(looked, form, given) || looked->is_cut) return given;
    if (looked->count <= TL_LOOKED_FEW) return few;
    void *many = space(&self->statuses, &self->statuses_bytes, (size_t)looked->count * TL_STATUS_BYTES);
    return many ? many : given;
}

void tl_request_moved(const struct tl_found *found, struct tl_thread *self, tl_handle request) {
    uint64_t key = (uint64_t)tl_same(request);
    if (TL_LIKELY(TL_LOAD(key_of(found->entry)) == key)) return;
    swap(found->entry, found->held, 0);
    if (!add(key, found->held)) TL_ADD(&self->untracked_requests, 1);
}

static tl_handle request_of(const struct tl_found *found) {
    return (tl_handle)TL_LOAD(key_of(found->entry));
}

/* ---- completion ---- */

struct tl_capture *tl_found_persistent(const struct tl_found *found) {
    if (!found->entry || !(found->held & PERSISTENT)) return NULL;
    return (struct tl_capture *)(uintptr_t)(found->held & ADDRESS_MASK);
}

static struct tl_where where_of(const struct tl_found *found) {
    const struct tl_capture *persistent = tl_found_persistent(found);
    return persistent ? persistent->where : cell_of((uint32_t)(found->held >> FLAGS));
}

static int is_active(const struct tl_found *found) {
    if (!found->entry) return 0;
    const struct tl_capture *persistent = tl_found_persistent(found);
    return !persistent || persistent->active;
}

static int receives(const struct tl_found *found) {
    const struct tl_capture *persistent = tl_found_persistent(found);
    return persistent ? persistent->receives : (int)(found->held & RECEIVES);
}

/* The word in the table now: what was found, perhaps with a mark of MPI_Cancel since. */
static uint64_t held_now(const struct tl_found *found) {
    uint64_t marked = found->held | CANCELLED;
    return __atomic_load_n(found->entry, __ATOMIC_ACQUIRE) == marked ? marked : found->held;
}

/* Completions of one cell that follow each other. */
struct run {
    uint32_t bits;
    struct tl_done done;
};

static void run_end(struct run *run, const struct tl_call *call) {
    if (run->done.requests) tl_account_done(call, cell_of(run->bits), &run->done);
    run->done = (struct tl_done){0};
}

static void run_to(struct run *run, const struct tl_call *call, uint32_t bits) {
    if (TL_LIKELY(run->bits == bits)) return;
    run_end(run, call);
    run->bits = bits;
}

static int was_cancelled(uint64_t held, const void *status) {
    int flag = 0;
    if (TL_LIKELY(!(held & CANCELLED))) return 0;
    return tl_library.test_cancelled && tl_library.test_cancelled(status, &flag) == 0 && flag;
}

/* Bytes of a receive that is complete; negative: nobody can know. */
static int64_t received_bytes(const struct tl_capture *persistent, uint64_t held, const void *status) {
    if (!status || was_cancelled(held, status)) return -1;
    return persistent && persistent->receive_bytes >= 0 ? persistent->receive_bytes : tl_status_bytes(status);
}

/* One request is complete; `status` is NULL where none could be had. What it adds to its operation's cell is retained in
 * `run` as long as the same cell follows. */
static void ended(struct tl_thread *self, struct tl_capture *persistent) {
    TL_STORE(&self->persistent_active, self->persistent_active - persistent->active);
    persistent->active = 0;
}

static void complete(const struct tl_call *call, struct tl_found *found, const void *status, uint64_t ticks, struct run *run) {
    uint64_t held = held_now(found);
    struct tl_capture *persistent = tl_found_persistent(found);
    run_to(run, call, persistent ? cell_bits(persistent->where) : (uint32_t)(held >> FLAGS));
    run->done.ticks += ticks;
    run->done.requests++;
    int is_receive = receives(found);
    if (!is_receive || (status && tl_is_ignored(call->form, status))) status = NULL;
    int64_t bytes = is_receive ? received_bytes(persistent, held, status) : -1;
    if (bytes >= 0) {
        run->done.bytes += (uint64_t)bytes;
        run->done.receives++;
    }
    if (TL_UNLIKELY(TL_LOAD(&tl_tracing))) {
        tl_trace_completed(call, request_of(found), status, status && was_cancelled(held, status));
    }
    if (persistent) ended(call->self, persistent);
    swap(found->entry, held, persistent ? found->held & ~(uint64_t)CANCELLED : 0);
}

/* Known, neither persistent nor a receive nor marked by MPI_Cancel, and nobody traces: most requests. */
static inline int is_plain(const struct tl_found *found) {
    return found->entry && !(found->held & (PERSISTENT | RECEIVES | CANCELLED)) && !TL_LOAD(&tl_tracing);
}

static const void *status_at(const void *statuses, int i) {
    return statuses ? (const char *)statuses + (size_t)i * (size_t)tl_library.status_bytes : NULL;
}

/* The time of a call in equal shares; the first ones have what is left over. */
struct shares {
    uint64_t each, left_over;
};
static struct shares shares_of(const struct tl_call *call, uint64_t among) {
    uint64_t ticks = call->ticks + call->others_ticks;
    return (struct shares){ticks / among, ticks % among};
}
static uint64_t share(struct shares *shares) {
    if (!shares->left_over) return shares->each;
    shares->left_over--;
    return shares->each + 1;
}

/* Time of a call that completed nothing: given to all that it tested. */
static void divide(const struct tl_call *call, struct tl_looked *looked) {
    struct run run = {0};
    if (!looked->active) return;
    struct shares shares = shares_of(call, looked->active);
    for (int i = 0; i < looked->count; i++) {
        if (!is_active(&looked->found[i])) continue;
        run_to(&run, call, cell_bits(where_of(&looked->found[i])));
        run.done.ticks += share(&shares);
        run.done.requests++;
    }
    run_end(&run, call);
}

void tl_completed_all(struct tl_call *call, struct tl_looked *looked, const void *statuses) {
    struct run run = {0};
    if (!looked->active) return;
    struct shares shares = shares_of(call, looked->active);
    int ignored = tl_is_ignored(call->form, statuses);
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        if (TL_LIKELY(is_plain(found)) && swap(found->entry, found->held, 0)) {
            run_to(&run, call, (uint32_t)(found->held >> FLAGS));
            run.done.ticks += share(&shares);
            run.done.requests++;
        } else if (is_active(found)) {
            if (TL_UNLIKELY(looked->unrequested && ignored && receives(found))) TL_ADD(&call->self->untracked_requests, 1);
            complete(call, found, ignored ? NULL : status_at(statuses, i), share(&shares), &run);
        }
    }
    run_end(&run, call);
}

void tl_completed_if(struct tl_call *call, struct tl_looked *looked, const void *flag, const void *statuses) {
    if (*(const int *)flag) tl_completed_all(call, looked, statuses);
    else divide(call, looked);
}

void tl_completed_any(struct tl_call *call, struct tl_looked *looked, const void *index, const void *status) {
    int i = *(const int *)index - tl_first_index(call->form);
    if (i < 0 || i >= looked->count) {
        divide(call, looked);
        return;
    }
    struct run run = {0};
    if (is_active(&looked->found[i])) complete(call, &looked->found[i], status, call->ticks + call->others_ticks, &run);
    run_end(&run, call);
}

void tl_completed_some(struct tl_call *call, struct tl_looked *looked, const void *outcount, const void *indices,
                       const void *statuses) {
    int count = *(const int *)outcount;
    if (count <= 0) {
        divide(call, looked);
        return;
    }
    struct run run = {0};
    struct shares shares = shares_of(call, (uint64_t)count);
    int ignored = tl_is_ignored(call->form, statuses);
    for (int k = 0; k < count; k++) {
        uint64_t ticks = share(&shares);
        int i = ((const int *)indices)[k] - tl_first_index(call->form);
        if (i < 0 || i >= looked->count || !is_active(&looked->found[i])) continue;
        complete(call, &looked->found[i], ignored ? NULL : status_at(statuses, k), ticks, &run);
    }
    run_end(&run, call);
}

void tl_requests_freed(struct tl_looked *looked) {
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        if (!found->entry) continue;
        if (TL_UNLIKELY(TL_LOAD(&tl_tracing))) tl_trace_request_freed(tl_self, request_of(found));
        swap(found->entry, found->held, 0);
        struct tl_capture *persistent = tl_found_persistent(found);
        if (!persistent) continue;
        ended(tl_self, persistent);
        tl_capture_free(persistent);
    }
}

void tl_requests_cancelled(struct tl_looked *looked) {
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        if (found->entry) swap(found->entry, found->held, found->held | CANCELLED);
    }
}

/* ---- what is pending, for the flush thread ---- */

/* What an entry holds; 0 where it is another request's by now. */
static int describe(struct tl_pending *pending, const uint64_t *entry, uint64_t held) {
    const struct tl_requested *of = requested_of(entry);
    pending->operation = cell_of((uint32_t)(held >> FLAGS)).operation;
    pending->of = (struct tl_requested){TL_LOAD(&of->comm), TL_LOAD(&of->peer), TL_LOAD(&of->tag)};
    return __atomic_load_n(entry, __ATOMIC_ACQUIRE) == held;
}

static int is_pending(const struct tl_thread *thread, uint64_t held) {
    return held > CLAIMED && !(held & PERSISTENT) && held >> THREAD == (uint64_t)thread->number;
}

/* Of all threads: one may complete what another one has started. */
static unsigned persistent_active(void) {
    int64_t sum = 0;
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next) sum += TL_LOAD(&thread->persistent_active);
    return sum > 0 ? (unsigned)sum : 0;
}

struct tl_pending tl_requests_pending(struct tl_thread *thread, const uint64_t *one) {
    const uint64_t counts = ((uint64_t)1 << (THREAD - CELL_STAMP)) - 1;
    uint64_t now = TL_LOAD(&thread->request_stamp), most = 0, oldest = 0;
    const uint64_t *oldest_entry = NULL;
    struct tl_pending pending = {.count = persistent_active()};
    for (size_t at = 0; at < TL_REQUEST_BUCKETS; at++)
        for (int s = 0; s < SLOTS; s++) {
            const uint64_t *entry = &buckets[at].places[s].held;
            uint64_t held = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
            if (!is_pending(thread, held)) continue;
            uint64_t since = (now - (held >> CELL_STAMP)) & counts;
            pending.count++;
            if (oldest_entry && since <= most) continue;
            most = since;
            oldest = held;
            oldest_entry = entry;
        }
    uint64_t held = one ? __atomic_load_n(one, __ATOMIC_ACQUIRE) : 0;
    if (is_pending(thread, held)) {
        oldest = held;
        oldest_entry = one;
    }
    if (oldest_entry && !describe(&pending, oldest_entry, oldest)) pending.operation = 0;
    return pending;
}
