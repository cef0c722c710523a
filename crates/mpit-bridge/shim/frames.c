/*
 * Calls that never return: an error handler of the program may throw or jump out of one, and the thread goes on. The wrapper that it
 * was inside of is over then, and nothing has said so. It shows where the next wrapper is entered: its frame stands above the old one,
 * which a call inside of the old one never does, or the old frame's return address has been overwritten.
 *
 * That holds on one stack. Where a program has several in a thread (coroutines, a signal stack), the call stays open, as it may well
 * go on; but nobody may rely on that: it is not reported as open (open_calls.c).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include "frames.h"
#include "operations.h"
#include "shim.h"
#include "threads.h"

static void look_up_stack(struct tl_thread *self) {
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
        self->stack_low = lowest;
        self->stack_high = self->stack_low + bytes;
    }
    pthread_attr_destroy(&attributes);
}

static int is_on_stack(const struct tl_thread *self, struct tl_frame_mark frame) {
    const char *at = (const char *)frame.at;
    return at >= self->stack_low && at < self->stack_high;
}

/* The word lies above the caller's frame, on the same stack: so it can be read, whatever it is now. */
__attribute__((no_sanitize("address", "thread"))) static int has_changed(struct tl_frame_mark frame) {
    return *(void *const volatile *)&frame.at[1] != frame.returns_to;
}

int tl_frame_is_over(struct tl_thread *self, struct tl_frame_mark before, struct tl_frame_mark now) {
    if (!self->stack_high) look_up_stack(self);
    if (!is_on_stack(self, before) || !is_on_stack(self, now)) return 0;
    return now.at >= before.at || has_changed(before);
}

static int has_callbacks(int operation) {
    return (operation >= TL_OP_Comm_dup && operation <= TL_OP_Comm_disconnect) || operation == TL_OP_Win_free;
}

struct tl_thread *tl_enter_anew(struct tl_thread *self, struct tl_frame_mark frame) {
    if (self == &tl_nobody) return tl_thread_attach();
    if (!self->table) return NULL; /* a thread that can't record */
    if (tl_frame_is_over(self, self->frame, frame)) {
        tl_close(self);
        self->capture = NULL;
        return self;
    }
    /* Making and freeing communicators calls what the program attached to them, and that may call MPI by itself. */
    if (has_callbacks(TL_LOAD(&self->depth))) return self;
    TL_STORE(&self->open_in_doubt, TL_LOAD(&self->open_start));
    return NULL;
}

/* From another thread, whose stack this may no longer be: so the kernel reads it. */
int tl_frame_has_changed(struct tl_frame_mark frame) {
    void *word = NULL;
    struct iovec here = {&word, sizeof word}, there = {(void *)&frame.at[1], sizeof word};
    if (!frame.at || process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)sizeof word) return 0;
    return word != frame.returns_to;
}
