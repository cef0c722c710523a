/*
 * A thread ends: what it left open ends with it.
 */
#include "polls.h"
#include "regions.h"
#include "stretches.h"
#include "threads.h"

static void close_all(struct tl_thread *thread) {
    tl_regions_close(thread);
    tl_polls_settle(thread);
    tl_stretches_left(thread);
}

/* Before any thread can end: annotations may come before MPI_Init. */
__attribute__((constructor)) static void at_load(void) {
    tl_threads_when_left(close_all);
}
