/*
 * Sums of what all threads recorded, bin by bin. The flush thread takes the readings of cells that the threads have
 * logged (readings.c) and reads the cells that nobody has called since, puts each into the bin in which it ended, and
 * turns what each bin adds into cells of an OPS frame. A row that was ever recorded is summed by one `sum`, shared by the
 * rows of all threads with the same region, operation and reported algorithm, so that no cell is listed twice.
 */
#include "bins.h"

#include "algorithms.h"
#include "cells.h"
#include "clock.h"
#include "frame.h"
#include "limits.h"
#include "memory.h"
#include "pvar_algorithms.h"
#include "pvars.h"
#include "readings.h"
#include "shim.h"
#include "threads.h"

enum { BINS = 128 }; /* reported at a time; what ended before them is reported with the oldest */

/* What one bin adds to a cell, over all threads. */
struct change {
    uint64_t calls, bytes, ticks, wait_ticks, completed, received, received_bytes;
    uint32_t no_shortest; /* complement of the shortest call as in a cell, so that 0 is none */
};

/* One cell as it is reported. */
struct total {
    struct change bin; /* of the bin that is being made */
    struct change reported;
    uint64_t nanoseconds, wait_nanoseconds;
    uint64_t least_nanoseconds; /* had each call been as short as the shortest of its bin */
    uint32_t longest;           /* as in a cell */
    int update;
};

struct sum {
    struct sum *next;
    uint16_t region, operation, algorithm, source;
    uint64_t used;
    struct total *totals[TL_SIZE_CLASSES];
};

/* What is known here of one thread's cell, and of its row. */
struct observed {
    struct tl_cell then; /* as of the last bin reported */
    struct tl_reading now;
};
struct reported_row {
    struct sum *sum;
    struct observed *observed[TL_SIZE_CLASSES];
};

static struct sum *sums;
static int64_t bin_length, last_end; /* nanoseconds; CLOCK_MONOTONIC */

/* ---- sums ---- */

static struct sum *find_sum(uint16_t region, uint16_t operation, uint16_t algorithm, uint16_t source) {
    struct sum *sum = sums;
    while (sum && (sum->region != region || sum->operation != operation || sum->algorithm != algorithm))
        sum = sum->next;
    if (sum || !(sum = tl_memory(sizeof *sum))) return sum;
    *sum = (struct sum){.next = sums, .region = region, .operation = operation, .algorithm = algorithm, .source = source};
    sums = sum;
    return sum;
}

static struct sum *sum_of(const struct tl_row *row) {
    uint16_t source;
    uint16_t algorithm = tl_algorithm_reported(row->operation, row->algorithm, &source);
    return find_sum(row->region, row->operation, algorithm, source);
}

static struct total *total_of(struct sum *sum, unsigned class) {
    struct total *total = sum->totals[class];
    if (TL_UNLIKELY(!total)) {
        if (!(total = tl_memory(sizeof *total))) return NULL;
        sum->totals[class] = total;
        sum->used |= (uint64_t)1 << class;
    }
    return total;
}

static struct observed *observed_of(struct tl_row *row, unsigned class) {
    struct reported_row *reported = row->reported;
    if (TL_UNLIKELY(!reported)) {
        if (!(reported = tl_memory(sizeof *reported))) return NULL;
        row->reported = reported;
    }
    if (TL_UNLIKELY(!reported->sum) && !(reported->sum = sum_of(row))) return NULL;
    if (TL_UNLIKELY(!reported->observed[class])) reported->observed[class] = tl_memory(sizeof **reported->observed);
    return reported->observed[class];
}

static int changed(const struct tl_cell *a, const struct tl_cell *b) {
    return a->calls != b->calls || a->completed != b->completed || a->received != b->received;
}

/* What a reading adds to what was observed of its cell before goes into the bin that is being made. Where several bins are
 * reported as one, the cell itself may come before what its thread has logged of it, which is older then. */
