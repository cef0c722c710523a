/*
 * Two MPI libraries in one process: parts of a program, loaded with dlopen, that each bring their own. Without the
 * shim each part is bound to its own library; with it all of them call the same wrapper, which then has to go on
 * with the library of its caller. Found by the caller's address, as the dynamic linker would have found it: in
 * the libraries that the calling object needs. Must not record: one set of handles would be read as the other's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "caller_library.h"
#include "environment.h"
#include "form.h"
#include "library.h"
#include "operations.h"
#include "threads.h"

void *tl_next_functions[TL_FORM_COUNT][TL_OPERATION_LIMIT];

static const char *const mpi_names[TL_OPERATION_LIMIT] = {
#define TL_NAME(number, Name, name, parameters, note) [TL_OP_##Name] = #Name,
    TL_OPERATIONS(TL_NAME)
#undef TL_NAME
};
static const char *const fortran_names[TL_OPERATION_LIMIT] = {
#define TL_NAME(number, Name, name, parameters, note) [TL_OP_##Name] = #name,
    TL_OPERATIONS(TL_NAME)
#undef TL_NAME
};

int tl_several_libraries;

struct libraries {
    void *first;
    int several;
};

/* Objects may find the same library through what they need: it is the function's address that counts. */
static int note_library(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct libraries *libraries = data;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash, "/lib", 4) != 0 || !strstr(slash, "mpi")) return 0;
    void *object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!object) return 0;
    void *found = dlsym(object, "PMPI_Initialized");
    dlclose(object);
    if (found && libraries->first && found != libraries->first) libraries->several = 1;
    if (found) libraries->first = found;
    return libraries->several;
}

void tl_caller_library_check(void) {
    struct libraries libraries = {NULL, 0};
    if (tl_several_libraries) return;
    dl_iterate_phdr(note_library, &libraries);
    if (!libraries.several) return;
    tl_debug("two MPI libraries in this process: recording ends");
    tl_recording_stop();
    __atomic_store_n(&tl_several_libraries, 1, __ATOMIC_RELEASE);
    /* What was found so far was right for the first one's callers only. */
    for (int form = 0; form < TL_FORM_COUNT; form++)
        for (int operation = 0; operation < TL_OPERATION_LIMIT; operation++)
            __atomic_store_n(&tl_next_functions[form][operation], NULL, __ATOMIC_RELEASE);
}

static int is_wrapper(const void *function) {
    Dl_info of, own;
    return dladdr(function, &of) && dladdr(&tl_several_libraries, &own) && of.dli_fbase == own.dli_fbase;
}

void *tl_find_for(const char *symbol, const void *caller) {
    Dl_info from;
    if (!__atomic_load_n(&tl_several_libraries, __ATOMIC_ACQUIRE)) return tl_find(symbol);
    if (!dladdr(caller, &from) || !from.dli_fname) return tl_find(symbol);
    void *object = dlopen(from.dli_fname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    void *found = object ? dlsym(object, symbol) : NULL;
    if (object) dlclose(object);
    /* The program itself looks through everything that is global, and the wrapper comes first there. */
    return found && !is_wrapper(found) ? found : tl_find(symbol);
}

void *tl_next_find(enum tl_form form, int operation, const void *caller) {
    char symbol[64];
    switch (form) {
    case TL_FORM_C: snprintf(symbol, sizeof symbol, "MPI_%s", mpi_names[operation]); break;
    case TL_FORM_LARGE: snprintf(symbol, sizeof symbol, "MPI_%s_c", mpi_names[operation]); break;
    case TL_FORM_FORTRAN: snprintf(symbol, sizeof symbol, "mpi_%s_", fortran_names[operation]); break;
    case TL_FORM_F08TS: snprintf(symbol, sizeof symbol, "mpi_%s_f08ts_", fortran_names[operation]); break;
    case TL_FORM_F08TS_LARGE: snprintf(symbol, sizeof symbol, "mpi_%s_f08ts_large_", fortran_names[operation]); break;
    case TL_FORM_F08TS_C: snprintf(symbol, sizeof symbol, "mpi_%s_c_f08ts_", fortran_names[operation]); break;
    default: snprintf(symbol, sizeof symbol, "mpi_%s_f08_", fortran_names[operation]); break;
    }
    void *found = tl_find_for(symbol, caller);
    if (!tl_several_libraries) __atomic_store_n(&tl_next_functions[form][operation], found, __ATOMIC_RELEASE);
    return found;
}
