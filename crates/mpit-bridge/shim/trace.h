/*
 * Trace mode: each call and each message with its times. Off unless requested; then the wrappers pay one
 * branch on tl_tracing. See trace.c for what is recorded, messages.c for how messages are numbered, sync.c
 * for the clocks.
 */
#ifndef THROUGHLINE_TRACE_H
#define THROUGHLINE_TRACE_H

#include <stdint.h>
#include <sys/socket.h>

#include "frame.h"
#include "shim.h"

#pragma GCC visibility push(hidden)

/* Numbers on the wire. */
enum tl_trace_kind {
    TL_TRACE_CALL = 1,      /* a call that is no message: collectives, waiting, posting of a receive */
    TL_TRACE_SEND = 2,      /* a call that sent one message */
    TL_TRACE_RECEIVE = 3,   /* a call that received one message */
    TL_TRACE_ARRIVAL = 4,   /* a message received by another call than the one that posted it: from the posting
                             * to the end of the call that saw it complete */
    TL_TRACE_DEPARTURE = 5, /* a message sent by a call that sends several */
    TL_TRACE_END = 6        /* nothing follows. Bytes are 0 where the limit of records is reached, else the number of
                             * the rank's records, this one and those that were lost among them */
};

enum {
    TL_RING_RECORDS = 4096,      /* of a thread, between two drains; a power of two */
    TL_TRACE_UNNUMBERED = -1,    /* as a sequence: the message's number is not known */
    TL_TRACE_NOBODY = -1         /* as a peer */
};

struct tl_record {
    uint64_t start, end; /* ticks */
    uint64_t comm;       /* 0: not known */
    uint64_t bytes;
    int32_t peer;        /* world rank, or TL_TRACE_NOBODY */
    int32_t tag;
    int32_t sequence;
    uint16_t operation, kind;
    uint16_t thread;     /* counted from 0 */
    uint16_t region;     /* as in OPS frames */
    uint32_t skipped;    /* records of the thread just before this one that found no space; set by tl_trace_put */
};

struct tl_ring;

/* trace.c. All but the first three are only called while tl_tracing. */
/* In MPI_Init, before the agent is queried: whether the environment requests a trace. */
void tl_trace_configure(void);
/* What the agent allows, from its WELCOME: 0 never, 1 ranks that request it, 2 all. */
void tl_trace_allow(uint64_t mode);
/* Records a second of this rank, and of the whole job, of which it has its share, from its WELCOME; 0: not reported.
 * The environment can only lower them. */
void tl_trace_limits(uint64_t per_second, uint64_t of_job);
/* At the end of MPI_Init: starts if wanted and allowed. */
int tl_trace_wanted(void);
/* Whether records are still to be sent. */
int tl_trace_started(void);
void tl_trace_start(void);
void tl_trace_stop(void);
/* Before the last push, on the thread that ends MPI: what still waits for its number goes without. */
void tl_trace_finish(void);
/* The number of a thread in its records. */
uint16_t tl_trace_thread(struct tl_thread *self);
void tl_trace_put(struct tl_thread *self, const struct tl_record *record);
/* A call that is recorded in another way than by its wrapper. */
void tl_trace_call(struct tl_thread *self, int operation, uint64_t start, uint64_t end);
/* On the flush thread: sends what was recorded, at the rate that is allowed, or all that is there, or that and how much it was. */
enum tl_trace_part { TL_TRACE_SOME, TL_TRACE_ALL, TL_TRACE_ALL_AND_END };
void tl_trace_push(int milliseconds, enum tl_trace_part part, int (*patience)(void));

/* trace_clock.c: the clock of traces is CLOCK_MONOTONIC, which a test may skew (THROUGHLINE_TEST_CLOCK). */
void tl_trace_clock_start(int rank);
int64_t tl_trace_now(void);
/* When a packet came, by the kernel's stamp in a message from a socket with SO_TIMESTAMPNS; now, where there is none or
 * it can't be right. `earliest` is a reading of CLOCK_MONOTONIC. */
union tl_stamp_space {
    char bytes[64];
    struct cmsghdr aligned;
};
int64_t tl_trace_received(struct msghdr *message, int64_t earliest);
/* Prepares for turning ticks into times of that clock, as of now. */
struct tl_ticking {
    uint64_t ticks;
    int64_t time;
    double nanoseconds_per_tick;
};
struct tl_ticking tl_trace_ticking(void);
int64_t tl_trace_time(const struct tl_ticking *now, uint64_t ticks);

/* messages.c: pure counting, no MPI. `comm` is an identifier from comm_ids.c, `source` and `peer` are world ranks;
 * a negative source or tag of a receive matches any. */
struct tl_posted;
int tl_messages_start(void);
/* The next number of a message sent. */
int32_t tl_message_sent(int peer, uint64_t comm, int tag);
/* A receive is about to be posted. NULL: too many are; its number will not be known. */
struct tl_posted *tl_message_posted(uint64_t comm, int source, int tag, const struct tl_record *record);
/* It completed and what is known of it stands in its record (tl_message_record). Gives records whose numbers are
 * known by now, its own or those of others that waited for it, to `put`. */
typedef void tl_put_record(void *context, const struct tl_record *record);
void tl_message_arrived(struct tl_posted *posted, tl_put_record *put, void *context);
struct tl_record *tl_message_record(struct tl_posted *posted);
/* It did not receive: cancelled, failed, or from MPI_PROC_NULL. */
void tl_message_withdrawn(struct tl_posted *posted, tl_put_record *put, void *context);
/* At the end: what is complete, numbered or not. */
void tl_messages_finish(tl_put_record *put, void *context);
/* Messages were taken in a way that is not followed: numbers of later receives are not known. */
void tl_messages_lose_count(void);

/* comm_ids.c */
/* A name for a communicator that all its members agree on; 0: none. */
uint64_t tl_comm_id(const struct tl_comm *comm);
/* One was made, of `parent`. `made` may be MPI_COMM_NULL. */
void tl_comm_made(struct tl_thread *self, tl_handle parent, tl_handle made);

#pragma GCC visibility pop

#endif