static void add_reading(const struct tl_reading *reading) {
    struct observed *observed = observed_of(reading->row, (unsigned)reading->class);
    if (!observed || (int64_t)(reading->cell.until - observed->then.until) < 0) return;
    if (!changed(&reading->cell, &observed->then)) return;
    struct total *total = total_of(((struct reported_row *)reading->row->reported)->sum, (unsigned)reading->class);
    if (!total) return;
    const struct tl_cell *now = &reading->cell, *then = &observed->then;
    total->bin.calls += now->calls - then->calls;
    total->bin.bytes += now->bytes - then->bytes;
    total->bin.ticks += now->ticks - then->ticks;
    total->bin.wait_ticks += now->wait_ticks - then->wait_ticks;
    total->bin.completed += (uint32_t)(now->completed - then->completed);
    total->bin.received += (uint32_t)(now->received - then->received);
    total->bin.received_bytes += now->received_bytes - then->received_bytes;
    if (now->longest > total->longest) total->longest = now->longest;
    if (~now->shortest > total->bin.no_shortest) total->bin.no_shortest = ~now->shortest;
    observed->then = *now;
}

/* ---- which bin a reading belongs to ---- */

struct bins {
    int64_t time;  /* this moment, by both clocks */
    uint64_t ticks;
    double scale;
    int64_t end;   /* of the newest bin that has ended */
    int ended;     /* how many have since the last time */
    int one;       /* all is one bin: performance variables are read at its ends and at no other time */
    int part;      /* enum tl_bins_part */
    struct tl_reading *first[BINS + 1], **last[BINS + 1];
};
static struct bins bins;

static void set_grid(void) {
    uint64_t since = (uint64_t)((double)(bins.time - bins.end) / bins.scale);
    tl_readings_grid(bins.ticks - since, (uint64_t)((double)bin_length / bins.scale));
}

static void look_at_clocks(void) {
    struct tl_moment now = tl_clock_moment();
    bins.time = now.monotonic;
    bins.ticks = now.ticks;
    bins.scale = tl_clock_scale(&now);
    bins.end = now.monotonic - now.realtime % bin_length;
}

void tl_bins_start(int milliseconds) {
    bin_length = (int64_t)milliseconds * 1000000;
    look_at_clocks();
    if (!last_end) last_end = bins.end;
    set_grid();
}

int64_t tl_bins_until(int milliseconds) {
    /* All ranks and the sweeps of port counters keep to the same seconds of UTC: edges of windows are read, not interpolated. */
    int64_t whole = milliseconds * INT64_C(1000000) / bin_length, grid = (whole > 0 ? whole : 1) * bin_length;
    int64_t until = grid - tl_clock(CLOCK_REALTIME) % grid;
    return until > bin_length / 2 ? until : until + grid; /* woken a little early, it does not wake twice */
}

/* The number of a bin, counted from the oldest not reported; that after the newest goes on. Times are those of the grid as it
 * was when the cell's bin began, and may lie a little beside those of today's. */
static int number_of(uint64_t until) {
    double behind = ((double)(int64_t)(bins.ticks - until) * bins.scale - (double)(bins.time - bins.end)) / (double)bin_length;
    if (behind < -0.5) return bins.ended;
    int64_t number = bins.ended - 1 - (int64_t)(behind + 0.5);
    return number > 0 ? (int)number : 0;
}

static void put(struct tl_reading *reading, int number) {
    if (bins.one) number = bins.ended;
    reading->next = NULL;
    *bins.last[number] = reading;
    bins.last[number] = &reading->next;
}

/* Cells that nobody has called since their bin ended; with TL_BINS_UNTIL_NOW also those of the bin that goes on. */
static void take_cells(struct tl_row *row) {
    for (uint64_t left = TL_LOAD(&row->used); left; left &= left - 1) {
        unsigned class = (unsigned)__builtin_ctzll(left);
        struct observed *observed = observed_of(row, class);
        if (!observed || !tl_reading_now(row, class, &observed->now) || !changed(&observed->now.cell, &observed->then)) continue;
        int number = number_of(observed->now.cell.until);
        if (number < bins.ended || bins.part == TL_BINS_UNTIL_NOW) put(&observed->now, number);
    }
}

