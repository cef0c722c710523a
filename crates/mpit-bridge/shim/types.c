/*
 * Sizes of datatypes. Asking the library costs a call for each call that the program makes; types that MPI names
 * itself (MPI_DOUBLE) are there for ever, so each thread keeps the sizes of a few of them. Whether a type is one of
 * those the library says: its combiner is that of MPI_BYTE (MPI_COMBINER_NAMED, whose value differs). Any other
 * type may be freed and its handle given to the next one, so its size is queried each time.
 */
#include "library.h"
#include "shim.h"
#include "threads.h"
#include "types.h"

enum { QUERY = -1 };

static int (*get_envelope)(tl_handle, int *, int *, int *, int *);
static int named;

static int combiner(tl_handle type, int *found) {
    int integers, addresses, types;
    return get_envelope && get_envelope(type, &integers, &addresses, &types, found) == 0;
}

void tl_types_start(void) {
    void *found = tl_find("PMPI_Type_get_envelope");
    __builtin_memcpy(&get_envelope, &found, sizeof get_envelope);
    if (!combiner(tl_library.byte, &named)) get_envelope = NULL;
}

static int64_t query(tl_handle type) {
    int size = 0;
    if (tl_library.type_size(type, &size) != 0) return 0;
    if (TL_LIKELY(size >= 0)) return size;
    int64_t wide = 0; /* beyond 2 GiB the int call answers MPI_UNDEFINED */
    if (!tl_library.type_size_x || tl_library.type_size_x(type, &wide) != 0 || wide < 0) return 0;
    return wide;
}

/* Of two types that share a place the one observed last has it. A handle that was once of a type not named never becomes
 * that of a named one, so what is retained of it stays true. */
int64_t tl_type_size(struct tl_thread *self, tl_handle type, int64_t count) {
    if (count == 0 || type == tl_library.type_null) return 0;
    struct tl_type *known = &self->types[tl_type_place(type)];
    int64_t size = query(type);
    int found;
    if (known->handle != type) {
        known->handle = type;
        known->size = combiner(type, &found) && found == named ? size : QUERY;
    }
    return size;
}
