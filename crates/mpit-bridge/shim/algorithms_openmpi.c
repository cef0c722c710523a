/*
 * Sees Open MPI's collectives at work: the functions of its algorithms are exported and called through the dynamic
 * linker (from the component coll_tuned in 4.1, within libmpi in 5.0), so those here come first. Each notes its slot in
 * the thread, if that is inside a call and met no algorithm before, and jumps on. Only built into the object for Open
 * MPI; elsewhere nobody calls them.
 *
 * The functions are internal to the library: their arguments differ (2 to 11 of them) and may change. So the hooks
 * are written in assembly and leave argument registers and stack as they are; on other processors than x86-64 there
 * are none, and algorithms stay unknown.
 */
#include "algorithms.h"
#include "library.h"
#include "limits.h"
#include "shim.h"
#include "threads.h"

#if defined(__x86_64__)

/* What the assembly reads of a thread. */
_Static_assert(offsetof(struct tl_thread, depth) == 8, "see tl_algorithm_enter");
_Static_assert(offsetof(struct tl_thread, algorithm) == 12, "see tl_algorithm_enter");

extern void *tl_algorithm_next[TL_ALGORITHM_LIMIT] __attribute__((visibility("hidden")));
void *tl_algorithm_next[TL_ALGORITHM_LIMIT];

#define TL_SYMBOL(operation, variant) "ompi_coll_base_" #operation "_intra_" #variant

static const char *const symbols[TL_ALGORITHM_LIMIT] = {
#define TL_NAME(Name, operation, variant) [TL_ALG_##operation##_##variant] = TL_SYMBOL(operation, variant),
    TL_ALGORITHMS(TL_NAME)
#undef TL_NAME
};

/* OMPI_ERR_NOT_FOUND: only if the library called a function that it does not have. */
static int not_found(void) {
    return -13;
}

__attribute__((visibility("hidden"), used)) void *tl_algorithm_find(int slot);
void *tl_algorithm_find(int slot) {
    int (*missing)(void) = not_found;
    void *found = tl_find(symbols[slot]);
    if (!found) __builtin_memcpy(&found, &missing, sizeof found);
    __atomic_store_n(&tl_algorithm_next[slot], found, __ATOMIC_RELEASE);
    return found;
}

/* In: the slot in eax. r10 and r11 are free at a function's entry; all argument registers are preserved. */
__asm__(
    ".pushsection .text\n"
    ".p2align 4\n"
    ".hidden tl_algorithm_enter\n"
    ".type tl_algorithm_enter, @function\n"
    "tl_algorithm_enter:\n"
    ".cfi_startproc\n"
    "  movq tl_self@gottpoff(%rip), %r11\n"
    "  movq %fs:(%r11), %r11\n"
    "  cmpl $0, 8(%r11)\n" /* depth */
    "  je 1f\n"
    "  cmpl $0, 12(%r11)\n" /* algorithm */
    "  jne 1f\n"
    "  movl %eax, 12(%r11)\n"
    "1:\n"
    "  leaq tl_algorithm_next(%rip), %r11\n"
    "  movq (%r11,%rax,8), %r11\n"
    "  testq %r11, %r11\n"
    "  je 2f\n"
    "  jmp *%r11\n"
    "2:\n"
    "  pushq %rdi\n  .cfi_adjust_cfa_offset 8\n"
    "  pushq %rsi\n  .cfi_adjust_cfa_offset 8\n"
    "  pushq %rdx\n  .cfi_adjust_cfa_offset 8\n"
    "  pushq %rcx\n  .cfi_adjust_cfa_offset 8\n"
    "  pushq %r8\n  .cfi_adjust_cfa_offset 8\n"
    "  pushq %r9\n  .cfi_adjust_cfa_offset 8\n"
    "  subq $8, %rsp\n  .cfi_adjust_cfa_offset 8\n" /* calls want the stack at a multiple of 16 */
    "  movl %eax, %edi\n"
    "  call tl_algorithm_find\n"
    "  movq %rax, %r11\n"
    "  addq $8, %rsp\n  .cfi_adjust_cfa_offset -8\n"
    "  popq %r9\n  .cfi_adjust_cfa_offset -8\n"
    "  popq %r8\n  .cfi_adjust_cfa_offset -8\n"
    "  popq %rcx\n  .cfi_adjust_cfa_offset -8\n"
    "  popq %rdx\n  .cfi_adjust_cfa_offset -8\n"
    "  popq %rsi\n  .cfi_adjust_cfa_offset -8\n"
    "  popq %rdi\n  .cfi_adjust_cfa_offset -8\n"
    "  jmp *%r11\n"
    ".cfi_endproc\n"
    ".size tl_algorithm_enter, . - tl_algorithm_enter\n"
    ".popsection\n");

/* The number of an enumerator is not text that the assembler knows: a function of its own hands it over. */
#define TL_HOOK(Name, operation, variant) \
    __attribute__((naked)) TL_EXPORT void ompi_coll_base_##operation##_intra_##variant(void); \
    __attribute__((naked)) TL_EXPORT void ompi_coll_base_##operation##_intra_##variant(void) { \
        __asm__ volatile("movl %0, %%eax\n\tjmp tl_algorithm_enter" : : "i"(TL_ALG_##operation##_##variant)); \
    }

TL_ALGORITHMS(TL_HOOK)

#else

/* A translation unit must declare something. */
typedef int tl_no_algorithm_is_observed;

#endif
