/*
 * Programs that hang, each in one known way, and healthy ones that are silent for long. Each works normally first; a healthy one also does
 * afterwards, and ends.
 *
 *   hangs PROGRAM SILENCE FOLDER
 *
 * SILENCE is in seconds. Before MPI_Init each rank makes the empty file FOLDER/pid.PROCESS. Each rank of a hang writes to FOLDER/cause.RANK
 * when it entered the call that never returns, or when its process was stopped or killed: seconds since 1970.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    STEP_MS = 20,
    SECONDS_BEFORE = 4, /* the job and its first rows are at the server by then */
    SECONDS_AFTER = 1,
    BIG = 4 << 20, /* a send of this size waits for its receive in both libraries */
    PIECE = 1 << 20,
    REPEATED = 8,
    LEFT_OVER_SECONDS = 240 /* ends what nobody ended; more than a slow machine needs besides the silence */
};
enum { TAG = 1, ANSWER, SERVICE, SENT = 11, WANTED = 12, NEVER_SENT = 77, NEVER_RECEIVED = 78 };

static int me, ranks, peer;
static double silence;
static char folder[512];
static char *out, *in;

static double wall(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static void nap_for(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* ---- ways to be silent ---- */

static void nap(void) {
    nap_for(silence);
}
static void compute(void) {
    volatile double sink = 0;
    double until = wall() + silence;
    while (wall() < until)
        for (int i = 0; i < 1000; i++) sink += i;
}
/* Few enough bytes a second for any disk. */
static void write_files(void) {
    char name[600];
    double until = wall() + silence;
    snprintf(name, sizeof name, "%s/file.%d", folder, me);
    while (wall() < until) {
        int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (file < 0 || write(file, out, PIECE) != PIECE) abort();
        fsync(file);
        close(file);
        usleep(50000);
    }
    unlink(name);
}
static void (*be_silent)(void);

/* ---- what all do ---- */

static void allreduce(void) {
    int one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void work_normally(double seconds) {
    double until = wall() + seconds;
    int has_time, goes_on;
    do {
        usleep(STEP_MS * 1000);
        has_time = wall() < until;
        MPI_Allreduce(&has_time, &goes_on, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    } while (goes_on);
}
/* Written under another name first, so that a file of this name is complete. */
static void note_cause(void) {
    char unfinished[600], name[600];
    struct timespec t;
    snprintf(unfinished, sizeof unfinished, "%s/unfinished.%d", folder, me);
    snprintf(name, sizeof name, "%s/cause.%d", folder, me);
    FILE *file = fopen(unfinished, "w");
    if (!file) abort();
    clock_gettime(CLOCK_REALTIME, &t);
    fprintf(file, "%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
    if (fclose(file) || rename(unfinished, name)) abort();
}
static void send(int to, int tag) {
    MPI_Send(out, 64, MPI_CHAR, to, tag, MPI_COMM_WORLD);
}
static void receive(int from, int tag) {
    MPI_Recv(in, 64, MPI_CHAR, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void send_synchronously(int to, int tag) {
    MPI_Ssend(out, 64, MPI_CHAR, to, tag, MPI_COMM_WORLD);
}

/* ---- programs that hang ---- */

static void recv_recv(void) { note_cause(); receive(peer, TAG); }
static void ssend_ssend(void) { note_cause(); send_synchronously(peer, TAG); }
static void tags_differ(void) {
    note_cause();
    if (me == 0) send_synchronously(1, SENT);
    else receive(0, WANTED);
}
static void two_collectives(void) {
    note_cause();
    if (me == 0) MPI_Barrier(MPI_COMM_WORLD);
    else allreduce();
}
static void stopped(void) {
    note_cause();
    if (me == ranks - 1) raise(SIGSTOP);
    MPI_Barrier(MPI_COMM_WORLD);
}
static void killed(void) {
    note_cause();
    if (me == ranks - 1) raise(SIGKILL);
    MPI_Barrier(MPI_COMM_WORLD);
}
static void in_finalize(void) {
    note_cause();
    if (me == 0) {
        MPI_Finalize();
        exit(0);
    }
    receive(0, TAG);
}
static void wait_forever(void) {
    MPI_Request request;
    MPI_Irecv(in, 64, MPI_CHAR, peer, NEVER_SENT, MPI_COMM_WORLD, &request);
    note_cause();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void waitall_forever(void) {
    MPI_Request both[2];
    MPI_Status statuses[2];
    MPI_Irecv(in, BIG, MPI_CHAR, peer, NEVER_SENT, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(out, BIG, MPI_CHAR, peer, NEVER_RECEIVED, MPI_COMM_WORLD, &both[1]);
    note_cause();
    MPI_Waitall(2, both, statuses);
}
static void test_forever(void) {
    MPI_Request request;
    int is_done = 0;
    MPI_Irecv(in, 64, MPI_CHAR, peer, NEVER_SENT, MPI_COMM_WORLD, &request);
    note_cause();
    while (!is_done) MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
}
/* A rank that sleeps may wake up: the others await it, which is no hang. */
static void missing_in_split(void) {
    MPI_Comm made;
    note_cause();
    while (me == 1) pause();
    MPI_Comm_split(MPI_COMM_WORLD, 0, me, &made);
}

/* ---- healthy programs: rank 0 is silent, and the others wait for it in the call of the name ---- */

static void in_recv(void) {
    if (me > 0) {
        receive(0, TAG);
        return;
    }
    be_silent();
    for (int to = 1; to < ranks; to++) send(to, TAG);
}
static void in_barrier(void) { if (me == 0) be_silent(); MPI_Barrier(MPI_COMM_WORLD); }
static void in_bcast(void) { if (me == 0) be_silent(); MPI_Bcast(out, 1024, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void in_allreduce(void) { if (me == 0) be_silent(); allreduce(); }
static void in_wait(void) {
    MPI_Request request;
    if (me == 0) {
        be_silent();
        send(peer, TAG);
        return;
    }
    MPI_Irecv(in, 64, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void in_waitall(void) {
    MPI_Request both[2];
    MPI_Status statuses[2];
    if (me == 0) be_silent();
    MPI_Irecv(in, BIG, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(out, BIG, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, statuses);
}
static void in_probe(void) {
    if (me == 0) {
        be_silent();
        send(peer, TAG);
        return;
    }
    MPI_Probe(peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    receive(peer, TAG);
}
static void in_split(void) {
    MPI_Comm made;
    if (me == 0) be_silent();
    MPI_Comm_split(MPI_COMM_WORLD, 0, me, &made);
    MPI_Comm_free(&made);
}
static void in_fence(void) {
    MPI_Win window;
    MPI_Win_create(in, BIG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, 4096, MPI_CHAR, peer, 0, 4096, MPI_CHAR, window);
    if (me == 0) be_silent();
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}
/* The receiver is silent before it posts its receive; transfers without a pause follow. */
static void in_large_send(void) {
    if (me == 0) be_silent();
    for (int i = 0; i < REPEATED; i++) {
        if (me == 0) MPI_Recv(in, BIG, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Send(out, BIG, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
    }
}
static void in_iprobe(void) {
    int is_there = 0;
    if (me == 0) {
        be_silent();
        send(peer, TAG);
        return;
    }
    while (!is_there) {
        usleep(1000);
        MPI_Iprobe(peer, TAG, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
    }
    receive(peer, TAG);
}
static void in_test(void) {
    MPI_Request request;
    int is_done = 0;
    if (me == 0) {
        be_silent();
        send(peer, TAG);
        return;
    }
    MPI_Irecv(in, 64, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &request);
    while (!is_done) MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
}

/* ---- healthy programs of another shape ---- */

static void all_alike(void) { be_silent(); MPI_Barrier(MPI_COMM_WORLD); }
static void *serve(void *unused) {
    char request[64];
    MPI_Recv(request, 64, MPI_CHAR, MPI_ANY_SOURCE, SERVICE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return unused;
}
/* A thread of each rank receives for the others all the time. */
static void with_threads(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, NULL)) abort();
    be_silent();
    send(peer, SERVICE);
    pthread_join(thread, NULL);
}
static void *works_and_sends(void *unused) {
    be_silent();
    send(peer, SERVICE);
    return unused;
}
static void *begins_and_works(void *unused) {
    send(peer, TAG);
    return works_and_sends(unused);
}
/* The main thread of each rank waits for what a thread of its peer works at, which has called MPI before or not. */
static void main_waits(void *(*work)(void *), int messages) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) abort();
    if (messages > 1) receive(peer, TAG);
    receive(peer, SERVICE);
    pthread_join(thread, NULL);
}
static void known_thread(void) { main_waits(begins_and_works, 2); }
static void new_thread(void) { main_waits(works_and_sends, 1); }
/* Both threads of both ranks wait for what nobody sends. */
static void threads_forever(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, NULL)) abort();
    note_cause();
    receive(peer, TAG);
}
/* The second of three stages is silent in its first item: the one before and the one behind wait for it. */
static void pipeline(void) {
    for (int item = 0; item < REPEATED; item++) {
        if (me > 0) receive(me - 1, TAG);
        if (me == 1 && item == 0) be_silent();
        if (me + 1 < ranks) send_synchronously(me + 1, TAG);
    }
}
/* The master waits for any worker, the others for its answer, and rank 1 is silent. */
static void any_source(void) {
    if (me > 0) {
        if (me == 1) be_silent();
        send(0, TAG);
        receive(0, ANSWER);
        return;
    }
    for (int i = 1; i < ranks; i++) receive(MPI_ANY_SOURCE, TAG);
    for (int to = 1; to < ranks; to++) send(to, ANSWER);
}
/* Each waits for the rank before it, and the first one is silent. */
static void chain(void) {
    if (me == 0) be_silent();
    else receive(me - 1, TAG);
    if (me + 1 < ranks) send(me + 1, TAG);
}

static const struct program {
    const char *name;
    void (*run)(void);
    void (*silence)(void); /* none: it hangs */
} programs[] = {
    {"recv_recv", recv_recv, NULL}, {"ssend_ssend", ssend_ssend, NULL}, {"tags_differ", tags_differ, NULL},
    {"two_collectives", two_collectives, NULL}, {"stopped", stopped, NULL}, {"killed", killed, NULL},
    {"in_finalize", in_finalize, NULL}, {"wait_forever", wait_forever, NULL}, {"waitall_forever", waitall_forever, NULL},
    {"test_forever", test_forever, NULL}, {"missing_in_split", missing_in_split, NULL}, {"threads_forever", threads_forever, NULL},
    {"sleep_recv", in_recv, nap}, {"sleep_barrier", in_barrier, nap}, {"sleep_bcast", in_bcast, nap},
    {"sleep_wait", in_wait, nap}, {"sleep_waitall", in_waitall, nap}, {"sleep_probe", in_probe, nap},
    {"sleep_allreduce", in_allreduce, nap}, {"sleep_split", in_split, nap}, {"sleep_fence", in_fence, nap},
    {"sleep_test", in_test, nap}, {"late_receiver", in_large_send, nap}, {"all_sleep", all_alike, nap},
    {"any_source", any_source, nap}, {"chain", chain, nap}, {"threads_sleep", with_threads, nap},
    {"known_thread", known_thread, nap}, {"new_thread", new_thread, nap}, {"known_thread_computes", known_thread, compute},
    {"files_barrier", in_barrier, write_files},
    {"compute_recv", in_recv, compute}, {"compute_waitall", in_waitall, compute}, {"compute_iprobe", in_iprobe, compute},
    {"all_compute", all_alike, compute}, {"pipeline", pipeline, compute}, {"threads_compute", with_threads, compute},
};

static const struct program *named(const char *name) {
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(programs[i].name, name)) return &programs[i];
    return NULL;
}
static void note_process(void) {
    char name[600];
    snprintf(name, sizeof name, "%s/pid.%ld", folder, (long)getpid());
    int file = open(name, O_WRONLY | O_CREAT, 0644);
    if (file < 0) abort();
    close(file);
}

int main(int argc, char **argv) {
    const struct program *program = argc == 4 ? named(argv[1]) : NULL;
    if (!program) {
        fprintf(stderr, "usage: hangs PROGRAM SILENCE FOLDER\n");
        return 64;
    }
    void (*const threaded[])(void) = {with_threads, known_thread, new_thread, threads_forever};
    int level, is_threaded = 0;
    for (size_t i = 0; i < sizeof threaded / sizeof *threaded; i++) is_threaded |= program->run == threaded[i];
    silence = atof(argv[2]);
    snprintf(folder, sizeof folder, "%s", argv[3]);
    be_silent = program->silence;
    note_process();
    alarm((unsigned)silence + LEFT_OVER_SECONDS);
    out = calloc(1, BIG);
    in = calloc(1, BIG);
    if (!out || !in) return 71;
    MPI_Init_thread(&argc, &argv, is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    peer = me ^ 1;
    if (is_threaded && level != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 69);
    /* Hydra lets the others live (-disable-auto-cleanup), but sends them this signal. */
    if (program->run == killed) signal(SIGUSR1, SIG_IGN);
    work_normally(SECONDS_BEFORE);
    program->run();
    /* What comes here and should hang is no measurement. */
    if (!program->silence) MPI_Abort(MPI_COMM_WORLD, 70);
    work_normally(SECONDS_AFTER);
    MPI_Finalize();
    return 0;
}
