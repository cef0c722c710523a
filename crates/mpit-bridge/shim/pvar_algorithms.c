/*
 * Algorithms from performance variables that count how often each was taken: MVAPICH2's mv2_coll_OPERATION_ALGORITHM.
 * They say nothing about a single call. But where, between two moments at which no call was under way, exactly one of
 * an operation's counters rose, and by as many as there were calls, all these calls went by it; everything else stays
 * unknown. Only variables on the allow-list are read (mv2_coll_*).
 */
#include "pvar_algorithms.h"

#include <stdio.h>
#include <string.h>

#include "names.h"
#include "operations.h"
#include "shim.h"
#include "threads.h"

enum { COUNTERS = 256, FIRST_NUMBER = 512 }; /* numbers below are those of algorithms.c */

struct counter {
    int variable;
    int operation;
    uint16_t number; /* in NAMES frames */
    int reported;
    char name[64];
    double before, now, at_last;
};

static struct counter counters[COUNTERS];
static int known;
static int still, last_still; /* this bin's end, and the last one's, is a moment without calls under way */

static const struct {
    int operation;
    const char *name;
} collectives[] = {
#define TL_LIST(number, Name, name, parameters, note) {number, #name},
    TL_COLLECTIVES_COUNTED(TL_LIST) TL_COLLECTIVES_UNCOUNTED(TL_LIST)
#undef TL_LIST
};

void tl_pvar_algorithms_learn(int variable, const char *name) {
    static const char prefix[] = "mv2_coll_";
    static const char *const others[] = {"bytes_", "count_"}; /* what was sent and received */
    if (known >= COUNTERS || strncmp(name, prefix, sizeof prefix - 1) != 0) return;
    name += sizeof prefix - 1;
    struct counter made = {.variable = variable, .number = (uint16_t)(FIRST_NUMBER + known)};
    size_t best = 0; /* reduce_scatter is no algorithm of reduce */
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        size_t length = strlen(collectives[i].name);
        if (length <= best || strncmp(name, collectives[i].name, length) != 0 || name[length] != '_') continue;
        best = length;
        made.operation = collectives[i].operation;
    }
    if (best == 0) return;
    name += best + 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0) return;
    snprintf(made.name, sizeof made.name, "%s", name);
    counters[known++] = made;
}

void tl_pvar_algorithms_evict(void) {
    known = 0;
    still = last_still = 0;
}

int tl_pvar_algorithms_known(void) {
    return known > 0;
}

static int nobody_inside(void) {
    for (struct tl_thread *t = tl_threads(); t; t = t->next)
        if (TL_LOAD(&t->depth)) return 0;
    return 1;
}

void tl_pvar_algorithms_before(tl_pvar_read *read) {
    if (known == 0) return;
    last_still = still;
    still = nobody_inside();
    for (int i = 0; i < known; i++) {
        counters[i].at_last = counters[i].now;
        still = read(counters[i].variable, &counters[i].before) && still;
    }
}

void tl_pvar_algorithms_after(tl_pvar_read *read) {
    if (known == 0) return;
    for (int i = 0; i < known; i++)
        still = read(counters[i].variable, &counters[i].now) && counters[i].now == counters[i].before && still;
    still = nobody_inside() && still;
}

uint16_t tl_pvar_algorithm(int operation, uint64_t (*calls)(int operation)) {
    struct counter *rose = NULL;
    if (!still || !last_still) return 0;
    for (int i = 0; i < known; i++) {
        if (counters[i].operation != operation || counters[i].now == counters[i].at_last) continue;
        if (rose) return 0;
        rose = &counters[i];
    }
    if (!rose || rose->now - rose->at_last != (double)calls(operation)) return 0;
    if (!rose->reported) rose->reported = tl_name_add(TL_NAME_ALGORITHM, rose->number, 0, 0, rose->name);
    return rose->reported ? rose->number : 0;
}
