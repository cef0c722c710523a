/* nvtx: allreduces of 8 bytes within ranges of NVTX 3, whose header's side stands here: tables of functions that a tool enters,
 * and the way to the tool by NVTX_INJECTION64_PATH. Prints whether there is a tool, and the levels of nested ranges. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef void (*function)(void);
enum { PLACES = 16 };
static function core[PLACES], core2[PLACES];
static function *core_places[PLACES], *core2_places[PLACES];

static int module(int number, function ***table, unsigned *size) {
    if (number != 1 && number != 5) return 0;
    *table = number == 1 ? core_places : core2_places;
    *size = PLACES;
    return 1;
}

static const struct {
    size_t bytes;
    int (*module)(int, function ***, unsigned *);
} callbacks = {sizeof callbacks, module};

static const void *tables(uint32_t number) {
    return number == 1 ? &callbacks : NULL;
}

static int find_tool(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    void *found = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    int (*initialize)(const void *(*)(uint32_t));
    for (int i = 0; i < PLACES; i++) {
        core_places[i] = &core[i];
        core2_places[i] = &core2[i];
    }
    if (!found) return 0;
    memcpy(&initialize, &found, sizeof found);
    return initialize(tables);
}

struct event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
enum { ASCII = 1, UNICODE = 2, REGISTERED = 3 };
static struct event event(int type, const void *message) {
    return (struct event){.version = 3, .size = sizeof(struct event), .message_type = type, .message = message};
}

#define CALL(table, place, type, ...) (table[place] ? ((type)table[place])(__VA_ARGS__) : 0)
typedef int pop_f(void), push_a_f(const char *), push_w_f(const wchar_t *), push_ex_f(const struct event *), domain_pop_f(void *),
    domain_push_f(void *, const struct event *);
typedef uint64_t start_a_f(const char *), domain_start_f(void *, const struct event *);
typedef void *make_f(const char *), *make_w_f(const wchar_t *), *make_in_f(void *, const char *);
static void stop(uint64_t id) {
    if (core[7]) ((void (*)(uint64_t))core[7])(id);
}

static void calls(int times) {
    double one = 1, sum;
    while (times-- > 0) MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void *stop_elsewhere(void *id) {
    stop(*(uint64_t *)id);
    return NULL;
}

int main(int argc, char **argv) {
    int rank, levels[6], provided, tool = find_tool();
    CALL(core, 9, push_a_f *, "before"); /* before MPI is there */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    calls(1);
    levels[0] = CALL(core, 9, push_a_f *, "plain");
    calls(2);
    levels[1] = CALL(core, 10, push_w_f *, L"w\u00efde \U0001f680");
    calls(3);
    struct event by = event(UNICODE, L"event");
    levels[2] = CALL(core, 8, push_ex_f *, &by);
    calls(4);
    levels[3] = CALL(core, 11, pop_f *);
    levels[4] = CALL(core, 11, pop_f *);
    levels[5] = CALL(core, 11, pop_f *);
    CALL(core, 11, pop_f *);

    /* Domains are stacks of their own: `mine:outer` ends before `yours:inner` does. */
    void *mine = CALL(core2, 12, make_f *, "mine"), *yours = CALL(core2, 13, make_w_f *, L"yours");
    by = event(REGISTERED, CALL(core2, 10, make_in_f *, mine, "outer"));
    CALL(core2, 4, domain_push_f *, mine, &by);
    calls(5);
    by = event(ASCII, "inner");
    CALL(core2, 4, domain_push_f *, yours, &by);
    calls(6);
    CALL(core2, 5, domain_pop_f *, mine);
    calls(7); /* still within yours */
    CALL(core2, 5, domain_pop_f *, yours);

    uint64_t first = CALL(core, 5, start_a_f *, "first");
    by = event(UNICODE, NULL);
    uint64_t second = CALL(core2, 2, domain_start_f *, mine, &by);
    calls(8);
    stop(first); /* in another order than they began */
    calls(9);
    stop(second);
    uint64_t other = CALL(core, 5, start_a_f *, "elsewhere");
    calls(10);
    pthread_t thread;
    pthread_create(&thread, NULL, stop_elsewhere, &other);
    pthread_join(thread, NULL);
    CALL(core, 9, push_a_f *, "after");
    calls(11);
    CALL(core, 11, pop_f *);
    CALL(core, 11, pop_f *); /* one more than were begun */
    calls(12); /* outside of all */
    by = event(ASCII, "short");
    by.size = 16; /* of version 1, which has no message there */
    CALL(core, 8, push_ex_f *, &by);
    CALL(core, 11, pop_f *);
    if (rank == 0) printf("tool %d levels %d %d %d %d %d %d\n", tool, levels[0], levels[1], levels[2], levels[3], levels[4], levels[5]);
    MPI_Finalize();
    return 0;
}
