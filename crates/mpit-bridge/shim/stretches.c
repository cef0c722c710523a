/*
 * Where the time of the thread went that called MPI_Init: in MPI or not, on a processor, in a queue for one, or off it for another
 * reason. The clock of a thread costs ten times what a call costs, so it is read at the ends of long stretches only, at most 1,000
 * times a second with a gate of 1 ms. What is missing since the reading before, wall time less processor time, belongs to the stretch
 * that ends. Where more than MISSING is missing, the kernel's file of the thread says how much of it was waiting for a processor.
 *
 * Must not call MPI.
 */
#define _GNU_SOURCE
#include "stretches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "environment.h"

enum {
    GATE_NANOSECONDS = 1000000, /* unless THROUGHLINE_GATE_MS is in the environment */
    GATE_MS_MAX = 1000,
    GATE_FIRST = 1 << 21,       /* ticks, until the clock's rate is known */
    MISSING_NANOSECONDS = 100000,
    TRIES = 8
};

/* Written by the thread, read by the flush thread: an odd number while it is written. */
static struct {
    uint32_t number;
    struct tl_clock_reading last;
    uint64_t off[TL_STRETCH_KINDS], queued[TL_STRETCH_KINDS];
} sums;
static struct tl_thread *of; /* NULL: nobody's */
static uint64_t began;       /* ticks */
static uint32_t tid;
static int64_t gate = GATE_NANOSECONDS;

/* In order: what was stored before is there, and what is loaded afterwards is not older. */
#define PUT(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define GET(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)

/* The second number of the kernel's file: nanoseconds in which the thread could have run. Opened each time, as programs close
 * descriptors that they do not know. */
static uint64_t queued_now(uint64_t otherwise) {
    char text[96];
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return otherwise;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return otherwise;
    text[length] = '\0';
    char *rest = text;
    strtoull(rest, &rest, 10);
    uint64_t queued = strtoull(rest, &rest, 10);
    return queued > otherwise ? queued : otherwise;
}

void tl_stretch_ended(enum tl_stretch kind) {
    int before = errno; /* the program's */
    struct tl_clock_reading now = {tl_clock(CLOCK_MONOTONIC), tl_clock(CLOCK_THREAD_CPUTIME_ID), sums.last.queued};
    int64_t off = (now.time - sums.last.time) - (now.cpu - sums.last.cpu);
    uint64_t queued = 0;
    if (off > MISSING_NANOSECONDS) {
        now.queued = queued_now(sums.last.queued);
        queued = now.queued - sums.last.queued;
        if (queued > (uint64_t)off) queued = (uint64_t)off;
    }
    TL_STORE(&sums.number, sums.number + 1);
    if (off > 0) PUT(&sums.off[kind], sums.off[kind] + (uint64_t)off);
    PUT(&sums.queued[kind], sums.queued[kind] + queued);
    PUT(&sums.last.time, now.time);
    PUT(&sums.last.cpu, now.cpu);
    PUT(&sums.last.queued, now.queued);
    PUT(&sums.number, sums.number + 1);
    errno = before;
}

uint64_t tl_off_outside(const struct tl_thread *self) {
    return self == of ? (uint64_t)((double)sums.off[TL_OUTSIDE] / (double)gate * (double)self->gate) : 0;
}

/* Not below 1 ms: the clock is read at most 1,000 times a second. */
static int64_t gate_of_environment(void) {
    const char *text = getenv("THROUGHLINE_GATE_MS");
    char *end = NULL;
    long milliseconds = text ? strtol(text, &end, 10) : 0;
    if (!text) return GATE_NANOSECONDS;
    if (end != text && *end == '\0' && milliseconds >= 1 && milliseconds <= GATE_MS_MAX) return milliseconds * 1000000L;
    tl_debug("THROUGHLINE_GATE_MS is \"%.40s\": not a number from 1 to %d, so the gate is 1 ms", text, GATE_MS_MAX);
    return GATE_NANOSECONDS;
}

void tl_stretches_start(void) {
    struct tl_thread *self = tl_thread_attached() ? tl_self : tl_thread_attach();
    if (!self || !self->table || of) return; /* a thread that can't record */
    tid = (uint32_t)syscall(SYS_gettid);
    sums.last = (struct tl_clock_reading){tl_clock(CLOCK_MONOTONIC), tl_clock(CLOCK_THREAD_CPUTIME_ID), queued_now(0)};
    began = tl_ticks();
    self->left = began;
    gate = gate_of_environment();
    self->gate = tl_ticks_are_cycles ? (uint64_t)(GATE_FIRST * (gate / GATE_NANOSECONDS)) : (uint64_t)gate;
    __atomic_store_n(&of, self, __ATOMIC_RELEASE);
}

void tl_stretches_left(const struct tl_thread *thread) {
    if (thread == of) __atomic_store_n(&of, NULL, __ATOMIC_RELEASE);
}

/* ---- the flush thread ---- */

static int sums_now(struct tl_account *account) {
    for (int i = 0; i < TRIES; i++) {
        uint32_t number = GET(&sums.number);
        account->last.time = GET(&sums.last.time);
        account->last.cpu = GET(&sums.last.cpu);
        account->last.queued = GET(&sums.last.queued);
        account->off_outside = GET(&sums.off[TL_OUTSIDE]);
        account->off_inside = GET(&sums.off[TL_INSIDE]);
        account->queued_outside = GET(&sums.queued[TL_OUTSIDE]);
        account->queued_inside = GET(&sums.queued[TL_INSIDE]);
        if (!(number & 1) && number == TL_LOAD(&sums.number)) return 1;
    }
    return 0;
}

/* Whether a call is open, and the time in those before it, at one moment. */
static int calls_now(const struct tl_thread *thread, uint64_t *open, uint64_t *in_mpi) {
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = GET(&thread->open_start), left = GET(&thread->left), sum = GET(&thread->mpi_ticks);
        if (start != GET(&thread->open_start) || (start && left >= start)) continue;
        if (sum != TL_LOAD(&thread->mpi_ticks)) continue;
        *open = start;
        *in_mpi = sum;
        return 1;
    }
    return 0;
}

int tl_account_now(struct tl_account *account) {
    struct tl_thread *thread = __atomic_load_n(&of, __ATOMIC_ACQUIRE);
    uint64_t open = 0, in_mpi = 0;
    if (!thread || !calls_now(thread, &open, &in_mpi) || !sums_now(account)) return 0;
    struct tl_moment now = tl_clock_moment();
    double scale = tl_clock_scale(&now);
    TL_STORE(&thread->gate, (uint64_t)((double)gate / scale));
    account->tid = tid;
    account->time = now.monotonic;
    account->began = now.monotonic - (int64_t)((double)(now.ticks - began) * scale);
    account->in_mpi = (uint64_t)((double)in_mpi * scale);
    account->open = open && open < now.ticks ? now.monotonic - (int64_t)((double)(now.ticks - open) * scale) : 0;
    return 1;
}
