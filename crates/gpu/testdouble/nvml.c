/* Test double of libnvidia-ml: the calls that Throughline uses, played from a scenario (see scenario.h).
 *
 * It is strict where the real library would corrupt memory or answer by chance: calls before nvmlInit_v2 or
 * after nvmlShutdown, handles that it did not give, buffers that are too small, structures whose contents can't
 * be right, and unlike field families in one call, which answers not supported for every field. Declarations
 * are our own. One thread is enough: the sampler has one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"

const char *const scenario_player = "nvml";

enum { TYPE_UINT = 1, TYPE_ULONGLONG = 3 };
enum { UUID_SIZE = 80, NAME_SIZE = 64, VERSION_SIZE = 80 };

struct field_value {
	unsigned field, scope;
	long long timestamp, latency;
	unsigned type, code;
	union {
		unsigned small;
		unsigned long long large;
	} value;
};
_Static_assert(sizeof(struct field_value) == 40, "layout of nvmlFieldValue_t");

struct pci_info {
	char legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct pci_info) == 68, "layout of nvmlPciInfo_t");

struct process_info {
	unsigned pid;
	unsigned long long used_memory;
	unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct process_info) == 24, "layout of nvmlProcessInfo_t");

#ifndef WITHOUT_FIELDS
EXPORT unsigned nvmlDeviceGetFieldValues(void *device, int count, struct field_value *values);
#endif
EXPORT unsigned nvmlSystemGetDriverVersion(char *version, unsigned length);
EXPORT unsigned nvmlSystemGetNVMLVersion(char *version, unsigned length);
EXPORT unsigned nvmlDeviceGetUUID(void *device, char *uuid, unsigned length);
EXPORT unsigned nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state);
EXPORT unsigned nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *generation);
EXPORT unsigned nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width);
#ifndef WITHOUT_NAMES
EXPORT unsigned nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process_info *infos);
EXPORT unsigned nvmlDeviceGetName(void *device, char *name, unsigned length);
EXPORT unsigned nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *pci);
EXPORT unsigned nvmlDeviceGetMinorNumber(void *device, unsigned *minor);
EXPORT unsigned nvmlDeviceGetNvLinkVersion(void *device, unsigned link, unsigned *version);
EXPORT unsigned nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *pci);
EXPORT unsigned nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);
#endif

static unsigned link_of(void *device, unsigned number, const char *call, struct link **link)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, call, &gpu, NULL);
	if (code != SUCCESS)
		return code;
	bool any = false;
	for (int l = 0; l < MAX_LINKS; l++)
		any |= gpu->links[l].present;
	if (!any)
		return NOT_SUPPORTED;
	if (number >= MAX_LINKS || !gpu->links[number].present)
		return INVALID_ARGUMENT;
	*link = &gpu->links[number];
	return SUCCESS;
}

static unsigned text(char *into, unsigned length, unsigned needed, const char *from)
{
	if (!into)
		return INVALID_ARGUMENT;
	if (length < needed || length <= strlen(from))
		return INSUFFICIENT_SIZE;
	strcpy(into, from);
	return SUCCESS;
}

unsigned nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	return is_initialised() ? text(version, length, VERSION_SIZE, scenario_now()->driver) : UNINITIALIZED;
}

unsigned nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	return is_initialised() ? text(version, length, VERSION_SIZE, scenario_now()->nvml) : UNINITIALIZED;
}

unsigned nvmlDeviceGetUUID(void *device, char *uuid, unsigned length)
{
	struct gpu *gpu = NULL;
	const struct part *part = part_of(device);
	if (is_initialised() && part)
		return text(uuid, length, UUID_SIZE, part->uuid);
	unsigned code = gpu_of(device, "uuid", &gpu, NULL);
	return code == SUCCESS ? text(uuid, length, UUID_SIZE, gpu->uuid) : code;
}

unsigned nvmlDeviceGetNvLinkState(void *device, unsigned number, unsigned *state)
{
	struct link *link = NULL;
	unsigned code = link_of(device, number, "state", &link);
	if (code == SUCCESS && !state)
		code = INVALID_ARGUMENT;
	if (code == SUCCESS)
		*state = link->up;
	return code;
}

unsigned nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *max)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "pcie", &gpu, NULL);
	if (code == SUCCESS)
		*max = gpu->pcie_generation;
	return code;
}

unsigned nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "pcie", &gpu, NULL);
	if (code == SUCCESS)
		*width = gpu->pcie_width;
	return code;
}

#ifndef WITHOUT_NAMES
static void fill(struct pci_info *pci, const char *place)
{
	memset(pci, 0, sizeof *pci);
	sscanf(place, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
	snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
		 pci->device & 0x1f);
	snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff,
		 pci->device & 0x1f);
}

unsigned nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process_info *infos)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "processes", &gpu, NULL);
	if (code != SUCCESS)
		return code;
	if (!count || (*count && !infos))
		return INVALID_ARGUMENT;
	unsigned space = *count;
	*count = gpu->process_count;
	if (space < gpu->process_count)
		return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < gpu->process_count; i++)
		infos[i] = (struct process_info){gpu->processes[i].pid, 1 << 20, gpu->processes[i].gpu_instance,
						 gpu->processes[i].compute_instance};
	return SUCCESS;
}

unsigned nvmlDeviceGetMinorNumber(void *device, unsigned *minor)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "minor", &gpu, NULL);
	if (code == SUCCESS)
		*minor = gpu->minor;
	return code;
}

unsigned nvmlDeviceGetName(void *device, char *name, unsigned length)
{
	struct gpu *gpu = NULL;
	const struct part *part = part_of(device);
	if (is_initialised() && part)
		return text(name, length, NAME_SIZE, part->name);
	unsigned code = gpu_of(device, "name", &gpu, NULL);
	return code == SUCCESS ? text(name, length, NAME_SIZE, gpu->name) : code;
}

unsigned nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *pci)
{
	struct gpu *gpu = NULL;
	unsigned code = gpu_of(device, "pci", &gpu, NULL);
	if (code == SUCCESS)
		fill(pci, gpu->pci);
	return code;
}

unsigned nvmlDeviceGetNvLinkVersion(void *device, unsigned number, unsigned *version)
{
	struct link *link = NULL;
	unsigned code = link_of(device, number, "version", &link);
	if (code == SUCCESS)
		*version = link->version;
	return code;
}

unsigned nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned number, struct pci_info *pci)
{
	struct link *link = NULL;
	unsigned code = link_of(device, number, "remote", &link);
	if (code == SUCCESS)
		fill(pci, link->remote_pci);
	return code;
}

unsigned nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned number, unsigned *type)
{
	struct link *link = NULL;
	unsigned code = link_of(device, number, "remote", &link);
	if (code == SUCCESS)
		*type = link->remote_type;
	return code;
}
#endif

#ifndef WITHOUT_FIELDS
enum family { FAMILY_NONE, FAMILY_KIB, FAMILY_BYTES, FAMILY_ERRORS, FAMILY_NUMBERED, FAMILY_PACKETS, FAMILY_RATIOS, FAMILY_FEC,
	      FAMILY_LINK, FAMILY_C2C_COUNT, FAMILY_C2C, FAMILY_C2C_ERRORS, FAMILY_PCIE,
	      FAMILY_SLOWED };

static enum family family_of(unsigned field)
{
	if (field == 138 || field == 139)
		return FAMILY_KIB;
	if (field == 202 || field == 204)
		return FAMILY_BYTES;
	if (field >= 161 && field <= 163)
		return FAMILY_ERRORS;
	if ((field >= 32 && field <= 58) || (field >= 96 && field <= 119))
		return FAMILY_NUMBERED;
	if (field >= 206 && field <= 215)
		return FAMILY_PACKETS;
	if (field >= 216 && field <= 222)
		return FAMILY_RATIOS;
	if (field >= 235 && field <= 250)
		return FAMILY_FEC;
	if (field == 170)
		return FAMILY_C2C_COUNT;
	if (field == 171 || field == 172)
		return FAMILY_C2C;
	if (field >= 231 && field <= 233)
		return FAMILY_C2C_ERRORS;
	if (field == 146 || (field >= 164 && field <= 166))
		return FAMILY_LINK;
	if (field == 197 || field == 198)
		return FAMILY_PCIE;
	if (field >= 74 && field <= 81)
		return FAMILY_SLOWED;
	return FAMILY_NONE;
}

/* Readings count once a call, when it requests byte counters, or for PCIe where a GPU has no links. */
static void count_poll(struct gpu *gpu, int index, enum family family)
{
	bool has_links = gpu->links[0].present && gpu->counters != COUNT_NONE;
	enum family counted = !has_links ? FAMILY_PCIE : gpu->counters == COUNT_KIB ? FAMILY_KIB : FAMILY_BYTES;
	if (family == FAMILY_PCIE) {
		gpu->pcie_tx.reads++;
		gpu->pcie_rx.reads++;
	}
	if (family != counted)
		return;
	scenario_count_reading(index);
}

