/* What a persistent request will account at each start. See captures.c. */
#ifndef THROUGHLINE_CAPTURES_H
#define THROUGHLINE_CAPTURES_H

#include <stdint.h>

#include "cells.h"
#include "comm.h"

#pragma GCC visibility push(hidden)

struct tl_capture {
    int operation;
    int64_t class_bytes, bytes;
    int receives;          /* completion reports received bytes */
    int64_t receive_bytes; /* known beforehand; -1: the status reports */
    uint64_t unknown_messages;
    struct tl_comm *collective;
    uint64_t serial;         /* of `collective` when captured: a slot may be another communicator's later */
    int64_t block;
    int root;
    int active;              /* started and not completed */
    struct tl_where where;   /* the last start was recorded */
    int peer_count, peer_space;
    struct tl_captured_peer {
        int slot, peer;
        int64_t bytes;
    } *peers, one;
};

/* A note that goes into a capture. */
void tl_capture_cell(struct tl_capture *capture, int operation, int64_t class_bytes, int64_t bytes);
void tl_capture_peer(struct tl_capture *capture, int slot, int peer, int64_t bytes);
void tl_capture_collective(struct tl_capture *capture, struct tl_comm *comm, int root, int64_t block);
void tl_capture_unknown(struct tl_capture *capture, uint64_t messages);

void tl_capture_free(struct tl_capture *stored);

#pragma GCC visibility pop

#endif
