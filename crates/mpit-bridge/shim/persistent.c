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
static int make_space(struct tl_capture *capture) {
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

void tl_capture_peer(struct tl_capture *capture, int slot, int peer, int64_t bytes) {
    if (peer < 0 || !make_space(capture)) {
        capture->unknown_messages++;
        return;
    }
    struct tl_captured_peer *peers = capture->peers ? capture->peers : &capture->one;
    peers[capture->peer_count++] = (struct tl_captured_peer){slot, peer, bytes};
}

void tl_capture_collective(struct tl_capture *capture, struct tl_comm *comm, int root, int64_t block) {
    capture->collective = comm;
    capture->serial = comm->serial;
    capture->root = root;
    capture->block = block;
}

void tl_capture_unknown(struct tl_capture *capture, uint64_t messages) {
    capture->unknown_messages += messages;
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

void tl_capture_free(struct tl_capture *stored) {
    free(stored->peers);
    free(stored);
}

static void start(struct tl_call *call, struct tl_capture *stored) {
    struct tl_thread *self = call->self;
    call->operation = stored->operation;
    record(call, stored->class_bytes, stored->bytes);
    stored->where = tl_account_last(call);
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
    for (int i = 0; i < looked->count; i++) {
        struct tl_found *found = &looked->found[i];
        struct tl_capture *stored = tl_found_persistent(found);
        struct tl_call one = {.self = call->self, .operation = call->operation, .form = call->form};
        one.ticks = left / count--;
        left -= one.ticks;
        one.start = call->start + call->ticks - one.ticks;
        if (!stored) {
            record(&one, 0, 0); /* not known: a call of MPI_Start itself */
            continue;
        }
        start(&one, stored);
        tl_request_moved(found, call->self, tl_request_at(call->form, looked->requests, i));
    }
}
