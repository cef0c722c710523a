/*
 * When the shim lives: from the end of MPI_Init to the start of MPI_Finalize, in the process that called it; with
 * sessions, while at least one is open.
 * A forked child records nothing. THROUGHLINE_SHIM=off leaves the wrappers as a jump each.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "absent.h"
#include "caller_library.h"
#include "channel.h"
#include "clock.h"
#include "comms.h"
#include "devices.h"
#include "environment.h"
#include "finalize_hook.h"
#include "flush.h"
#include "form.h"
#include "fp_env.h"
#include "frame.h"
#include "frames.h"
#include "library.h"
#include "lifecycle.h"
#include "notes.h"
#include "nvtx.h"
#include "open_calls.h"
#include "operations.h"
#include "polls.h"
#include "program_tool.h"
#include "pvars.h"
#include "shim.h"
#include "status.h"
#include "stretches.h"
#include "sync.h"
#include "threads.h"
#include "tool.h"
#include "trace.h"
#include "types.h"
#include "world.h"

static int started; /* this process has a flush thread */
static pid_t owner;  /* the process that has it: children of a bare clone(2) run no fork handlers */
static int users;       /* MPI_Init counts for one, each open session for one */
static int initialized; /* MPI_Init has been called, and not yet MPI_Finalize */
static int paused;      /* the last session was closed: another may follow */
static int ending;      /* MPI_Finalize goes on, and the flush thread reports it */
static uint64_t finalize_start; /* ticks */
int tl_noticed;

/* The child of a fork shares the socket and has no flush thread: it must neither speak nor wait. */
static void in_child(void) {
    TL_STORE(&tl_recording, 0);
    if (tl_thread_attached()) tl_polls_interrupt(tl_self);
    tl_trace_stop();
    if (started || ending) tl_channel_close();
    started = ending = 0;
}

/* MPI_Finalize is a call as others are, but that nothing of MPI may be called once it has begun: what is before it is sent before
 * it, and how long it took after it. A rank that waits in it for others is in MPI. */
static void open_finalize(struct tl_frame_mark wrapper) {
    struct tl_thread *self = tl_thread_attached() ? tl_self : tl_thread_attach();
    if (!self || !self->table) return; /* a thread that can't record */
    TL_STORE(&self->depth, TL_OP_Finalize);
    self->algorithm = 0;
    tl_inside(self, wrapper);
    finalize_start = tl_call_begin(self);
}

static void close_finalize(void) {
    struct tl_thread *self = tl_self;
    if (!self->table || TL_LOAD(&self->depth) != TL_OP_Finalize) return; /* it ends in another thread's exit */
    struct tl_call call = {self, TL_OP_Finalize, TL_FORM_C, tl_call_end(self, finalize_start), 0, finalize_start, 0};
    tl_note_time(&call);
    tl_trace_call(self, TL_OP_Finalize, call.start, call.start + call.ticks);
    TL_STORE(&self->depth, 0);
}

/* MPI_Finalize has returned, or the process exits in it. */
static void end(enum tl_bye_reason reason) {
    if (!__atomic_exchange_n(&ending, 0, __ATOMIC_ACQ_REL)) return;
    close_finalize();
    if (tl_flush_stop(reason)) tl_flush_finish(reason, 0);
}

/* The program ends. Its handlers that were registered before MPI_Init are still to come, and may call MPI; but the library may have
 * handlers, too, and what it has is not read any more by another thread. */
static void at_exit(void) {
    if (getpid() == owner && started) tl_tool_end();
}

/* After all handlers: the program ends without MPI_Finalize, or after its last session. No MPI function may be called any more. */
__attribute__((destructor)) static void unload(void) {
    if (!owner || getpid() != owner) return;
    tl_flush_await();
    if (!started && !ending) return;
    struct tl_fp_env before = tl_fp_env_save();
    end(TL_BYE_EXIT); /* within MPI_Finalize */
    if (started) {
        started = 0;
        tl_recording_stop();
        tl_trace_finish();
        tl_sync_last();
        tl_sync_stop();
        enum tl_bye_reason reason = paused ? TL_BYE_FINALIZE : TL_BYE_EXIT;
        if (tl_flush_stop(reason)) tl_flush_finish(reason, 0);
    }
    tl_fp_env_restore(&before);
}

static int no_thread_level(int *level) {
    *level = 0;
    return 1;
}

/* Rank, size and group of the world, where MPI_COMM_WORLD exists. */
static int world_of_init(void) {
    int level = 0;
    if (tl_library.comm_rank(tl_library.comm_world, &tl_world_rank) != 0 ||
        tl_library.comm_size(tl_library.comm_world, &tl_world_size) != 0)
        return 0;
    tl_shared_comms = tl_library.query_thread(&level) != 0 || level >= tl_library.thread_multiple;
    tl_handle group = 0;
    if (tl_library.comm_group(tl_library.comm_world, &group) == 0) tl_comms_start(tl_same(group));
    return 1;
}

/* The same with a session alone, where most functions about the world may not be called. */
static int world_of_session(tl_handle session) {
    tl_handle group = 0;
    if (!tl_library.group_from_session_pset || !tl_library.group_rank || !tl_library.group_size) return 0;
    if (tl_library.group_from_session_pset(session, "mpi://WORLD", &group) != 0) return 0;
    group = tl_same(group);
    int known = tl_library.group_rank(group, &tl_world_rank) == 0 && tl_world_rank >= 0 &&
                tl_library.group_size(group, &tl_world_size) == 0;
    tl_library.query_thread = no_thread_level;
    tl_shared_comms = 1; /* each session has a level of its own */
    if (known) tl_comms_start(group);
    return known;
}

