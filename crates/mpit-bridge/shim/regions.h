/* Annotated regions of the program. See regions.c. */
#ifndef THROUGHLINE_REGIONS_H
#define THROUGHLINE_REGIONS_H

#include "frame.h"
#include "shim.h"

#pragma GCC visibility push(hidden)

void tl_region_begin(const char *name);
/* NULL: the innermost one. */
void tl_region_end(const char *name);
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
