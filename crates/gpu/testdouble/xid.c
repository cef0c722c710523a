/* Test double of libnvidia-ml: event sets. A scenario's lines `xid` are events, each once and in their order: more lines in
 * a file that changes are new ones. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "double.h"

enum { TIMEOUT = 10 };

struct event_data {
	void *device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct event_data) == 32, "layout of nvmlEventData_t");

struct event_set {
	void *devices[MAX_GPUS];
};

static unsigned given;

EXPORT unsigned nvmlEventSetCreate(struct event_set **set);
EXPORT unsigned nvmlDeviceRegisterEvents(void *device, unsigned long long types, struct event_set *set);
EXPORT unsigned nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned timeout);
EXPORT unsigned nvmlEventSetFree(struct event_set *set);

unsigned nvmlEventSetCreate(struct event_set **set)
{
	*set = calloc(1, sizeof **set);
	return *set ? SUCCESS : INSUFFICIENT_SIZE;
}

unsigned nvmlDeviceRegisterEvents(void *device, unsigned long long types, struct event_set *set)
{
	struct gpu *gpu = NULL;
	int index = 0;
	unsigned code = gpu_of(device, "events", &gpu, &index);
	if (code != SUCCESS)
		return code;
	if (types != 8)
		return INVALID_ARGUMENT;
	set->devices[index] = device;
	return SUCCESS;
}

unsigned nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned timeout)
{
	const struct scenario *now = scenario_now();
	if (timeout != 0)
		return INVALID_ARGUMENT; /* a sampler that waits reads no counters */
	while (given < now->xid_count) {
		const struct xid *xid = &now->xids[given++];
		if (!set->devices[xid->gpu])
			continue;
		*data = (struct event_data){ .device = set->devices[xid->gpu], .type = 8, .data = xid->number,
					     .gpu_instance = ~0u, .compute_instance = ~0u };
		return SUCCESS;
	}
	return TIMEOUT;
}

unsigned nvmlEventSetFree(struct event_set *set)
{
	free(set);
	return SUCCESS;
}
