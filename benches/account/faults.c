/*
 * Programs with one known fault each, and healthy ones. Each rank measures itself: wall time from the end of MPI_Init on, wall time in MPI
 * around each call, and its thread's processor time outside of MPI; it writes them to FOLDER/RANK at its end.
 *
 *   faults PROGRAM SECONDS FOLDER
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 20, BIG = 1 << 20, MANY = 64 };

static int me, ranks, peer;
static double started, in_mpi, mpi_cpu, length;
static char folder[512];
static char *out, *in;

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static double wall(void) {
    return now(CLOCK_MONOTONIC);
}
static double cpu(void) {
    return now(CLOCK_THREAD_CPUTIME_ID);
}

/* A call, with its time. Of calls of a microsecond the processor clock, a system call, is not read. */
static int has_short_calls;
#define MPI(call) \
    do { \
        double cpu_before = has_short_calls ? 0 : cpu(), before = wall(); \
        call; \
        in_mpi += wall() - before; \
        if (!has_short_calls) mpi_cpu += cpu() - cpu_before; \
    } while (0)

static void work(double ms) {
    double until = cpu() + ms / 1e3;
    while (cpu() < until) {
    }
}
static void doze(double ms) {
    usleep((useconds_t)(ms * 1e3));
}
static void write_file(int bytes) {
    char name[600];
    snprintf(name, sizeof name, "%s/file.%d", folder, me);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) abort();
    for (int i = 0; i < bytes; i += BIG)
        if (write(file, out, BIG) != BIG) abort();
    fsync(file);
    close(file);
}

static void allreduce(void) {
    int one = 1, sum;
    MPI(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
}
/* Whether all go on, as rank 0 decides it. */
static int goes_on(void) {
    int go = wall() - started < length;
    MPI(MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD));
    return go;
}

/* ---- programs, a step each; the name is what is wrong, or the shape of a healthy one ---- */

static int step;

