/*
 * A tool of PMPI that is linked into the program: the dynamic linker takes its MPI_X before those of any preloaded object, and it
 * goes on with PMPI_X, so that no such call can be counted from outside. Which ones they are is reported, so that a user who misses
 * them learns why. Changes nothing of what the program calls.
 */
#define _GNU_SOURCE
#include "program_tool.h"

#include <stdio.h>
#include <string.h>

#include "frame.h"
#include "names.h"
#include "objects.h"
#include "operations.h"

enum { NAMED = 3 }; /* functions by name in the text; more are counted */

static const struct {
    const char *c, *fortran;
} operations[] = {
#define TL_LIST(number, Name, name, parameters, note) {#Name, #name},
    TL_OPERATIONS(TL_LIST)
#undef TL_LIST
};

struct tool {
    int functions;
    size_t length;
    char text[192];
};
static struct tool found;

/* NAME, perhaps with what a variant of it has at its end. */
static int is_named(const char *symbol, const char *name, const char *more) {
    const size_t length = strlen(name);
    return strncmp(symbol, name, length) == 0 && (!symbol[length] || strcmp(symbol + length, more) == 0);
}

static int is_operation(const char *symbol) {
    const int is_c = strncmp(symbol, "MPI_", 4) == 0, is_fortran = strncmp(symbol, "mpi_", 4) == 0;
    for (size_t i = 0; (is_c || is_fortran) && i < sizeof operations / sizeof *operations; i++)
        if (is_c ? is_named(symbol + 4, operations[i].c, "_c") : is_named(symbol + 4, operations[i].fortran, "_")) return 1;
    return 0;
}

static void add(const char *symbol, void *data) {
    struct tool *tool = data;
    if (!is_operation(symbol) || tool->functions++ >= NAMED) return;
    const size_t space = sizeof tool->text - tool->length;
    const int written = snprintf(tool->text + tool->length, space, "%s%s", tool->length ? ", " : "", symbol);
    if (written > 0 && (size_t)written < space) tool->length += (size_t)written;
    else tool->text[tool->length] = '\0';
}

static void notice_start(const char *symbol, void *data) {
    if (strcmp(symbol, "MPI_Init") == 0 || strcmp(symbol, "MPI_Init_thread") == 0 || strcmp(symbol, "mpi_init_") == 0 ||
        strcmp(symbol, "mpi_init_thread_") == 0)
        *(int *)data = 1;
}

struct visitor {
    void (*visit)(const char *name, void *data);
    void *data;
};

static int visit_program(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    const struct visitor *visitor = data;
    struct tl_object object;
    if (tl_object_read(&object, info)) tl_object_functions(&object, visitor->visit, visitor->data);
    return 1; /* the program is the first */
}

void tl_program_tool_look(void) {
    struct visitor visitor = {add, &found};
    char setting[256];
    dl_iterate_phdr(visit_program, &visitor);
    if (!found.functions) return;
    if (found.functions > NAMED)
        snprintf(found.text + found.length, sizeof found.text - found.length, " and %d more", found.functions - NAMED);
    snprintf(setting, sizeof setting, "pmpi_tool=%s", found.text);
    tl_name_add(TL_NAME_SETTING, 0, 0, 0, setting);
}

const char *tl_program_tool(void) {
    return found.functions ? found.text : NULL;
}

int tl_program_starts_mpi(void) {
    int starts = 0;
    struct visitor visitor = {notice_start, &starts};
    dl_iterate_phdr(visit_program, &visitor);
    return starts;
}
