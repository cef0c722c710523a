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
static uint64_t first_cycles;
static int64_t first_time;

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

static void start(void) {
    tl_ticks_are_cycles = cycles_are_steady();
    first_time = tl_clock(CLOCK_MONOTONIC);
    first_cycles = tl_cycles();
}

void tl_clock_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
}

double tl_clock_scale(void) {
    if (!tl_ticks_are_cycles) return 1.0;
    uint64_t cycles = tl_cycles() - first_cycles;
    int64_t time = tl_clock(CLOCK_MONOTONIC) - first_time;
    return cycles > 0 && time > 0 ? (double)time / (double)cycles : 1.0;
}
