/*
 * NVTX 3 is a header: a program that uses it calls no function that another object could stand before. At its first use the
 * header opens the object that NVTX_INJECTION64_PATH names, calls InitializeInjectionNvtx2 there with a function that answers
 * with tables, and from then on calls what has been entered in these tables. So this object enters its own functions there.
 * Each library that was built with the header has tables of its own and does the same. NVTX 2's library does it as well.
 *
 * The variable is set where it is not, at the start of a program that is linked to MPI and in MPI_Init; throughline-exec sets it for
 * the others. A user with another tool (Nsight Systems) has named it there, and it stays.
 *
 * Constants and layouts: NVTX 3's headers nvToolsExt.h and nvtxDetail/nvtxTypes.h, which promise that they stay.
 */
#define _GNU_SOURCE
#include "nvtx.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "environment.h"
#include "frame.h"
#include "memory.h"
#include "regions.h"
#include "shim.h"

static const char variable[] = "NVTX_INJECTION64_PATH", own_names[] = "libthroughline-";

__thread int tl_nvtx_inside __attribute__((tls_model("initial-exec")));

/* ---- texts ---- */

/* What a handle of a domain or of a registered string points to here. Never freed: programs register what they use. */
struct text {
    char bytes[TL_NAME_LIMIT + 1];
};
enum { TEXTS_LIMIT = 2048 }; /* more than there are regions by four times; ranges by further ones have no name */

static struct text nameless = {"(nvtx)"};

static const struct text *make_text(const char *from) {
    static uint64_t count;
    if (!from || !*from || __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) >= TEXTS_LIMIT) return &nameless;
    size_t length = strnlen(from, TL_NAME_LIMIT);
    char *made = tl_memory(length + 1);
    if (!made) return &nameless;
    memcpy(made, from, length);
    return (const struct text *)made;
}

/* A wide text (4 bytes a character on Linux) in UTF-8, as far as it fits. */
static const char *narrow(const wchar_t *from, char to[TL_NAME_LIMIT + 1]) {
    size_t at = 0;
    for (; from && *from && at + 4 <= TL_NAME_LIMIT; from++) {
        uint32_t c = (uint32_t)*from;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd; /* none of Unicode's characters */
        int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
        to[at++] = (char)(first[more] | c >> 6 * more);
        while (more-- > 0) to[at++] = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
    to[at] = '\0';
    return to;
}

/* nvtxEventAttributes_t of version 2 and later (48 bytes). */
struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
_Static_assert(sizeof(struct attributes) == 48, "NVTX_EVENT_ATTRIB_STRUCT_SIZE");
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };

static const char *message_of(const struct attributes *event, char space[TL_NAME_LIMIT + 1]) {
    if (!event || event->size < sizeof *event || !event->message) return NULL;
    switch (event->message_type) {
    case MESSAGE_ASCII:
    case MESSAGE_REGISTERED: return event->message; /* a registered one is a text of ours */
    case MESSAGE_UNICODE: return narrow(event->message, space);
    default: return NULL;
    }
}

/* ---- ranges ---- */

/* Of a domain of the program's own, ranges are named `domain:message`, as libraries have ranges of one name. */
static const char *in_domain(const struct text *domain, const char *message, char space[2 * TL_NAME_LIMIT + 2]) {
    if (!message || !*message) message = nameless.bytes;
    if (!domain) return message;
    snprintf(space, 2 * TL_NAME_LIMIT + 2, "%s:%s", domain->bytes, message);
    return space;
}

static uint64_t owner_of(const struct text *domain) {
    return domain ? (uint64_t)(uintptr_t)domain : TL_NVTX_DEFAULT;
}

static int push(const struct text *domain, const char *message) {
    char space[2 * TL_NAME_LIMIT + 2];
    return tl_nvtx_inside ? 0 : tl_region_push(in_domain(domain, message, space), owner_of(domain));
}

static int pop(const struct text *domain) {
    return tl_nvtx_inside ? 0 : tl_region_pop(owner_of(domain));
}

static uint64_t start(const struct text *domain, const char *message) {
    char space[2 * TL_NAME_LIMIT + 2];
    return tl_region_start(in_domain(domain, message, space));
}

