/*
 * Numbers of messages in trace mode: the running count of each (source, destination, communicator, tag), the
 * same on both sides, so that a send finds its receive. No MPI here.
 *
 * MPI matches the messages of one such stream in the order of sending, and receives in the order of posting:
 * whichever receive of the stream was posted first has the earlier message, in whatever order they complete. A
 * send's number is therefore known when it is posted. A receive's is known as soon as every receive that was
 * posted before it and might have taken a message of the same stream has completed: before that, one with a
 * wildcard may still turn out to belong to the stream. Such receives wait here, in the order of posting.
 *
 * Not followed: which of two threads that post at the same moment was first (MPI leaves it open as well), and
 * cancelled sends. What can't be numbered is given out without a number, never with a wrong one.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "messages.h"
#include "records.h"

enum {
    POSTED_LIMIT = 1 << 14, /* outstanding receives; further ones have no number */
    STREAMS = 1 << 16,      /* different (peer, communicator, tag), both directions; a power of two */
    STREAM_PROBES = 64
};

enum direction { SENT = 1, RECEIVED = 2 };

struct stream {
    uint64_t comm;
    int32_t peer, tag;
    uint32_t direction; /* 0: free */
    uint32_t count;
};

struct tl_posted {
    struct tl_posted *before, *after; /* by time of posting; `after` also chains the free ones */
    struct tl_record record;
    int source, tag; /* as requested */
    int complete;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;
static struct tl_posted *pool, *unused, *first, *last;
static size_t pool_used;
static size_t waiting; /* complete, but their number is not known yet */
static int count_lost;

static void *map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int tl_messages_start(void) {
    if (!streams) streams = map(STREAMS * sizeof *streams);
    if (!pool) pool = map(POSTED_LIMIT * sizeof *pool);
    return streams && pool;
}

static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* The next number of a stream, or none where there are too many streams. Call with the lock held. */
static int32_t count(enum direction direction, int32_t peer, uint64_t comm, int32_t tag) {
    if (peer < 0 || comm == 0 || !streams) return TL_TRACE_UNNUMBERED;
    uint64_t place = mixed(comm ^ mixed((uint64_t)(uint32_t)peer << 32 | (uint32_t)tag) ^ direction);
    for (size_t i = 0; i < STREAM_PROBES; i++) {
        struct stream *s = &streams[(place + i) % STREAMS];
        if (!s->direction) *s = (struct stream){comm, peer, tag, direction, 0};
        if (s->comm != comm || s->peer != peer || s->tag != tag || s->direction != direction) continue;
        return (int32_t)(s->count++ & INT32_MAX);
    }
    return TL_TRACE_UNNUMBERED;
}

int32_t tl_message_sent(int peer, uint64_t comm, int tag) {
    pthread_mutex_lock(&lock);
    int32_t number = count(SENT, peer, comm, tag);
    pthread_mutex_unlock(&lock);
    return number;
}

struct tl_posted *tl_message_posted(uint64_t comm, int source, int tag, const struct tl_record *record) {
    pthread_mutex_lock(&lock);
    struct tl_posted *posted = unused;
    if (posted) unused = posted->after;
    else if (pool && pool_used < POSTED_LIMIT) posted = &pool[pool_used++];
    else count_lost = 1; /* it will take a message that nobody counts */
    if (posted) {
        *posted = (struct tl_posted){.before = last, .record = *record, .source = source, .tag = tag};
        posted->record.comm = comm;
        if (last) last->after = posted;
        else first = posted;
        last = posted;
    }
    pthread_mutex_unlock(&lock);
    return posted;
}

struct tl_record *tl_message_record(struct tl_posted *posted) {
    return &posted->record;
}

static void release(struct tl_posted *posted) {
    if (posted->before) posted->before->after = posted->after;
    else first = posted->after;
    if (posted->after) posted->after->before = posted->before;
    else last = posted->before;
    posted->after = unused;
    unused = posted;
}

/* Whether `earlier`, still pending, may have taken a message of the stream that `later` belongs to. */
static int may_precede(const struct tl_posted *earlier, const struct tl_posted *later) {
    if (earlier->record.comm != later->record.comm) return 0;
    if (earlier->complete) return earlier->record.peer == later->record.peer && earlier->record.tag == later->record.tag;
    return (earlier->source < 0 || earlier->source == later->record.peer) &&
           (earlier->tag < 0 || earlier->tag == later->record.tag);
}

static int is_known(const struct tl_posted *posted) {
    for (const struct tl_posted *p = posted->before; p; p = p->before)
        if (may_precede(p, posted)) return 0;
    return 1;
}

/* Gives out what became known, in the order of posting. Call with the lock held. */
static void give_out(tl_put_record *put, void *context) {
    for (struct tl_posted *p = first, *next; p && waiting; p = next) {
        next = p->after;
        if (!p->complete || !is_known(p)) continue;
        p->record.sequence =
            count_lost ? TL_TRACE_UNNUMBERED : count(RECEIVED, p->record.peer, p->record.comm, p->record.tag);
        waiting--;
        put(context, &p->record);
        release(p);
    }
}

void tl_message_arrived(struct tl_posted *posted, tl_put_record *put, void *context) {
    pthread_mutex_lock(&lock);
    posted->complete = 1;
    waiting++;
    give_out(put, context);
    pthread_mutex_unlock(&lock);
}

void tl_message_withdrawn(struct tl_posted *posted, tl_put_record *put, void *context) {
    pthread_mutex_lock(&lock);
    release(posted);
    give_out(put, context);
    pthread_mutex_unlock(&lock);
}

void tl_messages_finish(tl_put_record *put, void *context) {
    pthread_mutex_lock(&lock);
    for (struct tl_posted *p = first, *next; p; p = next) {
        next = p->after;
        if (!p->complete) continue;
        p->record.sequence = TL_TRACE_UNNUMBERED;
        put(context, &p->record);
        release(p);
    }
    waiting = 0;
    pthread_mutex_unlock(&lock);
}

void tl_messages_lose_count(void) {
    pthread_mutex_lock(&lock);
    count_lost = 1;
    pthread_mutex_unlock(&lock);
}
