/*
 * MPI_T performance variables. Only those on the allow-list are touched: reading all of them is slow, and
 * some may not be read at all in a given configuration. Values are sized by the variable's own datatype.
 *
 * MPI_T_init_thread is asked for the thread level that the program has: Open MPI 4.1 takes its argument as
 * the new level of the whole library. It opens every component there (tens of milliseconds), so it is done
 * once, inside MPI_Init, and only when an agent is connected. MPI_T_finalize goes before MPI_Finalize:
 * Open MPI 4.1 crashes otherwise.
 */
#define _GNU_SOURCE
#include "pvars.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "clock.h"
#include "shim.h"

enum {
    VARIABLES = 32,       /* on the list at most */
    NAME_BYTES = 128,
    ELEMENTS = 65536,     /* of one variable; longer arrays are left out */
    ELEMENTS_SENT = 1024, /* of one variable and push: the first that changed; others follow next time */
    OPENMPI_BIND_COMM = 1,
    MPICH_BIND_NONE = 9700,
    MPICH_BIND_COMM = 9701
};

enum value_kind { KIND_UNSIGNED, KIND_SIGNED, KIND_REAL };

struct variable {
    char name[NAME_BYTES];
    void *handle;
    int class;
    int count;
    int size;
    enum value_kind kind;
    int started;
    void *values;
    double *sent;
    int fresh; /* nothing sent yet */
};

static struct {
    int (*init_thread)(int, int *);
    int (*finalize)(void);
    int (*get_num)(int *);
    int (*get_info)(int, char *, int *, int *, int *, tl_handle *, void *, char *, int *, int *, int *, int *, int *);
    int (*session_create)(void *);
    int (*session_free)(void *);
    int (*handle_alloc)(void *, int, void *, void *, int *);
    int (*handle_free)(void *, void *);
    int (*start)(void *, void *);
    int (*read)(void *, void *, void *);
} tool;

static int ready;
static void *session;
static struct variable list[VARIABLES];
static int listed;
static uint64_t missing;
static tl_handle world; /* MPI_T takes the address of the bound handle */

