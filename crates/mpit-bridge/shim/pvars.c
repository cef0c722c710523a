/*
 * MPI_T performance variables. Only those on the allow-list are touched: reading all of them is slow, and
 * some may not be read at all in a given configuration. Values are sized by the variable's own datatype.
 *
 * Chosen and read by the flush thread; what is not there yet is looked for again whenever the library has more
 * variables than before. A variable bound to a communicator is read for MPI_COMM_WORLD, one bound to another kind of
 * object (window, file, request ...) not at all: none of those is there when the list is read.
 */
#define _GNU_SOURCE
#include "pvars.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "clock.h"
#include "environment.h"
#include "frame.h"
#include "library.h"
#include "pvar_algorithms.h"
#include "tool.h"

enum {
    VARIABLES = 256,      /* read at most: MVAPICH2 has about 150 that count algorithms */
    PATTERNS = 64,        /* names on the list at most, each with or without a star at its end */
    NAME_BYTES = 128,
    ELEMENTS = 65536,     /* of one variable; longer arrays are left out */
    ELEMENTS_SENT = 1024  /* of one variable and push; others that changed follow next time */
};

enum value_kind { KIND_NONE, KIND_UNSIGNED, KIND_SIGNED, KIND_REAL };

struct variable {
    char name[NAME_BYTES];
    void *handle;
    int class;
    int count;
    int size;
    enum value_kind kind;
    void *values;
    double *sent;
    int next;  /* element at which the next push begins */
    int fresh; /* elements that were never sent */
};

static int ready;
static void *session;
static char patterns[PATTERNS][NAME_BYTES];
static int pattern_found[PATTERNS];
static int patterns_listed;
static struct variable *list;
static int listed;
static int observed; /* variables of the library that were looked at */
static tl_handle world; /* MPI_T takes the address of the bound handle */

/* Open MPI registers the queue variables of ob1 even where another point-to-point layer is in use, and
 * reading them then reads that layer's memory as if it were ob1's. So ob1 must really be the one in use. */
static int layer_in_use(const char *name) {
    if (strncmp(name, "pml_", 4) != 0) return 1;
    void **layer = tl_find("mca_pml");
    Dl_info where;
    if (!layer || !dladdr(layer[0], &where)) return 0;
    char wanted[32] = "mca_";
    const char *end = strchr(name + 4, '_');
    size_t length = end ? (size_t)(end - name) : 0;
    if (length == 0 || length > sizeof wanted - 5) return 0;
    strncat(wanted, name, length);
    return (where.dli_fname && strstr(where.dli_fname, wanted)) || (where.dli_sname && strstr(where.dli_sname, wanted));
}

/* Datatypes that a variable may have (MPI 4.1, 15.3.4): handles of MPICH, of the MPI-5 ABI, and Open MPI's symbols.
 * Text is no value. */
static enum value_kind kind_of(tl_handle type) {
    static const struct {
        const char *openmpi;
        tl_handle mpich, abi;
        enum value_kind kind;
    } known[] = {
        {"ompi_mpi_double", 0x4c00080b, 0x214, KIND_REAL},
        {"ompi_mpi_float", 0x4c00040a, 0x210, KIND_REAL},
        {"ompi_mpi_int", 0x4c000405, 0x209, KIND_SIGNED},
        {"ompi_mpi_long", 0x4c000807, 0x20a, KIND_SIGNED},
        {"ompi_mpi_long_long_int", 0x4c000809, 0x20b, KIND_SIGNED},
        {"ompi_mpi_count", 0x4c000845, 0x202, KIND_SIGNED},
        {"ompi_mpi_unsigned", 0x4c000406, 0x20d, KIND_UNSIGNED},
        {"ompi_mpi_unsigned_long", 0x4c000808, 0x20e, KIND_UNSIGNED},
        {"ompi_mpi_unsigned_long_long", 0x4c000819, 0x20f, KIND_UNSIGNED},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int same = tl_library.family == TL_FAMILY_OPENMPI ? (tl_handle)tl_find_data(known[i].openmpi) == type
                                                          : known[i].mpich == tl_same(type) || known[i].abi == type;
        if (same) return known[i].kind;
    }
    return KIND_NONE;
}