/* MPI_THREAD_SERIALIZED and above; a session has a level of its own. The levels are equally far apart. */
static int several_threads_may_call(void) {
    int level = 0;
    return tl_library.query_thread(&level) != 0 || 2 * level >= tl_library.thread_multiple;
}

/* Called once in a process. */
static void start(const tl_handle *session) {
    if (getenv("THROUGHLINE_DEBUG")) tl_debug_on();
    if (tl_several_libraries) {
        tl_debug("two MPI libraries in this process: recording nothing");
        return;
    }
    if (!tl_library_open()) {
        tl_debug("not an MPI library that this shim knows: recording nothing");
        return;
    }
    tl_status_learn();
    tl_clock_start();
    tl_types_start();
    if (!(session ? world_of_session(tl_same(*session)) : world_of_init())) {
        tl_debug("the library does not tell this process's rank: recording nothing");
        return;
    }
    tl_nvtx_offer();
    tl_program_tool_look();
    if (pthread_atfork(NULL, NULL, in_child) != 0 || atexit(at_exit) != 0) return;
    tl_devices_configure();
    if (!tl_flush_start(tl_clock(CLOCK_REALTIME))) {
        tl_debug("no thread: recording nothing");
        tl_pvars_stop();
        tl_channel_close();
        tl_comms_stop();
        return;
    }
    owner = getpid();
    started = 1;
    if (!session) {
        tl_finalize_hook_register(tl_finishing_unseen);
        tl_trace_start();
        tl_sync_start();
    }
    tl_stretches_start();
    tl_open_calls_start(several_threads_may_call());
    TL_STORE(&tl_recording, 1);
    tl_debug("rank %d of %d, %s", tl_world_rank, tl_world_size, tl_library_version());
}

/* Sessions may be opened again after the last one was closed: counts go on, in the same world. */
static void resume(const tl_handle *session) {
    __atomic_fetch_add(&users, 1, __ATOMIC_ACQ_REL);
    if (!__atomic_exchange_n(&tl_noticed, 1, __ATOMIC_ACQ_REL)) {
        if (!tl_switched_off()) start(session);
        return;
    }
    if (!started || !__atomic_exchange_n(&paused, 0, __ATOMIC_ACQ_REL)) return;
    if (session ? world_of_session(tl_same(*session)) : world_of_init()) TL_STORE(&tl_recording, 1);
}

static void begin(const tl_handle *session) {
    struct tl_fp_env before = tl_fp_env_save();
    resume(session);
    tl_fp_env_restore(&before);
}

void tl_starting(void) {
    tl_caller_library_check();
    tl_absent_unbind();
}

/* May be called twice, by the wrapper of Fortran and by that of C which it may have called. */
void tl_started(void) {
    if (!__atomic_exchange_n(&initialized, 1, __ATOMIC_ACQ_REL)) begin(NULL);
}

void tl_session_started(tl_handle session) {
    begin(&session);
}

/* Whether this is the end of what is recorded: not where sessions are left. */
static int end_recording(void) {
    if (!__atomic_exchange_n(&initialized, 0, __ATOMIC_ACQ_REL)) return 0;
    if (__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL) > 0 || !started || getpid() != owner) return 0;
    started = 0;
    tl_recording_stop();
    if (tl_thread_attached()) tl_polls_settle(tl_self);
    tl_trace_finish();
    tl_sync_last();
    return 1;
}

/* Both may be called, by the wrapper and then by finalize_hook.c. The last values of the variables go with the last push, and
 * MPI_T ends before MPI does. */
void tl_finishing(struct tl_frame_mark wrapper) {
    struct tl_fp_env before = tl_fp_env_save();
    if (end_recording()) {
        if (tl_flush_pause()) {
            tl_flush_last();
            tl_pvars_stop();
            open_finalize(wrapper);
            __atomic_store_n(&ending, 1, __ATOMIC_RELEASE);
            tl_flush_resume();
        }
        tl_tool_end();
        tl_comms_stop();
    }
    tl_fp_env_restore(&before);
}

void tl_finishing_unseen(void) {
    struct tl_fp_env before = tl_fp_env_save();
    if (end_recording()) {
        if (tl_flush_stop(TL_BYE_FINALIZE)) {
            tl_flush_finish(TL_BYE_FINALIZE, 1);
            tl_pvars_stop();
        }
        tl_tool_end();
        tl_comms_stop();
    }
    tl_fp_env_restore(&before);
}

/* The groups that translation needs belong to the sessions; the flush thread goes on until the process ends. */
void tl_session_finishing(void) {
    if (__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL) > 0 || !started || getpid() != owner) return;
    tl_recording_stop();
    __atomic_store_n(&paused, 1, __ATOMIC_RELEASE);
    struct tl_fp_env before = tl_fp_env_save();
    if (tl_thread_attached()) tl_polls_settle(tl_self);
    tl_pvars_stop();
    tl_comms_stop();
    tl_fp_env_restore(&before);
}

void tl_finished(void) {
    if (getpid() != owner) return;
    struct tl_fp_env before = tl_fp_env_save();
    end(TL_BYE_FINALIZE);
    tl_sync_stop();
    tl_fp_env_restore(&before);
}
