/*
 * Clocks in trace mode: each rank holds its clock against rank 0's, once a second or less often in large jobs, with a
 * burst of small UDP packets (sync_burst.c). Nothing is corrected here: the points are sent as they are, and the
 * reader of the trace lines up the clocks, drift and steps included.
 *
 * When a packet came is reported by the kernel's stamp (tl_trace_received): on a busy node a thread is woken much later.
 * So nobody spins, and both sides sleep between packets. A thread of its own, as an answer that waits for a flush
 * delays all who wait. Rank 0 answers only packets that hold the job's cookie, with as many bytes as the query had,
 * and a bounded number a second: to others the port is silent.
 */
#define _GNU_SOURCE
#include "sync.h"

#include <ifaddrs.h>
#include <linux/random.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "environment.h"
#include "frame.h"
#include "rendezvous.h"
#include "shim.h"
#include "sync_burst.h"
#include "trace.h"
#include "trace_clock.h"
#include "world.h"

enum {
    PACKET_BYTES = 64,
    PACKET_MAGIC = 0x4b4c4354,    /* "TCLK" */
    ANSWER_MS = 20,               /* late answers are as good as others, thanks to the stamps */
    BURST_MS = 100,               /* for a comparison */
    LAST_BURST_MS = 40,           /* for the last one: the program waits for it */
    UNANSWERED = 2,               /* packets of a comparison without an answer */
    PERIOD_MS = 1000,
    PERIOD_MS_PER_RANK = 5,       /* keeps rank 0 below 8,000 packets a second */
    PERIOD_LONGEST_MS = 60000,
    LOOK_FIRST_MS = 10,           /* for rank 0 */
    LOOK_LAST_MS = 2000,
    FAILURES = 3,                 /* comparisons without an answer before rank 0 is looked for again */
    ANSWERS_PER_SECOND = 50000,
    STACK_BYTES = 128 * 1024
};

enum packet_kind { QUERY = 1, ANSWER = 2 };

struct packet {
    uint32_t magic, kind;
    uint8_t cookie[TL_COOKIE_BYTES];
    uint32_t number, rank;
    int64_t received, sent; /* rank 0's clock, in answers */
    uint8_t unused[16];
};
_Static_assert(sizeof(struct packet) == PACKET_BYTES, "the packet has no holes");

static pthread_t thread;
static int running, ending, wake = -1, sock = -1;
static struct tl_meeting meeting;
static uint32_t packets;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tl_sync_point points[TL_SYNC_POINTS];
static size_t point_count;
static uint64_t points_taken, points_lost;
static struct tl_frame frame;

/* ---- rank 0 ---- */

static int is_from_us(const struct packet *packet, ssize_t length, enum packet_kind kind) {
    if (length != PACKET_BYTES || packet->magic != PACKET_MAGIC || packet->kind != (uint32_t)kind) return 0;
    uint8_t other = 0; /* the time does not reveal how much of the cookie was right */
    for (int i = 0; i < TL_COOKIE_BYTES; i++) other |= packet->cookie[i] ^ meeting.cookie[i];
    return other == 0;
}

/* One packet and when it came; its length, or below 0. */
static ssize_t take(struct packet *packet, struct sockaddr_in6 *from, int64_t earliest, int64_t *came) {
    union tl_stamp_space space;
    struct iovec into = {packet, sizeof *packet};
    struct msghdr message = {.msg_name = from, .msg_namelen = from ? sizeof *from : 0, .msg_iov = &into, .msg_iovlen = 1,
                             .msg_control = &space, .msg_controllen = sizeof space};
    ssize_t got = recvmsg(sock, &message, MSG_DONTWAIT | MSG_TRUNC);
    if (got >= 0) *came = tl_trace_received(&message, earliest);
    return got;
}

/* One packet, if there is one. */
static int answer(void) {
    struct packet packet;
    struct sockaddr_in6 from;
    int64_t received = 0;
    ssize_t got = take(&packet, &from, INT64_MIN, &received);
    if (got < 0) return 0;
    if (!is_from_us(&packet, got, QUERY)) return 1;
    packet.kind = ANSWER;
    packet.received = received;
    packet.sent = tl_trace_now();
    sendto(sock, &packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&from, sizeof from);
    return 1;
}

