/*
 * The way through a wrapper for a poll that is neither timed nor, as long as it fails, looked at: the next function is
 * called, and the cell's number of calls goes up by one. It keeps the requests as they were, as they are looked up if the
 * poll succeeds. Programs that do little else poll every 25 ns, and notice each ten instructions and each cache line: one
 * that tests the same requests as before takes some 40 and three. Included by the files of wrappers, which have the
 * rest.
 */
#ifndef THROUGHLINE_POLLS_FAST_PATH_H
#define THROUGHLINE_POLLS_FAST_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "cells.h"
#include "form.h"
#include "frames.h"
#include "operations.h"
#include "polls.h"
#include "requests.h"
#include "shim.h"
#include "status.h"
#include "threads.h"

enum { TL_STORED_FEW = 16 }; /* requests of a call; polls of more take the usual path */

/* How many requests a poll tests, and where they are. */
#define TL_MANY_Test 1
#define TL_MANY_Testall TL_COUNT_OF_REQUESTS
#define TL_MANY_Testany TL_COUNT_OF_REQUESTS
#define TL_MANY_Testsome TL_COUNT_OF_REQUESTS
#define TL_MANY_Iprobe 0
#define TL_MANY_Improbe 0
#define TL_REQUESTED_Test request
#define TL_REQUESTED_Testall requests
#define TL_REQUESTED_Testany requests
#define TL_REQUESTED_Testsome requests
#define TL_REQUESTED_Iprobe NULL
#define TL_REQUESTED_Improbe NULL

/* The shim's own status replaces one that the program ignores, as wrappers.h has it. */
#define TL_FAST(kind, name) TL_FAST_##kind(name)
#define TL_FAST_pending(name)
#define TL_FAST_pendings(name)
#define TL_FAST_integer(name)
#define TL_FAST_rank(name)
#define TL_FAST_tag(name)
#define TL_FAST_comm(name)
#define TL_FAST_out(name)
#define TL_FAST_waited(name) \
    uint64_t name##_own[TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_fast_ignores(tl_row, tl_form, name)) name = name##_own;
#define TL_FAST_statuses(name) \
    uint64_t name##_own[TL_STORED_FEW * TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_fast_ignores(tl_row, tl_form, name)) name = name##_own;
#define TL_FAST_tested(name) \
    uint64_t name##_own[TL_STORED_FEW * TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_fast_ignores(tl_row, tl_form, name) && !tl_is_unrequested()) name = name##_own;

#define TL_FAST_FUNCTION static inline __attribute__((always_inline))

TL_FAST_FUNCTION int tl_fast_ignores(const struct tl_row_now *row, enum tl_form form, const void *status) {
    return tl_is_fortran(form) ? tl_is_ignored(form, status) : status == row->ignored;
}

/* May a call take the fast path, as far as the thread is concerned? */
TL_FAST_FUNCTION int tl_fast_may(const struct tl_thread *self) {
    return TL_LIKELY(!(TL_LOAD(&self->depth) | TL_LOAD(&self->interrupted)));
}

/* So many bytes of handles, of four or of eight each; some may be copied twice. No loop: it takes registers that would have
 * to be saved, and compilers make a call of it. */
TL_FAST_FUNCTION void tl_fast_copy(uint64_t *stored, const void *requested, size_t bytes) {
    const char *from = requested;
    char *to = (char *)stored;
    _Static_assert(TL_STORED_FEW * sizeof *stored <= 4 * 32, "so many pieces");
    if (bytes == 8) {
        __builtin_memcpy(to, from, 8);
    } else if (bytes >= 32) {
        __builtin_memcpy(to, from, 32);
        if (bytes > 64) __builtin_memcpy(to + 32, from + 32, 32);
        if (bytes > 96) __builtin_memcpy(to + 64, from + 64, 32);
        __builtin_memcpy(to + bytes - 32, from + bytes - 32, 32);
    } else if (bytes >= 16) {
        __builtin_memcpy(to, from, 16);
        __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else {
        __builtin_memcpy(to, from, 4);
        if (bytes == 12) __builtin_memcpy(to + 4, from + 4, 8);
    }
}

/* Keeps the requests of a call; `stored` has space for TL_STORED_FEW. 0 where it has to go the usual path. */
TL_FAST_FUNCTION int tl_fast_path_keep(uint64_t *stored, struct tl_row_now *row, int many, const void *requested) {
    if (TL_UNLIKELY(row->left <= 0)) return 0;
    if (__builtin_constant_p(many) && many == 0) return 1;
    if (TL_UNLIKELY(many <= 0 || many > TL_STORED_FEW || !requested)) return 0;
    if (__builtin_constant_p(many) && many == 1) {
        if (TL_LIKELY(row->handle_bytes == 8)) __builtin_memcpy(stored, requested, 8);
        else __builtin_memcpy(stored, requested, 4);
        return 1;
    }
    row->requested = requested;
    row->many = many;
    row->bytes = many * row->handle_bytes;
    tl_fast_copy(stored, requested, (size_t)row->bytes);
    return 1;
}

/* The same for a call that tests those of the call before, which is what most do. In a row that has ended there are
 * none. */
TL_FAST_FUNCTION int tl_fast_path_keep_same(uint64_t *stored, struct tl_row_now *row, int many, const void *requested) {
    if (__builtin_constant_p(many)) return tl_fast_path_keep(stored, row, many, requested);
    if (TL_UNLIKELY(requested != row->requested || many != row->many)) return 0;
    tl_fast_copy(stored, requested, (size_t)row->bytes);
    return 1;
}

/* It has failed, and is one call more. */
TL_FAST_FUNCTION void tl_fast_count(struct tl_thread *self, struct tl_row_now *row) {
    TL_ADD(&row->cell->calls, 1);
    if (TL_UNLIKELY(--row->left == 0)) row->requested = row;
    TL_STORE(&self->depth, 0);
}

/* What follows where it has succeeded: a function of its own, so that the fast path has a small frame. The arguments that
 * it needs wait in memory, as registers that outlast a call have to be saved as well, and brought back each time. */
#define TL_CAME(symbol, the_form, Name, parameters, note) \
    struct arguments_##symbol { \
        parameters(TL_FIELD, TL_NOTHING) \
    }; \
    static __attribute__((noinline, cold)) void came_##symbol(struct tl_thread *tl_me, int tl_many, const void *tl_stored, \
                                                              const struct arguments_##symbol *tl_given) { \
        const enum tl_form tl_form = the_form; \
        enum { tl_operation = TL_OP_##Name }; \
        struct tl_looked tl_looked; \
        parameters(TL_TAKE, TL_NOTHING) \
        tl_me->algorithm = 0; \
        tl_requests_look(&tl_looked, tl_me, tl_form, tl_many, tl_stored); \
        tl_looked.unrequested = TL_OP_##Name == TL_OP_Testall && tl_is_unrequested(); \
        struct tl_call tl_made = {tl_me, tl_operation, tl_form, 0, 0, 0, 0}; \
        struct tl_call *call = &tl_made; \
        note; \
        TL_STORE(&tl_me->depth, 0); \
    }
