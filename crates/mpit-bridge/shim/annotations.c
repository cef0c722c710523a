/*
 * Annotations that a program makes for others, taken as regions: the functions of throughline.h, and NVTX 2's (libnvToolsExt), where
 * the program calls them through the dynamic linker. Each of these goes on to the library's own. NVTX 3: nvtx.c; Caliper: caliper.c.
 */
#include "library.h"
#include "nvtx.h"
#include "regions.h"
#include "shim.h"

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
