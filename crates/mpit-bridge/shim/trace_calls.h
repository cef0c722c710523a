/*
 * What the wrappers hand to trace mode about a call: its arguments as far as messages are made of them. Filled in
 * from a parameter list by TL_TRACED, only while tracing.
 */
#ifndef THROUGHLINE_TRACE_CALLS_H
#define THROUGHLINE_TRACE_CALLS_H

#include <stdint.h>

#include "clock.h"
#include "comm.h"
#include "form.h"
#include "library.h"
#include "shim.h"
#include "threads.h"
#include "trace.h"

#pragma GCC visibility push(hidden)

struct tl_posted;

struct tl_traced {
    int operation;
    enum tl_form form;
    tl_handle comm;
    int dest, source, root, tag, sendtag, recvtag, count, makes_request;
    const void *status, *request, *requests, *flag, *outcount;
    /* from before the call to after it */
    struct tl_posted *posted;
    struct tl_comm *of;
    uint64_t comm_id;
    int32_t sequence;
    int peer;
};

/* Before the call, and after it with its outcome. */
void tl_trace_before(struct tl_thread *self, struct tl_traced *traced, uint64_t ticks);
void tl_trace_after(struct tl_call *call, struct tl_traced *traced, int succeeded);
/* persistent.c: one of the requests of MPI_Start(all) as the call of its own that it is counted as, with its part of the time. */
void tl_trace_request_started(const struct tl_call *call, int is_first, uint64_t start, uint64_t end);
/* requests.c: a request was completed, with its status if it is known; or it was freed. */
void tl_trace_completed(const struct tl_call *call, tl_handle request, const void *status, int cancelled);
void tl_trace_request_freed(struct tl_thread *self, tl_handle request);

/* Parameters that matter, by kind and name; TL_VALUE(kind, name) is what the wrapper's own argument means in C. */
#define TL_TRACED(kind, name) TL_TRACED_##kind(name)
#define TL_TRACED_comm(name) tl_traced.comm = TL_VALUE_comm(name);
#define TL_TRACED_rank(name) TL_TRACED_rank_##name
#define TL_TRACED_rank_dest tl_traced.dest = TL_VALUE_int(dest);
#define TL_TRACED_rank_source tl_traced.source = TL_VALUE_int(source);
#define TL_TRACED_rank_root tl_traced.root = TL_VALUE_int(root);
#define TL_TRACED_rank_target
#define TL_TRACED_integer(name) TL_TRACED_integer_##name
#define TL_TRACED_tag(name) tl_traced.name = TL_VALUE_int(name);
#define TL_TRACED_integer_sendtag tl_traced.sendtag = TL_VALUE_int(sendtag);
#define TL_TRACED_integer_count tl_traced.count = TL_VALUE_int(count);
#define TL_TRACED_integer_assertion
#define TL_TRACED_integer_partitions
#define TL_TRACED_integer_partition
#define TL_TRACED_integer_mode
#define TL_TRACED_integer_length
#define TL_TRACED_integer_last
#define TL_TRACED_integer_first
#define TL_TRACED_integer_kind
#define TL_TRACED_out(name) TL_TRACED_out_##name
#define TL_TRACED_out_flag tl_traced.flag = flag;
#define TL_TRACED_out_outcount tl_traced.outcount = outcount;
#define TL_TRACED_out_status tl_traced.status = status;
#define TL_TRACED_out_request
#define TL_TRACED_out_message
#define TL_TRACED_out_index
#define TL_TRACED_out_indices
#define TL_TRACED_out_file
#define TL_TRACED_out_made
#define TL_TRACED_out_partitions
#define TL_TRACED_status(name) tl_traced.status = name;
#define TL_TRACED_waited(name) tl_traced.status = name;
#define TL_TRACED_tested(name)
#define TL_TRACED_begun(name) tl_traced.request = name;
#define TL_TRACED_made(name) tl_traced.request = name, tl_traced.makes_request = 1;
#define TL_TRACED_pending(name) tl_traced.requests = name, tl_traced.count = 1;
#define TL_TRACED_pendings(name) tl_traced.requests = name;
#define TL_TRACED_cbuf(name)
#define TL_TRACED_buf(name)
#define TL_TRACED_count(name)
#define TL_TRACED_counts(name)
#define TL_TRACED_displs(name)
#define TL_TRACED_type(name)
#define TL_TRACED_types(name)
#define TL_TRACED_op(name)
#define TL_TRACED_win(name)
#define TL_TRACED_handle(name)
#define TL_TRACED_wide(name)
#define TL_TRACED_text(name)
#define TL_TRACED_statuses(name)

/* The two places in a wrapper: a branch each while nobody traces. `tl_traces` is read once, so that both agree. */
#define TL_TRACE_BEFORE(Name, the_form, parameters) \
    struct tl_traced tl_traced; \
    const int tl_traces = TL_LOAD(&tl_tracing); \
    if (TL_UNLIKELY(tl_traces)) { \
        tl_traced = (struct tl_traced){.operation = TL_OP_##Name, .form = the_form, .root = -1}; \
        parameters(TL_TRACED, TL_NOTHING) \
        tl_trace_before(tl_me, &tl_traced, tl_ticks()); \
    }
#define TL_TRACE_AFTER(succeeded) \
    if (TL_UNLIKELY(tl_traces)) tl_trace_after(call, &tl_traced, succeeded);

#pragma GCC visibility pop

#endif
