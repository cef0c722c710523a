/* Annotated regions of the program. See regions.c. */
#ifndef THROUGHLINE_REGIONS_H
#define THROUGHLINE_REGIONS_H

#include <stdint.h>

#include "frame.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

void tl_region_begin(const char *name);
/* NULL: the innermost one. */
void tl_region_end(const char *name);
/* Ranges of an owner (any number from 2 to 2^63 - 1), which ends them in its own order: one that ends before what began
 * within it stays in the path of that. Both return the level, from 0, or below 0 where there is none. */
int tl_region_push(const char *name, uint64_t owner);
int tl_region_pop(uint64_t owner);
/* The same, of an owner that may have none open. */
void tl_region_pop_open(uint64_t owner);
/* A range with an id (0: it is not recorded), by which any thread may end it. Calls of the thread that began it count in it,
 * up to that thread's next region after the end. */
uint64_t tl_region_start(const char *name);
void tl_region_stop(uint64_t id);
/* MPI_Pcontrol(level): 2 and more is the phase of this number, 1 and less is none. */
void tl_region_level(int level);
/* The thread ends: what it left open ends with it. */
void tl_regions_close(struct tl_thread *self);

/* Flush thread: before names are reported, those of all regions and paths that will be. */
void tl_regions_look(void);
/* Adds the regions that changed to `frame` (REGIONS), or all; then the paths, as of the same moment (PATHS). */
void tl_regions_put(struct tl_frame *frame, int everything);
void tl_paths_put(struct tl_frame *frame, int everything);
uint64_t tl_regions_refused(void);
uint64_t tl_regions_mismatched(void);

#pragma GCC visibility pop

#endif
