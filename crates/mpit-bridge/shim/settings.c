/*
 * Control variables that decide which algorithm a collective uses: reported once, by name and value, and known to
 * algorithms.c where one forces an algorithm. Other variables are not read: MPI libraries have a thousand.
 *
 * Open MPI's are queried from its own registry (mca_base_var_find), which needs no MPI_T; a forced algorithm holds only
 * with coll_tuned_use_dynamic_rules. Other libraries' are queried from MPI_T, where the environment has such a variable; MPICH
 * numbers its algorithms without names there, so the name is the text that the environment gave, else the number.
 */
#define _GNU_SOURCE
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "algorithms.h"
#include "library.h"
#include "names.h"
#include "operations.h"
#include "tool.h"
#include "wire.h"

enum {
    CHOICES = 10,
    NAME_BYTES = 192,
    VALUE_BYTES = 4096, /* of a variable that is text */
    VARIABLES_LIMIT = 8192 /* looked at; the largest library has 1,200 */
};

static void report(const char *name, const char *value) {
    char text[NAME_BYTES + 64];
    snprintf(text, sizeof text, "%s=%s", name, value);
    tl_name_add(TL_NAME_SETTING, 0, 0, 0, text);
}

/* ---- Open MPI ---- */

/* By the value of coll_tuned_OPERATION_algorithm: the function that it requests, the same in 4.1 and 5.0
 * (ompi_info --param coll tuned --level 9). 0 leaves the choice to the library. */
static const struct {
    int operation;
    const char *name;
    const char *functions[CHOICES];
} tuned[] = {
    {TL_OP_Allgather, "allgather",
     {"", "basic_linear", "bruck", "recursivedoubling", "ring", "neighborexchange", "two_procs", "sparbit"}},
    {TL_OP_Allgatherv, "allgatherv", {"", "basic_default", "bruck", "ring", "neighborexchange", "two_procs", "sparbit"}},
    {TL_OP_Allreduce, "allreduce",
     {"", "basic_linear", "nonoverlapping", "recursivedoubling", "ring", "ring_segmented", "redscat_allgather"}},
    {TL_OP_Alltoall, "alltoall", {"", "basic_linear", "pairwise", "bruck", "linear_sync", "two_procs"}},
    {TL_OP_Alltoallv, "alltoallv", {"", "basic_linear", "pairwise"}},
    {TL_OP_Barrier, "barrier",
     {"", "basic_linear", "doublering", "recursivedoubling", "bruck", "two_procs", "tree"}},
    {TL_OP_Bcast, "bcast",
     {"", "basic_linear", "chain", "pipeline", "split_bintree", "bintree", "binomial", "knomial", "scatter_allgather",
      "scatter_allgather_ring"}},
    {TL_OP_Exscan, "exscan", {"", "linear", "recursivedoubling"}},
    {TL_OP_Gather, "gather", {"", "basic_linear", "binomial", "linear_sync"}},
    {TL_OP_Reduce, "reduce",
     {"", "basic_linear", "chain", "pipeline", "binary", "binomial", "in_order_binary", "redscat_gather"}},
    {TL_OP_Reduce_scatter, "reduce_scatter", {"", "nonoverlapping", "basic_recursivehalving", "ring", "butterfly"}},
    {TL_OP_Reduce_scatter_block, "reduce_scatter_block",
     {"", "basic_linear", "recursivedoubling", "recursivehalving", "butterfly"}},
    {TL_OP_Scan, "scan", {"", "linear", "recursivedoubling"}},
    {TL_OP_Scatter, "scatter", {"", "basic_linear", "binomial", "linear_nb"}},
};

static struct {
    int (*find)(const char *project, const char *framework, const char *component, const char *name);
    int (*value)(int index, void *address, void *source, void *file);
} registry;

static const void *openmpi_value(const char *name) {
    const void *at = NULL;
    int index = registry.find("ompi", "coll", "tuned", name);
    return index >= 0 && registry.value(index, &at, NULL, NULL) == 0 ? at : NULL;
}

/* A list of point-to-point layers without the monitoring layer that the wire matrix needs (wire.c): nothing is measured,
 * and this is why. */
static void read_layers(void) {
    if (!tl_wire_requested()) return;
    int index = registry.find("ompi", "pml", NULL, NULL);
    const void *at = NULL;
    if (index < 0 || registry.value(index, &at, NULL, NULL) != 0 || !at) return;
    const char *layers = *(char *const *)at;
    if (!layers || !*layers) return;
    if ((strstr(layers, "monitoring") != NULL) == (layers[0] == '^')) report("pml", layers);
}

