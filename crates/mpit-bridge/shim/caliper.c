/*
 * Caliper's annotations as regions, where the program calls a shared libcaliper: the C functions, and the C++ classes by the
 * mangled names of their constructors and destructors (complete and base ones, Itanium ABI). Each goes on to the library's own.
 * What the library calls of itself meanwhile is not counted again.
 *
 * Of cali::Annotation only text values are regions: numbers are counts of iterations, and each would be a region of its own.
 * The classes have no virtual functions, and Loop and Annotation one member, a pointer (caliper/Annotation.h).
 */
#include "library.h"
#include "regions.h"
#include "shim.h"

static __thread int within __attribute__((tls_model("initial-exec")));

/* The library's own function; found once. */
static void *following(void **stored, const char *symbol) {
    void *found = __atomic_load_n(stored, __ATOMIC_ACQUIRE);
    if (found) return found;
    found = tl_find(symbol);
    __atomic_store_n(stored, found, __ATOMIC_RELEASE);
    return found;
}

/* Calls the next function of this symbol, if there is one. */
#define TL_NEXT(symbol, type, ...) \
    do { \
        static void *stored; \
        type *next; \
        void *found = following(&stored, #symbol); \
        __builtin_memcpy(&next, &found, sizeof next); \
        within++; \
        if (next) next(__VA_ARGS__); \
        within--; \
    } while (0)

/* ---- C ---- */

typedef void named(const char *);

#define TL_NAMED(symbol, note) \
    TL_EXPORT void symbol(const char *name); \
    TL_EXPORT void symbol(const char *name) { \
        if (!within) note(name); \
        TL_NEXT(symbol, named, name); \
    }
TL_NAMED(cali_begin_region, tl_region_begin)
TL_NAMED(cali_end_region, tl_region_end)
TL_NAMED(cali_begin_phase, tl_region_begin)
TL_NAMED(cali_end_phase, tl_region_end)
TL_NAMED(cali_begin_comm_region, tl_region_begin)
TL_NAMED(cali_end_comm_region, tl_region_end)

/* ---- cali::Function, ScopeAnnotation and Loop: the object is the owner of its region ---- */

typedef void constructor(void *, const char *);
typedef void method(void *);

static void begin(const void *object, const char *name) {
    if (!within && name && *name) tl_region_push(name, (uint64_t)(uintptr_t)object);
}
/* A loop that has ended is destroyed after that, and copies have no region. */
static void end(const void *object) {
    if (!within) tl_region_pop_open((uint64_t)(uintptr_t)object);
}

#define TL_CONSTRUCTOR(symbol) \
    TL_EXPORT void symbol(void *object, const char *name); \
    TL_EXPORT void symbol(void *object, const char *name) { \
        begin(object, name); \
        TL_NEXT(symbol, constructor, object, name); \
    }
#define TL_END(symbol) \
    TL_EXPORT void symbol(void *object); \
    TL_EXPORT void symbol(void *object) { \
        end(object); \
        TL_NEXT(symbol, method, object); \
    }
#define TL_CLASS(symbol) \
    TL_CONSTRUCTOR(symbol##C1EPKc) TL_CONSTRUCTOR(symbol##C2EPKc) TL_END(symbol##D1Ev) TL_END(symbol##D2Ev)
TL_CLASS(_ZN4cali8Function)
TL_CLASS(_ZN4cali15ScopeAnnotation)
TL_CLASS(_ZN4cali4Loop)
TL_END(_ZN4cali4Loop3endEv)

/* ---- cali::Annotation: objects of one name are one stack ---- */

/* Owners by the object's implementation, which copies and guards share. One in the place of another is replaced: ranges of what
 * was there before end with what is around them. */
enum { OWNERS = 1024 };
static struct owner {
    uint64_t of, owner;
} owners[OWNERS];

static struct owner *place_of(uint64_t implementation) {
    return &owners[(implementation >> 4 ^ implementation >> 14) % OWNERS];
}

static uint64_t implementation_of(const void *object) {
    return *(const uint64_t *)object;
}

static void set_owner(const void *object, const char *name) {
    uint64_t of = implementation_of(object), owner = 1; /* as tl_path_hash, within the limits of an owner */
    while (*name) owner = (owner ^ (uint8_t)*name++) * 0x100000001b3u;
    struct owner *place = place_of(of);
    __atomic_store_n(&place->of, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&place->owner, owner >> 1 | 4, __ATOMIC_SEQ_CST);
    __atomic_store_n(&place->of, of, __ATOMIC_SEQ_CST);
}

/* 0: not known. */
static uint64_t owner_of(const void *object) {
    uint64_t of = implementation_of(object);
    const struct owner *place = place_of(of);
    uint64_t before = __atomic_load_n(&place->of, __ATOMIC_SEQ_CST), owner = __atomic_load_n(&place->owner, __ATOMIC_SEQ_CST);
    return before == of && __atomic_load_n(&place->of, __ATOMIC_SEQ_CST) == of ? owner : 0;
}

typedef void annotation(void *, const char *, int);
typedef void annotation_with_metadata(void *, const char *, const void *, int);

#define TL_ANNOTATION(symbol) \
    TL_EXPORT void symbol(void *object, const char *name, int options); \
    TL_EXPORT void symbol(void *object, const char *name, int options) { \
        TL_NEXT(symbol, annotation, object, name, options); \
        set_owner(object, name); \
    }
TL_ANNOTATION(_ZN4cali10AnnotationC1EPKci)
TL_ANNOTATION(_ZN4cali10AnnotationC2EPKci)

/* Annotation(const char *, const std::map<const char *, Variant> &, int) */
#define TL_METADATA(symbol) \
    TL_EXPORT void symbol(void *object, const char *name, const void *metadata, int options); \
    TL_EXPORT void symbol(void *object, const char *name, const void *metadata, int options) { \
        TL_NEXT(symbol, annotation_with_metadata, object, name, metadata, options); \
        set_owner(object, name); \
    }
TL_METADATA(_ZN4cali10AnnotationC1EPKcRKSt3mapIS2_NS_7VariantESt4lessIS2_ESaISt4pairIKS2_S4_EEEi)
TL_METADATA(_ZN4cali10AnnotationC2EPKcRKSt3mapIS2_NS_7VariantESt4lessIS2_ESaISt4pairIKS2_S4_EEEi)

/* Annotation &Annotation::begin(const char *), named by its value. */
TL_EXPORT void *_ZN4cali10Annotation5beginEPKc(void *object, const char *value);
TL_EXPORT void *_ZN4cali10Annotation5beginEPKc(void *object, const char *value) {
    uint64_t owner = within ? 0 : owner_of(object);
    if (owner && value && *value) tl_region_push(value, owner);
    TL_NEXT(_ZN4cali10Annotation5beginEPKc, constructor, object, value);
    return object;
}

static void end_annotation(const void *object) {
    uint64_t owner = within ? 0 : owner_of(object);
    if (owner) tl_region_pop_open(owner);
}

#define TL_ANNOTATION_END(symbol) \
    TL_EXPORT void symbol(void *object); \
    TL_EXPORT void symbol(void *object) { \
        end_annotation(object); \
        TL_NEXT(symbol, method, object); \
    }
TL_ANNOTATION_END(_ZN4cali10Annotation3endEv)
TL_ANNOTATION_END(_ZN4cali10Annotation5GuardD1Ev)
TL_ANNOTATION_END(_ZN4cali10Annotation5GuardD2Ev)