/* 0 when it is time to end. */
static int wait_for(int fd, int64_t milliseconds) {
    struct pollfd ready[2] = {{.fd = wake, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    poll(ready, fd < 0 ? 1 : 2, (int)milliseconds);
    return !(ready[0].revents & POLLIN);
}

static void *serve(void *unused) {
    (void)unused;
    int64_t second = tl_clock(CLOCK_MONOTONIC);
    int answered = 0;
    while (wait_for(sock, -1)) {
        int64_t now = tl_clock(CLOCK_MONOTONIC);
        if (now - second > 1000000000) second = now, answered = 0;
        if (answered >= ANSWERS_PER_SECOND && !wait_for(-1, 100)) break;
        while (answered < ANSWERS_PER_SECOND && answer()) answered++;
    }
    return NULL;
}

static void add_address(const struct sockaddr *address) {
    struct in6_addr *to = &meeting.address[meeting.addresses];
    if (meeting.addresses >= TL_ADDRESSES) return;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        *to = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(&to->s6_addr[12], &four->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        *to = ((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(to)) return; /* means nothing without an interface */
    } else {
        return;
    }
    meeting.addresses++;
}

/* All addresses of this node, loopback first: the first one that answers is used. */
static void list_addresses(void) {
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return;
    for (int loopback = 1; loopback >= 0; loopback--)
        for (struct ifaddrs *i = all; i; i = i->ifa_next) {
            int is_loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
            if (i->ifa_addr && (i->ifa_flags & IFF_UP) && is_loopback == loopback) add_address(i->ifa_addr);
        }
    freeifaddrs(all);
}

/* One socket for both families; where the kernel has no IPv6, there is no alignment. */
static int open_socket(void) {
    int both = 0, yes = 1;
    sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0 || setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both) != 0) return 0;
    /* Where the kernel has no stamps the bounds are as wide as threads are slow to wake. */
    if (setsockopt(sock, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes) != 0) tl_debug("packets have no times of arrival");
    return 1;
}

static int open_port(void) {
    struct sockaddr_in6 own = {.sin6_family = AF_INET6};
    socklen_t length = sizeof own;
    if (!open_socket() || bind(sock, (struct sockaddr *)&own, sizeof own) != 0 ||
        getsockname(sock, (struct sockaddr *)&own, &length) != 0 ||
        /* glibc has a function for it since 2.25 only. */
        syscall(SYS_getrandom, meeting.cookie, sizeof meeting.cookie, GRND_NONBLOCK) != (long)sizeof meeting.cookie)
        return 0;
    meeting.port = ntohs(own.sin6_port);
    list_addresses();
    return tl_meeting_publish(&meeting);
}

/* ---- the others ---- */

/* One packet there and back; 0 if none came back in time. */
static int exchange(struct tl_exchange *done) {
    struct packet query = {.magic = PACKET_MAGIC, .kind = QUERY, .number = ++packets, .rank = (uint32_t)tl_world_rank};
    struct packet back;
    memcpy(query.cookie, meeting.cookie, sizeof query.cookie);
    int64_t began = tl_clock(CLOCK_MONOTONIC), until = began + (int64_t)ANSWER_MS * 1000000;
    done->sent = tl_trace_now();
    if (send(sock, &query, sizeof query, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof query) return 0;
    for (int64_t now = began; now < until; now = tl_clock(CLOCK_MONOTONIC)) {
        struct pollfd ready = {.fd = sock, .events = POLLIN};
        poll(&ready, 1, (int)((until - now) / 1000000) + 1);
        ssize_t got = take(&back, NULL, began, &done->arrived);
        if (got < 0 || !is_from_us(&back, got, ANSWER) || back.number != query.number) continue;
        done->received = back.received;
        done->answered = back.sent;
        return 1;
    }
    return 0;
}

static void add_point(const struct tl_sync_point *point) {
    pthread_mutex_lock(&lock);
    if (point_count < TL_SYNC_POINTS) points[point_count++] = *point;
    else points_lost++;
    pthread_mutex_unlock(&lock);
}

/* A comparison: a burst of packets. Cut short when it is time to end, but for the last one. */
static int compare(int milliseconds, int is_last) {
    struct tl_burst burst;
    struct tl_exchange one;
    int64_t until = tl_clock(CLOCK_MONOTONIC) + (int64_t)milliseconds * 1000000;
    tl_burst_start(&burst);
    for (int unanswered = 0; unanswered < UNANSWERED && !tl_burst_is_enough(&burst);) {
        if (tl_clock(CLOCK_MONOTONIC) >= until || (TL_LOAD(&ending) && !is_last)) break;
        if (exchange(&one)) tl_burst_add(&burst, &one);
        else unanswered++;
    }
    if (!burst.count) return 0;
    add_point(&burst.point);
    return 1;
}

/* Rank 0 at the first of its addresses that answers. */
static int reach(void) {
    struct tl_exchange one;
    if (!tl_meeting_find(&meeting)) return 0;
    for (int i = 0; i < meeting.addresses; i++) {
        struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(meeting.port), .sin6_addr = meeting.address[i]};
        if (sock >= 0) close(sock);
        if (open_socket() && connect(sock, (struct sockaddr *)&to, sizeof to) == 0 && exchange(&one)) return 1;
    }
    if (sock >= 0) close(sock);
    sock = -1;
    return 0;
}

static int64_t period(void) {
    int64_t wanted = tl_environment_ms("THROUGHLINE_TRACE_SYNC_MS");
    if (wanted) return wanted;
    wanted = (int64_t)tl_world_size * PERIOD_MS_PER_RANK;
    return wanted < PERIOD_MS ? PERIOD_MS : wanted > PERIOD_LONGEST_MS ? PERIOD_LONGEST_MS : wanted;
}

static void *follow(void *milliseconds) {
    int64_t pause = *(int64_t *)milliseconds, look = LOOK_FIRST_MS;
    int failures = FAILURES;
    for (int64_t next = 0; wait_for(-1, next);) {
        if (failures >= FAILURES) {
            failures = reach() ? 0 : FAILURES;
            next = failures ? look : 0;
            if (failures) look = look * 2 < LOOK_LAST_MS ? look * 2 : LOOK_LAST_MS;
            else look = LOOK_FIRST_MS;
            continue;
        }
        failures = compare(BURST_MS, 0) ? 0 : failures + 1;
        next = pause;
    }
    if (sock >= 0 && failures < FAILURES) compare(LAST_BURST_MS, 1);
    return NULL;
}

/* ---- the life of it ---- */

static int start_thread(void *(*body)(void *), void *argument) {
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) return 0;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all); /* the program's signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int made = pthread_create(&thread, &attributes, body, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (made) pthread_setname_np(thread, "throughline-clk");
    return made;
}

void tl_sync_start(void) {
    static int64_t pause;
    if (!TL_LOAD(&tl_tracing) || tl_world_size < 2 || !tl_meeting_configure()) return;
    pause = period();
    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0) return;
    if (tl_world_rank == 0) running = open_port() && start_thread(serve, NULL);
    else running = start_thread(follow, &pause);
    if (!running) tl_debug("clocks of the ranks are not compared");
}

size_t tl_sync_take(struct tl_sync_point *to, uint64_t *number) {
    pthread_mutex_lock(&lock);
    size_t count = point_count;
    memcpy(to, points, count * sizeof *to);
    *number = points_taken;
    points_taken += point_count + points_lost; /* those lost came last: there was no space any more */
    point_count = 0;
    points_lost = 0;
    pthread_mutex_unlock(&lock);
    return count;
}

