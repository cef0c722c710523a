/*
 * The flush thread. It wakes once a second, puts what the threads recorded into the bins that have ended (bins.c), and
 * pushes the cells that changed. All values are sums since MPI_Init: a lost frame makes bins coarser and loses nothing,
 * and after a failure everything is sent again. It calls no MPI function but MPI_T_pvar_read.
 */
#define _GNU_SOURCE
#include "flush.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bins.h"
#include "channel.h"
#include "clock.h"
#include "devices.h"
#include "environment.h"
#include "frame.h"
#include "identity.h"
#include "last_totals.h"
#include "library.h"
#include "names.h"
#include "open_calls.h"
#include "peers.h"
#include "program_tool.h"
#include "pvars.h"
#include "regions.h"
#include "settings.h"
#include "shim.h"
#include "stretches.h"
#include "sync.h"
#include "threads.h"
#include "trace.h"
#include "traffic.h"
#include "wire.h"
#include "world.h"

enum {
    BIN_MS = 100,
    PUSH_MS = 1000,
    LOOK_MS = 1000,           /* between two looks at what was recorded, where pushes are further apart */
    SETTLE_MS = 1,            /* after the end of a bin: what ended with it is recorded by then */
    LOG_FULL = 50, LOG_EMPTY = 10, /* percent: the next look comes after half, after twice the time */
    WELCOME_PATIENCE_MS = 20, /* in MPI_Init, only when an agent took the connection */
    STOP_PATIENCE_MS = 5000,  /* for the thread to end. It waits for nothing but its own clock, and on a loaded node for a core */
    FINAL_PATIENCE_MS = 100,  /* for the whole last push, only when the agent's queue is full */
    TRACE_PATIENCE_MS = 1000, /* the same for the end of a trace, which its user requested: up to a ring of each thread */
    RETRY_FIRST_MS = 1000,
    RETRY_LAST_MS = 30000,
    PATHS_PUSHES = 10,        /* a program has many paths, each of them a row: reported this often, and at the end */
    REFRESH_PUSHES = 60       /* PVARs are repeated this often although they did not change */
};

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static int stopping, ended; /* the thread is to end, and has nothing left to do but what is next */
static enum tl_bye_reason left_to_thread; /* nobody waits for it any more: it is to send the rest itself, and goodbye */
/* What the thread does: all of its work, or what is wanted of it while MPI_Finalize ends the library. Changes under the lock. */
enum { WORKS, TO_PAUSE, PAUSED, REPORTS_OPEN_CALL };
static int state = WORKS;

static int bin_ms = BIN_MS, push_ms = PUSH_MS, retry_ms = RETRY_FIRST_MS, look_ms = LOOK_MS;
static int pvars_given; /* the environment names the variables: the agent's list is not heeded */
static char pvars[2048]; /* which variables are wanted */
static int pvars_changed;
static uint64_t peer_threshold;
static int send_everything;
static int regions_again; /* all regions are to be reported */
static int welcomed; /* this connection's WELCOME has come */
static struct tl_frame hello, ops, other;
static int64_t epoch; /* UTC nanoseconds when MPI_Init ended */
static size_t ops_empty;
static size_t names_reported;
static uint64_t pushes;
static int64_t patience_until; /* 0: never wait */

static int patience(void) {
    int64_t left = patience_until ? patience_until - tl_clock(CLOCK_MONOTONIC) : 0;
    return left > 0 ? (int)(left / 1000000) : 0;
}

/* ---- operations ---- */

static void ops_begin(void) {
    tl_frame_begin(&ops, TL_OPS);
    ops_empty = ops.length;
}

/* Numbers are explained before they are used. 0 if the agent did not take it. */
static int report_names(void) {
    while (names_reported < tl_names_count()) {
        tl_frame_begin(&other, TL_NAMES);
        tl_put_u64(&other, (uint64_t)tl_clock(CLOCK_MONOTONIC));
        size_t next = tl_names_put(&other, names_reported);
        if (!tl_channel_send(&other, patience())) return 0;
        names_reported = next;
    }
    return 1;
}

static void ops_send(void) {
    if (ops.length > ops_empty && (!report_names() || !tl_channel_send(&ops, patience()))) send_everything = 1;
    ops_begin();
}

