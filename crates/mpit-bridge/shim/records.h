/* Records of trace mode. */
#ifndef THROUGHLINE_RECORDS_H
#define THROUGHLINE_RECORDS_H

#include <stdint.h>

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

#pragma GCC visibility pop

#endif
