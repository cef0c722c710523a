/*
 * Numbers of regions and of paths. A path is the regions that a thread is in, from the outermost to the innermost one; it is
 * known by the path around it and its innermost region, and found by one step in a table. Nothing is ever taken out, and
 * what has a number never changes, so that threads read without a lock.
 */
#define _GNU_SOURCE
#include "paths.h"

#include <pthread.h>

#include "frame.h"
#include "limits.h"
#include "names.h"
#include "shim.h"

enum { REGION_BUCKETS = 1024, PATH_BUCKETS = 4096 }; /* four times what has a number at most: short chains */

struct bucket {
    uint64_t hash;
    uint16_t number;
};

struct tl_path tl_paths[TL_PATH_LIMIT];
static struct bucket region_buckets[REGION_BUCKETS], path_buckets[PATH_BUCKETS];
static int regions, paths; /* with a number: 1 to this */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t tl_path_hash(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; name[i] && i < TL_NAME_LIMIT; i++) hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3u;
    return hash ? hash : 1;
}

/* The number of what has this hash, or 0 and the place for it. */
static int find(const struct bucket *buckets, size_t count, uint64_t hash, size_t *at) {
    for (size_t i = 0; i < count; i++) {
        *at = (hash + i) % count;
        uint64_t held = __atomic_load_n(&buckets[*at].hash, __ATOMIC_ACQUIRE);
        if (held == hash) return buckets[*at].number;
        if (held == 0) return 0;
    }
    return 0;
}

static void set(struct bucket *bucket, uint64_t hash, int number) {
    bucket->number = (uint16_t)number;
    __atomic_store_n(&bucket->hash, hash, __ATOMIC_RELEASE);
}

/* The number of a region, a new one where there is space. 0: none. Call with the lock held. */
static int region_of(const char *name, uint64_t hash) {
    size_t at;
    int region = find(region_buckets, REGION_BUCKETS, hash, &at);
    if (region || regions + 1 >= TL_REGION_LIMIT) return region;
    region = regions + 1;
    if (!tl_name_add(TL_NAME_REGION, (uint32_t)region, 0, 0, name)) return 0;
    set(&region_buckets[at], hash, region);
    __atomic_store_n(&regions, region, __ATOMIC_RELEASE);
    return region;
}

static int is_in(int path, int region) {
    for (; path; path = tl_paths[path].parent)
        if (tl_paths[path].region == region) return 1;
    return 0;
}

/* Bytes of the text of the path: names are separated by `/`, before which and before `\` stands a `\` where a name has one. */
static size_t text_bytes(int parent, const char *name) {
    size_t bytes = parent ? (size_t)tl_paths[parent].bytes + 1 : 0;
    for (size_t i = 0; name[i] && i < TL_NAME_LIMIT; i++) bytes += name[i] == '/' || name[i] == '\\' ? 2 : 1;
    return bytes;
}

static int add(int parent, const char *name, uint64_t hash, uint64_t key, size_t bytes) {
    size_t at;
    int path = find(path_buckets, PATH_BUCKETS, key, &at);
    if (path || paths + 1 >= TL_PATH_LIMIT) return path;
    int region = region_of(name, hash);
    path = paths + 1;
    if (!region || !tl_name_add(TL_NAME_PATH, (uint32_t)path, (uint32_t)parent, 0, name)) return 0;
    tl_paths[path] = (struct tl_path){(uint16_t)parent, (uint16_t)region, (uint16_t)bytes, !is_in(parent, region)};
    set(&path_buckets[at], key, path);
    __atomic_store_n(&paths, path, __ATOMIC_RELEASE);
    return path;
}

int tl_path_enter(int parent, const char *name, uint64_t hash) {
    uint64_t key = hash + (uint64_t)parent * 0x9e3779b97f4a7c15u; /* an odd number far from all others: 2^64 / golden ratio */
    size_t at, bytes;
    if (!key) key = 1;
    int path = find(path_buckets, PATH_BUCKETS, key, &at);
    if (TL_LIKELY(path)) return path;
    if (tl_paths_last() + 1 >= TL_PATH_LIMIT || (bytes = text_bytes(parent, name)) > TL_PATH_BYTES) return 0;
    pthread_mutex_lock(&lock);
    path = add(parent, name, hash, key, bytes);
    pthread_mutex_unlock(&lock);
    return path;
}

int tl_paths_last(void) {
    return __atomic_load_n(&paths, __ATOMIC_ACQUIRE);
}

int tl_regions_last(void) {
    return __atomic_load_n(&regions, __ATOMIC_ACQUIRE);
}
