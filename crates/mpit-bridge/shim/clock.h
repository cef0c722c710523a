/*
 * Time for the shim: ticks around each call (the processor's counter where it runs at one rate on all cores,
 * else CLOCK_MONOTONIC nanoseconds) and CLOCK_MONOTONIC for everything that leaves the process.
 */
#ifndef THROUGHLINE_CLOCK_H
#define THROUGHLINE_CLOCK_H

#include <stdint.h>
#include <time.h>

extern int tl_ticks_are_cycles __attribute__((visibility("hidden")));

static inline int64_t tl_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline uint64_t tl_cycles(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return 0;
#endif
}

static inline uint64_t tl_ticks(void) {
    return __builtin_expect(tl_ticks_are_cycles, 1) ? tl_cycles() : (uint64_t)tl_clock(CLOCK_MONOTONIC);
}

/* All clocks at one moment. */
struct tl_moment {
    int64_t monotonic, realtime; /* nanoseconds */
    uint64_t ticks;
};
struct tl_moment tl_clock_moment(void);

/* Decides which clock to use and takes the first reading of all, the first time. */
void tl_clock_start(void);
/* Nanoseconds per tick as measured since tl_clock_start. */
double tl_clock_scale(const struct tl_moment *now);

#endif
