/*
 * Persistent requests, point-to-point, partitioned and collective. A start counts as a call of the operation
 * that made the request; the time of MPI_Start(all) is divided among the requests that it started.
 */
#include "persistent.h"

#include <stdlib.h>

#include "accounting.h"
#include "requests.h"

enum { PEERS_LIMIT = 1 << 20 }; /* one captured operation's; further ones count as unknown */

void tl_capture_begin(struct tl_call *call, struct tl_capture *capture) {
    *capture = (struct tl_capture){.receive_bytes = -1};
    call->self->capture = capture;
}

void tl_capture_cell(struct tl_capture *capture, int operation, int64_t class_bytes, int64_t bytes) {
    capture->operation = operation;
    capture->class_bytes = class_bytes;
    capture->bytes = bytes;
}

/* Most have one peer, which needs no memory. */
static int make_room(struct tl_capture *capture) {
    if (capture->peer_count < (capture->peers ? capture->peer_space : 1)) return 1;
    int space = capture->peers ? 2 * capture->peer_space : 16;
    if (space > PEERS_LIMIT) return 0;
    struct tl_captured_peer *grown = realloc(capture->peers, (size_t)space * sizeof *grown);
    if (!grown) return 0;
    if (!capture->peers) grown[0] = capture->one;
    capture->peers = grown;
    capture->peer_space = space;
    return 1;
}

void tl_capture_peer(struct tl_capture *capture, int peer, int64_t bytes) {
    if (peer < 0 || !make_room(capture)) {
        capture->unknown_messages++;
        return;
    }
    struct tl_captured_peer *peers = capture->peers ? capture->peers : &capture->one;
    peers[capture->peer_count++] = (struct tl_captured_peer){peer, bytes};
}

void tl_capture_everyone(struct tl_capture *capture, struct tl_comm *comm, int64_t bytes) {
    capture->everyone = comm;
    capture->serial = comm->serial;
    capture->everyone_bytes = bytes;
}

void tl_capture_unknown(struct tl_capture *capture, uint64_t messages) {
    capture->unknown_messages += messages;
}

void tl_capture_end(struct tl_call *call, struct tl_capture *capture, tl_handle request) {
    call->self->capture = NULL;
    struct tl_capture *kept = malloc(sizeof *kept);
    if (!kept) {
        free(capture->peers);
        TL_ADD(&call->self->untracked_requests, 1);
        return;
    }
    *kept = *capture;
    if (!tl_request_made(call->self, request, kept)) tl_capture_free(kept);
}

void tl_capture_free(struct tl_capture *kept) {
    free(kept->peers);
    free(kept);
}

static void start(struct tl_call *call, struct tl_capture *kept) {
    struct tl_thread *self = call->self;
    call->operation = kept->operation;
    record(call, kept->class_bytes, kept->bytes);
    kept->where = tl_account_last(call);
    kept->active = 1;
    const struct tl_captured_peer *peers = kept->peers ? kept->peers : &kept->one;
    for (int i = 0; i < kept->peer_count; i++) add_peer(self, peers[i].peer, peers[i].bytes);
    if (kept->everyone && kept->everyone->serial == kept->serial) add_everyone(kept->everyone, kept->everyone_bytes);
    else if (kept->everyone) unknown(self, 1);
    if (kept->unknown_messages) unknown(self, kept->unknown_messages);
}

void tl_persistent_started(struct tl_call *call, struct tl_looked *looked) {
    uint64_t left = call->ticks, count = (uint64_t)looked->count;
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        struct tl_capture *kept = tl_found_persistent(found);
        struct tl_call one = {.self = call->self, .operation = call->operation, .form = call->form};
        one.ticks = left / count--;
        left -= one.ticks;
        one.start = call->start + call->ticks - one.ticks;
        if (!kept) {
            record(&one, 0, 0); /* not known: a call of MPI_Start itself */
            continue;
        }
        start(&one, kept);
        tl_request_moved(found, call->self, tl_request_at(call->form, looked->requests, i));
    }
}
