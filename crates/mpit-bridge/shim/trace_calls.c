/*
 * Calls to records of trace mode. Sends get their number before the call, receives take their place among the
 * posted ones before it: that is the order in which MPI matches. A receive that completes later is found again
 * by its request.
 *
 * Left out: polls that found nothing, as a program may make millions of them. Persistent requests are counted where they are started,
 * each by the operation that made it: they are calls here as well, and neither making them is one nor MPI_Startall. A matched probe (MPI_Mprobe) takes
 * its message, which therefore arrives there; the MPI_Mrecv that follows is a call without one.
 */
#define _GNU_SOURCE
#include "trace_calls.h"

#include <pthread.h>
#include <string.h>

#include "comm.h"
#include "comm_ids.h"
#include "comms.h"
#include "handles.h"
#include "library.h"
#include "messages.h"
#include "operations.h"
#include "records.h"
#include "shim.h"
#include "status.h"
#include "threads.h"
#include "trace.h"

enum { REQUESTS = 1 << 14, PROBES = 32 }; /* outstanding receives and persistent requests that are followed */

enum role {
    NO_MESSAGE,
    SENDS = 1,
    RECEIVES = 2,
    LATER = 4,      /* completed by another call */
    PERSISTENT = 8, /* only made here */
    STARTS = 16,
    POLLS = 32,
    PROBES_MATCHED = 64
};

static int role_of(int operation) {
    switch (operation) {
    case TL_OP_Send: case TL_OP_Bsend: case TL_OP_Ssend: case TL_OP_Rsend: return SENDS;
    case TL_OP_Isend: case TL_OP_Ibsend: case TL_OP_Issend: case TL_OP_Irsend: return SENDS;
    case TL_OP_Recv: return RECEIVES;
    case TL_OP_Irecv: return RECEIVES | LATER;
    case TL_OP_Sendrecv: case TL_OP_Sendrecv_replace: return SENDS | RECEIVES;
    case TL_OP_Isendrecv: case TL_OP_Isendrecv_replace: return SENDS | RECEIVES | LATER;
    case TL_OP_Send_init: case TL_OP_Bsend_init: case TL_OP_Ssend_init: case TL_OP_Rsend_init:
        return SENDS | PERSISTENT;
    case TL_OP_Recv_init: return RECEIVES | PERSISTENT;
    case TL_OP_Start: case TL_OP_Startall: return STARTS;
    case TL_OP_Test: case TL_OP_Testall: case TL_OP_Testany: case TL_OP_Testsome: case TL_OP_Iprobe:
    case TL_OP_Parrived: return POLLS;
    case TL_OP_Improbe: return POLLS | PROBES_MATCHED;
    case TL_OP_Mprobe: return PROBES_MATCHED;
    default: return NO_MESSAGE;
    }
}

/* ---- requests that are followed ---- */

struct followed {
    uint64_t request; /* 0: free */
    struct tl_posted *posted;
    struct tl_comm *comm; /* of the receive, while its slot is still `handle` and `serial` */
    tl_handle handle;
    uint64_t serial;
    /* of a persistent one */
    int persistent; /* its role */
    int peer, tag;
    uint64_t comm_id, bytes;
    uint16_t operation;
};

