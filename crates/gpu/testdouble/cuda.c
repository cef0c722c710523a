/* A test double of libcuda: the few calls of CUDA's driver API that the sampler of CUPTI makes, on the GPUs of the
 * scenario. Refuses calls before cuInit. Declarations are our own. */
#include <stdio.h>
#include <string.h>

#include "scenario.h"

const char *const scenario_player = "cuda";

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };
enum { CLOCK_RATE = 13 };

/* What the double of libcupti queries: whether cuInit was called, and for a GPU's context. */
EXPORT int throughline_double_is_initialised(void);
EXPORT int throughline_double_context(void);
EXPORT unsigned cuInit(unsigned flags);
EXPORT unsigned cuDriverGetVersion(int *version);
EXPORT unsigned cuDeviceGetCount(int *count);
EXPORT unsigned cuDeviceGet(int *device, int ordinal);
EXPORT unsigned cuDeviceGetUuid_v2(char *uuid, int device);
EXPORT unsigned cuDeviceGetName(char *name, int length, int device);
EXPORT unsigned cuDeviceGetPCIBusId(char *text, int length, int device);
EXPORT unsigned cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT unsigned cuCtxCreate_v2(void **context, unsigned flags, int device);
EXPORT unsigned cuCtxDestroy_v2(void *context);
EXPORT unsigned cuCtxSetCurrent(void *context);

static bool initialised;
static struct {
	bool alive;
	int device;
} contexts[MAX_GPUS];
static int current = -1;

/* The GPU of a device number: those that are present, in their order. */
static struct gpu *gpu_of(int device)
{
	struct scenario *now = scenario_now();
	for (int i = 0; i < MAX_GPUS; i++)
		if (now->gpus[i].present && device-- == 0)
			return &now->gpus[i];
	return NULL;
}

int throughline_double_is_initialised(void)
{
	return initialised;
}

int throughline_double_context(void)
{
	return current >= 0 && contexts[current].alive ? contexts[current].device : -1;
}

unsigned cuInit(unsigned flags)
{
	unsigned code = flags ? INVALID_VALUE : scenario_failure("cuInit");
	initialised |= code == SUCCESS;
	return code;
}

unsigned cuDriverGetVersion(int *version)
{
	*version = 13000;
	return SUCCESS;
}

unsigned cuDeviceGetCount(int *count)
{
	if (!initialised)
		return NOT_INITIALIZED;
	for (*count = 0; gpu_of(*count);)
		++*count;
	return SUCCESS;
}

unsigned cuDeviceGet(int *device, int ordinal)
{
	if (!initialised)
		return NOT_INITIALIZED;
	*device = ordinal;
	return gpu_of(ordinal) ? SUCCESS : INVALID_DEVICE;
}

unsigned cuDeviceGetUuid_v2(char *uuid, int device)
{
	const struct gpu *gpu = initialised ? gpu_of(device) : NULL;
	if (!gpu)
		return initialised ? INVALID_DEVICE : NOT_INITIALIZED;
	int at = 0;
	memset(uuid, 0, 16);
	/* GPU- and hexadecimal digits; an 'x' of a scenario counts as 0, as nothing else is there to be reported. */
	for (const char *c = gpu->uuid + 4; strlen(gpu->uuid) > 4 && *c && at < 32; c++) {
		if (*c == '-')
			continue;
		unsigned digit = *c <= '9' ? (unsigned)(*c - '0') : *c <= 'f' ? (unsigned)(*c - 'a' + 10) : 0;
		uuid[at / 2] = (char)(uuid[at / 2] | (int)(digit << (at % 2 ? 0 : 4)));
		at++;
	}
	return SUCCESS;
}

unsigned cuDeviceGetName(char *name, int length, int device)
{
	const struct gpu *gpu = gpu_of(device);
	if (!initialised || !gpu)
		return initialised ? INVALID_DEVICE : NOT_INITIALIZED;
	snprintf(name, (size_t)length, "%s", gpu->name);
	return SUCCESS;
}

unsigned cuDeviceGetPCIBusId(char *text, int length, int device)
{
	const struct gpu *gpu = gpu_of(device);
	if (!initialised || !gpu)
		return initialised ? INVALID_DEVICE : NOT_INITIALIZED;
	/* CUDA writes 4 digits of the domain. */
	snprintf(text, (size_t)length, "%s", strlen(gpu->pci) > 4 ? gpu->pci + 4 : gpu->pci);
	return SUCCESS;
}

unsigned cuDeviceGetAttribute(int *value, int attribute, int device)
{
	if (!initialised || !gpu_of(device))
		return initialised ? INVALID_DEVICE : NOT_INITIALIZED;
	*value = attribute == CLOCK_RATE ? 1500000 : 0;
	return SUCCESS;
}

unsigned cuCtxCreate_v2(void **context, unsigned flags, int device)
{
	(void)flags;
	if (!initialised || !gpu_of(device) || device >= MAX_GPUS)
		return initialised ? INVALID_DEVICE : NOT_INITIALIZED;
	unsigned code = scenario_failure("cuCtxCreate");
	if (code != SUCCESS)
		return code;
	contexts[device].alive = true;
	contexts[device].device = device;
	current = device;
	*context = &contexts[device];
	return SUCCESS;
}

static int index_of(void *context)
{
	for (int i = 0; i < MAX_GPUS; i++)
		if (context == &contexts[i] && contexts[i].alive)
			return i;
	return -1;
}

unsigned cuCtxDestroy_v2(void *context)
{
	int index = index_of(context);
	if (index < 0)
		return INVALID_CONTEXT;
	contexts[index].alive = false;
	current = current == index ? -1 : current;
	return SUCCESS;
}

unsigned cuCtxSetCurrent(void *context)
{
	int index = index_of(context);
	if (index < 0)
		return INVALID_CONTEXT;
	current = index;
	return SUCCESS;
}
