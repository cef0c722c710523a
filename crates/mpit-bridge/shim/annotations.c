/*
 * Annotations that a program makes for others, taken as regions: the functions of throughline.h, Caliper's C functions
 * (libcaliper), and NVTX 2's (libnvToolsExt), where the program calls them through the dynamic linker. Each goes on to the
 * library's own. NVTX 3: nvtx.c. Not observed: Caliper's C++ classes and values of attributes.
 */
#include "nvtx.h"
#include "regions.h"

TL_EXPORT void throughline_shim_region_begin(const char *name);
TL_EXPORT void throughline_shim_region_begin(const char *name) {
    tl_region_begin(name);
}

TL_EXPORT void throughline_shim_region_end(const char *name);
TL_EXPORT void throughline_shim_region_end(const char *name) {
    tl_region_end(name);
}

/* The library's own function; found once. */
static void *following(void **stored, const char *symbol) {
    void *found = __atomic_load_n(stored, __ATOMIC_ACQUIRE);
    if (found) return found;
    found = tl_find(symbol);
    __atomic_store_n(stored, found, __ATOMIC_RELEASE);
    return found;
}

#define TL_NAMED(symbol, note) \
    TL_EXPORT void symbol(const char *name); \
    TL_EXPORT void symbol(const char *name) { \
        static void *stored; \
        void *found = following(&stored, #symbol); \
        note(name); \
        if (!found) return; \
        void (*next)(const char *); \
        __builtin_memcpy(&next, &found, sizeof next); \
        next(name); \
    }
TL_NAMED(cali_begin_region, tl_region_begin)
TL_NAMED(cali_end_region, tl_region_end)
TL_NAMED(cali_begin_phase, tl_region_begin)
TL_NAMED(cali_end_phase, tl_region_end)

/* NVTX answers with the level that was entered or left; -1 (NVTX_NO_PUSH_POP_TRACKING is -2) without a tool. Its library's
 * other ranges come by injection (nvtx.c), if nobody else is its tool. */
enum { NO_TRACKING = -2 };

TL_EXPORT int nvtxRangePushA(const char *message);
TL_EXPORT int nvtxRangePushA(const char *message) {
    static void *stored;
    void *found = following(&stored, "nvtxRangePushA");
    tl_region_push(message && *message ? message : "(nvtx)", TL_NVTX_DEFAULT);
    if (!found) return NO_TRACKING;
    int (*next)(const char *);
    __builtin_memcpy(&next, &found, sizeof next);
    tl_nvtx_inside++;
    int level = next(message);
    tl_nvtx_inside--;
    return level;
}

TL_EXPORT int nvtxRangePop(void);
TL_EXPORT int nvtxRangePop(void) {
    static void *stored;
    void *found = following(&stored, "nvtxRangePop");
    tl_region_pop(TL_NVTX_DEFAULT);
    if (!found) return NO_TRACKING;
    int (*next)(void);
    __builtin_memcpy(&next, &found, sizeof next);
    tl_nvtx_inside++;
    int level = next();
    tl_nvtx_inside--;
    return level;
}