static struct followed table[REQUESTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of a request, or with `make` a free one; NULL if there is none. Call with the lock held. */
static struct followed *find(tl_handle handle, int make) {
    uint64_t request = (uint64_t)tl_same(handle) ^ 1; /* not 0 */
    size_t start = (size_t)((request * 0x9e3779b97f4a7c15u) >> 50) % REQUESTS;
    struct followed *vacant = NULL;
    for (size_t i = 0; i < PROBES; i++) {
        struct followed *entry = &table[(start + i) % REQUESTS];
        if (entry->request == request) return entry;
        if (!entry->request && !vacant) vacant = entry;
    }
    if (!make || !vacant) return NULL;
    *vacant = (struct followed){.request = request};
    return vacant;
}

/* ---- records ---- */

static void put(void *self, const struct tl_record *record) {
    tl_trace_put(self, record);
}

static int world_rank(const struct tl_comm *comm, int rank) {
    if (!comm || rank < 0 || rank >= comm->size) return TL_TRACE_NOBODY;
    return comm->world ? comm->world[rank] : rank;
}

/* Source and tag of a status: where all libraries of a family keep them (their mpi.h; the MPI-5 ABI's too). */
static void read_status(const void *status, int *source, int *tag) {
    const int *words = status;
    const int first = tl_library.family == TL_FAMILY_MPICH ? 2 : 0;
    *source = words[first];
    *tag = words[first + 1];
}

static struct tl_record record_of(struct tl_thread *self, int operation, enum tl_trace_kind kind, uint64_t start, uint64_t end) {
    return (struct tl_record){
        .start = start, .end = end, .peer = TL_TRACE_NOBODY, .sequence = TL_TRACE_UNNUMBERED,
        .operation = (uint16_t)operation, .kind = (uint16_t)kind, .thread = tl_trace_thread(self),
        .region = self->table ? self->table->region : 0,
    };
}

/* ---- before ---- */

static struct tl_posted *post(struct tl_thread *self, const struct tl_comm *comm, uint64_t comm_id, int operation,
                              int source, int tag, uint64_t ticks) {
    if (!comm_id) return NULL; /* never numbered */
    struct tl_record record = record_of(self, operation, TL_TRACE_ARRIVAL, ticks, ticks);
    int from = source < 0 ? source : world_rank(comm, source);
    return tl_message_posted(comm_id, from, tag, &record);
}

static void start_persistent(struct tl_thread *self, const struct tl_traced *traced, uint64_t ticks) {
    for (int i = 0; i < traced->count; i++) {
        tl_handle request = tl_request_at(traced->form, traced->requests, i);
        pthread_mutex_lock(&lock);
        struct followed *entry = find(request, 0);
        struct followed found = entry ? *entry : (struct followed){0};
        pthread_mutex_unlock(&lock);
        if (!entry || !found.persistent) continue;
        struct tl_record record = record_of(self, found.operation, TL_TRACE_ARRIVAL, ticks, ticks);
        if (found.persistent & SENDS) {
            record.kind = TL_TRACE_DEPARTURE;
            record.peer = found.peer;
            record.tag = found.tag;
            record.comm = found.comm_id;
            record.bytes = found.bytes;
            record.sequence = tl_message_sent(found.peer, found.comm_id, found.tag);
            if (found.peer >= 0) tl_trace_put(self, &record);
        } else {
            entry->posted = found.comm_id ? tl_message_posted(found.comm_id, found.peer, found.tag, &record) : NULL;
        }
    }
}

void tl_trace_before(struct tl_thread *self, struct tl_traced *traced, uint64_t ticks) {
    int role = role_of(traced->operation);
    traced->sequence = TL_TRACE_UNNUMBERED;
    traced->peer = TL_TRACE_NOBODY;
    if (role & STARTS) {
        self->starts_at = ticks;
        start_persistent(self, traced, ticks);
    }
    if (!traced->comm) return;
    struct tl_comm *comm = tl_comm_find(self, traced->comm);
    traced->of = comm;
    traced->comm_id = tl_comm_id(comm);
    if (role & SENDS) traced->peer = world_rank(comm, traced->dest);
    else if (traced->root >= 0) traced->peer = world_rank(comm, traced->root);
    if (role & PERSISTENT) return;
    if ((role & SENDS) && traced->peer >= 0)
        traced->sequence =
            tl_message_sent(traced->peer, traced->comm_id, role & RECEIVES ? traced->sendtag : traced->tag);
    if (role & RECEIVES)
        traced->posted = post(self, comm, traced->comm_id, traced->operation, traced->source,
                              role & SENDS ? traced->recvtag : traced->tag, ticks);
}

/* ---- after ---- */

/* A receive is complete: its record follows, now or when its number is known. */
static void arrived(struct tl_thread *self, struct tl_posted *posted, struct tl_record record, const struct tl_comm *comm,
                    const void *status) {
    int source, tag;
    read_status(status, &source, &tag);
    record.peer = world_rank(comm, source);
    record.tag = tag;
    record.bytes = record.peer < 0 ? 0 : (uint64_t)tl_status_bytes(status);
    if (posted && record.peer >= 0) {
        record.comm = tl_message_record(posted)->comm;
        *tl_message_record(posted) = record;
        tl_message_arrived(posted, put, self);
        return;
    }
    if (posted) tl_message_withdrawn(posted, put, self); /* from MPI_PROC_NULL, or another world */
    if (record.kind == TL_TRACE_RECEIVE || record.peer >= 0) tl_trace_put(self, &record);
}

static void cache(struct followed *entry, struct tl_comm *comm) {
    entry->comm = comm;
    entry->handle = comm ? comm->handle : 0;
    entry->serial = comm ? comm->serial : 0;
}

static const struct tl_comm *cached(const struct followed *entry) {
    const struct tl_comm *comm = entry->comm;
    return comm && TL_LOAD(&comm->handle) == entry->handle && TL_LOAD(&comm->serial) == entry->serial ? comm : NULL;
}

static void follow(struct tl_thread *self, const struct tl_traced *traced) {
    pthread_mutex_lock(&lock);
    struct followed *entry = find(tl_request_at(traced->form, traced->request, 0), 1);
    struct tl_posted *stale = entry ? entry->posted : NULL;
    if (entry) {
        entry->posted = traced->posted;
        cache(entry, traced->of);
    }
    pthread_mutex_unlock(&lock);
    /* Completed where nobody saw it, or never to be found again: what it took is not known. */
    struct tl_posted *unseen = entry ? stale : traced->posted;
    if (!unseen) return;
    tl_messages_lose_count();
    tl_message_withdrawn(unseen, put, self);
}

static void follow_persistent(struct tl_call *call, const struct tl_traced *traced, int role) {
    struct tl_comm *comm = tl_comm_find(call->self, traced->comm);
    pthread_mutex_lock(&lock);
    struct followed *entry = find(tl_request_at(traced->form, traced->request, 0), 1);
    if (entry) {
        entry->persistent = role;
        cache(entry, comm);
        entry->tag = traced->tag;
        entry->comm_id = traced->comm_id;
        entry->bytes = (uint64_t)call->self->last_bytes;
        entry->operation = (uint16_t)traced->operation;
        entry->peer = role & SENDS ? traced->peer : traced->source < 0 ? traced->source : world_rank(comm, traced->source);
    } else if (role & RECEIVES) {
        tl_messages_lose_count();
    }
    pthread_mutex_unlock(&lock);
}

/* A matched probe has taken a message: it is received there, as far as numbers go. */
static void probed(struct tl_thread *self, const struct tl_traced *traced, struct tl_record record) {
    if (!traced->status || tl_is_ignored(traced->form, traced->status)) {
        tl_messages_lose_count();
        return;
    }
    int source, tag;
    read_status(traced->status, &source, &tag);
    if (source < 0) return; /* MPI_PROC_NULL */
    struct tl_posted *posted = post(self, traced->of, traced->comm_id, traced->operation, source, tag, record.start);
    record.kind = TL_TRACE_ARRIVAL;
    arrived(self, posted, record, traced->of, traced->status);
}

static int found_nothing(const struct tl_traced *traced) {
    if (traced->flag) return *(const int *)traced->flag == 0;
    return traced->outcount && *(const int *)traced->outcount <= 0;
}

void tl_trace_call(struct tl_thread *self, int operation, uint64_t start, uint64_t end) {
    if (!tl_trace_started()) return;
    struct tl_record record = record_of(self, operation, TL_TRACE_CALL, start, end);
    tl_trace_put(self, &record);
}

void tl_trace_request_started(const struct tl_call *call, int is_first, uint64_t start, uint64_t end) {
    struct tl_thread *self = call->self;
    /* The messages of all have left from there on. */
    if (is_first && self->starts_at && self->starts_at < start) start = self->starts_at;
    struct tl_record record = record_of(self, call->operation, TL_TRACE_CALL, start, end);
    record.bytes = (uint64_t)self->last_bytes;
    tl_trace_put(self, &record);
}

void tl_trace_after(struct tl_call *call, struct tl_traced *traced, int succeeded) {
    struct tl_thread *self = call->self;
    int role = role_of(traced->operation);
    if ((role & POLLS) && succeeded && found_nothing(traced)) return;
    struct tl_record record = record_of(self, traced->operation, TL_TRACE_CALL, call->start, call->start + call->ticks);
    record.comm = traced->comm_id;
    record.peer = traced->peer;
    record.bytes = succeeded ? (uint64_t)self->last_bytes : 0;
    if (!succeeded) {
        if (traced->posted) tl_message_withdrawn(traced->posted, put, self);
        tl_trace_put(self, &record);
        return;
    }
    if (role & PERSISTENT) follow_persistent(call, traced, role);
    if (traced->makes_request || (role & STARTS)) return;
    if ((role & SENDS) && traced->peer >= 0) {
        record.kind = TL_TRACE_SEND;
        record.tag = role & RECEIVES ? traced->sendtag : traced->tag;
        record.sequence = traced->sequence;
    }
    if (role == RECEIVES) {
        record.kind = TL_TRACE_RECEIVE;
        arrived(self, traced->posted, record, traced->of, traced->status);
        return;
    }
    tl_trace_put(self, &record);
    if (role & PROBES_MATCHED) {
        probed(self, traced, record);
        return;
    }
    if (!(role & RECEIVES)) return;
    if (role & LATER) {
        if (traced->posted) {
            tl_message_record(traced->posted)->start = call->start;
            follow(self, traced);
        }
        return;
    }
    record.kind = TL_TRACE_ARRIVAL; /* the other half of a Sendrecv */
    record.sequence = TL_TRACE_UNNUMBERED;
    arrived(self, traced->posted, record, traced->of, traced->status);
}

/* ---- completion elsewhere ---- */

static struct tl_posted *take(tl_handle request, struct followed *found) {
    pthread_mutex_lock(&lock);
    struct followed *entry = find(request, 0);
    struct tl_posted *posted = entry ? entry->posted : NULL;
    if (entry) {
        *found = *entry;
        entry->posted = NULL;
        if (!entry->persistent) entry->request = 0;
    }
    pthread_mutex_unlock(&lock);
    return posted;
}

void tl_trace_completed(const struct tl_call *call, tl_handle request, const void *status, int cancelled) {
    struct followed found;
    struct tl_posted *posted = take(request, &found);
    if (!posted) return;
    struct tl_thread *self = call->self;
    const struct tl_comm *comm = cached(&found);
    if (!status || cancelled || !comm) {
        if (!cancelled) tl_messages_lose_count();
        tl_message_withdrawn(posted, put, self);
        return;
    }
    struct tl_record record = *tl_message_record(posted);
    record.end = call->start + call->ticks;
    record.thread = tl_trace_thread(self);
    arrived(self, posted, record, comm, status);
}

void tl_trace_request_freed(struct tl_thread *self, tl_handle request) {
    struct followed found;
    struct tl_posted *posted = take(request, &found);
    pthread_mutex_lock(&lock);
    struct followed *entry = find(request, 0);
    if (entry) entry->request = 0;
    pthread_mutex_unlock(&lock);
    if (!posted) return;
    tl_messages_lose_count(); /* it may still receive */
    tl_message_withdrawn(posted, put, self);
}
