/* What one-sided operations send, and to whom. Rules are in protocol/README.md; otherwise as accounting.c. */
#include "accounting.h"
#include "form.h"
#include "library.h"
#include "notes.h"
#include "operations.h"
#include "peer_sums.h"
#include "shim.h"
#include "threads.h"

static void to_target(tl_callp call, int slot, int target, tl_handle win, int64_t bytes) {
    add_member(call->self, slot, tl_window_find(call->self, win), target, bytes);
}

void tl_note_put(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win) {
    int64_t bytes = target < 0 ? 0 : bytes_of(call, count, type);
    record(call, bytes, bytes);
    if (target >= 0) to_target(call, call->operation, target, win, bytes);
}

/* The target sends: nothing in this rank's row of the matrix, and traffic the other way (traffic.c). */
void tl_note_get(tl_callp call, int64_t count, tl_handle type, int target, tl_handle win) {
    int64_t bytes = target < 0 ? 0 : bytes_of(call, count, type);
    record(call, bytes, 0);
    received(call, bytes);
    if (target >= 0) to_target(call, call->operation, target, win, bytes);
}

/* Where what an operation reads stands beside what it sends. */
static int read_slot(int operation) {
    switch (operation) {
    case TL_OP_Get_accumulate: return TL_READ_BY_GET_ACCUMULATE;
    case TL_OP_Rget_accumulate: return TL_READ_BY_RGET_ACCUMULATE;
    case TL_OP_Fetch_and_op: return TL_READ_BY_FETCH_AND_OP;
    default: return TL_READ_BY_COMPARE_AND_SWAP;
    }
}

/* With MPI_NO_OP nothing goes to the target; the origin's buffer is not looked at, nor are its type and count. */
void tl_note_get_accumulate(tl_callp call, int64_t count, tl_handle type, int64_t result_count,
                            tl_handle result_type, int target, tl_handle op, tl_handle win) {
    if (target < 0) {
        record(call, 0, 0);
        return;
    }
    if (tl_is_fortran(call->form)) op = tl_library.op_f2c ? tl_library.op_f2c((int)op) : 0;
    int64_t back = bytes_of(call, result_count, result_type);
    if (tl_same(op) == tl_library.no_op) {
        record(call, back, 0);
    } else {
        int64_t bytes = bytes_of(call, count, type);
        record(call, bytes, bytes);
        to_target(call, call->operation, target, win, bytes);
    }
    received(call, back);
    to_target(call, read_slot(call->operation), target, win, back);
}

void tl_note_compare_and_swap(tl_callp call, tl_handle type, int target, tl_handle win) {
    tl_note_put(call, 1, type, target, win);
    if (target < 0) return;
    int64_t back = bytes_of(call, 1, type);
    received(call, back);
    to_target(call, read_slot(call->operation), target, win, back);
}
