/*
 * conduct MODE: 10 allreduces of 8 bytes, something that programs do and a preloaded library may stumble over,
 * a pause of half a second, 10 more. Rank 0 prints what came of it; the same must come out with the shim.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 10, DESCRIPTORS = 2048, SMALL_STACK = 64 * 1024 };

/* Thread-local variables as large as Fortran's THREADPRIVATE commons: each thread's stack holds them. */
static __thread char common[1 << 20];

static int rank;
static volatile sig_atomic_t alarms, pipes;

static void on_signal(int number) {
    if (number == SIGPIPE) pipes = pipes + 1;
    else alarms = alarms + 1;
}

static double reduce(void) {
    double mine = rank + 1, sum = 0;
    for (int i = 0; i < CALLS; i++) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static void wait_half_a_second(void) {
    struct timespec left = {0, 500000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static void signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval often = {{0, 1000}, {0, 1000}};
    int ends[2];
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGPIPE, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    if (pipe(ends) != 0) exit(9);
    close(ends[0]);
    if (write(ends[1], "x", 1) != -1 || errno != EPIPE) exit(9);
    close(ends[1]);
}

/* A forked child that goes on without exec and ends in all ways; none of them is its parent's end. */
static void children(void) {
    for (int way = 0; way < 4; way++) {
        fflush(stdout);
        pid_t child = way == 3 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, NULL, NULL, 0) : fork();
        if (child == 0) {
            if (way == 0) execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
            if (way == 1) _exit(3);
            exit(3);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) exit(9);
    }
    if (system("exit 4") != 4 << 8) exit(9);
}

/* Everything that is not MPI's is closed: MPI's own descriptors are those that were there without a shim. */
static int is_message_socket(int fd) {
    int type = 0;
    socklen_t length = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET;
}

static void close_all(void) {
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        if (is_message_socket(fd)) close(fd);
}

static int target = -1, other_end = -1;

/* A socket of the program's own takes the number of each socket that a library may have retained. */
static void replace_all(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) exit(9);
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        if (fd != ends[0] && fd != ends[1] && is_message_socket(fd) && dup2(ends[0], fd) != fd) exit(9);
    target = ends[0];
    other_end = ends[1];
}

static void look_at_replaced(void) {
    char got[16];
    ssize_t length = recv(other_end, got, sizeof got, MSG_DONTWAIT);
    int wrong = length != -1 || errno != EAGAIN;
    if (send(target, "mine", 4, MSG_NOSIGNAL) != 4 || recv(other_end, got, sizeof got, 0) != 4) wrong = 1;
    if (rank == 0 || wrong) puts(wrong ? "somebody else wrote" : "only ours");
}

static void use_all_descriptors(void) {
    struct rlimit few = {256, 256};
    int count = 0;
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) exit(9);
    while (open("/dev/null", O_RDONLY) >= 0) count++;
    if (errno != EMFILE || count < 200) exit(9);
}

static void no_more_memory(void) {
    struct rusage usage;
    struct rlimit none = {0, RLIM_INFINITY};
    getrusage(RUSAGE_SELF, &usage);
    if (setrlimit(RLIMIT_AS, &none) != 0) exit(9); /* what is mapped stays; nothing more can be */
    if (mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) exit(9);
    int x = 0, y[64];
    for (int i = 0; i < CALLS; i++) {
        MPI_Bcast(&x, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Sendrecv(&x, 1, MPI_INT, rank ^ 1, 0, y, 1, MPI_INT, rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allgather(&x, 1, MPI_INT, y, 1, MPI_INT, MPI_COMM_WORLD);
    }
}

static void *on_small_stack(void *unused) {
    common[0] = 1;
    int x = rank, y = -1;
    MPI_Sendrecv(&x, 1, MPI_INT, rank ^ 1, 0, &y, 1, MPI_INT, rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return y == (rank ^ 1) ? unused : NULL;
}

static void small_stack(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    void *result = NULL;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_attr_init(&attributes);
    /* The thread-local variables come out of the stack as well. */
    if (pthread_attr_setstacksize(&attributes, sizeof common + SMALL_STACK) != 0) exit(9);
    if (pthread_create(&thread, &attributes, on_small_stack, &rank) != 0) exit(9);
    if (pthread_join(thread, &result) != 0 || result != &rank) exit(9);
}

/* As -ffpe-trap of Fortran compilers has it before main. */
static void traps(void) {
    feenableexcept(FE_ALL_EXCEPT & ~FE_INEXACT);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int provided, is = 0;
#define MODE(name) (strcmp(mode, name) == 0 && (is = 1))
    if (MODE("traps")) traps();
    MPI_Init_thread(&argc, &argv, MODE("stack") ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double sum = reduce();
    if (MODE("signals")) signals();
    if (MODE("children")) children();
    if (MODE("close")) close_all();
    if (MODE("replace")) replace_all();
    if (MODE("descriptors")) use_all_descriptors();
    if (MODE("memory")) no_more_memory();
    if (MODE("stack")) small_stack();
    if (MODE("environment")) clearenv();
    if (MODE("abort")) {
        if (rank == 0) puts("aborting"), fflush(stdout);
        wait_half_a_second();
        if (rank == 0) MPI_Abort(MPI_COMM_WORLD, 5);
    }
    wait_half_a_second();
    if (MODE("killed") && rank == 1) raise(SIGKILL);
    if (MODE("crashes") && rank == 1) raise(SIGSEGV);
    sum += reduce();
    if (MODE("signals")) {
        struct itimerval never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &never, NULL);
        setitimer(ITIMER_PROF, &never, NULL);
        if (rank == 0) printf("alarms %s, SIGPIPE %d\n", alarms > 0 ? "came" : "missing", (int)pipes);
    }
    if (MODE("replace")) look_at_replaced();
    if (rank == 0) printf("sum %g\n", sum), fflush(stdout);
    if (MODE("exit")) exit(6);
    if (MODE("_exit")) _exit(6);
    if (MODE("traps")) {
        feclearexcept(FE_ALL_EXCEPT);
#ifdef OPEN_MPI
        feenableexcept(FE_ALL_EXCEPT); /* rounding, too, which MPICH's own MPI_Finalize does not survive */
#endif
    }
    MPI_Finalize();
    if (MODE("traps") && rank == 0) printf("flags %d\n", fetestexcept(FE_ALL_EXCEPT));
    return is ? 0 : 64;
}
