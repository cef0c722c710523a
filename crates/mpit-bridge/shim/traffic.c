/*
 * Traffic by operation: peers of point-to-point and one-sided operations, messages that the library reports, members of
 * groups, and what collectives moved within them. The agent lays collectives out by their algorithms. All are sums since
 * MPI_Init; what changed is sent, and after a failure all of it again.
 */
#include "traffic.h"

#include <string.h>

#include "algorithms.h"
#include "channel.h"
#include "clock.h"
#include "frame.h"
#include "groups.h"
#include "memory.h"
#include "operations.h"
#include "samples.h"
#include "shim.h"
#include "threads.h"
#include "wire.h"
#include "world.h"

static struct tl_peer *sent[TL_PEER_SLOTS], *sent_wire[TL_OPERATION_LIMIT]; /* by world rank */
static int failed;

/* ---- peers ---- */

static struct tl_peer of_threads(int slot, int peer) {
    struct tl_peer sum = {0, 0};
    for (struct tl_thread *t = tl_threads(); t; t = t->next) {
        struct tl_peer *own = __atomic_load_n(&t->peers[slot], __ATOMIC_ACQUIRE);
        if (!own) continue;
        sum.bytes += TL_LOAD(&own[peer].bytes);
        sum.messages += TL_LOAD(&own[peer].messages);
    }
    return sum;
}

static struct tl_peer of_wire(int operation, int peer) {
    const struct tl_peer *all = tl_wire_by(operation);
    return (struct tl_peer){TL_LOAD(&all[peer].bytes), TL_LOAD(&all[peer].messages)};
}

static int is_used(int slot) {
    for (struct tl_thread *t = tl_threads(); t; t = t->next)
        if (__atomic_load_n(&t->peers[slot], __ATOMIC_ACQUIRE)) return 1;
    return 0;
}

static void begin(struct tl_frame *frame, enum tl_frame_type type) {
    tl_frame_begin(frame, type);
    tl_put_u64(frame, (uint64_t)tl_clock(CLOCK_MONOTONIC));
}

static void finish(struct tl_frame *frame, int (*patience)(void)) {
    if (frame->length > TL_HEADER_BYTES + 8) failed |= !tl_channel_send(frame, patience());
}

static void make_space(struct tl_frame *frame, enum tl_frame_type type, size_t bytes, int (*patience)(void)) {
    if (frame->length + bytes <= TL_FRAME_LIMIT) return;
    finish(frame, patience);
    begin(frame, type);
}

static void put_peers(struct tl_frame *frame, int number, struct tl_traffic entry, struct tl_peer (*sum_of)(int, int),
                      struct tl_peer **before, int (*patience)(void)) {
    if (!*before) *before = tl_memory((size_t)tl_world_size * sizeof **before);
    for (int peer = 0; *before && peer < tl_world_size; peer++) {
        struct tl_peer sum = sum_of(number, peer), *then = &(*before)[peer];
        if (sum.bytes == then->bytes && sum.messages == then->messages) continue;
        make_space(frame, TL_TRAFFIC, TL_TRAFFIC_BYTES, patience);
        entry.peer = (uint32_t)peer;
        entry.bytes = sum.bytes;
        entry.messages = sum.messages;
        tl_put_traffic(frame, &entry);
        *then = sum;
    }
}

/* The operation of a slot, and which way its bytes went. */
static struct tl_traffic entry_of(int slot) {
    static const uint8_t both_ways[TL_PEER_SLOTS - TL_OPERATION_LIMIT] = {TL_OP_Get_accumulate, TL_OP_Rget_accumulate,
                                                                          TL_OP_Fetch_and_op, TL_OP_Compare_and_swap};
    if (slot >= TL_OPERATION_LIMIT)
        return (struct tl_traffic){.operation = both_ways[slot - TL_OPERATION_LIMIT], .kind = TL_TRAFFIC_READ};
    int reads = slot == TL_OP_Get || slot == TL_OP_Rget;
    return (struct tl_traffic){.operation = (uint16_t)slot, .kind = reads ? TL_TRAFFIC_READ : TL_TRAFFIC_SENT};
}

/* Its bytes are among the messages that the library reports. */
static int is_measured(int slot) {
    int one_sided = (slot >= TL_OP_Put && slot <= TL_OP_Rget_accumulate) || slot == TL_OP_Fetch_and_op ||
                    slot == TL_OP_Compare_and_swap || slot >= TL_OPERATION_LIMIT;
    int persistent = (slot >= TL_OP_Send_init && slot <= TL_OP_Rsend_init) || slot == TL_OP_Psend_init;
    if (persistent) return tl_wire_measures_persistent();
    return one_sided ? tl_wire_measures_one_sided() : tl_wire_measures();
}

