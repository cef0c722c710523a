/*
 * What the wrappers of C and of Fortran do with a parameter by its kind (operations.h): before the call, and
 * before and after its note. Both have `tl_me` and `tl_form`; the note has `call`.
 */
#ifndef THROUGHLINE_WRAPPERS_H
#define THROUGHLINE_WRAPPERS_H

#include <stdint.h>

#include "captures.h"
#include "form.h"
#include "handles.h"
#include "notes.h"
#include "persistent.h"
#include "requests.h"
#include "shim.h"
#include "status.h"

#define TL_BEFORE(kind, name) TL_BEFORE_##kind(name)
#define TL_NOTING(kind, name) TL_NOTING_##kind(name)
#define TL_NOTED(kind, name) TL_NOTED_##kind(name)

/* Most kinds need nothing. */
#define TL_BEFORE_cbuf(name)
#define TL_BEFORE_buf(name)
#define TL_BEFORE_count(name)
#define TL_BEFORE_counts(name)
#define TL_BEFORE_displs(name)
#define TL_BEFORE_type(name)
#define TL_BEFORE_types(name)
#define TL_BEFORE_op(name)
#define TL_BEFORE_comm(name) \
    TL_HANDLE_OF_COMM(name) \
    TL_STORE(&tl_me->open_comm, name);
#define TL_BEFORE_win(name)
#define TL_BEFORE_handle(name)
#define TL_BEFORE_rank(name) TL_STORE(&tl_me->open_peer, TL_VALUE_int(name));
#define TL_BEFORE_integer(name)
#define TL_BEFORE_tag(name) TL_STORE(&tl_me->open_tag, TL_VALUE_int(name));
#define TL_BEFORE_wide(name)
#define TL_BEFORE_text(name)
#define TL_BEFORE_begun(name)
#define TL_BEFORE_made(name)
#define TL_BEFORE_out(name)
#define TL_NOTING_cbuf(name)
#define TL_NOTING_buf(name)
#define TL_NOTING_count(name)
#define TL_NOTING_counts(name)
#define TL_NOTING_displs(name)
#define TL_NOTING_type(name)
#define TL_NOTING_types(name)
#define TL_NOTING_op(name)
#define TL_NOTING_comm(name)
#define TL_NOTING_win(name)
#define TL_NOTING_handle(name)
#define TL_NOTING_rank(name)
#define TL_NOTING_integer(name)
#define TL_NOTING_tag(name)
#define TL_NOTING_wide(name)
#define TL_NOTING_text(name)
#define TL_NOTING_status(name)
#define TL_NOTING_statuses(name)
#define TL_NOTING_tested(name)
#define TL_NOTING_waited(name)
#define TL_NOTING_begun(name)
#define TL_NOTING_pending(name)
#define TL_NOTING_pendings(name)
#define TL_NOTING_out(name)
#define TL_NOTED_cbuf(name)
#define TL_NOTED_buf(name)
#define TL_NOTED_count(name)
#define TL_NOTED_counts(name)
#define TL_NOTED_displs(name)
#define TL_NOTED_type(name)
#define TL_NOTED_types(name)
#define TL_NOTED_op(name)
#define TL_NOTED_comm(name)
#define TL_NOTED_win(name)
#define TL_NOTED_handle(name)
#define TL_NOTED_rank(name)
#define TL_NOTED_integer(name)
#define TL_NOTED_tag(name)
#define TL_NOTED_wide(name)
#define TL_NOTED_text(name)
#define TL_NOTED_status(name)
#define TL_NOTED_statuses(name)
#define TL_NOTED_tested(name)
#define TL_NOTED_waited(name)
#define TL_NOTED_pending(name)
#define TL_NOTED_pendings(name)
#define TL_NOTED_out(name)

/* The shim's own status, where the program ignores it: the bytes received are read from it. */
#define TL_BEFORE_status(name) \
    uint64_t name##_own[TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_is_ignored(tl_form, name)) name = name##_own;
#define TL_BEFORE_waited(name) \
    uint64_t name##_own[TL_STATUS_BYTES / sizeof(uint64_t)]; \
    if (tl_wants_status(&tl_looked, tl_form, name)) name = name##_own;
#define TL_BEFORE_statuses(name) \
    uint64_t name##_own[TL_LOOKED_FEW * TL_STATUS_BYTES / sizeof(uint64_t)]; \
    name = tl_statuses(&tl_looked, tl_me, tl_form, name, name##_own);
#define TL_BEFORE_tested(name) \
    tl_looked.unrequested = tl_is_unrequested(); \
    TL_BEFORE_statuses(name)
#define TL_BEFORE_pending(name) \
    struct tl_looked tl_looked; \
    if (!tl_later) tl_requests_look(&tl_looked, tl_me, tl_form, 1, name); \
    else tl_requests_keep(&tl_looked, tl_me, tl_form, 1, name);
#define TL_BEFORE_pendings(name) \
    struct tl_looked tl_looked; \
    if (!tl_later) tl_requests_look(&tl_looked, tl_me, tl_form, TL_COUNT_OF_REQUESTS, name); \
    else tl_requests_keep(&tl_looked, tl_me, tl_form, TL_COUNT_OF_REQUESTS, name);

#define TL_NOTED_begun(name) tl_request_began(call, tl_request_at(tl_form, name, 0));
#define TL_NOTING_made(name) \
    struct tl_capture tl_captured; \
    tl_capture_begin(call, &tl_captured);
#define TL_NOTED_made(name) tl_capture_end(call, &tl_captured, tl_request_at(tl_form, name, 0));

#endif