static void collect(enum tl_bins_part part) {
    int everything = send_everything;
    send_everything = 0;
    int percent = tl_bins_collect(&ops, part, everything, ops_send);
    if (percent > LOG_FULL && look_ms > bin_ms) look_ms /= 2;
    else if (percent < LOG_EMPTY && look_ms < LOOK_MS) look_ms *= 2;
}

/* Paths after the regions, with which they change. */
static void push_regions(int with_paths) {
    tl_frame_begin(&other, TL_REGIONS);
    uint64_t now = (uint64_t)tl_clock(CLOCK_MONOTONIC);
    tl_put_u64(&other, now);
    size_t empty = other.length;
    tl_regions_put(&other, regions_again);
    int sent = other.length == empty || tl_channel_send(&other, patience());
    if (with_paths) {
        tl_frame_begin(&other, TL_PATHS);
        tl_put_u64(&other, now);
        tl_paths_put(&other, regions_again);
        sent &= other.length == empty || tl_channel_send(&other, patience());
    }
    regions_again = !sent;
}

/* ---- what is said about the shim itself ---- */

static void put_status(struct tl_frame *frame) {
    uint64_t unknown = 0, calls_lost = 0, untracked = 0, merged = 0;
    for (struct tl_thread *t = tl_threads(); t; t = t->next) {
        unknown += TL_LOAD(&t->unknown_messages);
        calls_lost += TL_LOAD(&t->lost_calls);
        untracked += TL_LOAD(&t->untracked_requests);
        merged += TL_LOAD(&t->merged_bins);
    }
    tl_field_u64(frame, TL_STATUS_FRAMES_LOST, tl_channel_lost());
    tl_field_u64(frame, TL_STATUS_UNKNOWN_MESSAGES, unknown);
    tl_field_u64(frame, TL_STATUS_THREADS_REFUSED, tl_threads_refused());
    tl_field_u64(frame, TL_STATUS_CONNECTIONS, tl_channel_connections());
    tl_field_u64(frame, TL_STATUS_PVARS_MISSING, tl_pvars_missing());
    tl_field_u64(frame, TL_STATUS_REGIONS_REFUSED, tl_regions_refused());
    tl_field_u64(frame, TL_STATUS_REGIONS_MISMATCHED, tl_regions_mismatched());
    tl_field_u64(frame, TL_STATUS_CALLS_LOST, calls_lost);
    tl_field_u64(frame, TL_STATUS_BINS_MERGED, merged);
    tl_field_u64(frame, TL_STATUS_REQUESTS_UNTRACKED, untracked);
}

static void push_account(void) {
    struct tl_account account;
    if (!tl_account_now(&account)) return;
    tl_frame_begin(&other, TL_ACCOUNT);
    tl_put_account(&other, &account);
    tl_channel_send(&other, patience());
}

static void push(int last, int with_pvars) {
    tl_peers_push(&other, peer_threshold, last, patience);
    ops_send();
    tl_regions_look();
    if (report_names()) push_regions(last || regions_again || pushes % PATHS_PUSHES == 0);
    if (!last) tl_open_calls_push(&other, patience);
    if (!tl_last_writing()) {
        push_account();
        tl_traffic_push(&other, report_names, patience);
        tl_devices_push(&other, pushes, last, patience);
    }
    if (with_pvars && pvars_changed) {
        pvars_changed = 0;
        tl_pvars_choose(pvars);
    }
    if (with_pvars) tl_pvars_push(pushes % REFRESH_PUSHES == 0, patience());
    if (pushes % REFRESH_PUSHES == 0 && !last) {
        tl_frame_begin(&other, TL_STATUS);
        put_status(&other);
        tl_channel_send(&other, patience());
    }
    pushes++;
}

/* ---- connection ---- */

