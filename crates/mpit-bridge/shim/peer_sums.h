/* Sums by peer, or where a persistent request is made, what it will add to them. */
#ifndef THROUGHLINE_PEER_SUMS_H
#define THROUGHLINE_PEER_SUMS_H

#include <stdint.h>

#include "captures.h"
#include "comm.h"
#include "shim.h"
#include "threads.h"

TL_HOT void unknown(struct tl_thread *self, uint64_t messages) {
    if (TL_UNLIKELY(self->capture)) tl_capture_unknown(self->capture, messages);
    else TL_ADD(&self->unknown_messages, messages);
}

TL_HOT void add_peer(struct tl_thread *self, int slot, int peer, int64_t bytes) {
    struct tl_peer *peers = self->peers[slot];
    if (TL_UNLIKELY(!peers)) peers = tl_peers_create(self, slot);
    if (TL_UNLIKELY(!peers || peer < 0)) {
        unknown(self, 1);
        return;
    }
    TL_ADD(&peers[peer].bytes, (uint64_t)bytes);
    TL_ADD(&peers[peer].messages, 1);
}

TL_HOT void add_member(struct tl_thread *self, int slot, const struct tl_comm *comm, int member, int64_t bytes) {
    int peer = !comm || member < 0 || member >= comm->size ? -1 : comm->world ? comm->world[member] : member;
    if (TL_UNLIKELY(self->capture)) tl_capture_peer(self->capture, slot, peer, bytes);
    else add_peer(self, slot, peer, bytes);
}

#endif
