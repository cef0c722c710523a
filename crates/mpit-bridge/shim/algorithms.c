/*
 * Which algorithm a collective used: observed at work, forced by a setting, or unknown; never a guess. Observed are only the
 * functions of Open MPI's library (algorithms_openmpi.c); what its other components do by themselves (han, hcoll, UCC,
 * nonblocking ones) is unknown. `forced` is what was observed and requested, and in libraries that show nothing,
 * what was requested.
 */
#include "algorithms.h"

#include <string.h>

#include "frame.h"
#include "library.h"
#include "limits.h"
#include "names.h"
#include "operations.h"

/* Operations that a library carries out by one algorithm or another: collectives. */
static const uint8_t collective[TL_OPERATION_LIMIT] = {
#define TL_IS_ONE(number, Name, name, parameters, note) [number] = 1,
    TL_COLLECTIVES_COUNTED(TL_IS_ONE) TL_COLLECTIVES_COUNTED_4(TL_IS_ONE)
    TL_COLLECTIVES_UNCOUNTED(TL_IS_ONE) TL_COLLECTIVES_UNCOUNTED_4(TL_IS_ONE)
#undef TL_IS_ONE
};

const char *const tl_algorithm_names[TL_ALGORITHM_LIMIT] = {
#define TL_NAME(Name, operation, algorithm) [TL_ALG_##operation##_##algorithm] = #algorithm,
    TL_ALGORITHMS(TL_NAME)
#undef TL_NAME
};

const uint8_t tl_algorithm_operations[TL_ALGORITHM_LIMIT] = {
#define TL_NAME(Name, operation, algorithm) [TL_ALG_##operation##_##algorithm] = TL_OP_##Name,
    TL_ALGORITHMS(TL_NAME)
#undef TL_NAME
};

static const char *forced[TL_OPERATION_LIMIT];
static uint8_t slot_reported[TL_ALGORITHM_LIMIT], forced_reported[TL_OPERATION_LIMIT];

void tl_algorithm_force(int operation, const char *name) {
    forced[operation] = name;
}

/* A name is reported when its number is used first. */
static uint16_t name_once(uint8_t *reported, int number, const char *name) {
    if (!*reported) *reported = tl_name_add(TL_NAME_ALGORITHM, (uint32_t)number, 0, 0, name) != 0;
    return *reported ? (uint16_t)number : 0;
}

uint16_t tl_algorithm_reported(int operation, int slot, uint16_t *source) {
    uint16_t number = 0;
    *source = collective[operation] ? TL_UNKNOWN : TL_NO_ALGORITHM;
    if (slot) {
        number = name_once(&slot_reported[slot], slot, tl_algorithm_names[slot]);
        int requested = forced[operation] && strcmp(forced[operation], tl_algorithm_names[slot]) == 0;
        if (number) *source = requested ? TL_FORCED : TL_OBSERVED;
    } else if (forced[operation] && tl_library.family != TL_FAMILY_OPENMPI) {
        number = name_once(&forced_reported[operation], TL_ALGORITHM_LIMIT + operation, forced[operation]);
        if (number) *source = TL_FORCED;
    }
    return number;
}
