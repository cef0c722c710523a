/* This rank and how many there are. */
#ifndef THROUGHLINE_WORLD_H
#define THROUGHLINE_WORLD_H

#pragma GCC visibility push(hidden)

extern int tl_world_size, tl_world_rank;

#pragma GCC visibility pop

#endif