static void push_peers(struct tl_frame *frame, int (*patience)(void)) {
    begin(frame, TL_TRAFFIC);
    for (int operation = 0; tl_wire_reported() && operation < TL_OPERATION_LIMIT; operation++) {
        struct tl_traffic entry = {.operation = (uint16_t)operation, .kind = TL_TRAFFIC_WIRE};
        if (tl_wire_by(operation)) put_peers(frame, operation, entry, of_wire, &sent_wire[operation], patience);
    }
    for (int slot = TL_LOGICAL_ONLY + 1; slot < TL_PEER_SLOTS; slot++)
        if (!is_measured(slot) && is_used(slot)) put_peers(frame, slot, entry_of(slot), of_threads, &sent[slot], patience);
    finish(frame, patience);
}

/* ---- groups ---- */

struct run {
    uint32_t start, count;
    int32_t stride;
};

static uint32_t member(const struct tl_members *all, int at) {
    return (uint32_t)(all->world ? all->world[at] : at);
}

/* The longest run of equal distances from here on. */
static struct run run_at(const struct tl_members *all, int first) {
    if (!all->world) return (struct run){(uint32_t)first, (uint32_t)(all->size - first), 1};
    struct run run = {member(all, first), 1, 0};
    if (first + 1 < all->size) run.stride = (int32_t)(member(all, first + 1) - run.start);
    while (first + (int)run.count < all->size &&
           member(all, first + (int)run.count) == run.start + run.count * (uint32_t)run.stride)
        run.count++;
    return run;
}

/* As many entries as its runs need: one, unless its members are in no order. */
static void put_members(struct tl_frame *frame, enum tl_frame_type type, const struct tl_group *group,
                        const struct tl_members *all, int (*patience)(void)) {
    for (int first = 0; first < all->size;) {
        make_space(frame, type, TL_GROUP_BYTES + TL_RUN_BYTES, patience);
        size_t count_at = tl_put_group(frame, (uint32_t)(group - tl_groups), group->generation, (uint32_t)all->size,
                                       (uint32_t)all->rank, (uint32_t)first);
        uint32_t runs = 0;
        for (; first < all->size && frame->length + TL_RUN_BYTES <= TL_FRAME_LIMIT; runs++) {
            struct run run = run_at(all, first);
            tl_put_run(frame, run.start, run.stride, run.count);
            first += (int)run.count;
        }
        tl_patch_u32(frame, count_at, runs);
    }
}

/* Those that are not reported yet; of intercommunicators also the own group. */
static void put_groups(struct tl_frame *frame, int (*patience)(void)) {
    begin(frame, TL_GROUPS);
    for (struct tl_group *group = tl_groups; group < tl_groups + tl_groups_used; group++) {
        struct tl_members all = {group->world, group->size, group->rank};
        if (!group->live || group->reported || !__atomic_load_n(&group->all, __ATOMIC_ACQUIRE)) continue;
        put_members(frame, TL_GROUPS, group, &all, patience);
        group->reported = TL_REPORTED_MEMBERS;
    }
    finish(frame, patience);
    begin(frame, TL_OWN_GROUPS);
    for (struct tl_group *group = tl_groups; group < tl_groups + tl_groups_used; group++) {
        if (!group->live || group->reported != TL_REPORTED_MEMBERS) continue;
        put_members(frame, TL_OWN_GROUPS, group, &group->own, patience);
        group->reported = TL_REPORTED_ALL;
    }
    finish(frame, patience);
}

static int is_changed(const struct tl_collective *cell) {
    return (uint32_t)TL_LOAD(&cell->calls) != cell->calls_sent || TL_LOAD(&cell->bytes) != cell->bytes_sent;
}

/* Calls `visit` with each cell that changed. */
static int each_changed(struct tl_group *group, int (*visit)(size_t, struct tl_collective *, uint64_t)) {
    int count = 0;
    for (struct tl_collectives *piece = __atomic_load_n(&group->all, __ATOMIC_ACQUIRE); piece;
         piece = __atomic_load_n(&piece->next, __ATOMIC_ACQUIRE))
        for (uint32_t i = 0; i < piece->space; i++) {
            struct tl_collective *cell = &piece->cells[i];
            uint64_t key = __atomic_load_n(&cell->key, __ATOMIC_ACQUIRE);
            if (key && is_changed(cell)) count += visit((size_t)(group - tl_groups), cell, key);
        }
    return count;
}

/* Its algorithm has a name that can be reported. */
static int name_cell(size_t group, struct tl_collective *cell, uint64_t key) {
    uint16_t source;
    (void)group, (void)cell;
    tl_algorithm_reported(tl_key_operation(key), tl_key_algorithm(key), &source);
    return 1;
}

