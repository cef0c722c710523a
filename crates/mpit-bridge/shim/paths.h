/* Paths of nested regions. See paths.c. */
#ifndef THROUGHLINE_PATHS_H
#define THROUGHLINE_PATHS_H

#include <stdint.h>

#include "limits.h"

#pragma GCC visibility push(hidden)

/* What never changes of a path, by its number; 0 is outside of all regions. */
struct tl_path {
    uint16_t parent, region; /* numbers of the path around it, and of its innermost region */
    uint16_t bytes;          /* of its text, as the agent writes it */
    uint16_t is_outermost;   /* its region is not in the path around it: its time counts for the region */
};
extern struct tl_path tl_paths[TL_PATH_LIMIT];

/* A number for a name, the same for the same name. */
uint64_t tl_path_hash(const char *name);
/* The number of the path that a region (by its name and that's hash) makes within `parent`; 0: it gets none. */
int tl_path_enter(int parent, const char *name, uint64_t hash);
/* Paths and regions with a number: 1 to this. */
int tl_paths_last(void);
int tl_regions_last(void);

#pragma GCC visibility pop

#endif
