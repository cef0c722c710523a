/*
 * Rows of this rank in the matrices: `logical` summed over communicators and threads, `wire` as the library's own
 * monitoring reports. What changed is sent; after a failure all of it again.
 */
#define _GNU_SOURCE
#include "peers.h"

#include <string.h>
#include <sys/mman.h>

#include "channel.h"
#include "clock.h"
#include "wire.h"

static struct tl_peer *sent[2]; /* by kind */
static int failed;

static struct tl_peer logical(int peer) {
    const struct tl_peer *folded = tl_comms_folded();
    struct tl_peer sum = {TL_LOAD(&folded[peer].bytes), TL_LOAD(&folded[peer].messages)};
    for (struct tl_thread *t = tl_threads(); t; t = t->next) {
        struct tl_peer *own = __atomic_load_n(&t->peers, __ATOMIC_ACQUIRE);
        if (!own) continue;
        sum.bytes += TL_LOAD(&own[peer].bytes);
        sum.messages += TL_LOAD(&own[peer].messages);
    }
    return sum;
}

static struct tl_peer wire(int peer) {
    const struct tl_peer *all = tl_wire_reported();
    return (struct tl_peer){TL_LOAD(&all[peer].bytes), TL_LOAD(&all[peer].messages)};
}

static int make_sent(enum tl_peer_kind kind) {
    if (sent[kind]) return 1;
    void *memory = mmap(NULL, (size_t)tl_world_size * sizeof **sent, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
    sent[kind] = memory;
    return 1;
}

static void begin(struct tl_frame *frame, uint64_t now) {
    tl_frame_begin(frame, TL_PEERS);
    tl_put_u64(frame, now);
}

static void push(struct tl_frame *frame, enum tl_peer_kind kind, struct tl_peer (*sum_of)(int), uint64_t threshold,
                 int (*patience)(void)) {
    if (!make_sent(kind)) return;
    uint64_t now = (uint64_t)tl_clock(CLOCK_MONOTONIC);
    begin(frame, now);
    size_t empty = frame->length;
    for (int peer = 0; peer < tl_world_size; peer++) {
        struct tl_peer sum = sum_of(peer), *before = &sent[kind][peer];
        if (sum.bytes == before->bytes && sum.messages == before->messages) continue;
        if (sum.bytes < threshold) continue;
        if (frame->length + TL_PEER_BYTES > TL_FRAME_LIMIT) {
            failed |= !tl_channel_send(frame, patience());
            begin(frame, now);
        }
        tl_put_peer(frame, kind, (uint32_t)peer, sum.bytes, sum.messages);
        *before = sum;
    }
    if (frame->length > empty) failed |= !tl_channel_send(frame, patience());
}

void tl_peers_push(struct tl_frame *frame, uint64_t threshold, int last, int (*patience)(void)) {
    if (last) threshold = 0;
    if (tl_comms_folded()) {
        tl_comms_fold();
        push(frame, TL_LOGICAL, logical, threshold, patience);
    }
    if (tl_wire_reported()) push(frame, TL_WIRE, wire, threshold, patience);
    if (failed) tl_peers_again();
}

void tl_peers_again(void) {
    failed = 0;
    for (int kind = TL_LOGICAL; kind <= TL_WIRE; kind++)
        if (sent[kind]) memset(sent[kind], 0, (size_t)tl_world_size * sizeof **sent);
}