static double value_at(const struct variable *v, int i) {
    const char *at = (const char *)v->values + (size_t)i * (size_t)v->size;
    uint64_t wide = 0;
    double real;
    float small;
    if (v->kind == KIND_REAL && v->size == sizeof real) {
        memcpy(&real, at, sizeof real);
        return real;
    }
    if (v->kind == KIND_REAL) {
        memcpy(&small, at, sizeof small);
        return (double)small;
    }
    memcpy(&wide, at, (size_t)v->size); /* little-endian, as are all machines with these libraries */
    if (v->kind == KIND_SIGNED && v->size == 4) return (double)(int32_t)wide;
    if (v->kind == KIND_SIGNED && v->size == 8) return (double)(int64_t)wide;
    return (double)wide;
}

static void release(struct variable *v) {
    tl_tool.handle_free(session, &v->handle);
    free(v->values);
    free(v->sent);
}

/* Takes the variable with this number, if it can be read at any time on MPI_COMM_WORLD or on nothing. */
static int take(int index, const char *name, int class, tl_handle type, int bind, int continuous) {
    struct variable v = {.class = class};
    int bound = bind == tl_library.bind_comm;
    if (!bound && bind != tl_library.bind_none) return 0;
    snprintf(v.name, sizeof v.name, "%s", name);
    v.kind = kind_of(type);
    if (v.kind == KIND_NONE || tl_library.type_size(type, &v.size) != 0 || (v.size != 4 && v.size != 8)) return 0;
    world = tl_library.comm_world;
    if (tl_tool.handle_alloc(session, index, bound ? &world : NULL, &v.handle, &v.count) != 0) return 0;
    if (v.count >= 1 && v.count <= ELEMENTS) {
        /* Space for 8 bytes each: a library that sizes wrongly must not write beyond. */
        v.values = calloc((size_t)v.count, 8);
        v.sent = calloc((size_t)v.count, sizeof *v.sent);
    }
    if (!v.values || !v.sent || (!continuous && tl_tool.start(session, v.handle) != 0)) {
        release(&v);
        return 0;
    }
    v.fresh = v.count;
    if (v.kind == KIND_UNSIGNED && v.count == 1) tl_pvar_algorithms_learn(listed, name);
    list[listed++] = v;
    return 1;
}

static int matches(const char *name, const char *pattern) {
    size_t length = strlen(pattern);
    if (length > 0 && pattern[length - 1] == '*') return strncmp(name, pattern, length - 1) == 0;
    return strcmp(name, pattern) == 0;
}

static void look_at(int index) {
    char name[NAME_BYTES] = "", text[256];
    int name_length = sizeof name, text_length = sizeof text;
    int verbosity, class, bind, read_only, continuous, atomic;
    tl_handle type = 0;
    void *enumeration = NULL;
    if (tl_tool.pvar_get_info(index, name, &name_length, &verbosity, &class, &type, &enumeration, text, &text_length,
                              &bind, &read_only, &continuous, &atomic) != 0)
        return;
    for (int i = 0; i < patterns_listed; i++) {
        if (!matches(name, patterns[i])) continue;
        if (listed < VARIABLES && layer_in_use(name) && take(index, name, class, tl_same(type), bind, continuous))
            pattern_found[i] = 1;
        return;
    }
}

/* Looks at the variables that the library did not have before. */
static void look_for_more(void) {
    int count = 0;
    if (tl_tool.pvar_get_num(&count) != 0) return;
    for (; observed < count; observed++) look_at(observed);
}

static int start(void) {
    if (ready) return 1;
    if (!list && !(list = calloc(VARIABLES, sizeof *list))) return 0;
    if (!tl_tool_open() || !tl_tool_read_begin()) return 0;
    ready = tl_tool.session_create(&session) == 0;
    tl_tool_read_end();
    return ready;
}

static void release_all(void) {
    if (!ready || !tl_tool_read_begin()) return;
    while (listed > 0) release(&list[--listed]);
    tl_tool_read_end();
}

