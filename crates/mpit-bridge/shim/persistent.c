/*
 * Persistent requests, point-to-point, partitioned and collective. A start counts as a call of the operation
 * that made the request; the time of MPI_Start(all) is divided among the requests that it started.
 */
#include "persistent.h"

#include <stdlib.h>

#include "accounting.h"
#include "captures.h"
#include "comm.h"
#include "handles.h"
#include "library.h"
#include "peer_sums.h"
#include "requests.h"
#include "shim.h"
#include "threads.h"
#include "trace.h"
#include "trace_calls.h"

void tl_capture_begin(struct tl_call *call, struct tl_capture *capture) {
    *capture = (struct tl_capture){.receive_bytes = -1};
    call->self->capture = capture;
}

void tl_capture_end(struct tl_call *call, struct tl_capture *capture, tl_handle request) {
    call->self->capture = NULL;
    struct tl_capture *stored = malloc(sizeof *stored);
    if (!stored) {
        free(capture->peers);
        TL_ADD(&call->self->untracked_requests, 1);
        return;
    }
    *stored = *capture;
    if (!tl_request_made(call->self, request, stored)) tl_capture_free(stored);
}

static void start(struct tl_call *call, struct tl_capture *stored) {
    struct tl_thread *self = call->self;
    call->operation = stored->operation;
    record(call, stored->class_bytes, stored->bytes);
    stored->where = tl_account_last(call);
    TL_STORE(&self->persistent_active, self->persistent_active + !stored->active);
    stored->active = 1;
    const struct tl_captured_peer *peers = stored->peers ? stored->peers : &stored->one;
    for (int i = 0; i < stored->peer_count; i++) add_peer(self, peers[i].slot, peers[i].peer, peers[i].bytes);
    struct tl_comm *comm = stored->collective;
    if (comm && comm->serial == stored->serial && comm->group)
        add_collective(call, comm, stored->root, stored->block);
    else if (comm) unknown(self, 1);
    if (stored->unknown_messages) unknown(self, stored->unknown_messages);
}

void tl_persistent_started(struct tl_call *call, struct tl_looked *looked) {
    uint64_t left = call->ticks, count = (uint64_t)looked->count;
    const int traces = TL_LOAD(&tl_tracing);
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        struct tl_capture *stored = tl_found_persistent(found);
        struct tl_call one = {.self = call->self, .operation = call->operation, .form = call->form};
        one.ticks = left / count--;
        left -= one.ticks;
        one.start = call->start + call->ticks - one.ticks;
        if (!stored) {
            record(&one, 0, 0); /* not known: a call of MPI_Start itself */
        } else {
            start(&one, stored);
            tl_request_moved(found, call->self, tl_request_at(call->form, looked->requests, i));
        }
        const uint64_t end = call->start + call->ticks - left;
        if (TL_UNLIKELY(traces)) tl_trace_request_started(&one, i == 0, end - one.ticks, end);
    }
}
