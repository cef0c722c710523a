/* Test double of libnvidia-ml: partitions (MIG) and GPU performance monitoring (GPM). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "double.h"

struct support {
	unsigned version, is_supported;
};

struct metric {
	unsigned id, code;
	double value;
	const char *names[3];
};

struct sample {
	bool taken;
	const struct gpu *gpu;
	uint64_t transmitted, received;
	int64_t at;
};

struct metrics_get {
	unsigned version, count;
	struct sample *first, *second;
	struct metric metrics[];
};

EXPORT unsigned nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
EXPORT unsigned nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count);
EXPORT unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part);
EXPORT unsigned nvmlDeviceGetGpuInstanceId(void *device, unsigned *id);
EXPORT unsigned nvmlDeviceGetComputeInstanceId(void *device, unsigned *id);
EXPORT unsigned nvmlGpmQueryDeviceSupport(void *device, struct support *support);
EXPORT unsigned nvmlGpmSampleAlloc(struct sample **sample);
EXPORT unsigned nvmlGpmSampleFree(struct sample *sample);
EXPORT unsigned nvmlGpmSampleGet(void *device, struct sample *sample);
EXPORT unsigned nvmlGpmMigSampleGet(void *device, unsigned instance, struct sample *sample);
EXPORT unsigned nvmlGpmMetricsGet(struct metrics_get *request);

static unsigned parts_of(const struct gpu *gpu)
{
	unsigned count = 0;
	for (int i = 0; i < MAX_PARTS; i++)
		count += gpu->parts[i].present;
	return count;
}

unsigned nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "mig", &gpu, NULL);
	if (code == SUCCESS)
		*current = *pending = parts_of(gpu) > 0;
	return code;
}

unsigned nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "mig", &gpu, NULL);
	if (code == SUCCESS)
		*count = MAX_PARTS;
	return code;
}

unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part)
{
	struct gpu *gpu = NULL;
	int at = 0;
	unsigned code = gpu_of(device, "mig", &gpu, &at);
	if (code != SUCCESS)
		return code;
	if (index >= MAX_PARTS)
		return INVALID_ARGUMENT;
	if (!gpu->parts[index].present)
		return NOT_FOUND;
	*part = part_handle(at, (int)index);
	return SUCCESS;
}

unsigned nvmlDeviceGetGpuInstanceId(void *device, unsigned *id)
{
	const struct part *part = part_of(device);
	if (!part)
		return INVALID_ARGUMENT;
	*id = part->gpu_instance;
	return SUCCESS;
}

unsigned nvmlDeviceGetComputeInstanceId(void *device, unsigned *id)
{
	const struct part *part = part_of(device);
	if (!part)
		return INVALID_ARGUMENT;
	*id = part->compute_instance;
	return SUCCESS;
}

unsigned nvmlGpmQueryDeviceSupport(void *device, struct support *support)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "gpm", &gpu, NULL);
	if (code == SUCCESS && support->version != 1)
		code = INVALID_ARGUMENT;
	if (code == SUCCESS)
		support->is_supported = gpu->gpm;
	return code;
}

unsigned nvmlGpmSampleAlloc(struct sample **sample)
{
	*sample = calloc(1, sizeof **sample);
	return *sample ? SUCCESS : 20;
}

unsigned nvmlGpmSampleFree(struct sample *sample)
{
	free(sample);
	return SUCCESS;
}

unsigned nvmlGpmSampleGet(void *device, struct sample *sample)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "gpm", &gpu, NULL);
	if (code != SUCCESS)
		return code;
	if (!gpu->gpm)
		return NOT_SUPPORTED;
	if (!sample)
		return INVALID_ARGUMENT;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	*sample = (struct sample){true, gpu, counter_value(&gpu->pcie_tx), counter_value(&gpu->pcie_rx),
				  (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
	return SUCCESS;
}

/* Of a GPU instance what its GPU has: nobody knows what hardware answers. */
unsigned nvmlGpmMigSampleGet(void *device, unsigned instance, struct sample *sample)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "gpm", &gpu, NULL);
	if (code != SUCCESS)
		return code;
	for (int i = 0; i < MAX_PARTS; i++)
		if (gpu->parts[i].present && gpu->parts[i].gpu_instance == instance)
			return nvmlGpmSampleGet(device, sample);
	return INVALID_ARGUMENT;
}

unsigned nvmlGpmMetricsGet(struct metrics_get *request)
{
	if (request->version != 1 || !request->first || !request->second || !request->first->taken ||
	    !request->second->taken || request->second->at <= request->first->at)
		return INVALID_ARGUMENT;
	double seconds = (double)(request->second->at - request->first->at) / 1e9;
	for (unsigned i = 0; i < request->count; i++) {
		struct metric *metric = &request->metrics[i];
		uint64_t bytes = metric->id == 20 ? request->second->transmitted - request->first->transmitted
						  : request->second->received - request->first->received;
		metric->code = metric->id == 20 || metric->id == 21 ? SUCCESS : NOT_SUPPORTED;
		metric->value = (double)bytes / (1024.0 * 1024.0) / seconds;
		if (request->second->gpu->gpm_is_given)
			metric->value = request->second->gpu->gpm_given[metric->id == 20 ? 0 : 1];
	}
	return SUCCESS;
}
