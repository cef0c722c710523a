/* Test double of libamd_smi: the calls that Throughline uses, played from a scenario (see scenario.h).
 *
 * As strict as the double of libnvidia-ml: calls before amdsmi_init or after amdsmi_shut_down, and handles that it did
 * not give, are refused. Declarations are our own. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "scenario.h"

const char *const scenario_player = "amd_smi";

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID = 1, NOT_SUPPORTED = 2, NO_PERMISSION = 10, NOT_INITIALISED = 32 };
enum { LINK_TYPE_XGMI = 2, LINK_ENABLED = 0, LINK_DISABLED = 1, LINKS = 64 };

struct link_metrics {
	uint32_t count;
	struct {
		uint64_t bdf;
		uint32_t bit_rate, max_bandwidth, link_type;
		uint64_t read, write;
		uint32_t status;
		uint64_t reserved;
	} links[LINKS];
	uint64_t reserved[7];
};
_Static_assert(sizeof(struct link_metrics) == 3648, "layout of amdsmi_link_metrics_t");

static bool initialised;
static char handles[MAX_GPUS];

EXPORT unsigned amdsmi_init(uint64_t flags);
EXPORT unsigned amdsmi_shut_down(void);
EXPORT unsigned amdsmi_get_socket_handles(uint32_t *count, void **sockets);
EXPORT unsigned amdsmi_get_processor_handles(void *socket, uint32_t *count, void **processors);
EXPORT unsigned amdsmi_get_gpu_device_uuid(void *gpu, unsigned *length, char *uuid);
EXPORT unsigned amdsmi_get_gpu_device_bdf(void *gpu, uint64_t *bdf);
EXPORT unsigned amdsmi_get_gpu_asic_info(void *gpu, char *info);
EXPORT unsigned amdsmi_get_link_metrics(void *gpu, struct link_metrics *metrics);

static unsigned gpu_of(void *handle, struct gpu **gpu, int *index)
{
	long at = (char *)handle - handles;
	if (!initialised)
		return NOT_INITIALISED;
	if (at < 0 || at >= MAX_GPUS || !scenario_now()->gpus[at].present)
		return INVALID;
	*gpu = &scenario_now()->gpus[at];
	*index = (int)at;
	return (*gpu)->lost ? NO_PERMISSION : SUCCESS;
}

static uint64_t packed(const char *place)
{
	unsigned domain = 0, bus = 0, device = 0;
	sscanf(place, "%x:%x:%x", &domain, &bus, &device);
	return (uint64_t)domain << 16 | (bus & 0xff) << 8 | (device & 0x1f) << 3;
}

unsigned amdsmi_init(uint64_t flags)
{
	unsigned code = scenario_failure("init");
	initialised = code == SUCCESS && flags == 2;
	return code != SUCCESS ? code : initialised ? SUCCESS : INVALID;
}

unsigned amdsmi_shut_down(void)
{
	unsigned code = initialised ? SUCCESS : NOT_INITIALISED;
	initialised = false;
	return code;
}

/* One socket for each GPU; its handle is the GPU's. */
unsigned amdsmi_get_socket_handles(uint32_t *count, void **sockets)
{
	uint32_t space = *count;
	if (!initialised)
		return NOT_INITIALISED;
	*count = 0;
	for (int i = 0; i < MAX_GPUS; i++)
		if (scenario_now()->gpus[i].present && *count < space)
			sockets[(*count)++] = &handles[i];
	return scenario_failure("count");
}

unsigned amdsmi_get_processor_handles(void *socket, uint32_t *count, void **processors)
{
	if (!initialised)
		return NOT_INITIALISED;
	if (*count < 1)
		return INVALID;
	*count = 1;
	processors[0] = socket;
	return SUCCESS;
}

unsigned amdsmi_get_gpu_device_uuid(void *handle, unsigned *length, char *uuid)
{
	struct gpu *gpu = NULL;
	int index;
	unsigned code = gpu_of(handle, &gpu, &index);
	if (code == SUCCESS && *length <= strlen(gpu->uuid))
		code = INVALID;
	if (code == SUCCESS)
		strcpy(uuid, gpu->uuid);
	return code;
}

unsigned amdsmi_get_gpu_device_bdf(void *handle, uint64_t *bdf)
{
	struct gpu *gpu = NULL;
	int index;
	unsigned code = gpu_of(handle, &gpu, &index);
	if (code == SUCCESS)
		*bdf = packed(gpu->pci);
	return code;
}

unsigned amdsmi_get_gpu_asic_info(void *handle, char *info)
{
	struct gpu *gpu = NULL;
	int index;
	unsigned code = gpu_of(handle, &gpu, &index);
	if (code == SUCCESS)
		strcpy(info, gpu->name);
	return code;
}

unsigned amdsmi_get_link_metrics(void *handle, struct link_metrics *metrics)
{
	struct gpu *gpu = NULL;
	int index;
	unsigned code = gpu_of(handle, &gpu, &index);
	if (code == SUCCESS)
		code = scenario_failure("fields");
	if (code != SUCCESS)
		return code;
	scenario_count_reading(index);
	memset(metrics, 0, sizeof *metrics);
	for (int l = 0; l < MAX_LINKS; l++) {
		const struct link *link = &gpu->links[l];
		if (!link->present)
			break;
		metrics->links[l].bdf = packed(link->remote_pci);
		metrics->links[l].bit_rate = metrics->links[l].max_bandwidth = link->speed_mbps / 125;
		metrics->links[l].link_type = LINK_TYPE_XGMI;
		metrics->links[l].read = counter_value(&link->rx) / 1024;
		metrics->links[l].write = counter_value(&link->tx) / 1024;
		metrics->links[l].status = link->up ? LINK_ENABLED : LINK_DISABLED;
		if (scenario_absent(index, (unsigned)l, 138))
			metrics->links[l].write = UINT64_MAX;
		metrics->count++;
	}
	return SUCCESS;
}
