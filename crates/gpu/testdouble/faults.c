/* A library around an NVML, or around its double, in which each call can fail in a way of its own.
 *
 * The real one is the file THROUGHLINE_NVML_REAL, else libnvidia-ml.so.1 in the folder above this library's. The faults are in
 * the file THROUGHLINE_NVML_FAULTS, one a line, read again when it changes; '#' begins a comment:
 *
 *   FUNCTION code N      it answers N, and the real one is not called
 *   FUNCTION hang        it never returns: as a wedged driver, only SIGKILL ends it
 *   FUNCTION spin        the same, and it burns processor time
 *   FUNCTION crash       SIGSEGV
 *   FUNCTION exit N      the process ends with status N
 *   FUNCTION leak MIB    each call occupies so much memory for ever
 *   FUNCTION print MIB   each call prints so much on standard error
 *   FUNCTION skip N      the faults of this function begin after its first N calls
 *
 * FUNCTION is a name of below, or * for all of them. A wrong line is reported on standard error and ends the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libgen.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_FAULTS = 64, FUNCTION_NOT_FOUND = 13 };

static struct fault {
	char function[64], action[16];
	unsigned long number;
} faults[MAX_FAULTS];
static unsigned fault_count;

static void read_faults(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	fault_count = 0;
	while (file && getline(&line, &size, file) >= 0 && fault_count < MAX_FAULTS) {
		struct fault *fault = &faults[fault_count];
		char *comment = strchr(line, '#');
		if (comment)
			*comment = 0;
		fault->number = 0;
		int words = sscanf(line, "%63s %15s %lu", fault->function, fault->action, &fault->number);
		static const char *const actions[] = {"code", "hang", "spin", "crash", "exit", "leak", "print", "skip"};
		bool known = false;
		for (unsigned i = 0; words >= 2 && i < sizeof actions / sizeof *actions; i++)
			known |= strcmp(actions[i], fault->action) == 0;
		if (words > 0 && !known) {
			fprintf(stderr, "faults: %s: '%s' is no fault\n", path, line);
			_Exit(70);
		}
		fault_count += words > 0;
	}
	free(line);
	if (file)
		fclose(file);
}

static void look_at_faults(void)
{
	static struct stat seen;
	struct stat now = {0};
	const char *path = getenv("THROUGHLINE_NVML_FAULTS");
	if (!path || stat(path, &now)) {
		fault_count = 0;
		seen = (struct stat){0};
		return;
	}
	if (now.st_ino == seen.st_ino && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
		return;
	seen = now;
	read_faults(path);
}

static void print(unsigned long mebibytes)
{
	char lines[1 << 14];
	memset(lines, 'x', sizeof lines);
	for (size_t at = 79; at < sizeof lines; at += 80)
		lines[at] = '\n';
	for (unsigned long i = 0; i < mebibytes << 6; i++)
		if (write(STDERR_FILENO, lines, sizeof lines) < 0)
			return;
}

static void leak(unsigned long mebibytes)
{
	static char *volatile lost; /* or the compiler leaves the memory out */
	lost = malloc(mebibytes << 20);
	if (lost)
		memset(lost, 1, mebibytes << 20);
}

static void wait_for_ever(void)
{
	sigset_t all;
	sigfillset(&all);
	for (;;)
		sigsuspend(&all);
}

/* Does what the faults of a function say before it is called; whether its code is given by one. */
static bool fails(const char *function, unsigned long calls, unsigned *code)
{
	bool given = false;
	look_at_faults();
	for (unsigned i = 0; i < fault_count; i++)
		if (strcmp(faults[i].action, "skip") == 0 && strcmp(faults[i].function, function) == 0 &&
		    calls <= faults[i].number)
			return false;
	for (unsigned i = 0; i < fault_count; i++) {
		const struct fault *fault = &faults[i];
		if (strcmp(fault->function, function) != 0 && strcmp(fault->function, "*") != 0)
			continue;
		if (strcmp(fault->action, "hang") == 0)
			wait_for_ever();
		else if (strcmp(fault->action, "spin") == 0)
			for (volatile unsigned long turns = 0;; turns++)
				;
		else if (strcmp(fault->action, "crash") == 0)
			raise(SIGSEGV);
		else if (strcmp(fault->action, "exit") == 0)
			_exit((int)fault->number);
		else if (strcmp(fault->action, "leak") == 0)
			leak(fault->number);
		else if (strcmp(fault->action, "print") == 0)
			print(fault->number);
		else if (strcmp(fault->action, "code") == 0) {
			*code = (unsigned)fault->number;
			given = true;
		}
	}
	return given;
}

