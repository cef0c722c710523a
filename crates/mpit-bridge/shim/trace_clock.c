/*
 * The clock of trace mode: CLOCK_MONOTONIC of the node, never adjusted here; sync.c measures its offset to
 * another node, and the reader of the trace applies that.
 *
 * Ranks of one node share that clock, so that tests of the alignment would show nothing. For them, and only for
 * them, THROUGHLINE_TEST_CLOCK skews it: `origin=NS;RANK:offset=MS,drift=PPM,step=MS@MS;...`, times in
 * milliseconds, a step that long after the origin (a reading of CLOCK_MONOTONIC; without one each rank's MPI_Init).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "environment.h"
#include "shim.h"
#include "trace_clock.h"

static int skewed;
static int64_t origin, step_at;
static double offset_ns, drift, step_ns;

static double number_after(const char *text, const char *end, const char *name, double otherwise) {
    const char *found = strstr(text, name);
    return found && found < end ? strtod(found + strlen(name), NULL) : otherwise;
}

void tl_trace_clock_start(int rank) {
    const char *text = getenv("THROUGHLINE_TEST_CLOCK");
    if (!text) return;
    const char *given = strstr(text, "origin=");
    origin = given ? strtoll(given + strlen("origin="), NULL, 10) : tl_clock(CLOCK_MONOTONIC);
    char name[24];
    snprintf(name, sizeof name, ";%d:", rank);
    const char *own = strstr(text, name);
    if (!own) return;
    own += strlen(name);
    const char *end = own + strcspn(own, ";");
    const double ms = 1e6;
    offset_ns = ms * number_after(own, end, "offset=", 0);
    drift = 1e-6 * number_after(own, end, "drift=", 0);
    step_ns = ms * number_after(own, end, "step=", 0);
    step_at = origin + (int64_t)(ms * number_after(own, end, "@", 0));
    skewed = 1;
    tl_debug("rank %d: clock skewed since %lld", rank, (long long)origin);
}

static int64_t skew(int64_t time) {
    if (TL_LIKELY(!skewed)) return time;
    double moved = offset_ns + drift * (double)(time - origin) + (time >= step_at ? step_ns : 0);
    return time + (int64_t)moved;
}

int64_t tl_trace_now(void) {
    return skew(tl_clock(CLOCK_MONOTONIC));
}

/* How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, with the error of the reading; 0 if the thread was put aside each
 * time. They run at one rate, by one oscillator: only setting the time changes this. */
static int realtime_ahead(int64_t *ahead, int64_t *error) {
    enum { READINGS = 3, WIDEST_NS = 1000 };
    for (int i = 0; i < READINGS; i++) {
        int64_t before = tl_clock(CLOCK_MONOTONIC), real = tl_clock(CLOCK_REALTIME);
        *error = (tl_clock(CLOCK_MONOTONIC) - before) / 2 + 1;
        *ahead = real - before - *error;
        if (*error <= WIDEST_NS) return 1;
    }
    return 0;
}

/* The kernel stamps packets by CLOCK_REALTIME. Where that was set since the last packet, nobody knows to which side of
 * it the stamp belongs. */
static int64_t stamped(const struct timespec *stamp, int64_t earliest, int64_t now) {
    enum { SET_NS = 5000, OLDEST_NS = 1000000000 };
    static int64_t last_ahead; /* of the only thread that calls */
    int64_t ahead, error;
    if (!realtime_ahead(&ahead, &error)) return now;
    int64_t moved = ahead - last_ahead;
    last_ahead = ahead;
    /* Rather late than early: it bounds the offset. */
    int64_t at = (int64_t)stamp->tv_sec * 1000000000 + stamp->tv_nsec - ahead + error;
    int is_right = moved > -SET_NS && moved < SET_NS && at >= earliest && at <= now && now - at < OLDEST_NS;
    return is_right ? at : now;
}

int64_t tl_trace_received(struct msghdr *message, int64_t earliest) {
    int64_t now = tl_clock(CLOCK_MONOTONIC);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one)) {
        struct timespec stamp;
        if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_TIMESTAMPNS) continue;
        memcpy(&stamp, CMSG_DATA(one), sizeof stamp);
        return skew(stamped(&stamp, earliest, now));
    }
    return skew(now);
}

struct tl_ticking tl_trace_ticking(void) {
    struct tl_moment now = tl_clock_moment();
    return (struct tl_ticking){.ticks = now.ticks, .time = now.monotonic, .nanoseconds_per_tick = tl_clock_scale(&now)};
}

int64_t tl_trace_time(const struct tl_ticking *now, uint64_t ticks) {
    double ago = (double)(int64_t)(now->ticks - ticks) * now->nanoseconds_per_tick;
    return skew(now->time - (int64_t)ago);
}
