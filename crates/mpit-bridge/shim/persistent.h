/*
 * Persistent requests: what an operation would account is captured when its request is made, as its datatype
 * and communicator may be gone by the time it is started, and accounted at each start.
 */
#ifndef THROUGHLINE_PERSISTENT_H
#define THROUGHLINE_PERSISTENT_H

#include "shim.h"

#pragma GCC visibility push(hidden)

struct tl_looked;

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

/* From here on, what `call->self` accounts goes into `capture`. */
void tl_capture_begin(struct tl_call *call, struct tl_capture *capture);
/* Ends that, and keeps it for the request that was made. */
void tl_capture_end(struct tl_call *call, struct tl_capture *capture, tl_handle request);
void tl_capture_free(struct tl_capture *stored);

/* MPI_Start and MPI_Startall have started these. */
void tl_persistent_started(struct tl_call *call, struct tl_looked *looked);

/* accounting.h's other end */
void tl_capture_cell(struct tl_capture *capture, int operation, int64_t class_bytes, int64_t bytes);
void tl_capture_peer(struct tl_capture *capture, int slot, int peer, int64_t bytes);
void tl_capture_collective(struct tl_capture *capture, struct tl_comm *comm, int root, int64_t block);
void tl_capture_unknown(struct tl_capture *capture, uint64_t messages);

#pragma GCC visibility pop

#endif
