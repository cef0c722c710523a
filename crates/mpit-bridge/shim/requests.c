/*
 * The table of outstanding requests. An entry is taken over, never trusted: a request that was completed where
 * the shim could not see it leaves an entry behind, which the next request of the same handle replaces.
 *
 * With MPI_THREAD_MULTIPLE, a library may give a handle to another thread's new request before the thread that
 * completed the old one is back here. So an entry is one word, changed by compare and swap, that no two
 * requests have in common (a running count stands in it); who completes a request removes the word that it
 * found before the call and no other.
 */
#include "requests.h"

#include <stdlib.h>
#include <string.h>

#include "accounting.h"
#include "trace_calls.h"

enum { SLOTS = 8, CHAIN = 4 };

/* An entry: three flags in its low bits; then the cell of the operation (8 bits each of region, operation, size
 * class and algorithm) and a stamp of 29 bits, or the address of what persistent.c keeps and a stamp of 16. */
enum { RECEIVES = 1, PERSISTENT = 2, CANCELLED = 4, FLAGS = 3, CELL_STAMP = 35, ADDRESS_STAMP = 48 };
enum { CLAIMED = 4 }; /* not an entry, but no longer free */
#define ADDRESS_MASK 0x0000fffffffffff8u

/* Keys and what is held lie in a cache line each. */
struct bucket {
    uint64_t keys[SLOTS];
    uint64_t held[SLOTS];
};
static struct bucket buckets[TL_REQUEST_BUCKETS] __attribute__((aligned(64)));
static uint8_t overflowed[TL_REQUEST_BUCKETS]; /* something went on to the next bucket, some time */

static int swap(uint64_t *word, uint64_t expected, uint64_t wanted) {
    if (TL_LIKELY(!tl_shared_comms)) {
        if (*word != expected) return 0;
        *word = wanted;
        return 1;
    }
    return __atomic_compare_exchange_n(word, &expected, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint32_t first_bucket(uint64_t key) {
    return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 53) % TL_REQUEST_BUCKETS;
}

/* The entry of a request; NULL if there is none. */
static uint64_t *find(uint64_t key) {
    uint32_t at = first_bucket(key);
    for (int i = 0; i < CHAIN; i++) {
        struct bucket *bucket = &buckets[at];
        for (int s = 0; s < SLOTS; s++)
            if (TL_LOAD(&bucket->keys[s]) == key &&
                __atomic_load_n(&bucket->held[s], __ATOMIC_ACQUIRE) > CLAIMED)
                return &bucket->held[s];
        if (TL_LIKELY(!TL_LOAD(&overflowed[at]))) return NULL;
        at = (at + 1) % TL_REQUEST_BUCKETS;
    }
    return NULL;
}

static int add(uint64_t key, uint64_t held) {
    uint64_t *old = find(key), seen;
    if (TL_UNLIKELY(old != NULL)) {
        seen = __atomic_load_n(old, __ATOMIC_ACQUIRE);
        if (seen > CLAIMED && swap(old, seen, held)) return 1;
    }
    uint32_t at = first_bucket(key);
    for (int i = 0; i < CHAIN; i++) {
        struct bucket *bucket = &buckets[at];
        for (int s = 0; s < SLOTS; s++) {
            if (TL_LOAD(&bucket->held[s]) != 0 || !swap(&bucket->held[s], 0, CLAIMED)) continue;
            TL_STORE(&bucket->keys[s], key);
            __atomic_store_n(&bucket->held[s], held, __ATOMIC_RELEASE);
            return 1;
        }
        TL_STORE(&overflowed[at], 1);
        at = (at + 1) % TL_REQUEST_BUCKETS;
    }
    return 0;
}

static uint64_t entry_of_cell(struct tl_thread *self, struct tl_where where, unsigned flags) {
    uint64_t cell = (uint64_t)where.region << 24 | (uint64_t)where.operation << 16 | (uint64_t)where.size_class << 8 |
                    where.algorithm;
    return ++self->request_stamp << CELL_STAMP | cell << FLAGS | flags;
}

static struct tl_where cell_of_entry(uint64_t held) {
    held >>= FLAGS;
    return (struct tl_where){(held >> 24) & 255, (held >> 16) & 255, (held >> 8) & 255, held & 255};
}

/* Handles that many requests have at once, being complete already: nobody waits for them. */
static int is_shared(tl_handle request) {
    if (tl_library.family == TL_FAMILY_MPICH) return ((uint32_t)request >> 30) < 2;
    return request == tl_library.request_null || request == tl_library.request_empty;
}

void tl_request_began(struct tl_call *call, tl_handle request) {
    request = tl_same(request);
    if (is_shared(request)) return;
    uint64_t held = entry_of_cell(call->self, tl_account_last(call), call->receives ? RECEIVES : 0);
    if (TL_UNLIKELY(!add((uint64_t)request, held)))
        TL_ADD(&call->self->untracked_requests, 1);
}

int tl_request_made(struct tl_thread *self, tl_handle request, const void *persistent) {
    uint64_t held = ++self->request_stamp << ADDRESS_STAMP | ((uintptr_t)persistent & ADDRESS_MASK) | PERSISTENT;
    if (add((uint64_t)tl_same(request), held)) return 1;
    TL_ADD(&self->untracked_requests, 1);
    return 0;
}

tl_handle tl_request_at(enum tl_form form, const void *requests, int i) {
    if (tl_is_fortran(form)) return tl_library.request_f2c(((const int *)requests)[i]);
    return tl_library.handle_bytes == 8 ? ((const tl_handle *)requests)[i] : ((const int *)requests)[i];
}

/* Room for what one call asks about; NULL if there is none. Belongs to the thread, grows, is used again. */
static void *room(void **held, size_t *bytes, size_t need) {
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
    looked->receives = looked->unasked = 0;
    looked->count = count < 0 || !requests ? 0 : count;
    if (TL_UNLIKELY(looked->count > TL_LOOKED_FEW)) {
        if (looked->count > TL_LOOKED_LIMIT) looked->count = TL_LOOKED_LIMIT;
        struct tl_found *many = room(&self->looked, &self->looked_bytes, (size_t)looked->count * sizeof *many);
        if (many) looked->found = many;
        else looked->count = TL_LOOKED_FEW;
        if (looked->count < count) TL_ADD(&self->untracked_requests, (uint64_t)(count - looked->count));
    }
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        tl_handle request = tl_same(tl_request_at(form, requests, i));
        found->entry = is_shared(request) ? NULL : find((uint64_t)request);
        found->held = found->entry ? __atomic_load_n(found->entry, __ATOMIC_ACQUIRE) : 0;
        if (TL_UNLIKELY(found->entry && found->held <= CLAIMED)) found->entry = NULL;
        const struct tl_capture *kept = tl_found_persistent(found);
        if (kept ? kept->receives : (int)(found->held & RECEIVES)) looked->receives = 1;
    }
}

