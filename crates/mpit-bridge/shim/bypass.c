/*
 * Programs that look MPI's functions up in the library itself (dlsym with its handle: MPI.jl, ctypes, cffi) call them past the
 * wrappers: nothing is known of them but, at the end of the process, that MPI was initialized. That is reported then, so that
 * a user who misses the job learns why.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "environment.h"
#include "frame.h"
#include "library.h"
#include "lifecycle.h"
#include "shim.h"

/* MPI_Initialized may be called at any time, also after MPI_Finalize. */
static int was_initialized(void) {
    int (*is_initialized)(int *);
    int flag = 0;
    void *found = tl_find("PMPI_Initialized");
    if (!found) return 0;
    memcpy(&is_initialized, &found, sizeof found);
    return is_initialized(&flag) == 0 && flag;
}

/* No agent, or one that does not know the frame: nothing is sent. */
static void report(void) {
    static struct tl_frame frame;
    tl_channel_configure();
    if (!tl_channel_connect()) return;
    tl_frame_begin(&frame, TL_BYPASS);
    tl_field_u32(&frame, TL_BYPASS_HOW, TL_BYPASS_LOOKED_UP);
    tl_field_text(&frame, TL_BYPASS_PROGRAM, program_invocation_short_name);
    tl_channel_send(&frame, 0);
    tl_channel_close();
}

__attribute__((destructor)) static void at_unload(void) {
    if (TL_LOAD(&tl_noticed) || tl_switched_off() || !was_initialized()) return;
    report();
    if (!getenv("THROUGHLINE_DEBUG")) return;
    tl_debug_on();
    tl_debug("MPI was initialized, but no call of it came here: calls bypass the shim (functions looked up by dlsym)");
}
