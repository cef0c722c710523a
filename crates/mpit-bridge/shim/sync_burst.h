/* What a burst of packets there and back reports about two clocks. Pure: no clock is read here. See sync_burst.c. */
#ifndef THROUGHLINE_SYNC_BURST_H
#define THROUGHLINE_SYNC_BURST_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { TL_BURST = 40 /* packets of a comparison at most; the more, the better the fastest */ };

/* One packet there and back. `sent` and `arrived` are readings of the own clock, the others of rank 0's. Each way takes
 * at least no time: what is sent is never read later, what came never earlier than it did. */
struct tl_exchange {
    int64_t sent, received, answered, arrived;
};

/* One comparison with rank 0's clock. */
struct tl_sync_point {
    int64_t time;        /* of the own clock */
    int64_t offset;      /* to be added to the own clock */
    int64_t uncertainty; /* the offset is not wrong by more */
    int64_t round_trip;  /* the fastest way there and the fastest back */
};

struct tl_burst {
    struct tl_exchange stored[TL_BURST];
    int count;
    int since_better;           /* exchanges since the point last became better by a tenth */
    struct tl_sync_point point; /* valid when count > 0 */
};

void tl_burst_start(struct tl_burst *burst);
/* One more exchange. */
void tl_burst_add(struct tl_burst *burst, const struct tl_exchange *exchange);
/* Whether further ones are of no use. */
int tl_burst_is_enough(const struct tl_burst *burst);

#pragma GCC visibility pop

#endif