/* Made once: the environment may only be read while the program has no part in it. */
static void make_hello(void) {
    struct tl_frame *frame = &hello;
    tl_frame_begin(frame, TL_HELLO);
    tl_field_u32(frame, TL_HELLO_RANK, (uint32_t)tl_world_rank);
    tl_field_u32(frame, TL_HELLO_SIZE, (uint32_t)tl_world_size);
    tl_field_u64(frame, TL_HELLO_EPOCH, (uint64_t)epoch);
    tl_field_text(frame, TL_HELLO_LIBRARY, tl_library_version());
    tl_field_text(frame, TL_HELLO_SHIM, TL_VERSION);
    int level = 0;
    if (tl_library.query_thread(&level) == 0) tl_field_u32(frame, TL_HELLO_THREADS, (uint32_t)level);
    tl_field_text(frame, TL_HELLO_TICKS, tl_ticks_are_cycles ? "cycles" : "clock");
    tl_identity_put(frame);
}

/* The receiver of the next report knows nothing yet. */
static void begin_anew(void) {
    send_everything = 1;
    names_reported = 0;
    regions_again = 1;
    tl_open_calls_again();
    tl_peers_again();
    tl_traffic_again();
}

/* What of the program's calls no wrapper sees. */
static int send_bypass(void) {
    if (!tl_program_tool()) return 1;
    tl_frame_begin(&other, TL_BYPASS);
    tl_field_u32(&other, TL_BYPASS_HOW, TL_BYPASS_TOOL);
    tl_field_text(&other, TL_BYPASS_PROGRAM, program_invocation_short_name);
    tl_field_text(&other, TL_BYPASS_FUNCTIONS, tl_program_tool());
    return tl_channel_send(&other, patience());
}

static int connect_and_greet(void) {
    if (!tl_channel_connect() || !send_bypass() || !tl_channel_send(&hello, patience())) return 0;
    begin_anew();
    welcomed = 0;
    pushes = 0;
    return 1;
}

static int from_environment_bin_ms, from_environment_push_ms;

static void set_ms(int *target, int from_environment, uint64_t setting, int standard) {
    *target = from_environment ? from_environment : setting <= INT32_MAX ? tl_valid_ms((int)setting, standard) : standard;
}

/* The agent's settings; the environment of the program, being nearer, wins. */
static void read_welcome(int wait_ms) {
    static uint8_t message[4096];
    size_t length = tl_channel_receive(message, sizeof message, wait_ms);
    struct tl_fields field;
    if (!length || !tl_fields_open(&field, message, length, TL_WELCOME)) return;
    welcomed = 1;
    while (tl_fields_next(&field)) {
        uint64_t number = tl_fields_number(&field);
        switch (field.tag) {
        case TL_WELCOME_BIN_MS: set_ms(&bin_ms, from_environment_bin_ms, number, BIN_MS); break;
        case TL_WELCOME_PUSH_MS: set_ms(&push_ms, from_environment_push_ms, number, PUSH_MS); break;
        case TL_WELCOME_PEER_BYTES: peer_threshold = number; break;
        case TL_WELCOME_WIRE: tl_wire_want(number != 0); break;
        case TL_WELCOME_TRACE: tl_trace_allow(number); break;
        case TL_WELCOME_TRACE_RATE: tl_trace_limits(number, 0); break;
        case TL_WELCOME_TRACE_RECORDS: tl_trace_limits(0, number); break;
        case TL_WELCOME_PVARS:
            if (!pvars_given && field.length < sizeof pvars) {
                memcpy(pvars, field.data, field.length);
                pvars[field.length] = '\0';
                pvars_changed = 1;
            }
            break;
        default: break;
        }
    }
    tl_bins_start(bin_ms);
}

/* ---- the thread ---- */

/* Nanoseconds until it is to look again. At the end of each bin before the first push, which reports soon that all is well
 * and has the clocks' rates measured, and while somebody traces, as the rings are small. */
static int64_t until_next(int connected) {
    int each_bin = pushes == 0 || TL_LOAD(&tl_tracing) || tl_bins_want_each();
    int pause = each_bin ? bin_ms : look_ms < push_ms ? look_ms : push_ms;
    if (!connected) return (int64_t)retry_ms * 1000000;
    int64_t usual = tl_bins_until(pause) + (tl_bins_want_each() ? 0 : (int64_t)SETTLE_MS * 1000000);
    /* Pushes keep to their grid: a wake shortly before one would take its place. */
    int64_t awaited = tl_open_calls_wait();
    return awaited < usual - (int64_t)bin_ms * 1000000 ? awaited > 0 ? awaited : 0 : usual;
}