static uint64_t reduce(uint64_t value, unsigned bits)
{
	return bits >= 64 ? value : value & ((1ull << bits) - 1);
}

static void large(struct field_value *value, uint64_t number)
{
	value->type = TYPE_ULONGLONG;
	value->value.large = number;
}

static void small(struct field_value *value, unsigned number)
{
	memset(&value->value, 0xEE, sizeof value->value); /* the rest of the union is nobody's */
	value->type = TYPE_UINT;
	value->value.small = number;
}

/* One error counter of the fields with a number per link; the link is in the field. */
static unsigned numbered(const struct gpu *gpu, struct field_value *value)
{
	static const struct {
		unsigned first, kind, link;
	} groups[] = {{32, 0, 0}, {39, 0, 0}, {46, 1, 0}, {53, 2, 0}, {96, 0, 6}, {102, 0, 6}, {108, 1, 6}, {114, 2, 6}};
	for (unsigned i = 0; i < sizeof groups / sizeof *groups; i++) {
		unsigned offset = value->field - groups[i].first;
		if (offset >= 6)
			continue;
		const struct link *link = &gpu->links[groups[i].link + offset];
		if (!link->present || !link->up)
			return NOT_SUPPORTED;
		large(value, groups[i].kind == 0 ? link->crc : groups[i].kind == 1 ? link->replay : link->recovery);
		return SUCCESS;
	}
	return NOT_SUPPORTED;
}

