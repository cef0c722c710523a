/* Cells as they were at the ends of bins: from the threads that record to the flush thread. See readings.c. */
#ifndef THROUGHLINE_READINGS_H
#define THROUGHLINE_READINGS_H

#include <stdint.h>

#include "cells.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

struct tl_reading {
    struct tl_reading *next; /* the flush thread's (bins.c) */
    struct tl_row *row;
    uint64_t class;
    struct tl_cell cell; /* sums up to `cell.until` */
};

/* Recording threads: a call that ends at `now` is about to be added to a cell, whose bin ended before. */
void tl_reading_turn(struct tl_thread *self, struct tl_row *row, unsigned class, uint64_t now);

/* The flush thread: bins end at `end` and each `length` ticks before and after it. */
void tl_readings_grid(uint64_t end, uint64_t length);
/* The cell of a row as it is now; 0 where it changed its bin meanwhile: then its reading is in the log. */
int tl_reading_now(struct tl_row *row, unsigned class, struct tl_reading *reading);
/* Readings that a thread has logged since the last tl_readings_release, one after the other; NULL: no more. */
struct tl_reading *tl_readings_next(struct tl_thread *thread);
/* Takes the last one back: it and what follows is for the next time. */
void tl_readings_leave(struct tl_thread *thread);
/* What tl_readings_next gave is not needed any more. Returns which part of its space the log had taken, in percent. */
int tl_readings_release(struct tl_thread *thread);

#pragma GCC visibility pop

#endif
