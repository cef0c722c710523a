/*
 * Stands before the function by which Open MPI's pml_monitoring counts each message: exported by
 * libmca_common_monitoring in 4.1, by libmpi in 5.0, with the same arguments, and called through the dynamic linker in
 * both. Only built into the object for Open MPI.
 */
#include "wire.h"

typedef void (*tl_record)(int world_rank, size_t bytes, int tag);

TL_EXPORT void mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag);
TL_EXPORT void mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag) {
    static tl_record following;
    if (__atomic_load_n(&tl_wire_counts, __ATOMIC_ACQUIRE) && TL_LOAD(&tl_recording)) tl_wire_message(world_rank, bytes, tag);
    tl_record next = __atomic_load_n(&following, __ATOMIC_ACQUIRE);
    if (TL_UNLIKELY(!next)) {
        void *found = tl_find("mca_common_monitoring_record_pml");
        if (!found) return;
        __builtin_memcpy(&next, &found, sizeof next);
        __atomic_store_n(&following, next, __ATOMIC_RELEASE);
    }
    next(world_rank, bytes, tag);
}
