/*
 * What the program has set for its threads and the shim's own work must neither be hurt by nor change:
 * traps and sticky flags of floating-point arithmetic (-ffpe-trap makes any rounding a SIGFPE; a Fortran STOP
 * reports flags that are raised), cancellation, errno. Around MPI_Init's, MPI_Finalize's and exit's work;
 * the flush thread is made inside and inherits the calm. Recording a call uses integers only and needs none.
 */
#ifndef THROUGHLINE_FP_ENV_H
#define THROUGHLINE_FP_ENV_H

#include <stddef.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>

struct tl_fp_env {
    uint64_t floating_control, floating_status;
    int cancelling, error;
};

static inline struct tl_fp_env tl_fp_env_save(void) {
    struct tl_fp_env before = {.error = errno};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancelling);
#if defined(__x86_64__)
    enum { ALL_MASKED = 0x1f80 }; /* MXCSR at reset: no traps, no flags, rounding to nearest */
    before.floating_control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(ALL_MASKED);
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(before.floating_control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(before.floating_status));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#endif
    return before;
}

static inline void tl_fp_env_restore(const struct tl_fp_env *before) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((unsigned)before->floating_control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpsr, %0" : : "r"(before->floating_status));
    __asm__ volatile("msr fpcr, %0" : : "r"(before->floating_control));
#endif
    pthread_setcancelstate(before->cancelling, NULL);
    errno = before->error;
}

#endif