/* The value that the scenario gives a field, or its own one. */
static uint64_t reported(int index, const struct field_value *value, uint64_t otherwise)
{
	const struct scenario *now = scenario_now();
	uint64_t found = otherwise;
	for (unsigned i = 0; i < now->value_count; i++) {
		const struct value *reported = &now->values[i];
		if (reported->field == value->field && index >= reported->gpu_first && index <= reported->gpu_last &&
		    (int)value->scope >= reported->link_first && (int)value->scope <= reported->link_last)
			found = reported->value;
	}
	return found;
}

/* A byte counter has what the scenario gives it, whatever it counted. */
static void override(int index, struct field_value *value)
{
	bool is_small = value->type == TYPE_UINT;
	uint64_t number = is_small ? value->value.small : value->value.large;
	uint64_t given = reported(index, value, number);
	if (given == number)
		return;
	if (is_small)
		small(value, (unsigned)given);
	else
		large(value, given);
}

static unsigned c2c_field(const struct gpu *gpu, int index, struct field_value *value)
{
	if (value->field == 170) {
		small(value, gpu->c2c);
		return SUCCESS;
	}
	if (value->scope >= gpu->c2c)
		return INVALID_ARGUMENT;
	if (value->field == 172)
		small(value, gpu->c2c_mbps);
	else
		large(value, reported(index, value, value->field == 171));
	return SUCCESS;
}

