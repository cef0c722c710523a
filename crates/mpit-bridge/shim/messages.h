/* How messages are numbered. See messages.c. */
#ifndef THROUGHLINE_MESSAGES_H
#define THROUGHLINE_MESSAGES_H

#include <stdint.h>

#include "records.h"

#pragma GCC visibility push(hidden)

/* Pure counting, no MPI. `comm` is an identifier from comm_ids.c, `source` and `peer` are world ranks;
 * a negative source or tag of a receive matches any. */
struct tl_posted;
int tl_messages_start(void);
/* The next number of a message sent. */
int32_t tl_message_sent(int peer, uint64_t comm, int tag);
/* A receive is about to be posted. NULL: too many are; its number will not be known. */
struct tl_posted *tl_message_posted(uint64_t comm, int source, int tag, const struct tl_record *record);
/* It completed and its record (tl_message_record) has what is known of it. Gives records whose numbers are
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

#pragma GCC visibility pop

#endif
