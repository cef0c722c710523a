/*
 * The way through a wrapper for a poll that is neither timed nor, as long as it fails, looked at: the next function is
 * called, and the cell's number of calls goes up by one. All that it reads and writes are a few cache lines: programs
 * that poll have others to keep. It keeps the requests as they were, as they are looked up if the poll succeeds.
 * Included by the files of wrappers, which have the rest.
 */
#ifndef THROUGHLINE_POLLS_QUICK_H
#define THROUGHLINE_POLLS_QUICK_H

#include "polls.h"
#include "requests.h"

enum { TL_KEPT_FEW = 16 }; /* requests of a call; polls of more take the usual way */

/* How many requests a poll asks for, and where they are. */
#define TL_MANY_Test 1
#define TL_MANY_Testall TL_COUNT_OF_REQUESTS
#define TL_MANY_Testany TL_COUNT_OF_REQUESTS
#define TL_MANY_Testsome TL_COUNT_OF_REQUESTS
#define TL_MANY_Iprobe 0
#define TL_MANY_Improbe 0
#define TL_ASKED_Test request
#define TL_ASKED_Testall requests
#define TL_ASKED_Testany requests
#define TL_ASKED_Testsome requests
#define TL_ASKED_Iprobe NULL
#define TL_ASKED_Improbe NULL

/* The shim's own status stands in for one that the program ignores, as wrappers.h has it. */
#define TL_QUICK(kind, name) TL_QUICK_##kind(name)
#define TL_QUICK_pending(name)
#define TL_QUICK_pendings(name)
#define TL_QUICK_integer(name)
#define TL_QUICK_rank(name)
#define TL_QUICK_comm(name)
#define TL_QUICK_out(name)
#define TL_QUICK_waited(name) \
    uint64_t name##_own[TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_quick_ignores(tl_row, tl_form, name)) name = name##_own;
#define TL_QUICK_statuses(name) \
    uint64_t name##_own[TL_KEPT_FEW * TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_quick_ignores(tl_row, tl_form, name)) name = name##_own;
#define TL_QUICK_tested(name) \
    uint64_t name##_own[TL_KEPT_FEW * TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_quick_ignores(tl_row, tl_form, name) && !tl_is_unasked()) name = name##_own;

#define TL_QUICK_FUNCTION static inline __attribute__((always_inline))

TL_QUICK_FUNCTION int tl_quick_ignores(const struct tl_row_now *row, enum tl_form form, const void *status) {
    return tl_is_fortran(form) ? tl_is_ignored(form, status) : status == row->ignored;
}

/* Begins a call of a row: 0 where it has to go the usual way. */
TL_QUICK_FUNCTION int tl_quick_begin(const struct tl_row_now *row, enum tl_form form, int many, const void *asked) {
    if (TL_UNLIKELY(row->calls != (short)(form + 1) || TL_LOAD(&tl_recording) != row->recording)) return 0;
    if (TL_UNLIKELY((unsigned)many > TL_KEPT_FEW || (many > 0 && !asked))) return 0;
    if (TL_UNLIKELY(row->self->depth)) return 0;
    TL_STORE(&row->self->depth, 1);
    return 1;
}

/* Handles are words of four bytes each, or of eight; `kept` has room for TL_KEPT_FEW of the latter. */
TL_QUICK_FUNCTION void tl_quick_keep(uint64_t *kept, const struct tl_row_now *row, enum tl_form form, int many, const void *asked) {
    const char *from = asked;
    char *to = (char *)kept;
    size_t each = tl_is_fortran(form) ? sizeof(int) : (size_t)row->handle_bytes;
    if (__builtin_constant_p(many) && many == 1) {
        if (each == 8) __builtin_memcpy(to, from, 8);
        else __builtin_memcpy(to, from, 4);
        return;
    }
    size_t bytes = (size_t)many * each, at = 0;
    for (; at + 64 <= bytes; at += 64) __builtin_memcpy(to + at, from + at, 64);
    for (; at + 16 <= bytes; at += 16) __builtin_memcpy(to + at, from + at, 16);
    if (bytes & 8) __builtin_memcpy(to + at, from + at, 8), at += 8;
    if (bytes & 4) __builtin_memcpy(to + at, from + at, 4);
}

/* It has failed, and is one call more. */
TL_QUICK_FUNCTION void tl_quick_count(struct tl_row_now *row) {
    uint64_t calls = TL_LOAD(&row->cell->calls) + 1;
    TL_STORE(&row->cell->calls, calls);
    if (TL_UNLIKELY(calls >= row->until)) row->calls = 0;
}

/* What follows where it has succeeded: a function of its own, so that the quick way has a small frame. Its arguments
 * wait in memory, as registers that outlast a call have to be saved as well, and brought back each time. */
#define TL_CAME(symbol, the_form, Name, parameters, note) \
    struct arguments_##symbol { \
        parameters(TL_DECLARE, TL_SEMICOLON); \
    }; \
    static __attribute__((noinline, cold)) void came_##symbol(const struct tl_row_now *tl_row, const void *tl_kept, \
                                                              const struct arguments_##symbol *tl_given) { \
        const enum tl_form tl_form = the_form; \
        enum { tl_operation = TL_OP_##Name }; \
        struct tl_thread *tl_me = tl_row->self; \
        struct tl_looked tl_looked; \
        parameters(TL_TAKE, TL_NOTHING) \
        tl_me->algorithm = 0; \
        tl_requests_look(&tl_looked, tl_me, tl_form, TL_MANY_##Name, tl_kept); \
        tl_looked.unasked = TL_OP_##Name == TL_OP_Testall && tl_is_unasked(); \
        struct tl_call tl_made = {tl_me, tl_operation, tl_form, 0, 0, 0, 0}; \
        struct tl_call *call = &tl_made; \
        note; \
    }
#define TL_SEMICOLON() ;
#define TL_TAKE(kind, name) TL_DECLARE(kind, name) = tl_given->TL_PASS(kind, name); (void)TL_PASS(kind, name);
#define TL_IN_MEMORY(variable) __asm__ volatile("" : "+m"(variable))

#endif
