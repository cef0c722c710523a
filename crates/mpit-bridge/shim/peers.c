/*
 * Rows of this rank in the matrices: `logical` summed over communicators and threads, `read` what its one-sided operations
 * took from others (the target's to send, which knows nothing of it), `wire` as the library's own monitoring reports. What changed
 * is sent; after a failure all of it again.
 */
#define _GNU_SOURCE
#include "peers.h"

#include <string.h>
#include <sys/mman.h>

#include "channel.h"
#include "clock.h"
#include "frame.h"
#include "groups.h"
#include "operations.h"
#include "shim.h"
#include "threads.h"
#include "wire.h"
#include "world.h"

static struct tl_peer *sent[TL_PEER_KINDS];
static int failed;

/* Sums by peer that a matrix is the sum of: looked up once for all peers. */
enum { SUMS_LIMIT = 4096 }; /* threads times operations that send; beyond them, the matrix is without the rest */
static const struct tl_peer *sums[SUMS_LIMIT];
static int sum_count;

static void add_sums(const struct tl_peer *by_peer) {
    if (by_peer && sum_count < SUMS_LIMIT) sums[sum_count++] = by_peer;
}

/* What an operation reads is the other side's to send. */
static int is_sent(int slot) {
    return slot != TL_OP_Get && slot != TL_OP_Rget && slot < TL_OPERATION_LIMIT;
}

static void add_slots(int sends) {
    for (struct tl_thread *t = tl_threads(); t; t = t->next)
        for (int slot = 0; slot < TL_PEER_SLOTS; slot++)
            if (is_sent(slot) == sends) add_sums(__atomic_load_n(&t->peers[slot], __ATOMIC_ACQUIRE));
}

static void find_logical(void) {
    sum_count = 0;
    add_sums(tl_comms_folded());
    add_slots(1);
}

static void find_read(void) {
    sum_count = 0;
    add_slots(0);
}

static void find_wire(void) {
    sum_count = 0;
    for (int operation = 0; operation < TL_OPERATION_LIMIT; operation++) add_sums(tl_wire_by(operation));
}

static struct tl_peer sum_of(int peer) {
    struct tl_peer sum = {0, 0};
    for (int i = 0; i < sum_count; i++) {
        sum.bytes += TL_LOAD(&sums[i][peer].bytes);
        sum.messages += TL_LOAD(&sums[i][peer].messages);
    }
    return sum;
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

static void push(struct tl_frame *frame, enum tl_peer_kind kind, uint64_t threshold, int (*patience)(void)) {
    if (!sum_count || !make_sent(kind)) return;
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
        find_logical();
        push(frame, TL_LOGICAL, threshold, patience);
        find_read();
        push(frame, TL_READ, threshold, patience);
    }
    if (tl_wire_reported()) {
        find_wire();
        push(frame, TL_WIRE, threshold, patience);
    }
    if (failed) tl_peers_again();
}

void tl_peers_again(void) {
    failed = 0;
    for (int kind = 0; kind < TL_PEER_KINDS; kind++)
        if (sent[kind]) memset(sent[kind], 0, (size_t)tl_world_size * sizeof **sent);
}