static int find(void *target, const char *symbol) {
    void *found = tl_find(symbol);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

static int find_tool(void) {
    return find(&tool.init_thread, "PMPI_T_init_thread") && find(&tool.finalize, "PMPI_T_finalize") &&
           find(&tool.get_num, "PMPI_T_pvar_get_num") && find(&tool.get_info, "PMPI_T_pvar_get_info") &&
           find(&tool.session_create, "PMPI_T_pvar_session_create") &&
           find(&tool.session_free, "PMPI_T_pvar_session_free") &&
           find(&tool.handle_alloc, "PMPI_T_pvar_handle_alloc") &&
           find(&tool.handle_free, "PMPI_T_pvar_handle_free") && find(&tool.start, "PMPI_T_pvar_start") &&
           find(&tool.read, "PMPI_T_pvar_read");
}

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

static enum value_kind kind_of(tl_handle type) {
    static const struct {
        const char *openmpi;
        tl_handle mpich;
        enum value_kind kind;
    } known[] = {
        {"ompi_mpi_double", 0x4c00080b, KIND_REAL},
        {"ompi_mpi_int", 0x4c000405, KIND_SIGNED},
        {"ompi_mpi_long", 0x4c000807, KIND_SIGNED},
        {"ompi_mpi_long_long_int", 0x4c000809, KIND_SIGNED},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int same = tl_library.family == TL_FAMILY_OPENMPI
                       ? (tl_handle)dlsym(RTLD_DEFAULT, known[i].openmpi) == type
                       : known[i].mpich == tl_same(type);
        if (same) return known[i].kind;
    }
    return KIND_UNSIGNED;
}

static double value_at(const struct variable *v, int i) {
    const char *at = (const char *)v->values + (size_t)i * (size_t)v->size;
    uint64_t wide = 0;
    double real;
    if (v->kind == KIND_REAL && v->size == 8) {
        memcpy(&real, at, sizeof real);
        return real;
    }
    memcpy(&wide, at, (size_t)v->size); /* little-endian, as are all machines with these libraries */
    if (v->kind == KIND_SIGNED && v->size == 4) return (double)(int32_t)wide;
    if (v->kind == KIND_SIGNED && v->size == 8) return (double)(int64_t)wide;
    return (double)wide;
}

static void release(struct variable *v) {
    tool.handle_free(session, &v->handle);
    free(v->values);
    free(v->sent);
}

/* Takes the variable with this number, if it can be read at any time on MPI_COMM_WORLD or on nothing. */
static int take(int index, const char *name, int class, tl_handle type, int bind, int continuous) {
    struct variable v = {.class = class, .fresh = 1};
    int bound = bind == OPENMPI_BIND_COMM || bind == MPICH_BIND_COMM;
    if (!bound && bind != 0 && bind != MPICH_BIND_NONE) return 0;
    snprintf(v.name, sizeof v.name, "%s", name);
    if (tl_library.type_size(type, &v.size) != 0 || v.size < 1 || v.size > 8) return 0;
    v.kind = kind_of(type);
    world = tl_library.comm_world;
    if (tool.handle_alloc(session, index, bound ? &world : NULL, &v.handle, &v.count) != 0) return 0;
    if (v.count >= 1 && v.count <= ELEMENTS) {
        /* Space for 8 bytes each: a library that sizes wrongly must not write beyond. */
        v.values = calloc((size_t)v.count, 8);
        v.sent = calloc((size_t)v.count, sizeof *v.sent);
    }
    if (!v.values || !v.sent || (!continuous && tool.start(session, v.handle) != 0)) {
        release(&v);
        return 0;
    }
    list[listed++] = v;
    return 1;
}

static int choose(const char *wanted) {
    int count = 0;
    if (listed >= VARIABLES || !layer_in_use(wanted) || tool.get_num(&count) != 0) return 0;
    for (int i = 0; i < count; i++) {
        char name[NAME_BYTES], text[256];
        int name_length = sizeof name, text_length = sizeof text;
        int verbosity, class, bind, read_only, continuous, atomic;
        tl_handle type = 0;
        void *enumeration = NULL;
        if (tool.get_info(i, name, &name_length, &verbosity, &class, &type, &enumeration, text, &text_length, &bind,
                          &read_only, &continuous, &atomic) != 0)
            continue;
        if (strcmp(name, wanted) == 0) return take(i, name, class, tl_same(type), bind, continuous);
    }
    return 0;
}

void tl_pvars_choose(const char *names) {
    if (!ready) return;
    while (listed > 0) release(&list[--listed]);
    missing = 0;
    while (*names) {
        size_t length = strcspn(names, ", ");
        char name[NAME_BYTES];
        if (length > 0 && length < sizeof name) {
            memcpy(name, names, length);
            name[length] = '\0';
            if (!choose(name)) {
                missing++;
                tl_debug("performance variable %s: not here", name);
            }
        }
        names += length;
        names += strspn(names, ", ");
    }
}

const char *tl_pvars_standard(void) {
    return tl_library.family == TL_FAMILY_OPENMPI ? "pml_ob1_unexpected_msgq_length,pml_ob1_posted_recvq_length" : "";
}

int tl_pvars_start(const char *names) {
    int level = 0, provided = 0;
    if (!*names || !find_tool() || tl_library.query_thread(&level) != 0) return 0;
    /* Other libraries than Open MPI promise concurrent reading only to programs that asked for threads. */
    if (tl_library.family != TL_FAMILY_OPENMPI && level < 3) return 0;
    if (tool.init_thread(level, &provided) != 0) return 0;
    if (tool.session_create(&session) != 0) {
        tool.finalize();
        return 0;
    }
    ready = 1;
    tl_pvars_choose(names);
    return 1;
}

/* MPI_T numbers its classes in the same order everywhere; MPICH starts at 240. */
static uint8_t class_on_wire(int class) {
    enum { MPICH_FIRST = 240, CLASSES = 10 };
    int index = class >= MPICH_FIRST ? class - MPICH_FIRST : class;
    return index >= 0 && index < CLASSES ? (uint8_t)index : CLASSES - 1;
}

static void put_variable(struct tl_frame *frame, struct variable *v, int everything) {
    if (frame->length + 16 + NAME_BYTES > TL_FRAME_LIMIT) return;
    size_t start = frame->length;
    uint16_t length = (uint16_t)strlen(v->name);
    tl_put_u16(frame, length);
    tl_put(frame, v->name, length);
    tl_put_u16(frame, class_on_wire(v->class));
    size_t count_at = frame->length;
    tl_put_u32(frame, 0);
    uint32_t count = 0;
    for (int i = 0; i < v->count && count < ELEMENTS_SENT && frame->length + 12 <= TL_FRAME_LIMIT; i++) {
        double value = value_at(v, i);
        if (!v->fresh && !everything && value == v->sent[i]) continue;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        tl_put_u32(frame, (uint32_t)i);
        tl_put_u64(frame, bits);
        v->sent[i] = value;
        count++;
    }
    v->fresh = 0;
    tl_patch_u32(frame, count_at, count);
    if (count == 0) frame->length = start;
}

void tl_pvars_push(int everything, int patience_ms) {
    static struct tl_frame frame;
    if (!ready || listed == 0) return;
    tl_frame_begin(&frame, TL_PVARS);
    tl_put_u64(&frame, (uint64_t)tl_clock(CLOCK_MONOTONIC));
    size_t empty = frame.length;
    for (int i = 0; i < listed; i++)
        if (tool.read(session, list[i].handle, list[i].values) == 0) put_variable(&frame, &list[i], everything);
    if (frame.length > empty && !tl_channel_send(&frame, patience_ms))
        for (int i = 0; i < listed; i++) list[i].fresh = 1;
}

void tl_pvars_stop(void) {
    if (!ready) return;
    while (listed > 0) release(&list[--listed]);
    tool.session_free(&session);
    tool.finalize();
    ready = 0;
}

uint64_t tl_pvars_missing(void) {
    return missing;
}
