/* Test double of libdcgm, connected to a host engine: the calls that Throughline uses, played from a scenario (see
 * scenario.h). Rates are those of tx_rate and rx_rate. Fields that are not watched have no value, as in a host engine.
 * Declarations are our own. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "scenario.h"

const char *const scenario_player = "dcgm";

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, BAD_PARAMETER = -1, UNINITIALISED = -3, NOT_CONNECTED = -21 };
enum { NAME = 50, UUID = 54, PCI_BUS_ID = 57, PCIE_TRANSMIT = 1009, PCIE_RECEIVE = 1010, NVLINK_FIRST = 1040 };
enum { HANDLE = 0x51, GROUP = 0x77, ALL_GPUS = 0x7fffffff, FIELDS = 64, LINKS = 18 };
#define BLANK 0x7ffffffffffffff2ll /* not supported */

struct field_value {
	unsigned version;
	unsigned short field, kind;
	int status;
	int64_t time;
	union {
		int64_t number;
		char text[4096];
	} as;
};
_Static_assert(sizeof(struct field_value) == 4120, "layout of dcgmFieldValue_v1");

static bool initialised, connected, watched;
static unsigned short fields[FIELDS];
static int field_count;

EXPORT int dcgmInit(void);
EXPORT int dcgmShutdown(void);
EXPORT int dcgmConnect(const char *address, uintptr_t *handle);
EXPORT int dcgmDisconnect(uintptr_t handle);
EXPORT int dcgmGetAllDevices(uintptr_t handle, unsigned *ids, int *count);
EXPORT int dcgmFieldGroupCreate(uintptr_t handle, int count, const unsigned short *of, const char *name, uintptr_t *group);
EXPORT int dcgmWatchFields(uintptr_t handle, uintptr_t gpus, uintptr_t group, long long every, double keep, int most);
EXPORT int dcgmUpdateAllFields(uintptr_t handle, int wait);
EXPORT int dcgmGetLatestValuesForFields(uintptr_t handle, int gpu, const unsigned short *of, unsigned count,
					struct field_value *values);

int dcgmInit(void)
{
	initialised = scenario_failure("init") == 0;
	return initialised ? OK : UNINITIALISED;
}

int dcgmShutdown(void)
{
	initialised = connected = watched = false;
	return OK;
}

int dcgmConnect(const char *address, uintptr_t *handle)
{
	if (!initialised || strcmp(address, "127.0.0.1") != 0)
		return UNINITIALISED;
	connected = scenario_failure("connect") == 0;
	*handle = HANDLE;
	return connected ? OK : NOT_CONNECTED;
}

int dcgmDisconnect(uintptr_t handle)
{
	connected = watched = false;
	return handle == HANDLE ? OK : BAD_PARAMETER;
}

int dcgmGetAllDevices(uintptr_t handle, unsigned *ids, int *count)
{
	if (!connected || handle != HANDLE)
		return NOT_CONNECTED;
	*count = 0;
	for (unsigned i = 0; i < MAX_GPUS; i++)
		if (scenario_now()->gpus[i].present)
			ids[(*count)++] = i;
	return OK;
}

int dcgmFieldGroupCreate(uintptr_t handle, int count, const unsigned short *of, const char *name, uintptr_t *group)
{
	if (!connected || handle != HANDLE)
		return NOT_CONNECTED;
	if (count <= 0 || count > FIELDS || !name || !*name)
		return BAD_PARAMETER;
	memcpy(fields, of, (size_t)count * sizeof *of);
	field_count = count;
	*group = GROUP;
	return OK;
}

int dcgmWatchFields(uintptr_t handle, uintptr_t gpus, uintptr_t group, long long every, double keep, int most)
{
	if (!connected || handle != HANDLE)
		return NOT_CONNECTED;
	watched = gpus == ALL_GPUS && group == GROUP && every > 0 && keep > 0 && most >= 0;
	return watched ? OK : BAD_PARAMETER;
}

int dcgmUpdateAllFields(uintptr_t handle, int wait)
{
	return connected && handle == HANDLE && wait ? OK : NOT_CONNECTED;
}

static bool is_watched(unsigned short field)
{
	for (int i = 0; i < field_count; i++)
		if (fields[i] == field)
			return watched;
	return false;
}

static void text(struct field_value *value, const char *from)
{
	value->kind = 's';
	strcpy(value->as.text, from);
}

static int64_t rate(const struct gpu *gpu, int index, unsigned short field)
{
	if (field == PCIE_TRANSMIT)
		return (int64_t)gpu->pcie_tx.rate;
	if (field == PCIE_RECEIVE)
		return (int64_t)gpu->pcie_rx.rate;
	unsigned at = (unsigned)field - NVLINK_FIRST;
	if (at >= 2 * LINKS || !gpu->links[at / 2].present || scenario_absent(index, at / 2, field))
		return BLANK;
	return (int64_t)(at % 2 ? gpu->links[at / 2].rx.rate : gpu->links[at / 2].tx.rate);
}

int dcgmGetLatestValuesForFields(uintptr_t handle, int index, const unsigned short *of, unsigned count,
				 struct field_value *values)
{
	if (!connected || handle != HANDLE)
		return NOT_CONNECTED;
	if (index < 0 || index >= MAX_GPUS || !scenario_now()->gpus[index].present)
		return BAD_PARAMETER;
	const struct gpu *gpu = &scenario_now()->gpus[index];
	scenario_count_reading(index);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	for (unsigned i = 0; i < count; i++) {
		struct field_value *value = &values[i];
		value->field = of[i];
		value->status = is_watched(of[i]) ? OK : -22; /* not watched */
		value->time = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
		if (of[i] == NAME)
			text(value, gpu->name);
		else if (of[i] == UUID)
			text(value, gpu->uuid);
		else if (of[i] == PCI_BUS_ID)
			text(value, gpu->pci);
		else {
			value->kind = 'i';
			value->as.number = rate(gpu, index, of[i]);
		}
	}
	return OK;
}
