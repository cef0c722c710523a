/* Clocks of the ranks held against rank 0's, in trace mode only. See sync.c and rendezvous.c. */
#ifndef THROUGHLINE_SYNC_H
#define THROUGHLINE_SYNC_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "sync_burst.h"

#pragma GCC visibility push(hidden)

enum { TL_COOKIE_BYTES = 16, TL_ADDRESSES = 8, TL_SYNC_POINTS = 64 };

/* Where rank 0 answers: published to the other ranks only. */
struct tl_meeting {
    uint8_t cookie[TL_COOKIE_BYTES];
    uint16_t port;
    int addresses;
    struct in6_addr address[TL_ADDRESSES]; /* IPv4 as mapped addresses */
};

/* In MPI_Init, after tl_trace_start. Ranks but 0 look for rank 0 in the background, and rank 0 answers there. */
void tl_sync_start(void);
/* The points since the last call, at most TL_SYNC_POINTS, and the number of the first: one that found no space has
 * one as well. */
size_t tl_sync_take(struct tl_sync_point *points, uint64_t *number);
/* Before the last push: a last comparison, if rank 0 answers within a few milliseconds. */
void tl_sync_last(void);
/* After MPI_Finalize, or at the end of the process: nothing is answered any more. */
void tl_sync_stop(void);
/* On the flush thread: sends what tl_sync_take gives. */
void tl_sync_push(int patience_ms);

/* rendezvous.c */
/* Rank 0: makes the meeting known. 0 if it can't be. */
int tl_meeting_publish(const struct tl_meeting *meeting);
/* The others: 1 if it is known. Reads a small file. */
int tl_meeting_find(struct tl_meeting *meeting);
/* Rank 0: nobody is to come any more. */
void tl_meeting_end(void);
/* Once, before there is a second thread: reads the environment. 0: no meeting in this job. */
int tl_meeting_configure(void);

#pragma GCC visibility pop

#endif
