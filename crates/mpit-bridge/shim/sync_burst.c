/*
 * A packet's way there says that the offset is not above one figure, its way back that it is not below another
 * (Cristian). The fastest way there and the fastest way back need not be one packet's: on a busy node few packets
 * are fast both ways, and of a burst the lowest upper bound and the highest lower bound count, widened by what
 * the clocks may have drifted between the two.
 *
 * Bounds that exclude each other are a clock that stepped between them: what came before is dropped.
 */
#include "sync_burst.h"

enum {
    ENOUGH_NS = 6000,    /* a round trip that needs no further packet: half of it is well below any message's time */
    LEAST = 4,           /* the first packets after a pause find cold caches, one way more than the other */
    STALE = 8,           /* packets that made nothing better */
    DRIFT_INVERSE = 2000, /* 500 ppm: as hard as Linux slews a clock; oscillators drift less */
    READING_NS = 1000    /* clocks are read with an error; a smaller contradiction is none */
};

static int64_t upper(const struct tl_exchange *one) {
    return one->received - one->sent;
}

static int64_t lower(const struct tl_exchange *one) {
    return one->answered - one->arrived;
}

static int64_t between(int64_t a, int64_t b) {
    return a < b ? b - a : a - b;
}

static int contradicts(const struct tl_exchange *there, const struct tl_exchange *back) {
    return lower(back) - upper(there) > READING_NS + between(there->sent, back->arrived) / DRIFT_INVERSE;
}

static void consider(struct tl_burst *burst, const struct tl_exchange *there, const struct tl_exchange *back) {
    int64_t round_trip = upper(there) - lower(back);
    int64_t drifted = between(there->sent, back->arrived) / DRIFT_INVERSE / 2;
    if (round_trip < 0) round_trip = 0;
    int64_t uncertainty = round_trip / 2 + drifted + 1;
    if (uncertainty >= burst->point.uncertainty) return;
    if (uncertainty < burst->point.uncertainty / 10 * 9) burst->since_better = 0;
    burst->point = (struct tl_sync_point){
        .time = there->sent + (back->arrived - there->sent) / 2,
        .offset = lower(back) + (upper(there) - lower(back)) / 2,
        .uncertainty = uncertainty,
        .round_trip = round_trip,
    };
}

void tl_burst_start(struct tl_burst *burst) {
    burst->count = burst->since_better = 0;
    burst->point = (struct tl_sync_point){.uncertainty = INT64_MAX, .round_trip = INT64_MAX};
}

void tl_burst_add(struct tl_burst *burst, const struct tl_exchange *exchange) {
    burst->since_better++;
    for (int i = 0; i < burst->count; i++)
        if (contradicts(exchange, &burst->stored[i]) || contradicts(&burst->stored[i], exchange)) {
            tl_burst_start(burst);
            break;
        }
    if (contradicts(exchange, exchange) || burst->count == TL_BURST) return;
    burst->stored[burst->count++] = *exchange;
    for (int i = 0; i < burst->count; i++) {
        consider(burst, exchange, &burst->stored[i]);
        consider(burst, &burst->stored[i], exchange);
    }
}

int tl_burst_is_enough(const struct tl_burst *burst) {
    if (burst->count < LEAST) return 0;
    return burst->point.round_trip <= ENOUGH_NS || burst->since_better >= STALE || burst->count == TL_BURST;
}
