/* What stands for polls that were not timed: see polls.h. */
#include "polls.h"

#include "accounting.h"

/* So many polls that were not timed, until `now`: each as long as the one that was, but no longer than since its end, as
 * that one may have been put aside by the system meanwhile. */
static uint64_t like_timed(const struct tl_polls *polls, uint64_t count, uint64_t now) {
    uint64_t since = now - polls->last - polls->ticks, all = count * polls->ticks;
    return all < since ? all : since;
}

int tl_note_timed_poll(struct tl_call *call, int succeeded) {
    struct tl_thread *self = call->self;
    struct tl_polls *polls = tl_polls_of(self, call->operation);
    if (!call->start) {
        call->start = tl_ticks();
        call->ticks = like_timed(polls, 1, call->start);
        call->start -= call->ticks;
    }
    uint64_t untimed = (uint64_t)(polls->granted - polls->left);
    if (untimed) {
        call->others_ticks = like_timed(polls, untimed, call->start);
        TL_ADD(&polls->cell->ticks, call->others_ticks);
    }
    tl_note_time(call);
    int is_dense = polls->table && call->start - polls->last < TL_POLLS_DENSE * (untimed + 1);
    int granted = !succeeded && is_dense && self->last_cell ? TL_POLLS_FEWEST + (int)(call->start & TL_POLLS_SPREAD) : 0;
    *polls = (struct tl_polls){
        .left = granted, .granted = granted, .table = self->table, .cell = self->last_cell, .last = call->start, .ticks = call->ticks,
    };
    return 1;
}