static void end_thread(void) {
    enum { PATIENCE_MS = 100 }; /* more than the last comparison and an answer before it take */
    if (!running) return;
    running = 0;
    TL_STORE(&ending, 1);
    uint64_t one = 1;
    if (write(wake, &one, sizeof one) < 0) return;
    int64_t at = tl_clock(CLOCK_REALTIME) + (int64_t)PATIENCE_MS * 1000000;
    struct timespec until = {(time_t)(at / 1000000000), (long)(at % 1000000000)};
    pthread_timedjoin_np(thread, NULL, &until);
}

void tl_sync_last(void) {
    if (tl_world_rank != 0) end_thread();
}

void tl_sync_stop(void) {
    int was_rank_0 = running && tl_world_rank == 0;
    end_thread();
    if (was_rank_0) tl_meeting_end();
}

void tl_sync_push(int patience_ms) {
    struct tl_sync_point taken[TL_SYNC_POINTS];
    uint64_t number = 0;
    size_t count = tl_sync_take(taken, &number);
    if (!count) return;
    tl_frame_begin(&frame, TL_CLOCK);
    tl_put_u64(&frame, number);
    for (size_t i = 0; i < count; i++)
        tl_put_clock_point(&frame, taken[i].time, taken[i].offset, taken[i].uncertainty, taken[i].round_trip);
    tl_channel_send(&frame, patience_ms);
}
