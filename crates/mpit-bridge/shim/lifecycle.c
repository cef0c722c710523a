/*
 * When the shim lives: from the end of MPI_Init to the start of MPI_Finalize, in the process that called it.
 * A forked child records nothing. THROUGHLINE_SHIM=off leaves the wrappers as a jump each.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "composure.h"
#include "flush.h"
#include "pvars.h"
#include "shim.h"

int tl_world_size, tl_world_rank;

static int started; /* this process has a flush thread */
static pid_t owner;  /* the process that has it: children of a bare clone(2) run no fork handlers */

static int debugging;

void tl_debug(const char *format, ...) {
    if (!debugging) return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "throughline[%d]: %s\n", (int)getpid(), text);
}

int tl_valid_ms(int value, int standard) {
    enum { SHORTEST_MS = 10, LONGEST_MS = 60000 };
    return value >= SHORTEST_MS && value <= LONGEST_MS ? value : standard;
}

int tl_environment_ms(const char *name) {
    const char *text = getenv(name);
    return text ? tl_valid_ms(atoi(text), 0) : 0;
}

static int switched_off(void) {
    const char *text = getenv("THROUGHLINE_SHIM");
    return text && (strcmp(text, "off") == 0 || strcmp(text, "0") == 0 || strcmp(text, "no") == 0);
}

/* The child of a fork shares the socket and has no flush thread: it must neither speak nor wait. */
static void in_child(void) {
    TL_STORE(&tl_recording, 0);
    if (started) tl_channel_close();
    started = 0;
}

/* The program ends without MPI_Finalize. No MPI function may be called any more. */
static void at_exit(void) {
    if (!started || getpid() != owner) return;
    started = 0;
    TL_STORE(&tl_recording, 0);
    struct tl_composure before = tl_composed();
    if (tl_flush_stop()) tl_flush_finish(TL_BYE_EXIT);
    tl_as_before(&before);
}

static void start(void) {
    debugging = getenv("THROUGHLINE_DEBUG") != NULL;
    if (tl_several_libraries) {
        tl_debug("two MPI libraries in this process: recording nothing");
        return;
    }
    if (!tl_library_open()) {
        tl_debug("not an MPI library that this shim knows: recording nothing");
        return;
    }
    int level = 0;
    if (tl_library.comm_rank(tl_library.comm_world, &tl_world_rank) != 0 ||
        tl_library.comm_size(tl_library.comm_world, &tl_world_size) != 0)
        return;
    tl_shared_comms = tl_library.query_thread(&level) != 0 || level >= 3; /* MPI_THREAD_MULTIPLE */
    tl_clock_start();
    tl_comms_start();
    if (pthread_atfork(NULL, NULL, in_child) != 0 || atexit(at_exit) != 0) return;
    if (!tl_flush_start(tl_clock(CLOCK_REALTIME))) {
        tl_debug("no thread: recording nothing");
        tl_pvars_stop();
        tl_channel_close();
        tl_comms_stop();
        return;
    }
    owner = getpid();
    started = 1;
    tl_farewell_ask();
    TL_STORE(&tl_recording, 1);
    tl_debug("rank %d of %d, %s", tl_world_rank, tl_world_size, tl_library_version());
}

void tl_started(void) {
    static int done;
    if (__atomic_exchange_n(&done, 1, __ATOMIC_ACQ_REL) || switched_off()) return;
    struct tl_composure before = tl_composed();
    start();
    tl_as_before(&before);
}

void tl_finishing(void) {
    if (!started || getpid() != owner) return;
    started = 0;
    TL_STORE(&tl_recording, 0);
    struct tl_composure before = tl_composed();
    if (tl_flush_stop()) {
        /* The last values of the variables go with the last push, and MPI_T ends before MPI does. */
        tl_flush_finish(TL_BYE_FINALIZE);
        tl_pvars_stop();
    }
    tl_comms_stop();
    tl_as_before(&before);
}
