/* What is counted of calls: cells by size class, rows by operation, tables by path of regions. */
#ifndef THROUGHLINE_CELLS_H
#define THROUGHLINE_CELLS_H

#include <stdint.h>

#include "limits.h"
#include "operations.h"
#include "shim.h"

#pragma GCC visibility push(hidden)

/* What was counted of one size class. One cache line: the threads' sums must not share any. */
struct tl_cell {
    uint64_t until; /* ticks: what ends from here on belongs to a later bin (readings.c); 0: never used */
    uint64_t calls, bytes, ticks;
    uint32_t longest, shortest; /* calls, as tl_ticks_code; the shortest one of this bin, all ones where there is none */
    uint64_t wait_ticks;          /* inside Wait and Test calls, for requests that these calls began */
    uint32_t completed, received; /* of those requests; of the receives among them. Modulo 2^32: only differences count */
    uint64_t received_bytes;
};
_Static_assert(sizeof(struct tl_cell) == TL_CACHE_LINE, "a cell is one cache line");

/* A call's ticks in 32 bits, in the same order: exact below 2^27 (some 50 ms), from there on to 27 bits. */
enum { TL_CODE_BITS = 27 };
#define TL_NO_CODE UINT32_MAX
static inline uint32_t tl_ticks_code(uint64_t ticks) {
    if (TL_LIKELY(ticks >> TL_CODE_BITS == 0)) return (uint32_t)ticks;
    unsigned shift = 64 - TL_CODE_BITS - (unsigned)__builtin_clzll(ticks);
    return (shift << (TL_CODE_BITS - 1)) + (uint32_t)(ticks >> shift);
}
static inline uint64_t tl_ticks_of(uint32_t code) {
    if (code >> TL_CODE_BITS == 0) return code;
    unsigned shift = (code >> (TL_CODE_BITS - 1)) - 1;
    return (uint64_t)(code - (shift << (TL_CODE_BITS - 1))) << shift;
}

/* One operation in one region by one algorithm. */
struct tl_row {
    struct tl_row *next; /* in the table's chain; never changes */
    void *reported;          /* the flush thread's own (bins.c) */
    uint64_t used;       /* bit n: something was recorded in class n */
    uint16_t operation, algorithm, region;
    struct tl_cell cells[TL_SIZE_CLASSES] __attribute__((aligned(TL_CACHE_LINE)));
};

/* What one thread recorded while it was in one path of regions. */
struct tl_table {
    struct tl_row *rows[TL_OPERATION_LIMIT];   /* by operation, where no algorithm was observed */
    struct tl_row *observed[TL_ALGORITHM_LIMIT]; /* by algorithm; each belongs to one operation */
    struct tl_row *all;                        /* chain of all rows, for the flush thread */
    struct tl_table *next;                     /* in the thread's chain; never changes */
    uint64_t visits, elapsed_ticks, own_ticks; /* of the path (regions.c), without what goes on */
    uint16_t path, region; /* the path, and its innermost region */
};

/* Names a cell for any thread: what a request stores of the call that began it. */
struct tl_where {
    uint16_t path, operation, size_class, algorithm;
};

#pragma GCC visibility pop

#endif