void tl_pvars_choose(const char *names) {
    release_all();
    tl_pvar_algorithms_evict();
    observed = 0;
    patterns_listed = 0;
    while (*names && patterns_listed < PATTERNS) {
        size_t length = strcspn(names, ", ");
        if (length > 0 && length < NAME_BYTES) {
            memcpy(patterns[patterns_listed], names, length);
            patterns[patterns_listed][length] = '\0';
            pattern_found[patterns_listed++] = 0;
        }
        names += length;
        names += strspn(names, ", ");
    }
    if (patterns_listed == 0 || !start() || !tl_tool_read_begin()) return;
    look_for_more();
    tl_tool_read_end();
    for (int i = 0; i < patterns_listed; i++)
        if (!pattern_found[i]) tl_debug("performance variable %s: not here, or not to be read", patterns[i]);
}

const char *tl_pvars_standard(void) {
    return tl_library.family == TL_FAMILY_OPENMPI ? "pml_ob1_unexpected_msgq_length,pml_ob1_posted_recvq_length" : "";
}

static uint8_t class_on_wire(int class) {
    enum { CLASSES = 10 };
    int index = class - tl_library.pvar_class_first;
    return index >= 0 && index < CLASSES ? (uint8_t)index : CLASSES - 1;
}

static void put_variable(struct tl_frame *frame, struct variable *v, int everything) {
    if (frame->length + 16 + NAME_BYTES > TL_FRAME_LIMIT) return;
    size_t start_at = frame->length;
    uint16_t length = (uint16_t)strlen(v->name);
    tl_put_u16(frame, length);
    tl_put(frame, v->name, length);
    tl_put_u16(frame, class_on_wire(v->class));
    size_t count_at = frame->length;
    tl_put_u32(frame, 0);
    uint32_t count = 0;
    for (int n = 0; n < v->count && count < ELEMENTS_SENT && frame->length + 12 <= TL_FRAME_LIMIT; n++) {
        int i = v->next;
        double value = value_at(v, i);
        v->next = i + 1 < v->count ? i + 1 : 0;
        if (v->fresh > 0) v->fresh--;
        else if (!everything && value == v->sent[i]) continue;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        tl_put_u32(frame, (uint32_t)i);
        tl_put_u64(frame, bits);
        v->sent[i] = value;
        count++;
    }
    tl_patch_u32(frame, count_at, count);
    if (count == 0) frame->length = start_at;
}

void tl_pvars_push(int everything, int patience_ms) {
    static struct tl_frame frame;
    if (!ready) return;
    tl_frame_begin(&frame, TL_PVARS);
    tl_put_u64(&frame, (uint64_t)tl_clock(CLOCK_MONOTONIC));
    size_t empty = frame.length;
    if (!tl_tool_read_begin()) return;
    look_for_more();
    for (int i = 0; i < listed; i++)
        if (tl_tool.read(session, list[i].handle, list[i].values) == 0) put_variable(&frame, &list[i], everything);
    tl_tool_read_end();
    if (frame.length > empty && !tl_channel_send(&frame, patience_ms))
        for (int i = 0; i < listed; i++) list[i].fresh = list[i].count;
}

int tl_pvars_read(int variable, double *value) {
    if (!ready || variable >= listed) return 0;
    struct variable *v = &list[variable];
    if (!tl_tool_read_begin()) return 0;
    int is_read = tl_tool.read(session, v->handle, v->values) == 0;
    tl_tool_read_end();
    if (is_read) *value = value_at(v, 0);
    return is_read;
}

void tl_pvars_stop(void) {
    if (ready) {
        tl_pvar_algorithms_evict();
        release_all();
        if (tl_tool_read_begin()) {
            tl_tool.session_free(&session);
            tl_tool_read_end();
        }
        ready = 0;
    }
    tl_tool_end();
}

uint64_t tl_pvars_missing(void) {
    uint64_t missing = 0;
    for (int i = 0; i < patterns_listed; i++) missing += !pattern_found[i];
    return missing;
}
