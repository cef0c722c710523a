/* Checks that the test double refuses wrong use. Run by a test of the crate: misuse LIBRARY.
 * Prints what it found wrong; status 0 when every misuse was refused with the right code. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef unsigned (*plain)(void);
typedef unsigned (*number)(unsigned *);
typedef unsigned (*by_index)(unsigned, void **);
typedef unsigned (*device_text)(void *, char *, unsigned);
typedef unsigned (*fields_call)(void *, int, void *);

static int wrong;

static void expect(const char *what, unsigned got, unsigned wanted)
{
	if (got != wanted) {
		printf("%s: answered %u instead of %u\n", what, got, wanted);
		wrong++;
	}
}

/* ISO C has no conversion from an object pointer to a function pointer. */
#define LOOK_UP(type, name, symbol)                    \
	type name;                                     \
	do {                                           \
		void *found = dlsym(library, symbol);  \
		memcpy(&name, &found, sizeof name);    \
		if (!found)                            \
			return 2;                      \
	} while (0)

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library)
		return 2;
	LOOK_UP(plain, init, "nvmlInit_v2");
	LOOK_UP(plain, shut_down, "nvmlShutdown");
	LOOK_UP(number, count, "nvmlDeviceGetCount_v2");
	LOOK_UP(by_index, handle, "nvmlDeviceGetHandleByIndex_v2");
	LOOK_UP(device_text, uuid, "nvmlDeviceGetUUID");
	LOOK_UP(fields_call, fields, "nvmlDeviceGetFieldValues");
	unsigned gpus = 0;
	void *gpu = NULL;
	char text[96];
	struct {
		unsigned field, scope;
		long long timestamp, latency;
		unsigned type, code;
		unsigned long long bits;
	} two[2] = {{138, 0, 0, 0, 0, 0, 0}, {161, 0, 0, 0, 0, 0, 0}};

	expect("count before init", count(&gpus), 1);
	expect("shutdown before init", shut_down(), 1);
	expect("init", init(), 0);
	expect("handle", handle(0, &gpu), 0);
	expect("handle out of range", handle(99, &gpu), 2);
	expect("uuid", uuid(gpu, text, sizeof text), 0);
	expect("uuid into too small a buffer", uuid(gpu, text, 16), 7);
	expect("a handle that was never given", uuid(text, text, sizeof text), 2);
	expect("no fields", fields(gpu, 0, two), 2);
	expect("unlike families", fields(gpu, 2, two), 0);
	expect("first field of unlike families", two[0].code, 3);
	expect("second field of unlike families", two[1].code, 3);
	expect("one family", fields(gpu, 1, two), 0);
	expect("field of one family", two[0].code, 0);
	expect("shutdown", shut_down(), 0);
	expect("uuid after shutdown", uuid(gpu, text, sizeof text), 1);
	expect("second init", init(), 0);
	expect("handle of the first init", uuid(gpu, text, sizeof text), 2);
	return wrong ? 1 : 0;
}
