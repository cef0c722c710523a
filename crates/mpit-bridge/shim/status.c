/*
 * How many bytes a status reports. No layout of an MPI_Status is assumed: the library is queried once to write
 * known counts into one, and where they turn up is where they are read, as querying it for each receive
 * (MPI_Get_elements_x) costs as much as all the rest of the shim. Where they turn up nowhere, it is queried.
 */
#include <string.h>

#include "library.h"
#include "shim.h"
#include "status.h"

enum { LAYOUT_QUERY, LAYOUT_WHOLE, LAYOUT_HALVES };

static int layout = LAYOUT_QUERY;
static size_t offset;

/* Open MPI keeps a count of 64 bits; MPICH the lower 32, and above a bit for "cancelled" the upper ones. */
static int64_t read_as(int kind, const void *status, size_t at) {
    uint32_t low, high;
    int64_t whole;
    const char *bytes = (const char *)status + at;
    if (kind == LAYOUT_WHOLE) {
        memcpy(&whole, bytes, sizeof whole);
        return whole;
    }
    memcpy(&low, bytes, sizeof low);
    memcpy(&high, bytes + sizeof low, sizeof high);
    return (int64_t)((uint64_t)(high >> 1) << 32 | low);
}

void tl_status_learn(void) {
    static const int64_t samples[] = {0x123456789abc, 0, 7, 0x0fedcba98765};
    enum { SAMPLES = sizeof samples / sizeof *samples };
    uint64_t statuses[SAMPLES][TL_STATUS_BYTES / sizeof(uint64_t) + 1];
    size_t last = (size_t)tl_library.status_bytes;
    memset(statuses, 0, sizeof statuses);
    if (!tl_library.status_set_elements_x || last > TL_STATUS_BYTES) return;
    for (int i = 0; i < SAMPLES; i++)
        if (tl_library.status_set_elements_x(statuses[i], tl_library.byte, samples[i]) != 0) return;
    for (int kind = LAYOUT_WHOLE; kind <= LAYOUT_HALVES; kind++)
        for (size_t at = 0; at + sizeof(int64_t) <= last; at += sizeof(int32_t)) {
            int matching = 0;
            for (int i = 0; i < SAMPLES; i++) matching += read_as(kind, statuses[i], at) == samples[i];
            if (matching != SAMPLES) continue;
            offset = at;
            layout = kind;
            return;
        }
}

int64_t tl_status_bytes(const void *status) {
    int64_t bytes = 0;
    if (TL_LIKELY(layout != LAYOUT_QUERY)) bytes = read_as(layout, status, offset);
    else if (!tl_library.get_elements_x || tl_library.get_elements_x(status, tl_library.byte, &bytes) != 0) return 0;
    return bytes > 0 ? bytes : 0; /* MPI_UNDEFINED is negative */
}
