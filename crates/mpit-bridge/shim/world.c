/*
 * This rank and how many there are: set by lifecycle.c.
 */
#include "world.h"

int tl_world_size, tl_world_rank;
