/*
 * Functions that this object has and the MPI library lacks: Intel MPI 2021 and Cray MPICH have MPICH's ABI without functions of MPI 4
 * such as MPI_Bcast_c. A program that uses them where they are there (mpi4py) refers to them weakly and tests their
 * addresses; it would find the wrapper, which has nothing to call. Before MPI_Init goes on such references become null, as without
 * the shim. What is loaded later finds the wrapper, which calls the form with counts of an int.
 */
#define _GNU_SOURCE
#include "absent.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "library.h"
#include "objects.h"
#include "shim.h"

#ifdef __x86_64__
enum { TO_ADDRESS = R_X86_64_64, TO_DATA = R_X86_64_GLOB_DAT, TO_FUNCTION = R_X86_64_JUMP_SLOT };
#else
enum { TO_ADDRESS = R_AARCH64_ABS64, TO_DATA = R_AARCH64_GLOB_DAT, TO_FUNCTION = R_AARCH64_JUMP_SLOT };
#endif

static int is_reference(const ElfW(Rela) *relocation) {
    const uint64_t type = ELF64_R_TYPE(relocation->r_info);
    return ELF64_R_SYM(relocation->r_info) && (type == TO_ADDRESS || type == TO_DATA || type == TO_FUNCTION);
}

static int is_weak(const ElfW(Sym) *symbol) {
    return symbol->st_info >> 4 == STB_WEAK && symbol->st_shndx == SHN_UNDEF;
}

static int is_own(uintptr_t address) {
    Dl_info of, own;
    return dladdr((const void *)address, &of) && dladdr(&tl_library, &own) && of.dli_fbase == own.dli_fbase; /* NOLINT: an address */
}

/* The dynamic linker has made whole pages read-only once it had bound what is in them. */
static int is_read_only(const struct dl_phdr_info *info, uintptr_t page, uintptr_t page_bytes) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_RELRO && page >= (start & -page_bytes) && page < ((start + part->p_memsz) & -page_bytes))
            return 1;
    }
    return 0;
}

static void clear(const struct dl_phdr_info *info, uintptr_t *place) {
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)place & -page_bytes;
    const int is_closed = is_read_only(info, page, page_bytes);
    if (is_closed && mprotect((void *)page, page_bytes, PROT_READ | PROT_WRITE) != 0) return; /* NOLINT: an address */
    __atomic_store_n(place, 0, __ATOMIC_RELEASE);
    if (is_closed) mprotect((void *)page, page_bytes, PROT_READ); /* NOLINT: as above */
}

static void look(const struct tl_object *object, const ElfW(Rela) *relocation) {
    const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
    if (TL_LIKELY(!is_weak(symbol))) return;
    const char *name = object->names + symbol->st_name;
    const uintptr_t place = object->info->dlpi_addr + relocation->r_offset;
    if (strncmp(name, "MPI_", 4) != 0 || !tl_object_has(object->info, place, PF_W)) return;
    uintptr_t *bound = (uintptr_t *)place; /* NOLINT: an address */
    if (is_own(*bound) && !tl_find(name)) clear(object->info, bound);
}

static int unbind(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    struct tl_object object;
    if (!tl_object_read(&object, info)) return 0;
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < object.relocation_counts[part]; i++)
            if (TL_UNLIKELY(is_reference(&object.relocations[part][i]))) look(&object, &object.relocations[part][i]);
    return 0;
}

void tl_absent_unbind(void) {
    static int done;
    if (!__atomic_exchange_n(&done, 1, __ATOMIC_ACQ_REL)) dl_iterate_phdr(unbind, NULL);
}