static struct tl_frame *cells_frame;
static int (*cells_patience)(void);

static int put_cell(size_t group, struct tl_collective *cell, uint64_t key) {
    struct tl_collective_sums sums = {
        .group = (uint32_t)group,
        .operation = (uint16_t)tl_key_operation(key),
        .size_class = (uint16_t)tl_key_class(key),
        .root = tl_key_root(key),
        .calls = TL_LOAD(&cell->calls),
        .bytes = cell->bytes_sent = TL_LOAD(&cell->bytes),
    };
    tl_sample_pace(cell, (uint32_t)sums.calls - cell->calls_sent);
    cell->calls_sent = (uint32_t)sums.calls;
    sums.algorithm = tl_algorithm_reported(sums.operation, tl_key_algorithm(key), &sums.source);
    if (tl_wire_measures()) return 0; /* the messages themselves say what it moved */
    make_space(cells_frame, TL_COLLECTIVES, TL_COLLECTIVE_BYTES, cells_patience);
    tl_put_collective(cells_frame, &sums);
    return 1;
}

/* After the groups, by whose numbers they are named. */
static void push_samples(struct tl_frame *frame, int (*patience)(void)) {
    static struct tl_sample taken[TL_SAMPLES_LIMIT];
    size_t count = tl_samples_take(taken);
    struct tl_moment now = tl_clock_moment();
    double scale = tl_clock_scale(&now);
    begin(frame, TL_SAMPLES);
    for (size_t i = 0; i < count; i++) {
        const struct tl_group *group = &tl_groups[taken[i].group];
        if (!group->live || !group->reported || group->generation != taken[i].generation) continue;
        struct tl_sampled_call sample = {
            .group = taken[i].group,
            .root = tl_key_root(taken[i].key),
            .operation = (uint16_t)tl_key_operation(taken[i].key),
            .size_class = (uint16_t)tl_key_class(taken[i].key),
            .level = taken[i].level,
            .call = taken[i].call,
            .nanoseconds = (uint64_t)((double)taken[i].ticks * scale),
        };
        uint16_t source;
        sample.algorithm = tl_algorithm_reported(sample.operation, tl_key_algorithm(taken[i].key), &source);
        make_space(frame, TL_SAMPLES, TL_SAMPLE_BYTES, patience);
        tl_put_sample(frame, &sample);
    }
    finish(frame, patience);
}

static void push_groups(struct tl_frame *frame, int (*report_names)(void), int (*patience)(void)) {
    int changed = 0;
    pthread_mutex_lock(&tl_comms_lock);
    for (size_t i = 0; i < tl_groups_used; i++)
        if (tl_groups[i].live) changed += each_changed(&tl_groups[i], name_cell);
    pthread_mutex_unlock(&tl_comms_lock);
    if (!changed) return;
    if (!report_names()) {
        failed = 1;
        return;
    }
    pthread_mutex_lock(&tl_comms_lock);
    put_groups(frame, patience);
    begin(frame, TL_COLLECTIVES);
    cells_frame = frame;
    cells_patience = patience;
    for (size_t i = 0; i < tl_groups_used; i++)
        if (tl_groups[i].live && tl_groups[i].reported) each_changed(&tl_groups[i], put_cell);
    finish(frame, patience);
    push_samples(frame, patience);
    pthread_mutex_unlock(&tl_comms_lock);
}

/* ---- both ---- */

void tl_traffic_push(struct tl_frame *frame, int (*report_names)(void), int (*patience)(void)) {
    if (!tl_comms_folded()) return; /* the world is too large, or its group is not known */
    push_peers(frame, patience);
    push_groups(frame, report_names, patience);
    if (failed) tl_traffic_again();
}

static void clear(struct tl_peer *before) {
    if (before) memset(before, 0, (size_t)tl_world_size * sizeof *before);
}

void tl_traffic_again(void) {
    failed = 0;
    for (int slot = 0; slot < TL_PEER_SLOTS; slot++) clear(sent[slot]);
    for (int operation = 0; operation < TL_OPERATION_LIMIT; operation++) clear(sent_wire[operation]);
    pthread_mutex_lock(&tl_comms_lock);
    for (size_t i = 0; i < tl_groups_used; i++) {
        tl_groups[i].reported = 0;
        for (struct tl_collectives *piece = __atomic_load_n(&tl_groups[i].all, __ATOMIC_ACQUIRE); piece;
             piece = __atomic_load_n(&piece->next, __ATOMIC_ACQUIRE))
            for (uint32_t at = 0; at < piece->space; at++)
                piece->cells[at].calls_sent = piece->cells[at].bytes_sent = 0;
    }
    pthread_mutex_unlock(&tl_comms_lock);
}
