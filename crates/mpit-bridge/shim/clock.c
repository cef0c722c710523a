/* Choice and calibration of the tick clock. Must not be called from an MPI wrapper's hot path. */
#define _GNU_SOURCE
#include "clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

#endif

int tl_ticks_are_cycles;
static struct tl_moment first;

/* The counter is usable if the processor says so and the kernel itself trusts it as its clock: on machines
 * whose counters differ between sockets the kernel has switched to another clock source. */
static int cycles_are_steady(void) {
#if defined(__x86_64__)
    enum { POWER_LEAF = 0x80000007u, INVARIANT_TSC = 1 << 8 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(POWER_LEAF, &a, &b, &c, &d) || !(d & INVARIANT_TSC)) return 0;
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (!file) return 0;
    char name[32] = "";
    int read = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    return read && (strcmp(name, "tsc\n") == 0 || strcmp(name, "kvm-clock\n") == 0);
#elif defined(__aarch64__)
    return 1; /* the generic timer has one fixed rate by architecture */
#else
    return 0;
#endif
}

/* The thread may be put aside between two readings, for milliseconds: the closest of a few tries counts. */
struct tl_moment tl_clock_moment(void) {
    enum { TRIES = 5, CLOSE = 500 /* ticks */ };
    struct tl_moment best = {0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES && least > CLOSE; i++) {
        uint64_t before = tl_ticks();
        struct tl_moment now = {.monotonic = tl_clock(CLOCK_MONOTONIC), .realtime = tl_clock(CLOCK_REALTIME)};
        uint64_t between = tl_ticks() - before;
        now.ticks = before + between / 2;
        if (between >= least) continue;
        least = between;
        best = now;
    }
    return best;
}

static void start(void) {
    tl_ticks_are_cycles = cycles_are_steady();
    first = tl_clock_moment();
}

void tl_clock_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
}

double tl_clock_scale(const struct tl_moment *now) {
    if (!tl_ticks_are_cycles) return 1.0;
    int64_t time = now->monotonic - first.monotonic;
    return now->ticks > first.ticks && time > 0 ? (double)time / (double)(now->ticks - first.ticks) : 1.0;
}
