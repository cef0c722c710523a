/* A profiler as its agent notices one: profiler MODE LIBCUDA LIBCUPTI [LIBRARY ...]. It opens the libraries and then
 *   idle      waits, as a program that is only linked with libcupti
 *   takes     takes the performance monitor of the first GPU, trying again each 10 ms while another has it
 * It prints a line for each step, `open`, `busy` (26, once) and `has`, and ends with its standard input. Its name is that of its
 * file: a copy called ncu is taken for Nsight Compute. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned (*call)(void *);
typedef unsigned (*plain)(unsigned);

static void *libcuda, *libcupti;

static unsigned query(const char *name, void *parameters)
{
	call function;
	void *found = dlsym(libcupti, name);
	memcpy(&function, &found, sizeof function);
	return found ? function(parameters) : ~0u;
}

static int say(const char *what)
{
	return puts(what) < 0 || fflush(stdout) != 0;
}

static int take(void)
{
	plain init;
	void *found = dlsym(libcuda, "cuInit");
	memcpy(&init, &found, sizeof init);
	struct { size_t size; void *private; } start = {16, NULL};
	struct { size_t size; void *private; size_t device; void *object; } enable = {32, NULL, 0, NULL};
	if (!found || init(0) != 0 || query("cuptiProfilerInitialize", &start) != 0)
		return 3;
	unsigned code, was = 0;
	while ((code = query("cuptiPmSamplingEnable", &enable)) == 26) {
		if (was != code && say("busy"))
			return 1;
		was = code;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	return code ? 4 : say("has");
}

int main(int argc, char **argv)
{
	char byte;
	for (int i = 4; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW)) {
			fprintf(stderr, "%s\n", dlerror());
			return 2;
		}
	libcuda = argc > 3 ? dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) : NULL;
	libcupti = libcuda ? dlopen(argv[3], RTLD_NOW) : NULL;
	if (!libcupti)
		return 2;
	int wrong = say("open");
	if (!wrong && strcmp(argv[1], "takes") == 0)
		wrong = take();
	while (!wrong && read(0, &byte, 1) > 0) {
	}
	return wrong;
}