static void read_openmpi(void) {
    void *find = tl_find("mca_base_var_find"), *value = tl_find("mca_base_var_get_value");
    if (!find || !value) return;
    memcpy(&registry.find, &find, sizeof find);
    memcpy(&registry.value, &value, sizeof value);
    read_layers();
    const unsigned char *dynamic = openmpi_value("use_dynamic_rules"); /* a bool */
    if (!dynamic || !*dynamic) return; /* without it the others are not heeded */
    report("coll_tuned_use_dynamic_rules", "1");
    char *const *file = openmpi_value("dynamic_rules_filename");
    if (file && *file && **file) report("coll_tuned_dynamic_rules_filename", *file);
    for (size_t i = 0; i < sizeof tuned / sizeof *tuned; i++) {
        char name[64], text[64];
        snprintf(name, sizeof name, "%s_algorithm", tuned[i].name);
        const int *choice = openmpi_value(name);
        if (!choice || *choice <= 0) continue;
        const char *function = *choice < CHOICES ? tuned[i].functions[*choice] : NULL;
        snprintf(name, sizeof name, "coll_tuned_%s_algorithm", tuned[i].name);
        snprintf(text, sizeof text, "%d:%s", *choice, function ? function : "?");
        report(name, text);
        if (function) tl_algorithm_force(tuned[i].operation, function);
    }
}

/* ---- others ---- */

static const struct {
    int operation;
    const char *name;
} collectives[] = {
#define TL_LIST(number, Name, name, parameters, note) {TL_OP_##Name, #name},
    TL_OPERATIONS(TL_LIST)
#undef TL_LIST
};

/* MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM, and MVAPICH2's MPIR_CVAR_ALLREDUCE_COLLECTIVE_ALGORITHM. */
static int operation_of(const char *name) {
    static const char prefix[] = "MPIR_CVAR_";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return TL_NO_OPERATION;
    name += sizeof prefix - 1;
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        size_t length = strlen(collectives[i].name);
        if (strncasecmp(name, collectives[i].name, length) != 0) continue;
        if (strcmp(name + length, "_INTRA_ALGORITHM") == 0 || strcmp(name + length, "_COLLECTIVE_ALGORITHM") == 0)
            return collectives[i].operation;
    }
    return TL_NO_OPERATION;
}

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), part = strlen(end);
    return length >= part && strcmp(text + length - part, end) == 0;
}

/* MPICH reads a variable MPIR_CVAR_X from three names. */
static const char *from_environment(const char *name) {
    static const char *const prefixes[] = {"MPICH_", "MPIR_PARAM_", "MPIR_CVAR_"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !found; i++) {
        char other[NAME_BYTES];
        snprintf(other, sizeof other, "%s%s", prefixes[i], name + strlen("MPIR_CVAR_"));
        found = getenv(other);
    }
    return found && *found ? found : NULL;
}

/* The variable's value as text: "" for 0 and for empty text, that is, where nothing was chosen. */
static void read_value(int index, char value[VALUE_BYTES]) {
    void *handle = NULL;
    int count = 0;
    union {
        int number;
        char text[VALUE_BYTES];
    } raw = {.text = ""};
    value[0] = '\0';
    if (tl_tool.cvar_handle_alloc(index, NULL, &handle, &count) != 0) return;
    if (count >= 1 && count <= VALUE_BYTES && tl_tool.cvar_read(handle, &raw) == 0) {
        if (count > 1) snprintf(value, VALUE_BYTES, "%.*s", count < VALUE_BYTES ? count : VALUE_BYTES - 1, raw.text);
        else if (raw.number != 0) snprintf(value, VALUE_BYTES, "%d", raw.number);
    }
    tl_tool.cvar_handle_free(&handle);
}

static void read_variable(int index, const char *name) {
    char value[VALUE_BYTES];
    read_value(index, value);
    if (!value[0] || strcmp(value, "auto") == 0) return;
    const char *given = strncmp(name, "MPIR_CVAR_", 10) == 0 ? from_environment(name) : NULL;
    int is_number = strspn(value, "-0123456789") == strlen(value);
    char text[NAME_BYTES];
    if (given && is_number) snprintf(text, sizeof text, "%.16s:%.100s", value, given);
    else snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, value);
    report(name, text);
    int operation = operation_of(name);
    const char *algorithm = given ? given : value;
    if (operation) tl_algorithm_force(operation, strndup(algorithm, NAME_BYTES));
}

static int is_choice(const char *name) {
    if (strncmp(name, "MPI", 3) != 0) return 0;
    return ends_with(name, "_ALGORITHM") || ends_with(name, "_SELECTION_TUNING_JSON_FILE");
}

/* Does the environment have one? Nobody else sets them, but for a program that writes its own. */
static int is_any_forced(void) {
    for (char **variable = environ; *variable; variable++) {
        const char *equals = strchr(*variable, '=');
        char name[NAME_BYTES];
        if (!equals || equals - *variable >= NAME_BYTES) continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *variable), *variable);
        if (is_choice(name)) return 1;
    }
    return 0;
}

static void read_others(void) {
    int count = 0;
    if (!tl_tool_open() || tl_tool.cvar_get_num(&count) != 0) return;
    for (int i = 0; i < count && i < VARIABLES_LIMIT; i++) {
        char name[NAME_BYTES] = "";
        int length = sizeof name, verbosity, bind, scope, none = 0;
        tl_handle type = 0;
        if (tl_tool.cvar_get_info(i, name, &length, &verbosity, &type, NULL, NULL, &none, &bind, &scope) != 0) continue;
        if (is_choice(name)) read_variable(i, name);
    }
}

void tl_settings_read(void) {
    if (tl_library.family == TL_FAMILY_OPENMPI) read_openmpi();
    else if (is_any_forced()) read_others();
}