/* A function of the real library. */
static void *real(const char *function)
{
	static void *library;
	if (!library) {
		char beside[4096] = "";
		Dl_info here;
		const char *path = getenv("THROUGHLINE_NVML_REAL");
		if (!path && dladdr((void *)faults, &here)) {
			char folder[4000];
			snprintf(folder, sizeof folder, "%s", here.dli_fname);
			snprintf(beside, sizeof beside, "%s/../libnvidia-ml.so.1", dirname(folder));
			path = beside;
		}
		library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
		if (!library) {
			fprintf(stderr, "faults: cannot open %s: %s\n", path ? path : "?", dlerror());
			_Exit(70);
		}
	}
	return dlsym(library, function);
}

/* A call that is handed on unless a fault answers for it. */
#define CALL(function, parameters, arguments)                                \
	EXPORT unsigned function parameters;                                 \
	unsigned function parameters                                         \
	{                                                                    \
		static unsigned long calls;                                  \
		static unsigned(*call) parameters;                           \
		unsigned code = 0;                                           \
		if (fails(#function, ++calls, &code))                        \
			return code;                                         \
		if (!call) {                                                 \
			void *found = real(#function);                       \
			memcpy(&call, &found, sizeof call);                  \
		}                                                            \
		return call ? call arguments : FUNCTION_NOT_FOUND;           \
	}

#define PLAIN(function) CALL(function, (void), ())
#define NUMBER(function) CALL(function, (unsigned *number), (number))
#define TEXT(function) CALL(function, (char *text, unsigned length), (text, length))
#define OF_GPU(function) CALL(function, (void *gpu, void *out), (gpu, out))
#define TEXT_OF_GPU(function) CALL(function, (void *gpu, char *text, unsigned length), (gpu, text, length))
#define TWO_OF_GPU(function) CALL(function, (void *gpu, void *one, void *two), (gpu, one, two))
#define OF_LINK(function) CALL(function, (void *gpu, unsigned link, void *out), (gpu, link, out))

PLAIN(nvmlInit_v2)
PLAIN(nvmlShutdown)
TEXT(nvmlSystemGetDriverVersion)
TEXT(nvmlSystemGetNVMLVersion)
NUMBER(nvmlDeviceGetCount_v2)
CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **gpu), (index, gpu))
TEXT_OF_GPU(nvmlDeviceGetUUID)
TEXT_OF_GPU(nvmlDeviceGetName)
OF_GPU(nvmlDeviceGetPciInfo_v3)
OF_GPU(nvmlDeviceGetMinorNumber)
OF_GPU(nvmlDeviceGetMaxPcieLinkGeneration)
OF_GPU(nvmlDeviceGetMaxPcieLinkWidth)
OF_LINK(nvmlDeviceGetNvLinkState)
OF_LINK(nvmlDeviceGetNvLinkVersion)
OF_LINK(nvmlDeviceGetNvLinkRemoteDeviceType)
OF_LINK(nvmlDeviceGetNvLinkRemotePciInfo_v2)
TWO_OF_GPU(nvmlDeviceGetComputeRunningProcesses_v3)
TWO_OF_GPU(nvmlDeviceGetMigMode)
OF_GPU(nvmlDeviceGetMaxMigDeviceCount)
OF_LINK(nvmlDeviceGetMigDeviceHandleByIndex)
OF_GPU(nvmlDeviceGetGpuInstanceId)
OF_GPU(nvmlDeviceGetGpuFabricInfoV)
OF_GPU(nvmlDeviceGetComputeInstanceId)
CALL(nvmlDeviceGetFieldValues, (void *gpu, int count, void *values), (gpu, count, values))
OF_GPU(nvmlGpmQueryDeviceSupport)
CALL(nvmlGpmSampleAlloc, (void *sample), (sample))
CALL(nvmlGpmSampleFree, (void *sample), (sample))
OF_GPU(nvmlGpmSampleGet)
OF_LINK(nvmlGpmMigSampleGet)
CALL(nvmlGpmMetricsGet, (void *request), (request))
CALL(nvmlEventSetCreate, (void *set), (set))
CALL(nvmlDeviceRegisterEvents, (void *gpu, unsigned long long types, void *set), (gpu, types, set))
CALL(nvmlEventSetWait_v2, (void *set, void *data, unsigned timeout), (set, data, timeout))
CALL(nvmlEventSetFree, (void *set), (set))
