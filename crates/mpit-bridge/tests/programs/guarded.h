/* Arrays that end where memory ends: who reads one element too many is killed. */
#ifndef GUARDED_H
#define GUARDED_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* `bytes` of zeros, to be used up to the last one; never given back. */
static void *guarded(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = bytes / page + 2;
    char *start = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + (pages - 1) * page, page, PROT_NONE) != 0) abort();
    return start + (pages - 1) * page - bytes;
}

#endif
