/* Objects that are loaded into this process: their symbols and relocations. See objects.c. */
#ifndef THROUGHLINE_OBJECTS_H
#define THROUGHLINE_OBJECTS_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct tl_object {
    const struct dl_phdr_info *info;
    const ElfW(Sym) *symbols;
    const char *names;
    const uint32_t *gnu_hash;           /* NULL: it has none */
    const ElfW(Rela) *relocations[2]; /* all but those of the PLT, and those */
    size_t relocation_counts[2];
};

/* What its dynamic section has; 0 where there is none, or it lacks symbols. */
int tl_object_read(struct tl_object *object, const struct dl_phdr_info *info);
/* Whether an address lies in it. With `flags`: in a part of it that has them (PF_W). */
int tl_object_has(const struct dl_phdr_info *info, uintptr_t address, uint32_t flags);
/* Calls `visit` with the name of each function that it defines for others. */
void tl_object_functions(const struct tl_object *object, void (*visit)(const char *name, void *data), void *data);

#pragma GCC visibility pop

#endif
