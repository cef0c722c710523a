/*
 * What a persistent request will account: noted when it is made.
 */
#include <stdlib.h>

#include "captures.h"
#include "comm.h"

enum { PEERS_LIMIT = 1 << 20 }; /* one captured operation's; further ones count as unknown */

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

void tl_capture_free(struct tl_capture *stored) {
    free(stored->peers);
    free(stored);
}
