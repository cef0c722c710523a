/*
 * Numbers of messages against a model of MPI's matching: random sends, receives with and without wildcards, observed
 * complete in random order. No MPI. Prints how many messages were numbered; fails at the first wrong number.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../shim/messages.h"

enum { SOURCES = 4, TAGS = 3, COMMS = 2, EVENTS = 200000, OPEN = 200, NONE = -1 };

struct message {
    int source, tag, comm, number;
};
struct receive {
    struct tl_posted *posted;
    int source, tag, comm, matched, done;
    struct message message;
};

static struct message unexpected[EVENTS];
static size_t unexpected_count;
static struct receive receives[OPEN]; /* by time of posting */
static int receive_count;
static int sent[SOURCES][TAGS][COMMS];
static unsigned long given, wrong, unnumbered;
static unsigned long long seed = 88172645463325252ULL;

static unsigned any(unsigned below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 11) % below);
}

static int fits(const struct receive *r, const struct message *m) {
    return r->comm == m->comm && (r->source == NONE || r->source == m->source) && (r->tag == NONE || r->tag == m->tag);
}

static void given_out(void *context, const struct tl_record *record) {
    (void)context;
    given++;
    /* The true number travels in the place of the bytes. */
    if (record->sequence == TL_TRACE_UNNUMBERED) unnumbered++;
    else if ((uint64_t)record->sequence != record->bytes) wrong++;
}

static void send_one(void) {
    struct message m = {(int)any(SOURCES), (int)any(TAGS), (int)any(COMMS), 0};
    m.number = sent[m.source][m.tag][m.comm]++;
    for (int i = 0; i < receive_count; i++) {
        if (receives[i].matched || !fits(&receives[i], &m)) continue;
        receives[i].matched = 1;
        receives[i].message = m;
        return;
    }
    unexpected[unexpected_count++] = m;
}

static void receive_one(void) {
    if (receive_count == OPEN) return;
    struct receive r = {.source = any(3) ? (int)any(SOURCES) : NONE, .tag = any(3) ? (int)any(TAGS) : NONE, .comm = (int)any(COMMS)};
    struct tl_record record = {.operation = 10};
    for (size_t i = 0; i < unexpected_count && !r.matched; i++) {
        if (!fits(&r, &unexpected[i])) continue;
        r.matched = 1;
        r.message = unexpected[i];
        for (size_t j = i + 1; j < unexpected_count; j++) unexpected[j - 1] = unexpected[j];
        unexpected_count--;
    }
    r.posted = tl_message_posted((uint64_t)r.comm + 1, r.source, r.tag, &record);
    if (!r.posted) abort();
    receives[receive_count++] = r;
}

static void drop(int i) {
    for (int j = i + 1; j < receive_count; j++) receives[j - 1] = receives[j];
    receive_count--;
}

static void complete_one(void) {
    if (!receive_count) return;
    int i = (int)any((unsigned)receive_count);
    struct receive *r = &receives[i];
    if (!r->matched) {
        if (any(20)) return;
        tl_message_withdrawn(r->posted, given_out, NULL); /* cancelled */
    } else {
        struct tl_record *record = tl_message_record(r->posted);
        record->peer = r->message.source;
        record->tag = r->message.tag;
        record->bytes = (uint64_t)r->message.number;
        tl_message_arrived(r->posted, given_out, NULL);
    }
    drop(i);
}

int main(void) {
    if (!tl_messages_start()) return 1;
    for (int i = 0; i < EVENTS && !wrong; i++) {
        unsigned what = any(10);
        if (what < 3) send_one();
        else if (what < 6) receive_one();
        else complete_one();
    }
    while (receive_count) complete_one();
    tl_messages_finish(given_out, NULL);
    for (int i = 0; i < 3; i++)
        if (tl_message_sent(3, 7, 5) != i || tl_message_sent(3, 7, 6) != i || tl_message_sent(-1, 7, 6) >= 0) wrong++;
    printf("%lu numbered, %lu wrong, %lu without a number\n", given, wrong, unnumbered);
    return given < 1000 || wrong || unnumbered;
}