static void take_log(struct tl_thread *thread) {
    for (struct tl_reading *reading; (reading = tl_readings_next(thread)) != NULL;) {
        int number = number_of(reading->cell.until);
        if (number == bins.ended && bins.part == TL_BINS_ENDED) {
            tl_readings_leave(thread); /* ended since this began */
            return;
        }
        put(reading, number);
    }
}

/* Cells first: one that is called meanwhile leaves its reading in the log, which comes then. */
static void take_threads(void) {
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        struct tl_table *table = __atomic_load_n(&thread->all_tables, __ATOMIC_ACQUIRE);
        for (; table; table = table->next)
            for (struct tl_row *row = __atomic_load_n(&table->all, __ATOMIC_ACQUIRE); row; row = row->next)
                take_cells(row);
        take_log(thread);
    }
}

/* ---- the report of a bin ---- */

struct bin {
    struct tl_frame *frame;
    void (*full)(void);
    int64_t end;
    size_t count_at;
    uint32_t cells;
};

static void bin_close(struct bin *bin) {
    if (bin->count_at) tl_patch_u32(bin->frame, bin->count_at, bin->cells);
    bin->count_at = 0;
    bin->cells = 0;
}

static void bin_add(struct bin *bin, const struct tl_sums *cell) {
    size_t need = TL_CELL_BYTES + (bin->count_at ? 0 : TL_BIN_BYTES);
    if (bin->frame->length + need > TL_FRAME_LIMIT) {
        bin_close(bin);
        bin->full();
    }
    if (!bin->count_at) bin->count_at = tl_put_bin(bin->frame, bin->end);
    tl_put_cell(bin->frame, cell);
    bin->cells++;
}

/* Part of the time in 2^-32; at least 1, as 0 is not known. */
static uint32_t least_share(const struct total *t) {
    if (!t->least_nanoseconds || !t->nanoseconds) return 0;
    double share = (double)t->least_nanoseconds / (double)t->nanoseconds * 4294967296.0;
    return share < 1 ? 1 : share < (double)UINT32_MAX ? (uint32_t)share : UINT32_MAX;
}

static void report(struct bin *bin, const struct sum *sum, unsigned class, const struct total *t) {
    struct tl_sums cell = {
        .operation = sum->operation,
        .size_class = (uint16_t)class,
        .region = sum->region,
        .algorithm = sum->algorithm,
        .source = sum->source,
        .flags = (uint16_t)((t->reported.completed ? TL_CELL_HAS_WAIT : 0) | (t->reported.received ? TL_CELL_HAS_RECEIVED : 0)),
        .calls = t->reported.calls,
        .bytes = t->reported.bytes,
        .nanoseconds = t->nanoseconds,
        .least_share = least_share(t),
        .longest_nanoseconds = (uint64_t)((double)tl_ticks_of(t->longest) * bins.scale),
        .wait_nanoseconds = t->wait_nanoseconds,
        .received_bytes = t->reported.received_bytes,
    };
    bin_add(bin, &cell);
}

/* What the bin adds, reported under the total `to`: mostly the one that it was counted in. */
static void book(struct total *from, struct total *to) {
    to->reported.calls += from->bin.calls;
    to->reported.bytes += from->bin.bytes;
    if (from->longest > to->longest) to->longest = from->longest;
    if (from->bin.no_shortest) {
        double shortest = (double)tl_ticks_of(~from->bin.no_shortest) * bins.scale;
        to->least_nanoseconds += (uint64_t)(shortest * (double)from->bin.calls + 0.5);
    }
    to->reported.completed += from->bin.completed;
    to->reported.received += from->bin.received;
    to->reported.received_bytes += from->bin.received_bytes;
    to->nanoseconds += (uint64_t)((double)from->bin.ticks * bins.scale + 0.5);
    to->wait_nanoseconds += (uint64_t)((double)from->bin.wait_ticks * bins.scale + 0.5);
    to->update = 1;
}

static int has_update(const struct total *total) {
    return total->bin.calls || total->bin.completed || total->bin.received;
}

