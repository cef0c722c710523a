/* Frames of wrappers: whether one has returned. See frames.c. */
#ifndef THROUGHLINE_FRAMES_H
#define THROUGHLINE_FRAMES_H

#include <stddef.h>

#include "shim.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

/* A wrapper is entered while the thread is inside of one, or has no area yet. The thread where this call is to be
 * recorded, NULL where not. */
struct tl_thread *tl_enter_anew(struct tl_thread *self, struct tl_frame_mark frame);
/* Whether a wrapper of this frame has ended, as seen from a later one of the same thread, or from the flush thread. */
int tl_frame_is_over(struct tl_thread *self, struct tl_frame_mark before, struct tl_frame_mark now);
int tl_frame_has_changed(struct tl_frame_mark frame);

/* The frame of the function that uses this macro: its first words are the address of the caller's frame and the return address. */
#define TL_FRAME tl_frame_mark_of(__builtin_frame_address(0))
static inline struct tl_frame_mark tl_frame_mark_of(void *const *frame) {
    return (struct tl_frame_mark){frame, frame[1]};
}

/* Read by the flush thread, too. */
static inline void tl_inside(struct tl_thread *self, struct tl_frame_mark frame) {
    TL_STORE(&self->frame.at, frame.at);
    TL_STORE(&self->frame.returns_to, frame.returns_to);
}

/* Starts a call, of a wrapper with this frame; NULL when it is to pass through unrecorded: inside another one, or no memory. */
static inline struct tl_thread *tl_enter(int operation, struct tl_frame_mark frame) {
    struct tl_thread *self = tl_self;
    if (TL_UNLIKELY(self->depth) && !(self = tl_enter_anew(self, frame))) return NULL;
    TL_STORE(&self->depth, operation); /* read by the flush thread, as what follows in wrappers */
    self->algorithm = 0;
    tl_inside(self, frame);
    if (tl_goes_on(operation)) self->nonblocking = operation;
    return self;
}

#pragma GCC visibility pop

#endif
