/*
 * Sums of what all threads recorded. The flush thread walks the threads' rows at the end of each bin; what
 * changed becomes cells of an OPS frame. A row that was ever recorded is summed by one `sum`, shared by the rows
 * of all threads with the same region, operation and told algorithm, so that no cell is listed twice.
 */
#include "bins.h"

#include "clock.h"
#include "pvar_algorithms.h"
#include "shim.h"

/* One cell: what threads have now and had at the end of the last bin, and what is told of it. */
struct total {
    struct tl_cell now, then, told;
    uint64_t nanoseconds, wait_nanoseconds;
    int news;
};

struct sum {
    struct sum *next;
    uint16_t region, operation, algorithm, source;
    uint64_t used;
    struct total *totals[TL_SIZE_CLASSES];
};

static struct sum *sums;

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
    uint16_t algorithm = tl_algorithm_told(row->operation, row->algorithm, &source);
    return find_sum(row->region, row->operation, algorithm, source);
}

static struct total *total_of(struct sum *sum, int class) {
    struct total *total = sum->totals[class];
    if (TL_UNLIKELY(!total)) {
        if (!(total = tl_memory(sizeof *total))) return NULL;
        sum->totals[class] = total;
        sum->used |= (uint64_t)1 << class;
    }
    return total;
}

static void add_cell(struct tl_cell *to, const struct tl_cell *from) {
    to->calls += TL_LOAD(&from->calls);
    to->bytes += TL_LOAD(&from->bytes);
    to->ticks += TL_LOAD(&from->ticks);
    uint64_t longest = TL_LOAD(&from->longest_ticks);
    if (longest > to->longest_ticks) to->longest_ticks = longest;
    to->wait_ticks += TL_LOAD(&from->wait_ticks);
    to->completed += TL_LOAD(&from->completed);
    to->received_bytes += TL_LOAD(&from->received_bytes);
    to->received += TL_LOAD(&from->received);
}

static void add_row(struct tl_row *row) {
    if (TL_UNLIKELY(!row->sum)) row->sum = sum_of(row);
    if (!row->sum) return;
    for (uint64_t left = TL_LOAD(&row->used); left; left &= left - 1) {
        int class = __builtin_ctzll(left);
        struct total *total = total_of(row->sum, class);
        if (total) add_cell(&total->now, &row->cells[class]);
    }
}

static void add_threads(void) {
    for (struct tl_thread *thread = tl_threads(); thread; thread = thread->next) {
        struct tl_table *table = __atomic_load_n(&thread->all_tables, __ATOMIC_ACQUIRE);
        for (; table; table = table->next)
            for (struct tl_row *row = __atomic_load_n(&table->all, __ATOMIC_ACQUIRE); row; row = row->next)
                add_row(row);
    }
}

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

static int changed(const struct tl_cell *a, const struct tl_cell *b) {
    return a->calls != b->calls || a->completed != b->completed || a->received != b->received;
}

static void tell(struct bin *bin, const struct sum *sum, int class, const struct total *t, double scale) {
    struct tl_sums cell = {
        .operation = sum->operation,
        .size_class = (uint16_t)class,
        .region = sum->region,
        .algorithm = sum->algorithm,
        .source = sum->source,
        .flags = (uint16_t)((t->told.completed ? TL_CELL_HAS_WAIT : 0) | (t->told.received ? TL_CELL_HAS_RECEIVED : 0)),
        .calls = t->told.calls,
        .bytes = t->told.bytes,
        .nanoseconds = t->nanoseconds,
        .longest_nanoseconds = (uint64_t)((double)t->told.longest_ticks * scale),
        .wait_nanoseconds = t->wait_nanoseconds,
        .received_bytes = t->told.received_bytes,
    };
    bin_add(bin, &cell);
}

/* What this bin adds, to be told under the sum `to`: mostly the one that it was counted in. */
static void book(struct total *from, struct total *to, double scale) {
    const struct tl_cell *now = &from->now, *then = &from->then;
    to->told.calls += now->calls - then->calls;
    to->told.bytes += now->bytes - then->bytes;
    if (now->longest_ticks > to->told.longest_ticks) to->told.longest_ticks = now->longest_ticks;
    to->told.completed += now->completed - then->completed;
    to->told.received += now->received - then->received;
    to->told.received_bytes += now->received_bytes - then->received_bytes;
    to->nanoseconds += (uint64_t)((double)(now->ticks - then->ticks) * scale + 0.5);
    to->wait_nanoseconds += (uint64_t)((double)(now->wait_ticks - then->wait_ticks) * scale + 0.5);
    to->news = 1;
}

/* Calls that this bin adds to an operation of which no algorithm was seen. */
static uint64_t unseen_calls(int operation) {
    uint64_t calls = 0;
    for (const struct sum *sum = sums; sum; sum = sum->next)
        for (uint64_t left = sum->operation == operation ? sum->used : 0; left; left &= left - 1) {
            const struct total *t = sum->totals[__builtin_ctzll(left)];
            calls += t->now.calls - t->then.calls;
        }
    return calls;
}

/* Where the calls of a sum are told: by the algorithm that performance variables prove for this bin. */
static struct sum *destination(struct sum *sum) {
    if (sum->source != TL_UNKNOWN) return sum;
    uint16_t algorithm = tl_pvar_algorithm(sum->operation, unseen_calls);
    struct sum *found = algorithm ? find_sum(sum->region, sum->operation, algorithm, TL_PVAR) : sum;
    return found ? found : sum;
}

static void book_all(double scale) {
    /* `destination` may add sums, at the front: those have nothing new of their own. */
    for (struct sum *sum = sums; sum; sum = sum->next) {
        struct sum *to = NULL;
        for (uint64_t left = sum->used; left; left &= left - 1) {
            int class = __builtin_ctzll(left);
            struct total *from = sum->totals[class];
            if (!changed(&from->now, &from->then)) continue;
            if (!to) to = destination(sum);
            struct total *total = total_of(to, class);
            book(from, total ? total : from, scale);
        }
    }
}

void tl_bins_collect(struct tl_frame *frame, int everything, void (*full)(void)) {
    struct bin bin = {.frame = frame, .full = full, .end = tl_clock(CLOCK_MONOTONIC)};
    double scale = tl_clock_scale();
    tl_pvar_algorithms_before();
    add_threads();
    tl_pvar_algorithms_after();
    book_all(scale);
    for (struct sum *sum = sums; sum; sum = sum->next)
        for (uint64_t left = sum->used; left; left &= left - 1) {
            int class = __builtin_ctzll(left);
            struct total *t = sum->totals[class];
            if (t->news || (everything && t->told.calls)) tell(&bin, sum, class, t, scale);
            t->news = 0;
            t->then = t->now;
            t->now = (struct tl_cell){0};
        }
    bin_close(&bin);
}

void tl_bins_of_region(int region, uint64_t *calls, uint64_t *nanoseconds) {
    *calls = *nanoseconds = 0;
    for (const struct sum *sum = sums; sum; sum = sum->next)
        for (uint64_t left = sum->region == region ? sum->used : 0; left; left &= left - 1) {
            const struct total *t = sum->totals[__builtin_ctzll(left)];
            *calls += t->told.calls;
            *nanoseconds += t->nanoseconds;
        }
}
