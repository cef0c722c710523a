/* Test double of libnvidia-ml: initialisation, and handles of GPUs and partitions.
 *
 * A handle is of a GPU, by its UUID, and not of its place: when a scenario changes the order of GPUs, or takes one away, those that were
 * given stay what they were, as with the driver. That of a GPU that is not there any more answers that it is lost. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "double.h"
#include "refuse.h"

enum { MAX_UUIDS = 4 * MAX_GPUS };

EXPORT unsigned nvmlInit_v2(void);
EXPORT unsigned nvmlShutdown(void);
EXPORT unsigned nvmlDeviceGetCount_v2(unsigned *count);
EXPORT unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);

static unsigned initialised;
/* Handles are addresses in here; those of an earlier initialisation are not valid any more. */
static char handles[2][MAX_UUIDS];
static unsigned generation;
/* The GPUs of the handles. */
static char uuids[MAX_UUIDS][sizeof(((struct gpu *)0)->uuid)];
static unsigned uuid_count;
/* Handles of partitions are addresses in here. */
static char part_handles[MAX_GPUS][MAX_PARTS];

bool is_initialised(void)
{
	return initialised > 0;
}

void *part_handle(int gpu, int part)
{
	return &part_handles[gpu][part];
}

const struct part *part_of(void *device)
{
	long at = (char *)device - part_handles[0];
	if (at < 0 || at >= MAX_GPUS * MAX_PARTS)
		return NULL;
	const struct part *part = &scenario_now()->gpus[at / MAX_PARTS].parts[at % MAX_PARTS];
	return part->present ? part : NULL;
}

/* Where a GPU is now; -1 if it is not there. */
static int place_of(const struct scenario *now, const char *uuid)
{
	for (int i = 0; i < MAX_GPUS; i++)
		if (now->gpus[i].present && strcmp(now->gpus[i].uuid, uuid) == 0)
			return i;
	return -1;
}

static unsigned number_of(const char *uuid)
{
	for (unsigned i = 0; i < uuid_count; i++)
		if (strcmp(uuids[i], uuid) == 0)
			return i;
	if (uuid_count == MAX_UUIDS)
		refuse("more than %d GPUs in the life of a process", MAX_UUIDS);
	strcpy(uuids[uuid_count], uuid);
	return uuid_count++;
}

unsigned gpu_of(void *device, const char *call, struct gpu **gpu, int *index)
{
	struct scenario *now = scenario_now();
	if (!initialised)
		return UNINITIALIZED;
	long at = (char *)device - handles[generation % 2];
	if (at < 0 || at >= (long)uuid_count)
		return INVALID_ARGUMENT;
	int place = place_of(now, uuids[at]);
	if (place < 0 || now->gpus[place].lost)
		return GPU_IS_LOST;
	*gpu = &now->gpus[place];
	if (index)
		*index = place;
	return scenario_failure(call);
}

unsigned nvmlInit_v2(void)
{
	struct scenario *now = scenario_now();
	unsigned code = scenario_failure("init");
	if (now->print[0]) {
		puts(now->print);
		fflush(stdout);
	}
	if (code == SUCCESS && initialised++ == 0)
		generation++;
	return code;
}

unsigned nvmlShutdown(void)
{
	if (!initialised)
		return UNINITIALIZED;
	initialised--;
	return SUCCESS;
}

unsigned nvmlDeviceGetCount_v2(unsigned *count)
{
	struct scenario *now = scenario_now();
	if (!initialised)
		return UNINITIALIZED;
	if (!count)
		return INVALID_ARGUMENT;
	*count = 0;
	for (int i = 0; i < MAX_GPUS; i++)
		*count += now->gpus[i].present;
	return scenario_failure("count");
}

unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	struct scenario *now = scenario_now();
	if (!initialised)
		return UNINITIALIZED;
	if (!device)
		return INVALID_ARGUMENT;
	/* The driver counts those that are there. */
	for (int i = 0; i < MAX_GPUS; i++) {
		if (!now->gpus[i].present || index-- > 0)
			continue;
		*device = &handles[generation % 2][number_of(now->gpus[i].uuid)];
		return now->gpus[i].lost ? GPU_IS_LOST : scenario_failure("handle");
	}
	return INVALID_ARGUMENT;
}
