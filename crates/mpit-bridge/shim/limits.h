/* How much the shim keeps at most. */
#ifndef THROUGHLINE_LIMITS_H
#define THROUGHLINE_LIMITS_H

#pragma GCC visibility push(hidden)

enum {
    TL_CACHE_LINE = 64,
    TL_SIZE_CLASSES = 42,      /* 0, 1, 2, 4 ... 2^40 bytes and more: 1 TiB is beyond any one message */
    TL_TYPES_KNOWN = 8,        /* datatypes whose size a thread keeps at a time; a power of two */
    TL_THREADS_LIMIT = 1024,   /* threads of one process that record; further ones pass through uncounted */
    TL_COMM_SLOTS = 2048,      /* communicators translated at a time; messages on further ones count as unknown */
    TL_REGION_LIMIT = 256,     /* regions by name, "none" included: annotations of a program, not of its iterations */
    TL_PATH_LIMIT = 1024,      /* paths of nested regions, "outside of all" included; further ones count in the path around */
    TL_PATH_BYTES = 2000,      /* of a path's text: it is part of a key of the database, whose rows hold 2,700 bytes */
    TL_ALGORITHM_LIMIT = 128,  /* functions of algorithms.c, "none" included */
    TL_WORLD_LIMIT = 1 << 20,  /* ranks; a larger world records operations but no peers */
    TL_MEMBERS_LIMIT = 1 << 24 /* translated members of all communicators together: 64 MiB of int */
};

#pragma GCC visibility pop

#endif
