/*
 * Error handlers that jump out of the call that failed; 100 barriers follow. 2 ranks. jumps HOW [WAIT_MS]:
 *   same    from the function that made the call        up      from one that called that
 *   deep    from functions with larger frames           stack   the call stays on a stack of its own, and goes on at the end
 *   thread  the handler ends a second thread; not with MPICH, which holds a lock then
 * With WAIT_MS, rank 0 sleeps so long after the jump.
 */
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { BARRIERS = 100, STACK_BYTES = 1 << 18 };
static jmp_buf back;
static ucontext_t main_stack, own_stack;
static enum { JUMPS, SWAPS, ENDS } handling;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    if (handling == SWAPS) swapcontext(&own_stack, &main_stack);
    else if (handling == ENDS) pthread_exit(NULL);
    else longjmp(back, 1);
}

static __attribute__((noinline)) void fail(void) {
    int word = 0;
    MPI_Send(&word, 1, MPI_INT, 9999, 0, MPI_COMM_WORLD);
}

static __attribute__((noinline)) void barriers_with_large_frame(int count) {
    volatile char large[20000];
    memset((void *)large, count, sizeof large);
    for (int i = 0; i < count + large[0] - large[1]; i++) MPI_Barrier(MPI_COMM_WORLD);
}

static void barriers(int count) {
    for (int i = 0; i < count; i++) MPI_Barrier(MPI_COMM_WORLD);
}

static void *fail_in_thread(void *unused) {
    fail();
    return unused;
}

static void in_thread(void) {
    pthread_t thread;
    handling = ENDS;
    if (pthread_create(&thread, NULL, fail_in_thread, NULL) == 0) pthread_join(thread, NULL);
}

static void on_stack(void) {
    getcontext(&own_stack);
    own_stack.uc_stack.ss_sp = malloc(STACK_BYTES);
    own_stack.uc_stack.ss_size = STACK_BYTES;
    own_stack.uc_link = &main_stack;
    makecontext(&own_stack, fail, 0);
    handling = SWAPS;
    swapcontext(&main_stack, &own_stack);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "same";
    int rank, provided, wait_ms = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Errhandler handles;
    MPI_Init_thread(&argc, &argv, strcmp(how, "thread") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(handler, &handles);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handles);
    if (strcmp(how, "stack") == 0) on_stack();
    else if (strcmp(how, "thread") == 0) in_thread();
    else if (setjmp(back) == 0) {
        int word = 0;
        if (strcmp(how, "same") == 0) MPI_Send(&word, 1, MPI_INT, 9999, 0, MPI_COMM_WORLD);
        else fail();
    }
    if (rank == 0) puts("caught");
    if (rank == 0 && wait_ms) usleep((useconds_t)wait_ms * 1000);
    if (strcmp(how, "deep") == 0) barriers_with_large_frame(BARRIERS);
    else barriers(BARRIERS);
    if (strcmp(how, "stack") == 0) {
        swapcontext(&main_stack, &own_stack);
        barriers(BARRIERS);
    }
    MPI_Finalize();
    return 0;
}
