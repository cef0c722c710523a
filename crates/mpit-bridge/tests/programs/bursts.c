/*
 * Comparisons of two clocks against known ones: random ways there and back, drift, and steps at any point of a burst.
 * No MPI. Prints how many comparisons were made and how many were wrong by more than they said; fails if any was.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../shim/sync_burst.h"

enum { BURSTS = 20000, FASTEST_NS = 2000, SLOWEST_NS = 400000, STEP_NS = 5000000 };

static unsigned long long seed = 88172645463325252ULL;

static int64_t any(int64_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)((seed >> 11) % (unsigned long long)below);
}

/* Few packets are fast one way, hardly any both ways. */
static int64_t way(void) {
    return any(8) == 0 ? FASTEST_NS + any(500) : FASTEST_NS + any(SLOWEST_NS);
}

struct clocks {
    int64_t offset, step, step_at;
    double drift;
};

/* What the own clock shows when rank 0's shows `time`. */
static int64_t own(const struct clocks *c, int64_t time) {
    return time + c->offset + (int64_t)(c->drift * (double)time) + (time >= c->step_at ? c->step : 0);
}

/* How wrong a comparison is, taken as made before or after the step: whichever fits better. */
static int64_t wrong_by(const struct clocks *c, const struct tl_sync_point *point) {
    int64_t least = INT64_MAX;
    for (int after = 0; after < 2; after++) {
        int64_t ahead = c->offset + (after ? c->step : 0);
        int64_t time = (int64_t)((double)(point->time - ahead) / (1 + c->drift));
        int64_t wrong = llabs(point->time + point->offset - time);
        if (wrong < least) least = wrong;
    }
    return least;
}

int main(void) {
    unsigned long packets = 0, wrong = 0, narrow = 0;
    for (int i = 0; i < BURSTS; i++) {
        struct clocks c = {.offset = any(100000000) - 50000000, .drift = (double)(any(1000) - 500) * 1e-7};
        int64_t time = 1000000000 + any(1000000000);
        c.step = any(3) ? 0 : any(2) ? STEP_NS : -STEP_NS;
        c.step_at = time + any(20 * (int64_t)SLOWEST_NS);
        struct tl_burst burst;
        tl_burst_start(&burst);
        while (!tl_burst_is_enough(&burst) && packets < (unsigned long)BURSTS * 1000) {
            struct tl_exchange one = {.sent = own(&c, time)};
            one.received = time += way();
            one.answered = time += any(SLOWEST_NS); /* an answer may wait: its stamps do not */
            time += way();
            one.arrived = own(&c, time);
            time += any(10000);
            tl_burst_add(&burst, &one);
            packets++;
        }
        int64_t bound = burst.point.uncertainty;
        wrong += wrong_by(&c, &burst.point) > bound + 2;
        narrow += bound < 3 * FASTEST_NS / 2;
    }
    printf("%d comparisons of %lu packets, %lu wrong, %lu narrow\n", BURSTS, packets, wrong, narrow);
    return wrong != 0;
}