/* Sleeps; 0 when it is time to end. */
static int sleep_for(int64_t nanoseconds) {
    struct timespec until;
    int64_t at = tl_clock(CLOCK_MONOTONIC) + nanoseconds;
    until.tv_sec = (time_t)(at / 1000000000);
    until.tv_nsec = (long)(at % 1000000000);
    pthread_mutex_lock(&lock);
    while (!stopping && state != TO_PAUSE && pthread_cond_timedwait(&wake, &lock, &until) == 0) {
    }
    if (state == TO_PAUSE) {
        TL_STORE(&state, PAUSED);
        pthread_cond_broadcast(&wake);
    }
    while (!stopping && state == PAUSED) pthread_cond_wait(&wake, &lock);
    int go_on = !stopping;
    pthread_mutex_unlock(&lock);
    return go_on;
}

/* Within MPI_Finalize. */
static int64_t until_next_report(void) {
    if (!tl_channel_connected()) return (int64_t)retry_ms * 1000000;
    int64_t usual = (int64_t)push_ms * 1000000, awaited = tl_open_calls_wait();
    return awaited > usual ? usual : awaited > 0 ? awaited : 0;
}

static void report_open_call(void) {
    if (!tl_channel_connected() && !connect_and_greet()) return;
    tl_open_calls_push(&other, patience);
    push_account();
}

static void serve(int64_t *next_push) {
    if (!welcomed || tl_clock(CLOCK_MONOTONIC) >= *next_push) read_welcome(0);
    collect(TL_BINS_ENDED);
    tl_trace_push(bin_ms, TL_TRACE_SOME, patience);
    tl_sync_push(patience());
    int64_t now = tl_clock(CLOCK_MONOTONIC);
    if (now < *next_push) {
        if (tl_open_calls_wait() <= 0) tl_open_calls_push(&other, patience);
        return;
    }
    push(0, 1);
    *next_push = now + tl_bins_until(push_ms) - (int64_t)bin_ms * 500000;
}

static void *run(void *unused) {
    (void)unused;
    int64_t next_push = tl_clock(CLOCK_MONOTONIC);
    while (sleep_for(until_next(tl_channel_connected()))) {
        if (TL_LOAD(&state) == REPORTS_OPEN_CALL) break;
        if (tl_channel_connected()) {
            serve(&next_push);
            retry_ms = RETRY_FIRST_MS;
        } else if (!connect_and_greet()) {
            retry_ms = retry_ms * 2 > RETRY_LAST_MS ? RETRY_LAST_MS : retry_ms * 2;
        }
    }
    while (sleep_for(until_next_report())) report_open_call();
    pthread_mutex_lock(&lock);
    ended = 1;
    enum tl_bye_reason reason = left_to_thread;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    if (reason) tl_flush_finish(reason, 0);
    return NULL;
}