int tl_is_ignored(enum tl_form form, const void *status) {
    if (!tl_is_fortran(form)) return status == tl_library.status_ignore;
    return status == tl_library.fortran_status_ignore || status == tl_library.fortran_statuses_ignore;
}

int tl_wants_status(const struct tl_looked *looked, struct tl_thread *self, enum tl_form form, const void *given) {
    if (TL_LIKELY(!looked->receives || !tl_is_ignored(form, given))) return 0;
    if (TL_UNLIKELY(looked->unasked)) TL_ADD(&self->untracked_requests, 1);
    return !looked->unasked;
}

void *tl_statuses(const struct tl_looked *looked, struct tl_thread *self, enum tl_form form, void *given, void *few) {
    if (!tl_wants_status(looked, self, form, given)) return given;
    if (looked->count <= TL_LOOKED_FEW) return few;
    void *many = room(&self->statuses, &self->statuses_bytes, (size_t)looked->count * TL_STATUS_BYTES);
    return many ? many : given;
}

void tl_request_moved(const struct tl_found *found, struct tl_thread *self, tl_handle request) {
    uint64_t key = (uint64_t)tl_same(request);
    if (TL_LIKELY(TL_LOAD(found->entry - SLOTS) == key)) return; /* a bucket's keys lie before what it holds */
    swap(found->entry, found->held, 0);
    if (!add(key, found->held)) TL_ADD(&self->untracked_requests, 1);
}

static tl_handle request_of(const struct tl_found *found) {
    return (tl_handle)TL_LOAD(found->entry - SLOTS);
}

/* ---- completion ---- */

struct tl_capture *tl_found_persistent(const struct tl_found *found) {
    if (!found->entry || !(found->held & PERSISTENT)) return NULL;
    return (struct tl_capture *)(uintptr_t)(found->held & ADDRESS_MASK);
}

static struct tl_where where_of(const struct tl_found *found) {
    const struct tl_capture *persistent = tl_found_persistent(found);
    return persistent ? persistent->where : cell_of_entry(found->held);
}

static int is_active(const struct tl_found *found) {
    if (!found->entry) return 0;
    const struct tl_capture *persistent = tl_found_persistent(found);
    return !persistent || persistent->active;
}

