/* The part of libcupti's test double that plays the Metric API of Pascal and Volta: events of each NVLink, set to zero by
 * reading. Refuses calls without the GPU's context, and reading groups that are not enabled. */
#include "cupti.h"

#include <string.h>

struct group_set { unsigned count; void **groups; };
struct group_sets { unsigned count; struct group_set *sets; };

enum { EVENT_OF_METRIC = 1000, ALL_INSTANCES = 1 };

/* One metric of a GPU: 0 sent, 1 received. */
struct group {
	bool made, all, enabled;
	int device, metric;
	uint64_t read[MAX_LINKS];
	struct group_set set;
	struct group_sets sets;
	void *self;
};
static struct group groups[MAX_GPUS][2];

EXPORT unsigned cuptiSetEventCollectionMode(void *context, unsigned mode);
EXPORT unsigned cuptiMetricGetIdFromName(int device, const char *name, unsigned *id);
EXPORT unsigned cuptiMetricCreateEventGroupSets(void *context, size_t bytes, unsigned *ids, struct group_sets **sets);
EXPORT unsigned cuptiEventGroupSetAttribute(struct group *group, unsigned attribute, size_t bytes, void *value);
EXPORT unsigned cuptiEventGroupSetEnable(struct group_set *set);
EXPORT unsigned cuptiEventGroupSetDisable(struct group_set *set);
EXPORT unsigned cuptiEventGroupSetsDestroy(struct group_sets *sets);
EXPORT unsigned cuptiEventGroupReadAllEvents(struct group *group, unsigned flags, size_t *value_bytes, uint64_t *values,
					     size_t *event_bytes, unsigned *events, size_t *count);
EXPORT unsigned cuptiMetricGetValue(int device, unsigned id, size_t id_bytes, unsigned *ids, size_t value_bytes,
				    uint64_t *values, uint64_t nanoseconds, uint64_t *value);

static struct group *group_of(const void *at)
{
	for (int i = 0; i < MAX_GPUS; i++)
		for (int m = 0; m < 2; m++)
			if (at == &groups[i][m] && groups[i][m].made)
				return &groups[i][m];
	return NULL;
}

unsigned cuptiSetEventCollectionMode(void *context, unsigned mode)
{
	return !context || cuda_context() < 0 ? INVALID_CONTEXT : mode == 0 ? OK : INVALID_PARAMETER;
}

unsigned cuptiMetricGetIdFromName(int device, const char *name, unsigned *id)
{
	int place;
	const struct gpu *gpu = device_gpu((size_t)device, &place);
	if (!gpu)
		return INVALID_DEVICE;
	if (strcmp(gpu->chip, "GV100") != 0 && strcmp(gpu->chip, "GP100") != 0)
		return NOT_SUPPORTED;
	*id = strcmp(name, "nvlink_total_data_transmitted") == 0 ? 1 : strcmp(name, "nvlink_total_data_received") == 0 ? 2 : 0;
	return *id ? scenario_absent(place, 0, FIELD_LINKS) : INVALID_METRIC_NAME;
}

static uint64_t now_of(const struct group *group, int l)
{
	int place;
	const struct gpu *gpu = device_gpu((size_t)group->device, &place);
	return counter_value(group->metric ? &gpu->links[l].rx : &gpu->links[l].tx);
}

unsigned cuptiMetricCreateEventGroupSets(void *context, size_t bytes, unsigned *ids, struct group_sets **sets)
{
	int device = cuda_context();
	if (!context || device < 0)
		return INVALID_CONTEXT;
	if (bytes != sizeof *ids || ids[0] < 1 || ids[0] > 2 || groups[device][ids[0] - 1].made)
		return INVALID_PARAMETER;
	struct group *group = &groups[device][ids[0] - 1];
	memset(group, 0, sizeof *group);
	group->made = true;
	group->device = device;
	group->metric = (int)ids[0] - 1;
	group->self = group;
	group->set = (struct group_set){1, &group->self};
	group->sets = (struct group_sets){1, &group->set};
	*sets = &group->sets;
	return OK;
}

unsigned cuptiEventGroupSetAttribute(struct group *at, unsigned attribute, size_t bytes, void *value)
{
	struct group *group = group_of(at);
	unsigned all = 0;
	if (!group || attribute != ALL_INSTANCES || bytes != sizeof all)
		return INVALID_PARAMETER;
	memcpy(&all, value, sizeof all);
	group->all = all;
	return group->enabled ? INVALID_OPERATION : OK;
}

unsigned cuptiEventGroupSetEnable(struct group_set *set)
{
	struct group *group = group_of(set->groups[0]);
	if (!group || group->enabled)
		return INVALID_OPERATION;
	group->enabled = true;
	for (int l = 0; l < MAX_LINKS; l++)
		group->read[l] = now_of(group, l);
	return OK;
}

unsigned cuptiEventGroupSetDisable(struct group_set *set)
{
	struct group *group = group_of(set->groups[0]);
	if (!group || !group->enabled)
		return INVALID_OPERATION;
	group->enabled = false;
	return OK;
}

unsigned cuptiEventGroupSetsDestroy(struct group_sets *sets)
{
	struct group *group = group_of(sets->sets[0].groups[0]);
	if (!group || group->enabled)
		return INVALID_OPERATION;
	group->made = false;
	return OK;
}

unsigned cuptiEventGroupReadAllEvents(struct group *at, unsigned flags, size_t *value_bytes, uint64_t *values,
				      size_t *event_bytes, unsigned *events, size_t *count)
{
	struct group *group = group_of(at);
	int place;
	if (!group || !group->enabled || flags)
		return INVALID_OPERATION;
	if (cuda_context() != group->device)
		return INVALID_CONTEXT;
	struct gpu *gpu = device_gpu((size_t)group->device, &place);
	size_t links = 0;
	while (links < MAX_LINKS && gpu->links[links].present)
		links++;
	size_t instances = group->all ? links : 1;
	if (*value_bytes < instances * sizeof *values || *event_bytes < sizeof *events)
		return INVALID_PARAMETER;
	if (group->metric == 0)
		scenario_count_reading(place);
	/* The event counts units of 32 bytes. */
	for (size_t l = 0; l < instances; l++) {
		uint64_t now = now_of(group, (int)l);
		values[l] = (now - group->read[l]) / 32;
		group->read[l] += values[l] * 32;
	}
	*value_bytes = instances * sizeof *values;
	*event_bytes = sizeof *events;
	events[0] = EVENT_OF_METRIC + (unsigned)group->metric;
	*count = 1;
	return scenario_absent(place, 0, FIELD_DECODE);
}

unsigned cuptiMetricGetValue(int device, unsigned id, size_t id_bytes, unsigned *ids, size_t value_bytes, uint64_t *values,
			     uint64_t nanoseconds, uint64_t *value)
{
	(void)device;
	if (id < 1 || id > 2 || id_bytes != sizeof *ids || value_bytes != sizeof *values || ids[0] != EVENT_OF_METRIC + id - 1 ||
	    !nanoseconds)
		return INVALID_PARAMETER;
	*value = values[0] * 32;
	return OK;
}