#define TL_FIELD(kind, name) TL_WAITS_##kind(TL_DECLARE(kind, name);)
#define TL_GIVE(kind, name) TL_WAITS_##kind(TL_PASS(kind, name), )
#define TL_TAKE(kind, name) \
    TL_WAITS_##kind(TL_DECLARE(kind, name) = tl_given->TL_PASS(kind, name); (void)TL_PASS(kind, name);)
#define TL_WAITS_out(...) __VA_ARGS__
#define TL_WAITS_waited(...) __VA_ARGS__
#define TL_WAITS_statuses(...) __VA_ARGS__
#define TL_WAITS_tested(...) __VA_ARGS__
#define TL_WAITS_pending(...) /* the requests are in `tl_stored` */
#define TL_WAITS_pendings(...)
#define TL_WAITS_integer(...)
#define TL_WAITS_tag(...)
#define TL_WAITS_rank(...) /* of messages that are probed for, nothing is recorded */
#define TL_WAITS_comm(...)

/* A way through, in C or in Fortran, which differ in the next function. The exported one is for calls that test the
 * same as the one before; it goes on in `other_`, and that in `usual_`, where a call may not take them. */
#define TL_POLL_WAY(symbol, the_form, Name, parameters, keep, otherwise, next_function, next_call, succeeded) \
    const enum tl_form tl_form = the_form; \
    struct tl_thread *tl_me = tl_self; \
    struct tl_row_now *tl_row = &tl_me->rows[tl_row_number(tl_form, TL_OP_##Name)]; \
    uint64_t tl_stored[TL_STORED_FEW]; \
    if (!tl_fast_may(tl_me) || !keep(tl_stored, tl_row, TL_MANY_##Name, TL_REQUESTED_##Name)) otherwise; \
    TL_STORE(&tl_me->depth, TL_OP_##Name); \
    tl_inside(tl_me, TL_FRAME); \
    parameters(TL_FAST, TL_NOTHING) \
    struct arguments_##symbol tl_given = {parameters(TL_GIVE, TL_NOTHING)}; \
    TL_IN_MEMORY(tl_given); \
    struct tl_thread *tl_again = tl_me; \
    TL_IN_MEMORY(tl_again); \
    next_function; \
    __builtin_memcpy(&tl_following, &tl_row->next, sizeof tl_following); \
    next_call; \
    TL_IN_MEMORY(tl_again); \
    tl_me = tl_again; \
    tl_row = &tl_me->rows[tl_row_number(tl_form, TL_OP_##Name)]; \
    if (TL_LIKELY(succeeded)) { \
        if (TL_UNLIKELY(TL_CAME_##Name(tl_given.))) \
            came_##symbol(tl_me, TL_MANY_STORED(Name), tl_stored, &tl_given); \
        else \
            tl_fast_count(tl_me, tl_row); \
    } else { \
        TL_STORE(&tl_me->depth, 0); \
    }
#define TL_MANY_STORED(Name) (__builtin_constant_p(TL_MANY_##Name) ? TL_MANY_##Name : tl_row->many)
/* Where the number of requests is fixed, there is no other way. */
#define TL_OTHERWISE(symbol, Name) (__builtin_constant_p(TL_MANY_##Name) ? usual_##symbol : other_##symbol)
#define TL_IN_MEMORY(variable) __asm__ volatile("" : "+m"(variable))

#endif
