/*
 * One-sided operations: their part of the table in operations.h, which explains it.
 */
#ifndef THROUGHLINE_OPERATIONS_WINDOWS_H
#define THROUGHLINE_OPERATIONS_WINDOWS_H

#define TL_PUT(P, _) \
    P(cbuf, origin) _() P(count, count) _() P(type, datatype) _() P(rank, target) _() P(wide, displacement) _() \
    P(count, target_count) _() P(type, target_type) _() P(win, win)
#define TL_GET(P, _) \
    P(buf, origin) _() P(count, count) _() P(type, datatype) _() P(rank, target) _() P(wide, displacement) _() \
    P(count, target_count) _() P(type, target_type) _() P(win, win)
#define TL_ACCUMULATE(P, _) \
    P(cbuf, origin) _() P(count, count) _() P(type, datatype) _() P(rank, target) _() P(wide, displacement) _() \
    P(count, target_count) _() P(type, target_type) _() P(op, op) _() P(win, win)
#define TL_GET_ACCUMULATE(P, _) \
    P(cbuf, origin) _() P(count, count) _() P(type, datatype) _() P(buf, result) _() P(count, result_count) _() \
    P(type, result_type) _() P(rank, target) _() P(wide, displacement) _() P(count, target_count) _() \
    P(type, target_type) _() P(op, op) _() P(win, win)
#define TL_RPUT(P, _) TL_PUT(P, _) _() P(begun, request)
#define TL_RGET(P, _) TL_GET(P, _) _() P(begun, request)
#define TL_RACCUMULATE(P, _) TL_ACCUMULATE(P, _) _() P(begun, request)
#define TL_RGET_ACCUMULATE(P, _) TL_GET_ACCUMULATE(P, _) _() P(begun, request)
#define TL_FETCH_AND_OP(P, _) \
    P(cbuf, origin) _() P(buf, result) _() P(type, datatype) _() P(rank, target) _() P(wide, displacement) _() \
    P(op, op) _() P(win, win)
#define TL_COMPARE_AND_SWAP(P, _) \
    P(cbuf, origin) _() P(cbuf, compare) _() P(buf, result) _() P(type, datatype) _() P(rank, target) _() \
    P(wide, displacement) _() P(win, win)
#define TL_WIN_ALONE(P, _) P(win, win)
#define TL_WIN_CREATE(P, _) \
    P(buf, base) _() P(wide, size) _() P(count, unit) _() P(handle, info) _() P(comm, comm) _() P(out, made)
#define TL_WIN_ALLOCATE(P, _) \
    P(wide, size) _() P(count, unit) _() P(handle, info) _() P(comm, comm) _() P(handle, base) _() P(out, made)
#define TL_WIN_CREATE_DYNAMIC(P, _) P(handle, info) _() P(comm, comm) _() P(out, made)
#define TL_WIN_FENCE(P, _) P(integer, assertion) _() P(win, win)
#define TL_WIN_START(P, _) P(handle, group) _() P(integer, assertion) _() P(win, win)
#define TL_WIN_TEST(P, _) P(win, win) _() P(out, flag)
#define TL_WIN_LOCK(P, _) P(integer, kind) _() P(rank, target) _() P(integer, assertion) _() P(win, win)
#define TL_WIN_RANK(P, _) P(rank, target) _() P(win, win)

#define TL_NOTE_PUT tl_note_put(call, count, datatype, target, win)
#define TL_NOTE_GET tl_note_get(call, count, datatype, target, win)
#define TL_NOTE_GET_ACCUMULATE \
    tl_note_get_accumulate(call, count, datatype, result_count, result_type, target, op, win)
#define TL_NOTE_FETCH_AND_OP tl_note_get_accumulate(call, 1, datatype, 1, datatype, target, op, win)
#define TL_NOTE_COMPARE_AND_SWAP tl_note_compare_and_swap(call, datatype, target, win)

#define TL_WINDOWS_COUNTED(X) \
    X(85, Put, put, TL_PUT, TL_NOTE_PUT) \
    X(86, Rput, rput, TL_RPUT, TL_NOTE_PUT) \
    X(87, Get, get, TL_GET, TL_NOTE_GET) \
    X(88, Rget, rget, TL_RGET, TL_NOTE_GET) \
    X(89, Accumulate, accumulate, TL_ACCUMULATE, TL_NOTE_PUT) \
    X(90, Raccumulate, raccumulate, TL_RACCUMULATE, TL_NOTE_PUT) \
    X(91, Get_accumulate, get_accumulate, TL_GET_ACCUMULATE, TL_NOTE_GET_ACCUMULATE) \
    X(92, Rget_accumulate, rget_accumulate, TL_RGET_ACCUMULATE, TL_NOTE_GET_ACCUMULATE)

#define TL_WINDOWS_BUFFERED(X) \
    X(153, Fetch_and_op, fetch_and_op, TL_FETCH_AND_OP, TL_NOTE_FETCH_AND_OP) \
    X(154, Compare_and_swap, compare_and_swap, TL_COMPARE_AND_SWAP, TL_NOTE_COMPARE_AND_SWAP)

#define TL_WINDOWS_PLAIN(X) \
    X(155, Win_fence, win_fence, TL_WIN_FENCE, TL_NOTE_TIME) \
    X(156, Win_start, win_start, TL_WIN_START, TL_NOTE_TIME) \
    X(157, Win_complete, win_complete, TL_WIN_ALONE, TL_NOTE_TIME) \
    X(158, Win_post, win_post, TL_WIN_START, TL_NOTE_TIME) \
    X(159, Win_wait, win_wait, TL_WIN_ALONE, TL_NOTE_TIME) \
    X(160, Win_test, win_test, TL_WIN_TEST, TL_NOTE_TIME) \
    X(161, Win_lock, win_lock, TL_WIN_LOCK, TL_NOTE_TIME) \
    X(162, Win_unlock, win_unlock, TL_WIN_RANK, TL_NOTE_TIME) \
    X(163, Win_lock_all, win_lock_all, TL_WIN_FENCE, TL_NOTE_TIME) \
    X(164, Win_unlock_all, win_unlock_all, TL_WIN_ALONE, TL_NOTE_TIME) \
    X(165, Win_flush, win_flush, TL_WIN_RANK, TL_NOTE_TIME) \
    X(166, Win_flush_local, win_flush_local, TL_WIN_RANK, TL_NOTE_TIME) \
    X(167, Win_flush_all, win_flush_all, TL_WIN_ALONE, TL_NOTE_TIME) \
    X(168, Win_flush_local_all, win_flush_local_all, TL_WIN_ALONE, TL_NOTE_TIME) \
    X(169, Win_sync, win_sync, TL_WIN_ALONE, TL_NOTE_TIME) \
    X(204, Win_create_dynamic, win_create_dynamic, TL_WIN_CREATE_DYNAMIC, TL_NOTE_TIME)

/* With large-count forms. The second kind has no buffer, as the library makes it. */
#define TL_WINDOWS_CREATED(X) \
    X(121, Win_create, win_create, TL_WIN_CREATE, TL_NOTE_TIME)
#define TL_WINDOWS_ALLOCATED(X) \
    X(122, Win_allocate, win_allocate, TL_WIN_ALLOCATE, TL_NOTE_TIME) \
    X(123, Win_allocate_shared, win_allocate_shared, TL_WIN_ALLOCATE, TL_NOTE_TIME)

/* What is freed may be used meanwhile, by callbacks of its attributes (comms.c). */
#define TL_WINDOWS_FREED(X) \
    X(205, Win_free, win_free, TL_WIN_ALONE, )

#endif