static int push_ascii(const char *message) {
    return push(NULL, message);
}
static int push_wide(const wchar_t *message) {
    char space[TL_NAME_LIMIT + 1];
    return push(NULL, narrow(message, space));
}
static int domain_push(const struct text *domain, const struct attributes *event) {
    char space[TL_NAME_LIMIT + 1];
    return push(domain, message_of(event, space));
}
static int push_event(const struct attributes *event) {
    return domain_push(NULL, event);
}
static int pop_default(void) {
    return pop(NULL);
}
static uint64_t start_ascii(const char *message) {
    return start(NULL, message);
}
static uint64_t start_wide(const wchar_t *message) {
    char space[TL_NAME_LIMIT + 1];
    return start(NULL, narrow(message, space));
}
static uint64_t domain_start(const struct text *domain, const struct attributes *event) {
    char space[TL_NAME_LIMIT + 1];
    return start(domain, message_of(event, space));
}
static uint64_t start_event(const struct attributes *event) {
    return domain_start(NULL, event);
}
static void stop(uint64_t id) {
    tl_region_stop(id);
}
static void domain_stop(const struct text *domain, uint64_t id) {
    (void)domain;
    tl_region_stop(id);
}

/* ---- names that the program makes ---- */

static const struct text *domain_create(const char *name) {
    return make_text(name);
}
static const struct text *domain_create_wide(const wchar_t *name) {
    char space[TL_NAME_LIMIT + 1];
    return make_text(narrow(name, space));
}
static const struct text *register_string(const struct text *domain, const char *text) {
    (void)domain;
    return make_text(text);
}
static const struct text *register_string_wide(const struct text *domain, const wchar_t *text) {
    char space[TL_NAME_LIMIT + 1];
    (void)domain;
    return make_text(narrow(text, space));
}

/* ---- the tables ---- */

enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 }; /* NVTX_ETID_CALLBACKS, NVTX_CB_MODULE_CORE, ..._CORE2 */

typedef void function(void);
struct callbacks {
    size_t bytes;
    int (*module)(int module, function ****table, unsigned *size);
};

/* Places in the modules' tables: NvtxCallbackIdCore and NvtxCallbackIdCore2. */
#define ENTRY(place, name) {place, (function *)name}
static const struct entry {
    unsigned place;
    function *entered;
} core[] = {ENTRY(4, start_event), ENTRY(5, start_ascii), ENTRY(6, start_wide), ENTRY(7, stop), ENTRY(8, push_event),
            ENTRY(9, push_ascii), ENTRY(10, push_wide), ENTRY(11, pop_default)},
  core2[] = {ENTRY(2, domain_start), ENTRY(3, domain_stop), ENTRY(4, domain_push), ENTRY(5, pop), ENTRY(10, register_string),
             ENTRY(11, register_string_wide), ENTRY(12, domain_create), ENTRY(13, domain_create_wide)};

static int enter(const struct callbacks *callbacks, int module, const struct entry *entries, size_t count) {
    function ***table = NULL;
    unsigned size = 0;
    if (!callbacks->module(module, &table, &size) || !table) return 0;
    for (size_t i = 0; i < count; i++)
        if (entries[i].place < size && table[entries[i].place]) *table[entries[i].place] = entries[i].entered;
    return 1;
}

/* Whether calls come to this object: it is preloaded, and not only opened because a process inherited the variable. */
static int is_first(void) {
    void *global = dlopen(NULL, RTLD_LAZY); /* RTLD_DEFAULT would look into this object, too, if it was only opened */
    const void *found = global ? dlsym(global, "throughline_shim_region_begin") : NULL;
    Dl_info of, own;
    if (global) dlclose(global);
    return found && dladdr(found, &of) && dladdr(variable, &own) && of.dli_fbase == own.dli_fbase;
}

TL_EXPORT int InitializeInjectionNvtx2(const void *(*tables)(uint32_t));
TL_EXPORT int InitializeInjectionNvtx2(const void *(*tables)(uint32_t)) {
    const struct callbacks *callbacks = tables && !tl_switched_off() && is_first() ? tables(TABLE_CALLBACKS) : NULL;
    if (!callbacks || callbacks->bytes < sizeof *callbacks || !callbacks->module) return 0;
    int entered = enter(callbacks, MODULE_CORE, core, sizeof core / sizeof *core);
    return enter(callbacks, MODULE_CORE2, core2, sizeof core2 / sizeof *core2) || entered;
}

/* ---- the variable ---- */

void tl_nvtx_offer(void) {
    char path[PATH_MAX];
    Dl_info own;
    const char *set = getenv(variable), *slash = set ? strrchr(set, '/') : NULL;
    if (tl_switched_off() || (set && strncmp(slash ? slash + 1 : set, own_names, sizeof own_names - 1) != 0)) return;
    if (!is_first() || !dladdr(variable, &own) || !own.dli_fname || !realpath(own.dli_fname, path)) return;
    setenv(variable, path, 1);
}

/* Before main, as a range may come before MPI_Init. Not in shells and other programs, whose environment is none of ours. */
__attribute__((constructor)) static void at_load(void) {
    if (dlsym(RTLD_NEXT, "PMPI_Init")) tl_nvtx_offer();
}
