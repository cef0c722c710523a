/*
 * Outstanding requests: which operation began each, so that the time spent waiting for it and the bytes that
 * it received are given to that operation. One table for the process, bounded; without locks.
 */
#ifndef THROUGHLINE_REQUESTS_H
#define THROUGHLINE_REQUESTS_H

#include <stdint.h>

#include "captures.h"
#include "comms.h"
#include "form.h"
#include "library.h"
#include "shim.h"
#include "status.h"
#include "threads.h"

#pragma GCC visibility push(hidden)

enum {
    TL_REQUEST_BUCKETS = 2048, /* of 8: 16,384 requests in 512 KiB; unused pages of it cost nothing */
    TL_LOOKED_FEW = 64,        /* requests of one call that are looked up without memory from the heap */
    TL_LOOKED_LIMIT = 1 << 20 /* requests of one call; further ones are counted as untracked */
};

/* A request as it was before the call that may complete it. */
struct tl_found {
    uint64_t *entry; /* NULL: not known */
    uint64_t held;
};
struct tl_looked {
    const void *requests; /* the program's array */
    int count;
    int is_cut; /* the call has more requests than that */
    unsigned active; /* how many of them may be completed: known, and if persistent, started */
    int receives;    /* one of them at least */
    int unrequested;     /* no status may be fetched that the program does not fetch (wrappers.h) */
    int later;       /* they are only looked up if the call succeeds: what they were is in `handles` */
    struct tl_found *found;
    struct tl_found few[TL_LOOKED_FEW];
    uint64_t handles[TL_LOOKED_FEW];
};

/* `call` has begun a request, given as the library's C handle. */
void tl_request_began(struct tl_call *call, tl_handle request);
/* A persistent request was made; `persistent` is a struct of persistent.c, which the table now owns. */
int tl_request_made(struct tl_thread *self, tl_handle request, const void *persistent);
/* What calls that complete some of several requests call the first one. */
static inline int tl_first_index(enum tl_form form) {
    return tl_is_fortran(form) ? tl_library.fortran_first_index : 0;
}

/* The persistent request that was found; NULL if it is none. */
struct tl_capture *tl_found_persistent(const struct tl_found *found);
/* A library may start a persistent request under another handle than the one it was given. */
void tl_request_moved(const struct tl_found *found, struct tl_thread *self, tl_handle request);

/* Looks up the requests of a call, before it is made. */
void tl_requests_look(struct tl_looked *looked, struct tl_thread *self, enum tl_form form, int count,
                      const void *requests);
/* The same for a call that most likely fails: they are retained, and looked up only if it succeeds. Not where another thread
 * may take a request's handle for a new one meanwhile. */
static inline void tl_requests_keep(struct tl_looked *looked, struct tl_thread *self, enum tl_form form, int count,
                                    const void *requests) {
    looked->later = 0;
    if (TL_UNLIKELY(tl_shared_comms || count > TL_LOOKED_FEW || count <= 0 || !requests)) {
        tl_requests_look(looked, self, form, count, requests);
        return;
    }
    looked->later = 1;
    looked->unrequested = 0;
    looked->count = count;
    if (tl_is_fortran(form) || tl_library.handle_bytes == 4)
        for (int i = 0; i < count; i++) ((int *)looked->handles)[i] = ((const int *)requests)[i];
    else
        for (int i = 0; i < count; i++) looked->handles[i] = ((const uint64_t *)requests)[i];
}
static inline void tl_requests_stored(struct tl_looked *looked, const struct tl_call *call) {
    if (looked->later) tl_requests_look(looked, call->self, call->form, looked->count, looked->handles);
}
/* Where an array of statuses is to be written; `few` holds TL_LOOKED_FEW of them. */
void *tl_statuses(const struct tl_looked *looked, struct tl_thread *self, enum tl_form form, void *given, void *few);
/* Is the shim to bring a status of its own? Where the program ignores it, and something that is received must be
 * counted. */
static inline int tl_wants_status(const struct tl_looked *looked, enum tl_form form, const void *given) {
    if (TL_LIKELY(!(looked->later || looked->receives) || !tl_is_ignored(form, given))) return 0;
    return !looked->unrequested;
}

/* MPICH 4.0's MPI_Testall takes what it never set in statuses for errors, and not where they are ignored. */
static inline int tl_is_unrequested(void) {
    return tl_library.family == TL_FAMILY_MPICH;
}

/* After the call: all, one (*index), or some (indices[0..*outcount]) were completed; or all if *flag. */
void tl_completed_all(struct tl_call *call, struct tl_looked *looked, const void *statuses);
void tl_completed_if(struct tl_call *call, struct tl_looked *looked, const void *flag, const void *statuses);
void tl_completed_any(struct tl_call *call, struct tl_looked *looked, const void *index, const void *status);
void tl_completed_some(struct tl_call *call, struct tl_looked *looked, const void *outcount, const void *indices,
                       const void *statuses);
void tl_requests_freed(struct tl_looked *looked);
void tl_requests_cancelled(struct tl_looked *looked);

/* Arguments of the call that began a request, as far as its operation has them. */
struct tl_requested {
    tl_handle comm;
    int peer, tag;
};
struct tl_pending {
    uint32_t count;
    int operation; /* that began the one that is described; 0: there is none */
    struct tl_requested of;
};
/* Flush thread: how many requests that the thread began are pending, with the active persistent ones of all threads, and what began the oldest of
 * them, or the one in question, where it is one of them. */
struct tl_pending tl_requests_pending(struct tl_thread *thread, const uint64_t *one);

#pragma GCC visibility pop

#endif