/* Calls that this bin adds to an operation without an observed algorithm. */
static uint64_t unseen_calls(int operation) {
    uint64_t calls = 0;
    for (const struct sum *sum = sums; sum; sum = sum->next)
        for (uint64_t left = sum->operation == operation ? sum->used : 0; left; left &= left - 1)
            calls += sum->totals[__builtin_ctzll(left)]->bin.calls;
    return calls;
}

/* Where the calls of a sum are reported: by the algorithm that performance variables prove for this bin. */
static struct sum *destination(struct sum *sum) {
    if (sum->source != TL_UNKNOWN) return sum;
    uint16_t algorithm = tl_pvar_algorithm(sum->operation, unseen_calls);
    struct sum *found = algorithm ? find_sum(sum->region, sum->operation, algorithm, TL_PVAR) : sum;
    return found ? found : sum;
}

static void book_all(void) {
    /* `destination` may add sums, at the front: those have nothing new of their own. */
    for (struct sum *sum = sums; sum; sum = sum->next) {
        struct sum *to = NULL;
        for (uint64_t left = sum->used; left; left &= left - 1) {
            unsigned class = (unsigned)__builtin_ctzll(left);
            struct total *from = sum->totals[class];
            if (!has_update(from)) continue;
            if (!to) to = destination(sum);
            struct total *total = total_of(to, class);
            book(from, total ? total : from);
        }
    }
}

static void report_bin(struct bin *bin, int number, int everything) {
    for (const struct tl_reading *reading = bins.first[number]; reading; reading = reading->next) add_reading(reading);
    if (bins.first[number]) book_all();
    else if (!everything) return;
    for (struct sum *sum = sums; sum; sum = sum->next)
        for (uint64_t left = sum->used; left; left &= left - 1) {
            unsigned class = (unsigned)__builtin_ctzll(left);
            struct total *t = sum->totals[class];
            if (t->update || (everything && t->reported.calls)) report(bin, sum, class, t);
            t->update = 0;
            t->bin = (struct change){0};
        }
    bin_close(bin);
}

/* How many bins have ended since the last that was reported. Ends of bins move a little as UTC is adjusted, and the last one
 * may have been reported before its end. */
static int bins_ended(void) {
    double ended = (double)(bins.end - last_end) / (double)bin_length + 0.75;
    return ended < 1 ? 0 : ended > BINS ? BINS : (int)ended;
}

int tl_bins_collect(struct tl_frame *frame, enum tl_bins_part part, int everything, void (*full)(void)) {
    int percent = 0;
    look_at_clocks();
    bins.one = tl_bins_want_each();
    bins.ended = bins_ended();
    bins.part = bins.one || (everything && !bins.ended) ? TL_BINS_UNTIL_NOW : (int)part;
    int last = bins.part == TL_BINS_UNTIL_NOW ? bins.ended : bins.ended - 1;
    for (int i = 0; i <= bins.ended; i++) bins.last[i] = &bins.first[i], bins.first[i] = NULL;
    tl_pvar_algorithms_before(tl_pvars_read);
    take_threads();
    tl_pvar_algorithms_after(tl_pvars_read);
    for (int i = 0; i <= bins.ended; i++) {
        int now = i == bins.ended;
        struct bin bin = {.frame = frame, .full = full, .end = now ? bins.time : bins.end - (bins.ended - 1 - i) * bin_length};
        report_bin(&bin, i, everything && i == last);
    }
    last_end = bins.part == TL_BINS_UNTIL_NOW ? bins.time : bins.ended ? bins.end : last_end;
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        int fullness = tl_readings_release(thread);
        if (fullness > percent) percent = fullness;
    }
    set_grid();
    return percent;
}

int tl_bins_want_each(void) {
    return tl_pvar_algorithms_known();
}

void tl_bins_of_region(int region, uint64_t *calls, uint64_t *nanoseconds) {
    *calls = *nanoseconds = 0;
    for (const struct sum *sum = sums; sum; sum = sum->next)
        for (uint64_t left = sum->region == region ? sum->used : 0; left; left &= left - 1) {
            const struct total *t = sum->totals[__builtin_ctzll(left)];
            *calls += t->reported.calls;
            *nanoseconds += t->nanoseconds;
        }
}
