/* Copies pinned memory to the GPU or from it, in pieces: traffic of a known size and direction for hardware/gpu.sh.
 *   copy BYTES   reads a direction a line, "to" or "from", and prints how many bytes went when they have gone.
 * A context is made once, before the first copy: making one holds up other calls of the driver.
 * The CUDA driver is opened at run time; declarations are our own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 64 << 20 };

static void *library;

static void *look_up(const char *name)
{
	void *found = dlsym(library, name);
	if (!found) {
		fprintf(stderr, "libcuda.so.1 has no %s\n", name);
		exit(69);
	}
	return found;
}

/* ISO C has no conversion from an object pointer to a function pointer. */
#define CALL(type, name, symbol)                       \
	__typeof__(type) name;                         \
	do {                                           \
		void *found = look_up(symbol);         \
		memcpy(&name, &found, sizeof name);    \
	} while (0)

static void check(int code, const char *what)
{
	if (code) {
		fprintf(stderr, "%s: CUDA error %d\n", what, code);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: copy BYTES, with directions on standard input\n");
		return 64;
	}
	unsigned long long bytes = strtoull(argv[1], NULL, 10), device_memory = 0;
	char line[16];
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 69;
	}
	CALL(int (*)(unsigned), init, "cuInit");
	CALL(int (*)(int *, int), device_get, "cuDeviceGet");
	CALL(int (*)(void **, int), retain, "cuDevicePrimaryCtxRetain");
	CALL(int (*)(void *), set_current, "cuCtxSetCurrent");
	CALL(int (*)(unsigned long long *, size_t), alloc, "cuMemAlloc_v2");
	CALL(int (*)(void **, size_t), alloc_host, "cuMemAllocHost_v2");
	CALL(int (*)(unsigned long long, const void *, size_t), to_device, "cuMemcpyHtoD_v2");
	CALL(int (*)(void *, unsigned long long, size_t), to_host, "cuMemcpyDtoH_v2");
	int device = 0;
	void *context = NULL, *host_memory = NULL;
	check(init(0), "cuInit");
	check(device_get(&device, 0), "cuDeviceGet");
	check(retain(&context, device), "cuDevicePrimaryCtxRetain");
	check(set_current(context), "cuCtxSetCurrent");
	check(alloc(&device_memory, PIECE), "cuMemAlloc");
	check(alloc_host(&host_memory, PIECE), "cuMemAllocHost");
	while (fgets(line, sizeof line, stdin)) {
		unsigned long long done = 0;
		int is_to = strcmp(line, "to\n") == 0;
		for (; done < bytes; done += PIECE) {
			if (is_to)
				check(to_device(device_memory, host_memory, PIECE), "cuMemcpyHtoD");
			else
				check(to_host(host_memory, device_memory, PIECE), "cuMemcpyDtoH");
		}
		printf("%llu\n", done);
		fflush(stdout);
	}
	return 0;
}
