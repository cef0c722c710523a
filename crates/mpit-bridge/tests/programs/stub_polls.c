/*
 * stub_polls LEVEL: tests that fail, in long rows, and what may come in between: regions, threads that end, a fork, calls
 * from within, more requests than the fast path takes, and one of them that succeeds. Prints `OPERATION REGION CALLS` of each
 * (`-` outside of all) and ends within a row.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/throughline.h"

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Irecv(void *, int, int, int, int, int, int *);
int MPI_Test(int *, int *, void *);
int MPI_Testany(int, int *, int *, int *, void *);

enum { WORLD = 0x44000000, TYPE = 0x4c00080b, NONE = 0x2c000000, FEW = 16, MANY = 20 };
static int come = -1, within;
static long tests, tests_inside, anys, receives;

int stub_comes(int count);
int stub_comes(int count) {
    (void)count;
    if (within) { /* as a library might call what completes a generalized request */
        int none = NONE, flag;
        within = 0;
        MPI_Test(&none, &flag, (void *)1);
        within = 1;
    }
    return come;
}

static void test(long times, long *counted) {
    int none = NONE, flag;
    for (long i = 0; i < times; i++) MPI_Test(&none, &flag, (void *)1);
    *counted += times;
}

static void testany(long times, int count) {
    int requests[MANY], index, flag;
    for (int i = 0; i < count; i++) requests[i] = NONE;
    for (long i = 0; i < times; i++) MPI_Testany(count, requests, &index, &flag, (void *)1);
    anys += times;
}

static void *thread(void *unused) {
    test(10001, &tests);
    return unused;
}

/* One of several requests completes after a row of tests that fail; its status is ignored. Shortly before, the program
 * has put it elsewhere. */
static void receive(int count, int first, int last) {
    double in;
    int requests[FEW], index, flag;
    for (int i = 0; i < count; i++) requests[i] = NONE;
    MPI_Irecv(&in, 1, TYPE, 0, 0, WORLD, &requests[first]);
    for (int i = 0; i < 1000; i++) MPI_Testany(count, requests, &index, &flag, (void *)1);
    requests[last] = requests[first];
    if (first != last) requests[first] = NONE;
    for (int i = 0; i < 3; i++) MPI_Testany(count, requests, &index, &flag, (void *)1);
    come = last;
    MPI_Testany(count, requests, &index, &flag, (void *)1);
    come = -1;
    anys += 1004;
    receives++;
    if (!flag || index != last || requests[last] != NONE) exit(1);
}

int main(int argc, char **argv) {
    int provided, status;
    pthread_t id;
    MPI_Init_thread(&argc, &argv, argc > 1 ? atoi(argv[1]) : 0, &provided);
    test(20000, &tests);
    for (int i = 0; i < 50; i++) {
        test(100 + i, &tests);
        throughline_region_begin("inside");
        test(77, &tests_inside);
        throughline_region_end("inside");
    }
    for (int i = 0; i < 3; i++) {
        pthread_create(&id, NULL, thread, NULL);
        pthread_join(id, NULL);
        test(3, &tests);
    }
    test(2000, &tests);
    pid_t child = fork();
    if (child == 0) {
        test(2000, &tests);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    within = 1;
    test(5000, &tests);
    within = 0;
    for (int i = 0; i < 20; i++) {
        testany(300, FEW);
        testany(300, MANY);
    }
    for (int count = 1; count <= FEW; count++)
        for (int at = 0; at < count; at++) receive(count, at, count - 1 - at);
    test(2000, &tests);
    printf("test - %ld\ntest inside %ld\ntestany - %ld\nirecv - %ld\n", tests, tests_inside, anys, receives);
    return MPI_Finalize();
}
