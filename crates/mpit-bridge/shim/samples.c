/* Sampled calls of collectives: a small log that recording threads fill and the flush thread empties. See samples.h. */
#include "samples.h"

#include <string.h>

#include "comm.h"
#include "groups.h"
#include "operations.h"
#include "shim.h"

#define HALF (UINT64_C(1) << 63)

static struct tl_sample samples[TL_SAMPLES_LIMIT];
static size_t used;
static pthread_mutex_t samples_lock = PTHREAD_MUTEX_INITIALIZER; /* held for a copy, never longer */

/* Nonblocking and persistent ones return before anybody has arrived. */
#define IS_BLOCKING(Name) [TL_OP_##Name] = 1
static const uint8_t blocking[TL_OPERATION_LIMIT] = {
    IS_BLOCKING(Barrier),  IS_BLOCKING(Allreduce), IS_BLOCKING(Allgather),      IS_BLOCKING(Allgatherv),
    IS_BLOCKING(Alltoall), IS_BLOCKING(Bcast),     IS_BLOCKING(Reduce_scatter), IS_BLOCKING(Reduce_scatter_block),
    IS_BLOCKING(Scatter),  IS_BLOCKING(Reduce),    IS_BLOCKING(Gather),         IS_BLOCKING(Scan),
    IS_BLOCKING(Exscan),
};

/* How often the part of the calls that is chosen has been halved. */
static uint16_t level_of(uint64_t skip) {
    return ~skip == 0 ? TL_SAMPLE_LEVELS : (uint16_t)__builtin_clzll(~skip);
}

void tl_sample(const struct tl_comm *comm, struct tl_collective *cell, uint64_t call, uint64_t ticks) {
    uint64_t key = TL_LOAD(&cell->key), skip = TL_LOAD(&cell->skip);
    const struct tl_group *group = comm->group;
    if (!blocking[tl_key_operation(key)] || !group || comm->inter) {
        TL_STORE(&cell->skip, UINT64_MAX);
        return;
    }
    if (pthread_mutex_trylock(&samples_lock) != 0) return;
    if (used < TL_SAMPLES_LIMIT)
        samples[used++] = (struct tl_sample){.group = (uint32_t)(group - tl_groups),
                                             .generation = group->generation,
                                             .level = level_of(skip),
                                             .key = key,
                                             .call = call,
                                             .ticks = ticks};
    int crowded = used > TL_SAMPLES_LIMIT / 2;
    pthread_mutex_unlock(&samples_lock);
    if (crowded && level_of(skip) < TL_SAMPLE_LEVELS) TL_STORE(&cell->skip, skip / 2 + HALF);
}

void tl_sample_pace(struct tl_collective *cell, uint32_t calls) {
    if (TL_LOAD(&cell->skip) == UINT64_MAX) return; /* it is never sampled */
    unsigned level = 0;
    while (level < 31 && calls >> level > TL_SAMPLES_A_PUSH) level++;
    TL_STORE(&cell->skip, level ? UINT64_MAX << (64 - level) : 0);
}

size_t tl_samples_take(struct tl_sample *taken) {
    pthread_mutex_lock(&samples_lock);
    size_t count = used;
    memcpy(taken, samples, count * sizeof *taken);
    used = 0;
    pthread_mutex_unlock(&samples_lock);
    return count;
}
