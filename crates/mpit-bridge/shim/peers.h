/* The rank's rows of the matrices. See peers.c. Flush thread only. */
#ifndef THROUGHLINE_PEERS_H
#define THROUGHLINE_PEERS_H

#include <stdint.h>

#include "frame.h"

#pragma GCC visibility push(hidden)

/* Sends what changed, by `frame`; peers below `threshold` bytes only when it is the `last` time. */
void tl_peers_push(struct tl_frame *frame, uint64_t threshold, int last, int (*patience)(void));
/* Everything is to be sent again. */
void tl_peers_again(void);

#pragma GCC visibility pop

#endif
