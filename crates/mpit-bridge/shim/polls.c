/* What stands for polls that were not timed: see polls.h. */
#include "polls.h"

#include "accounting.h"

/* So many polls that were not timed, until `now`: each as long as the one that was, but no longer than since its end, as
 * that one may have been put aside by the system meanwhile. */
static uint64_t like_timed(const struct tl_polls *polls, uint64_t count, uint64_t now) {
    uint64_t since = now - polls->last - polls->ticks, all = count * polls->ticks;
    return all < since ? all : since;
}

/* How many of a row are not timed from now on: `spacing` ticks lie between two of them. */
static uint64_t stretch(int pace, uint64_t start, uint64_t spacing) {
    uint64_t fewest = (uint64_t)TL_POLLS_FEWEST << pace, most = TL_POLLS_TICKS / (spacing | 1);
    uint64_t wanted = fewest + (start & (fewest - 1));
    return wanted < most ? wanted : most;
}

/* May calls of the row take the quick way? Requests of other threads have to be looked up before each call. */
static int is_quick(int operation) {
    int asks_requests = operation != TL_OP_Iprobe && operation != TL_OP_Improbe;
    return TL_LOAD(&tl_recording) && !TL_LOAD(&tl_tracing) && !(asks_requests && tl_shared_comms);
}

int tl_note_timed_poll(struct tl_call *call, int succeeded) {
    struct tl_thread *self = call->self;
    struct tl_polls *polls = tl_polls_of(self, call->operation);
    if (!call->start) {
        call->start = tl_ticks();
        call->ticks = like_timed(polls, 1, call->start);
        call->start -= call->ticks;
    }
    uint64_t untimed = polls->cell ? TL_LOAD(&polls->cell->calls) - polls->from : 0;
    if (untimed) {
        call->others_ticks = like_timed(polls, untimed, call->start);
        TL_ADD(&polls->cell->ticks, call->others_ticks);
    }
    tl_note_time(call);
    uint64_t spacing = (call->start - polls->last) / (untimed + 1);
    int is_dense = polls->table && spacing < TL_POLLS_DENSE, pace = 0;
    if (is_dense) pace = polls->pace + (!succeeded && untimed && polls->pace < TL_POLLS_PACE);
    struct tl_cell *cell = self->last_cell;
    uint64_t from = cell ? TL_LOAD(&cell->calls) : 0;
    *polls = (struct tl_polls){
        .cell = cell,
        .from = from,
        .until = from + (cell && !succeeded && is_dense ? stretch(pace, call->start, spacing) : 0),
        .table = self->table,
        .last = call->start,
        .ticks = call->ticks,
        .pace = pace,
    };
    void *next = __atomic_load_n(&tl_next_functions[call->form][call->operation], __ATOMIC_ACQUIRE);
    tl_rows[TL_POLL_KIND(call->operation)] = (struct tl_row_now){
        .cell = cell,
        .until = polls->until,
        .next = next,
        .ignored = tl_library.status_ignore,
        .self = self,
        .recording = TL_LOAD(&tl_recording),
        .calls = next && polls->until > from && is_quick(call->operation) ? (short)(call->form + 1) : 0,
        .handle_bytes = (short)tl_library.handle_bytes,
    };
    return 1;
}

void tl_polls_settle(struct tl_thread *self) {
    tl_polls_interrupt();
    for (int kind = 0; kind < TL_POLL_KINDS; kind++) {
        struct tl_polls *polls = &self->polls[kind];
        uint64_t untimed = polls->cell ? TL_LOAD(&polls->cell->calls) - polls->from : 0;
        if (untimed) TL_ADD(&polls->cell->ticks, like_timed(polls, untimed, tl_ticks()));
        *polls = (struct tl_polls){0};
    }
}
