/* The clock of traces. See trace_clock.c. */
#ifndef THROUGHLINE_TRACE_CLOCK_H
#define THROUGHLINE_TRACE_CLOCK_H

#include <stdint.h>
#include <sys/socket.h>

#pragma GCC visibility push(hidden)

/* The clock of traces is CLOCK_MONOTONIC, which a test may skew (THROUGHLINE_TEST_CLOCK). */
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

#pragma GCC visibility pop

#endif