static void healthy(void) { work(STEP_MS); allreduce(); }
static void imbalanced(void) { work(me == 1 ? 3 * STEP_MS : STEP_MS); allreduce(); }
static void slightly(void) { work(me == 1 ? 1.05 * STEP_MS : STEP_MS); allreduce(); }
static void growing(void) { work(me == 1 ? STEP_MS * (1 + step / 40.0) : STEP_MS); allreduce(); }
static void alternate(void) { work(step % ranks == me ? 3 * STEP_MS : STEP_MS / 4.0); allreduce(); }
static void token_ring(void) {
    int token = 0;
    if (step || me) MPI(MPI_Recv(&token, 1, MPI_INT, (me + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    work(STEP_MS);
    MPI(MPI_Send(&token, 1, MPI_INT, (me + 1) % ranks, 1, MPI_COMM_WORLD));
}
static void in_file(void) { work(STEP_MS / 4.0); if (me == 0) write_file(32 * BIG); allreduce(); }
static void asleep(void) { work(STEP_MS / 4.0); if (me == 0) doze(3 * STEP_MS); allreduce(); }
static void all_asleep(void) { doze(STEP_MS); work(STEP_MS / 4.0); allreduce(); }
static void io_phases(void) { work(STEP_MS); if (step % 20 == 0) write_file(8 * BIG); allreduce(); }
static void late_root(void) { work(me == 0 ? 3 * STEP_MS : STEP_MS / 4.0); MPI(MPI_Bcast(out, 1024, MPI_CHAR, 0, MPI_COMM_WORLD)); }
static void serial_root(void) {
    MPI(MPI_Gather(out, 1024, MPI_CHAR, in, 1024, MPI_CHAR, 0, MPI_COMM_WORLD));
    work(me == 0 ? 3 * STEP_MS : 0);
    MPI(MPI_Bcast(out, 1024, MPI_CHAR, 0, MPI_COMM_WORLD));
    work(STEP_MS / 4.0);
}
static void late_sender(void) {
    if (me % 2 == 0) { work(3 * STEP_MS); MPI(MPI_Send(out, 64, MPI_CHAR, peer, 2, MPI_COMM_WORLD)); }
    else { work(STEP_MS / 2.0); MPI(MPI_Recv(in, 64, MPI_CHAR, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); }
}
static void late_receiver(void) {
    if (me % 2 == 0) { work(STEP_MS / 2.0); MPI(MPI_Ssend(out, 64, MPI_CHAR, peer, 2, MPI_COMM_WORLD)); }
    else { work(3 * STEP_MS); MPI(MPI_Recv(in, 64, MPI_CHAR, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); }
}
/* Rank 0 hands pieces out to any rank that comes. */
static void master(void) {
    int piece = 0;
    MPI_Status from;
    if (me == 0) {
        for (int i = 0; i < (ranks - 1) * 20; i++) {
            MPI(MPI_Recv(&piece, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &from));
            MPI(MPI_Send(&piece, 1, MPI_INT, from.MPI_SOURCE, 4, MPI_COMM_WORLD));
        }
    } else {
        for (int i = 0; i < 20; i++) {
            MPI(MPI_Send(&piece, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
            MPI(MPI_Recv(&piece, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            work(STEP_MS);
        }
    }
}
static void pipeline(void) {
    if (me > 0) MPI(MPI_Recv(in, 4096, MPI_CHAR, me - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    work(STEP_MS);
    if (me + 1 < ranks) MPI(MPI_Send(out, 4096, MPI_CHAR, me + 1, 5, MPI_COMM_WORLD));
}
static void start_up(void) { if (step == 0 && me == 0) work(length * 250); work(STEP_MS); allreduce(); }
static void overlapped(void) {
    MPI_Request both[2];
    MPI(MPI_Irecv(in, BIG, MPI_CHAR, (me + ranks - 1) % ranks, 6, MPI_COMM_WORLD, &both[0]));
    MPI(MPI_Isend(out, BIG, MPI_CHAR, (me + 1) % ranks, 6, MPI_COMM_WORLD, &both[1]));
    work(STEP_MS);
    MPI(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
}
static void ping_pong(void) {
    for (int i = 0; i < 2000; i++) {
        if (me % 2 == 0) {
            MPI(MPI_Send(out, 8, MPI_CHAR, peer, 7, MPI_COMM_WORLD));
            MPI(MPI_Recv(in, 8, MPI_CHAR, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            MPI(MPI_Recv(in, 8, MPI_CHAR, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MPI(MPI_Send(out, 8, MPI_CHAR, peer, 7, MPI_COMM_WORLD));
        }
    }
}
/* Works in small pieces, and tests between them. */
static void poll_loop(void) {
    MPI_Request request;
    int done = 0;
    MPI(MPI_Irecv(in, 64, MPI_CHAR, (me + ranks - 1) % ranks, 8, MPI_COMM_WORLD, &request));
    work(me == 1 ? 2 * STEP_MS : STEP_MS);
    MPI(MPI_Send(out, 64, MPI_CHAR, (me + 1) % ranks, 8, MPI_COMM_WORLD));
    while (!done) {
        work(0.05);
        MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    }
}
static void communicators(void) {
    MPI_Comm made;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &made));
    work(STEP_MS);
    MPI(MPI_Comm_free(&made));
}
static void late_split(void) {
    MPI_Comm made;
    work(me == 1 ? 3 * STEP_MS : STEP_MS / 4.0);
    MPI(MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &made));
    MPI(MPI_Comm_free(&made));
}
static MPI_Win window = MPI_WIN_NULL;
static void fences(void) {
    if (window == MPI_WIN_NULL) MPI(MPI_Win_create(in, BIG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    work(me == 1 ? 3 * STEP_MS : STEP_MS / 4.0);
    MPI(MPI_Win_fence(0, window));
    MPI(MPI_Put(out, 4096, MPI_CHAR, peer, 0, 4096, MPI_CHAR, window));
    MPI(MPI_Win_fence(0, window));
}
static void transfers(void) { work(1); for (int i = 0; i < 8; i++) MPI(MPI_Alltoall(out, BIG / ranks, MPI_CHAR, in, BIG / ranks, MPI_CHAR, MPI_COMM_WORLD)); }
static void barriers(void) { for (int i = 0; i < 200; i++) { work(0.1); MPI(MPI_Barrier(MPI_COMM_WORLD)); } }
static void tiny(void) {
    MPI_Request all[MANY];
    for (int i = 0; i < MANY / 2; i++) MPI(MPI_Irecv(in + i, 1, MPI_CHAR, peer, i, MPI_COMM_WORLD, &all[i]));
    for (int i = 0; i < MANY / 2; i++) MPI(MPI_Isend(out + i, 1, MPI_CHAR, peer, i, MPI_COMM_WORLD, &all[MANY / 2 + i]));
    MPI(MPI_Waitall(MANY, all, MPI_STATUSES_IGNORE));
    work(0.2);
}
static void sendrecv(void) {
    work(STEP_MS);
    MPI(MPI_Sendrecv(out, 65536, MPI_CHAR, (me + 1) % ranks, 9, in, 65536, MPI_CHAR, (me + ranks - 1) % ranks, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}
static void file_together(void) {
    static MPI_File file = MPI_FILE_NULL;
    char name[600];
    snprintf(name, sizeof name, "%s/shared", folder);
    if (file == MPI_FILE_NULL) MPI(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    work(STEP_MS);
    MPI(MPI_File_write_at_all(file, (MPI_Offset)me * 4096, out, 4096, MPI_CHAR, MPI_STATUS_IGNORE));
}
/* A lock that another thread of rank 0 has most of the time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int lock_is_used;
static void *holder(void *unused) {
    while (__atomic_load_n(&lock_is_used, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&lock);
        doze(3 * STEP_MS);
        pthread_mutex_unlock(&lock);
        doze(1);
    }
    return unused;
}
static void at_lock(void) {
    if (me == 0 && !lock_is_used) {
        pthread_t thread;
        lock_is_used = 1;
        if (pthread_create(&thread, NULL, holder, NULL)) abort();
        doze(1);
    }
    work(STEP_MS / 4.0);
    if (me == 0) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    allreduce();
}
/* Stopped for a third of the time, from outside. */
static pid_t stopper;
static void stopped(void) {
    if (step == 0 && me == 1) {
        pid_t parent = getpid();
        if ((stopper = fork()) == 0) {
            sleep((unsigned)(length / 3));
            kill(parent, SIGSTOP);
            sleep((unsigned)(length / 3));
            kill(parent, SIGCONT);
            _exit(0);
        }
    }
    work(STEP_MS);
    allreduce();
}
static void thread_calls(void) {
    work(STEP_MS);
    MPI(MPI_Sendrecv(out, 1024, MPI_CHAR, peer, 11, in, 1024, MPI_CHAR, peer, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static const struct {
    const char *name;
    void (*step)(void);
} programs[] = {
    {"healthy", healthy}, {"imbalanced", imbalanced}, {"slightly", slightly}, {"growing", growing}, {"alternate", alternate},
    {"token_ring", token_ring}, {"in_file", in_file}, {"asleep", asleep}, {"all_asleep", all_asleep}, {"io_phases", io_phases},
    {"late_root", late_root}, {"serial_root", serial_root}, {"late_sender", late_sender}, {"late_receiver", late_receiver},
    {"master", master}, {"pipeline", pipeline}, {"start_up", start_up}, {"overlapped", overlapped}, {"ping_pong", ping_pong},
    {"poll_loop", poll_loop}, {"communicators", communicators}, {"late_split", late_split}, {"fences", fences},
    {"transfers", transfers}, {"barriers", barriers}, {"tiny", tiny}, {"sendrecv", sendrecv}, {"file_together", file_together},
    {"at_lock", at_lock}, {"stopped", stopped}, {"thread_calls", thread_calls},
};

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    int level;
    length = atof(argv[2]);
    snprintf(folder, sizeof folder, "%s", argv[3]);
    out = calloc(1, 8 * BIG);
    in = calloc(1, 8 * BIG);
    MPI_Init_thread(&argc, &argv, strcmp(argv[1], "thread_calls") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    double begun = cpu();
    started = wall();
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    peer = me ^ 1;
    void (*run)(void) = NULL;
    has_short_calls = !strcmp(argv[1], "ping_pong") || !strcmp(argv[1], "tiny") || !strcmp(argv[1], "barriers");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(programs[i].name, argv[1])) run = programs[i].step;
    if (!run) return 64;
    do run();
    while (step++, goes_on());
    if (!strcmp(argv[1], "token_ring") && me == 0)
        MPI(MPI_Recv(in, 4, MPI_CHAR, ranks - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (window != MPI_WIN_NULL) MPI(MPI_Win_free(&window));
    lock_is_used = 0;
    if (stopper > 0) waitpid(stopper, NULL, 0);
    double all = wall() - started, computing = has_short_calls ? -1 : cpu() - begun - mpi_cpu;
    char name[600];
    snprintf(name, sizeof name, "%s/%d", folder, me);
    FILE *file = fopen(name, "w");
    if (!file) return 74;
    fprintf(file, "%.6f %.6f %.6f\n", all, in_mpi, computing);
    fclose(file);
    MPI_Finalize();
    return 0;
}
