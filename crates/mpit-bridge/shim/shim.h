/*
 * Inside of the shim: the rules, and how memory is read and written. The shim is loaded into programs of people who did not ask for
 * it, so three rules hold everywhere: never print (but with THROUGHLINE_DEBUG), never wait for the agent
 * inside an MPI call, never call MPI for communication.
 *
 * Nothing here may depend on the layout of an mpi.h: handles are passed on as the 64-bit registers they
 * came in (Open MPI: pointers; MPICH: 32-bit integers whose upper half is undefined), pointers as pointers.
 */
#ifndef THROUGHLINE_SHIM_H
#define THROUGHLINE_SHIM_H

#define TL_VERSION "0.1.0"

#define TL_EXPORT __attribute__((visibility("default")))
#define TL_HOT static inline __attribute__((always_inline))
#define TL_LIKELY(x) __builtin_expect(!!(x), 1)
#define TL_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Single writer, other reader: plain instructions, but no tearing and no reordering by the compiler. */
#define TL_LOAD(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define TL_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
/* In one instruction where there is one, which clang makes of two atomic accesses, and gcc does not. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define TL_ADD(p, v) \
    __asm__ volatile("add%z0 %1, %0" : "+m"(*(p)) : "er"((__typeof__(*(p)))(v)) : "cc")
#else
#define TL_ADD(p, v) TL_STORE((p), TL_LOAD(p) + (v))
#endif

#endif
