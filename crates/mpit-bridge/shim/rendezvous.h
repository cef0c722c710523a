/* Where rank 0 answers, made known to the other ranks. See rendezvous.c. */
#ifndef THROUGHLINE_RENDEZVOUS_H
#define THROUGHLINE_RENDEZVOUS_H

#include <netinet/in.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { TL_COOKIE_BYTES = 16, TL_ADDRESSES = 8 };

/* Where rank 0 answers: published to the other ranks only. */
struct tl_meeting {
    uint8_t cookie[TL_COOKIE_BYTES];
    uint16_t port;
    int addresses;
    struct in6_addr address[TL_ADDRESSES]; /* IPv4 as mapped addresses */
};

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
