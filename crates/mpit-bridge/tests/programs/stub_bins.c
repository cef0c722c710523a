/*
 * stub_bins SECONDS BIN_MS SLACK_NS: sends all the time, now and then not for some bins. Prints for each end of a bin
 * `TIME LEAST MOST`: how many sends had ended by then, as far as readings of the clock around each one report.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Send(const void *, int, int, int, int, int);

enum { WORLD = 0x44000000, TYPE = 0x4c00080b, CALLS = 200000, PAUSE_EACH = 700, PAUSE_US = 350000, STEP_US = 100 };

static long long before[CALLS], after[CALLS];

static long long utc(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    int provided, calls = 0;
    double out = 0;
    if (argc != 4) return 64;
    long long bin = atoll(argv[2]) * 1000000, slack = atoll(argv[3]);
    MPI_Init_thread(&argc, &argv, 0, &provided);
    long long first = utc(), until = first + atoll(argv[1]) * 1000000000;
    while (calls < CALLS && utc() < until) {
        before[calls] = utc();
        MPI_Send(&out, 1, TYPE, 1, 0, WORLD);
        after[calls++] = utc();
        usleep(calls % PAUSE_EACH ? STEP_US : PAUSE_US);
    }
    long long last = utc();
    MPI_Finalize();
    int least = 0, most = 0;
    for (long long end = (first / bin + 1) * bin; end < last; end += bin) {
        while (least < calls && after[least] <= end - slack) least++;
        while (most < calls && before[most] <= end + slack) most++;
        printf("%lld %d %d\n", end, least, most);
    }
    printf("%lld %d %d\n", last, calls, calls);
    return 0;
}
