/* Test double of libze_loader: the Sysman calls that Throughline uses, played from a scenario (see scenario.h).
 *
 * Structures of another type than their call takes are refused, as are calls before zesInit and unknown handles.
 * Declarations are our own. A port's identity is (GPU, link): remote_pci and remote_link say where it leads to. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "scenario.h"

const char *const scenario_player = "level_zero";

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALISED = 0x78000001, UNSUPPORTED = 0x78000003, INVALID = 0x78000004 };
enum { DEVICE_PROPERTIES = 1, PCI_PROPERTIES = 2, PORT_PROPERTIES = 6, PORT_STATE = 0x19 };
enum { STATUS_HEALTHY = 1, STATUS_FAILED = 3 };

struct port_id {
	uint32_t fabric, attach;
	uint8_t port;
};
struct speed {
	int64_t bit_rate;
	int32_t width;
};
struct port_properties {
	uint32_t type;
	void *next;
	char model[256];
	uint8_t on_subdevice;
	uint32_t subdevice;
	struct port_id id;
	struct speed receive, transmit;
};
_Static_assert(sizeof(struct port_properties) == 328, "layout of zes_fabric_port_properties_t");
struct port_state {
	uint32_t type;
	void *next;
	uint32_t status, quality, failure;
	struct port_id remote;
	struct speed receive, transmit;
};
_Static_assert(sizeof(struct port_state) == 72, "layout of zes_fabric_port_state_t");
struct throughput {
	uint64_t time, received, transmitted;
};

static bool initialised;
static char driver;
static char devices[MAX_GPUS];
static char ports[MAX_GPUS][MAX_LINKS];

EXPORT unsigned zesInit(uint32_t flags);
EXPORT unsigned zesDriverGet(uint32_t *count, void **drivers);
EXPORT unsigned zesDeviceGet(void *of, uint32_t *count, void **found);
EXPORT unsigned zesDeviceGetProperties(void *device, unsigned char *properties);
EXPORT unsigned zesDevicePciGetProperties(void *device, unsigned char *properties);
EXPORT unsigned zesDeviceEnumFabricPorts(void *device, uint32_t *count, void **found);
EXPORT unsigned zesFabricPortGetProperties(void *port, struct port_properties *properties);
EXPORT unsigned zesFabricPortGetState(void *port, struct port_state *state);
EXPORT unsigned zesFabricPortGetThroughput(void *port, struct throughput *bytes);

static struct gpu *gpu_of(void *device, int *index)
{
	long at = (char *)device - devices;
	*index = (int)at;
	bool known = initialised && at >= 0 && at < MAX_GPUS && scenario_now()->gpus[at].present;
	return known ? &scenario_now()->gpus[at] : NULL;
}

static struct link *port_of(void *port, int *gpu, int *link)
{
	long at = (char *)port - ports[0];
	if (!initialised || at < 0 || at >= MAX_GPUS * MAX_LINKS)
		return NULL;
	*gpu = (int)(at / MAX_LINKS);
	*link = (int)(at % MAX_LINKS);
	struct link *found = &scenario_now()->gpus[*gpu].links[*link];
	return found->present ? found : NULL;
}

static struct port_id identity(int gpu, unsigned link)
{
	return (struct port_id){(uint32_t)gpu + 1, 7, (uint8_t)(link + 1)};
}

unsigned zesInit(uint32_t flags)
{
	unsigned code = scenario_failure("init");
	initialised = code == SUCCESS && flags == 0;
	return code;
}

unsigned zesDriverGet(uint32_t *count, void **drivers)
{
	if (!initialised)
		return UNINITIALISED;
	*count = 1;
	drivers[0] = &driver;
	return SUCCESS;
}

unsigned zesDeviceGet(void *of, uint32_t *count, void **found)
{
	uint32_t space = *count;
	if (!initialised || of != &driver)
		return UNINITIALISED;
	*count = 0;
	for (int i = 0; i < MAX_GPUS; i++)
		if (scenario_now()->gpus[i].present && *count < space)
			found[(*count)++] = &devices[i];
	return SUCCESS;
}

unsigned zesDeviceGetProperties(void *device, unsigned char *properties)
{
	int index;
	struct gpu *gpu = gpu_of(device, &index);
	if (!gpu || *(uint32_t *)(void *)properties != DEVICE_PROPERTIES)
		return gpu ? INVALID : UNINITIALISED;
	for (int i = 0; i < 16; i++)
		properties[112 + i] = (unsigned char)(i == 15 ? index : 0x80 + i);
	strcpy((char *)properties + 128, gpu->name);
	return SUCCESS;
}

unsigned zesDevicePciGetProperties(void *device, unsigned char *properties)
{
	int index;
	struct gpu *gpu = gpu_of(device, &index);
	if (!gpu || *(uint32_t *)(void *)properties != PCI_PROPERTIES)
		return gpu ? INVALID : UNINITIALISED;
	unsigned address[4] = {0, 0, 0, 0};
	sscanf(gpu->pci, "%x:%x:%x", &address[0], &address[1], &address[2]);
	memcpy(properties + 16, address, sizeof address);
	return SUCCESS;
}

unsigned zesDeviceEnumFabricPorts(void *device, uint32_t *count, void **found)
{
	int index;
	struct gpu *gpu = gpu_of(device, &index);
	uint32_t space = *count;
	if (!gpu)
		return UNINITIALISED;
	*count = 0;
	for (int l = 0; l < MAX_LINKS && *count < space; l++)
		if (gpu->links[l].present)
			found[(*count)++] = &ports[index][l];
	return *count ? SUCCESS : UNSUPPORTED;
}

unsigned zesFabricPortGetProperties(void *port, struct port_properties *properties)
{
	int gpu, link;
	if (!port_of(port, &gpu, &link) || properties->type != PORT_PROPERTIES)
		return INVALID;
	properties->id = identity(gpu, (unsigned)link);
	return SUCCESS;
}

unsigned zesFabricPortGetState(void *port, struct port_state *state)
{
	int gpu, number;
	struct link *link = port_of(port, &gpu, &number);
	if (!link || state->type != PORT_STATE)
		return INVALID;
	state->status = link->up ? STATUS_HEALTHY : STATUS_FAILED;
	state->transmit = state->receive = (struct speed){(int64_t)link->speed_mbps * 8000000 / 4, 4};
	for (int i = 0; i < MAX_GPUS; i++)
		if (scenario_now()->gpus[i].present && strcmp(scenario_now()->gpus[i].pci, link->remote_pci) == 0)
			state->remote = identity(i, link->remote_link);
	return SUCCESS;
}

unsigned zesFabricPortGetThroughput(void *port, struct throughput *bytes)
{
	int gpu, number;
	struct link *link = port_of(port, &gpu, &number);
	if (!link)
		return INVALID;
	if (number == 0)
		scenario_count_reading(gpu);
	if (scenario_absent(gpu, (unsigned)number, 202))
		return UNSUPPORTED;
	*bytes = (struct throughput){0, counter_value(&link->rx), counter_value(&link->tx)};
	return SUCCESS;
}