static unsigned link_field(const struct gpu *gpu, int index, enum family family, struct field_value *value)
{
	if (family == FAMILY_C2C_COUNT || family == FAMILY_C2C || family == FAMILY_C2C_ERRORS)
		return c2c_field(gpu, index, value);
	if (family == FAMILY_NUMBERED)
		return gpu->errors == ERRORS_NUMBERED && gpu->ecc ? numbered(gpu, value) : NOT_SUPPORTED;
	if (family == FAMILY_SLOWED) {
		large(value, reported(index, value, UINT64_MAX));
		return value->value.large == UINT64_MAX ? NOT_SUPPORTED : SUCCESS;
	}
	if (value->scope >= MAX_LINKS || !gpu->links[value->scope].present)
		return INVALID_ARGUMENT;
	const struct link *link = &gpu->links[value->scope];
	if (value->field == 165) {
		small(value, link->up);
		return gpu->state_field ? SUCCESS : NOT_SUPPORTED;
	}
	if (!link->up)
		return NOT_SUPPORTED;
	switch (family) {
	case FAMILY_KIB:
		large(value, reduce(counter_value(value->field == 138 ? &link->tx : &link->rx) / 1024, link->bits));
		return gpu->counters == COUNT_KIB ? SUCCESS : NOT_SUPPORTED;
	case FAMILY_BYTES:
		large(value, reduce(counter_value(value->field == 202 ? &link->tx : &link->rx), link->bits));
		return gpu->counters == COUNT_BYTES ? SUCCESS : NOT_SUPPORTED;
	case FAMILY_ERRORS:
		large(value, value->field == 161 ? link->replay : value->field == 162 ? link->recovery : link->crc);
		return gpu->errors == ERRORS_LINKS && gpu->ecc ? SUCCESS : NOT_SUPPORTED;
	case FAMILY_PACKETS:
	case FAMILY_RATIOS:
	case FAMILY_FEC:
		large(value, reported(index, value, value->field == 215 ? link->recovery : 0));
		return gpu->errors == ERRORS_NVLINK5 && gpu->ecc ? SUCCESS : NOT_SUPPORTED;
	case FAMILY_LINK:
		small(value, value->field == 146   ? link->remote_link
			     : value->field == 164 ? link->speed_mbps
						   : link->version);
		return SUCCESS;
	default:
		return NOT_SUPPORTED;
	}
}

static unsigned pcie_field(const struct gpu *gpu, struct field_value *value)
{
	uint64_t bytes = counter_value(value->field == 197 ? &gpu->pcie_tx : &gpu->pcie_rx);
	if (gpu->pcie_bits == 64)
		large(value, bytes);
	else
		small(value, (unsigned)bytes);
	return SUCCESS;
}

unsigned nvmlDeviceGetFieldValues(void *device, int count, struct field_value *values)
{
	struct gpu *gpu = NULL;
	int index = 0;
	unsigned code = gpu_of(device, "fields", &gpu, &index);
	if (code != SUCCESS)
		return code;
	if (count <= 0 || count > 4096 || !values)
		return INVALID_ARGUMENT;
	enum family family = family_of(values[0].field);
	bool mixed = false;
	for (int i = 0; i < count; i++)
		mixed |= family_of(values[i].field) != family;
	if (!mixed)
		count_poll(gpu, index, family);
	for (int i = 0; i < count; i++) {
		struct field_value *value = &values[i];
		value->code = scenario_absent(index, value->scope, value->field);
		if (value->code == SUCCESS && (mixed || family == FAMILY_NONE))
			value->code = NOT_SUPPORTED;
		if (value->code == SUCCESS)
			value->code = family == FAMILY_PCIE ? pcie_field(gpu, value) : link_field(gpu, index, family, value);
		if (value->code == SUCCESS && (family == FAMILY_KIB || family == FAMILY_BYTES || family == FAMILY_PCIE))
			override(index, value);
	}
	return SUCCESS;
}
#endif