static int start_thread(void) {
    pthread_attr_t attributes;
    pthread_condattr_t clock;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) return 0;
    pthread_attr_setstacksize(&attributes, tl_stack_bytes(&attributes));
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &clock);
    sigfillset(&all); /* the program's signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int started = pthread_create(&thread, &attributes, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    pthread_condattr_destroy(&clock);
    if (started) pthread_setname_np(thread, "throughline");
    return started;
}

int tl_flush_start(int64_t started) {
    const char *wanted = getenv("THROUGHLINE_PVARS");
    from_environment_bin_ms = tl_environment_ms("THROUGHLINE_BIN_MS");
    from_environment_push_ms = tl_environment_ms("THROUGHLINE_PUSH_MS");
    set_ms(&bin_ms, from_environment_bin_ms, BIN_MS, BIN_MS);
    set_ms(&push_ms, from_environment_push_ms, PUSH_MS, PUSH_MS);
    pvars_given = wanted != NULL;
    snprintf(pvars, sizeof pvars, "%s", wanted ? wanted : tl_pvars_standard());
    pvars_changed = 1;
    tl_trace_configure();
    tl_settings_read();
    tl_wire_start();
    tl_channel_configure();
    epoch = started;
    make_hello();
    ops_begin();
    tl_bins_start(bin_ms);
    if (connect_and_greet()) read_welcome(WELCOME_PATIENCE_MS);
    return start_thread();
}

static struct timespec patience_for_thread(clockid_t clock) {
    int64_t at = tl_clock(clock) + (int64_t)STOP_PATIENCE_MS * 1000000;
    return (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
}

int tl_flush_pause(void) {
    struct timespec until = patience_for_thread(CLOCK_MONOTONIC);
    pthread_mutex_lock(&lock);
    TL_STORE(&state, TO_PAUSE);
    pthread_cond_broadcast(&wake);
    while (state != PAUSED && pthread_cond_timedwait(&wake, &lock, &until) == 0) {
    }
    int paused = state == PAUSED;
    if (!paused) {
        stopping = 1;
        left_to_thread = TL_BYE_FINALIZE;
    }
    pthread_mutex_unlock(&lock);
    return paused;
}

void tl_flush_resume(void) {
    pthread_mutex_lock(&lock);
    TL_STORE(&state, REPORTS_OPEN_CALL);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
}

int tl_flush_stop(enum tl_bye_reason reason) {
    struct timespec until = patience_for_thread(CLOCK_MONOTONIC);
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_broadcast(&wake);
    while (!ended && pthread_cond_timedwait(&wake, &lock, &until) == 0) {
    }
    int has_ended = ended;
    if (!has_ended) left_to_thread = reason;
    pthread_mutex_unlock(&lock);
    if (has_ended) pthread_join(thread, NULL);
    return has_ended;
}

void tl_flush_await(void) {
    struct timespec until = patience_for_thread(CLOCK_REALTIME);
    if (left_to_thread) pthread_timedjoin_np(thread, NULL, &until);
}

static void push_last(int with_pvars) {
    collect(TL_BINS_UNTIL_NOW);
    push(1, with_pvars);
}

static void say_goodbye(enum tl_bye_reason reason) {
    tl_frame_begin(&other, TL_BYE);
    tl_field_u32(&other, TL_STATUS_REASON, (uint32_t)reason);
    put_status(&other);
    tl_channel_send(&other, patience());
}

/* All of it once more, for an agent that comes, or that is killed before it has stored what it was sent. */
static void leave_totals(enum tl_bye_reason reason) {
    const char *path;
    for (int i = 0; !tl_last_writing() && (path = tl_channel_path(i)); i++) tl_last_begin(path, epoch, tl_world_rank);
    if (!tl_last_writing()) return;
    tl_channel_send(&hello, 0);
    begin_anew();
    push_last(0);
    say_goodbye(reason);
    tl_last_end();
}

static void push_all(int with_pvars, enum tl_trace_part part) {
    patience_until = tl_clock(CLOCK_MONOTONIC) + (int64_t)FINAL_PATIENCE_MS * 1000000;
    if (tl_channel_connected()) push_last(with_pvars);
    /* The agent may have been replaced since the last push, which only shows when something is sent. */
    if (!tl_channel_connected() && connect_and_greet()) push_last(with_pvars);
    if (!tl_channel_connected()) return;
    tl_sync_push(patience());
    int64_t before = patience_until;
    if (tl_trace_started()) patience_until = tl_clock(CLOCK_MONOTONIC) + (int64_t)TRACE_PATIENCE_MS * 1000000;
    tl_trace_push(0, part, patience);
    patience_until = before;
}

void tl_flush_last(void) {
    push_all(1, TL_TRACE_ALL);
    if (!tl_channel_connected()) return;
    /* Upon which the agent reads what the kernel counted of this process, which may be gone when the goodbye comes. */
    tl_frame_begin(&other, TL_STATUS);
    put_status(&other);
    tl_channel_send(&other, patience());
}

void tl_flush_finish(enum tl_bye_reason reason, int with_pvars) {
    push_all(with_pvars, TL_TRACE_ALL_AND_END);
    /* Before the goodbye, upon which the agent looks for it. */
    leave_totals(reason);
    if (tl_channel_connected()) say_goodbye(reason);
    tl_channel_close();
}
