/*
 * Symbols and relocations of the objects in this process, as the dynamic linker has them in memory. Only reads. Symbols are
 * looked up by dlsym where that says enough; it says neither in which object one is defined, nor who refers to it.
 */
#define _GNU_SOURCE
#include "objects.h"

/* glibc makes addresses of what others leave relative to the object. */
static const void *at(const struct dl_phdr_info *info, ElfW(Addr) value) {
    return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value); /* NOLINT: an address as a number */
}

int tl_object_read(struct tl_object *object, const struct dl_phdr_info *info) {
    const ElfW(Dyn) *entry = NULL;
    *object = (struct tl_object){.info = info};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); /* NOLINT: as above */
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB: object->symbols = at(info, entry->d_un.d_ptr); break;
        case DT_STRTAB: object->names = at(info, entry->d_un.d_ptr); break;
        case DT_GNU_HASH: object->gnu_hash = at(info, entry->d_un.d_ptr); break;
        case DT_RELA: object->relocations[0] = at(info, entry->d_un.d_ptr); break;
        case DT_RELASZ: object->relocation_counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_JMPREL: object->relocations[1] = at(info, entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: object->relocation_counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela)); break;
        default: break;
        }
    }
    for (int i = 0; i < 2; i++)
        if (!object->relocations[i]) object->relocation_counts[i] = 0;
    return object->symbols && object->names;
}

int tl_object_has(const struct dl_phdr_info *info, uintptr_t address, uint32_t flags) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & flags) == flags &&
            address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return 1;
    }
    return 0;
}

void tl_object_functions(const struct tl_object *object, void (*visit)(const char *name, void *data), void *data) {
    if (!object->gnu_hash) return;
    /* Buckets, number of the first symbol, words of the filter, its shift; the filter, the buckets, the chains. */
    const uint32_t buckets = object->gnu_hash[0], first = object->gnu_hash[1], words = object->gnu_hash[2];
    const uint32_t *bucket = object->gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++) {
        if (bucket[i] < first) continue;
        for (uint32_t number = bucket[i];; number++) {
            const ElfW(Sym) *symbol = &object->symbols[number];
            /* One that is not defined has a value where the program takes the address of another object's function. */
            if (symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 15) == STT_FUNC)
                visit(object->names + symbol->st_name, data);
            if (chain[number - first] & 1) break;
        }
    }
}