/* The word in the table now: what was found, perhaps with a mark of MPI_Cancel since. */
static uint64_t held_now(const struct tl_found *found) {
    uint64_t marked = found->held | CANCELLED;
    return __atomic_load_n(found->entry, __ATOMIC_ACQUIRE) == marked ? marked : found->held;
}

static int was_cancelled(uint64_t held, const void *status) {
    int flag = 0;
    if (TL_LIKELY(!(held & CANCELLED))) return 0;
    return tl_library.test_cancelled && tl_library.test_cancelled(status, &flag) == 0 && flag;
}

/* One request is complete. `status` is NULL where none could be had. */
static void complete(const struct tl_call *call, struct tl_found *found, const void *status, uint64_t ticks) {
    struct tl_capture *persistent = tl_found_persistent(found);
    struct tl_where where = where_of(found);
    uint64_t held = held_now(found);
    int receives = persistent ? persistent->receives : (int)(held & RECEIVES);
    tl_account_wait(call->self, where, ticks);
    if (receives && status && !tl_is_ignored(call->form, status) && !was_cancelled(held, status)) {
        int64_t known = persistent ? persistent->receive_bytes : -1;
        tl_account_received(call->self, where, known >= 0 ? known : tl_status_bytes(status));
    }
    if (TL_UNLIKELY(TL_LOAD(&tl_tracing))) {
        const void *told = receives && status && !tl_is_ignored(call->form, status) ? status : NULL;
        tl_trace_completed(call, request_of(found), told, told && was_cancelled(held, told));
    }
    if (persistent) persistent->active = 0;
    swap(found->entry, held, persistent ? found->held & ~(uint64_t)CANCELLED : 0);
}

static const void *status_at(const void *statuses, int i) {
    return statuses ? (const char *)statuses + (size_t)i * (size_t)tl_library.status_bytes : NULL;
}

/* Time of a call that completed nothing: given to all that it asked about. */
static void divide(const struct tl_call *call, struct tl_looked *looked) {
    uint64_t active = 0, left = call->ticks;
    for (int i = 0; i < looked->count; i++) active += (uint64_t)is_active(&looked->found[i]);
    for (int i = 0; i < looked->count && active > 0; i++) {
        if (!is_active(&looked->found[i])) continue;
        uint64_t share = left / active--;
        left -= share;
        tl_account_wait(call->self, where_of(&looked->found[i]), share);
    }
}

void tl_completed_all(struct tl_call *call, struct tl_looked *looked, const void *statuses) {
    uint64_t active = 0, left = call->ticks;
    for (int i = 0; i < looked->count; i++) active += (uint64_t)is_active(&looked->found[i]);
    int ignored = tl_is_ignored(call->form, statuses);
    for (int i = 0; i < looked->count && active > 0; i++) {
        if (!is_active(&looked->found[i])) continue;
        uint64_t share = left / active--;
        left -= share;
        complete(call, &looked->found[i], ignored ? NULL : status_at(statuses, i), share);
    }
}

void tl_completed_if(struct tl_call *call, struct tl_looked *looked, const void *flag, const void *statuses) {
    if (*(const int *)flag) tl_completed_all(call, looked, statuses);
    else divide(call, looked);
}

void tl_completed_any(struct tl_call *call, struct tl_looked *looked, const void *index, const void *status) {
    int i = *(const int *)index - tl_is_fortran(call->form);
    if (i < 0 || i >= looked->count) divide(call, looked);
    else if (is_active(&looked->found[i])) complete(call, &looked->found[i], status, call->ticks);
}

void tl_completed_some(struct tl_call *call, struct tl_looked *looked, const void *outcount, const void *indices,
                       const void *statuses) {
    int count = *(const int *)outcount;
    if (count <= 0) {
        divide(call, looked);
        return;
    }
    int ignored = tl_is_ignored(call->form, statuses);
    uint64_t left = call->ticks, known = (uint64_t)count;
    for (int k = 0; k < count; k++) {
        uint64_t share = left / known--;
        left -= share;
        int i = ((const int *)indices)[k] - tl_is_fortran(call->form);
        if (i < 0 || i >= looked->count || !is_active(&looked->found[i])) continue;
        complete(call, &looked->found[i], ignored ? NULL : status_at(statuses, k), share);
    }
}

void tl_requests_freed(struct tl_looked *looked) {
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        if (!found->entry) continue;
        if (TL_UNLIKELY(TL_LOAD(&tl_tracing))) tl_trace_request_freed(tl_self, request_of(found));
        swap(found->entry, found->held, 0);
        if (tl_found_persistent(found)) tl_capture_free(tl_found_persistent(found));
    }
}

void tl_requests_cancelled(struct tl_looked *looked) {
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        if (found->entry) swap(found->entry, found->held, found->held | CANCELLED);
    }
}
