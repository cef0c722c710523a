/*
 * Calls that free a communicator or a window. Most wait for other members, so they are calls as others are; but what is freed may be
 * used meanwhile, by callbacks of its attributes, whose calls count as well (frames.c).
 */
#ifndef THROUGHLINE_RELEASES_H
#define THROUGHLINE_RELEASES_H

#include "comms.h"
#include "form.h"
#include "frames.h"
#include "library.h"
#include "notes.h"
#include "stretches.h"
#include "threads.h"
#include "trace.h"

struct tl_release {
    struct tl_leaving before;
    struct tl_call call; /* of nobody where it is not recorded */
};

static inline struct tl_release tl_release_begin(int operation, enum tl_form form, tl_handle handle, struct tl_frame_mark frame) {
    struct tl_release release = {.before = tl_comm_leave(handle, frame)};
    struct tl_thread *self = tl_enter(operation, frame);
    if (!self) return release;
    TL_STORE(&self->open_comm, handle);
    release.call = (struct tl_call){.self = self, .operation = operation, .form = form, .start = tl_call_begin(self)};
    return release;
}

static inline void tl_release_end(struct tl_release *release) {
    struct tl_call *call = &release->call;
    if (call->self) {
        call->ticks = tl_call_end(call->self, call->start);
        tl_note_time(call);
        tl_trace_call(call->self, call->operation, call->start, call->start + call->ticks);
        TL_STORE(&call->self->depth, 0);
    }
    tl_comm_left(release->before);
}

#endif
