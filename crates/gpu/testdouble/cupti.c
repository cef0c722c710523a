/* A test double of libcupti: PM Sampling of the scenario's GPUs. Refuses what the real library would refuse or crash
 * on: calls out of order, a structSize of another release, objects that it did not give, images that were changed or
 * freed. With -DRELEASE_13_2 every call aborts, as that release's do.
 *
 * A sample is due each interval of CLOCK_MONOTONIC. It holds, for NVLink, the sum over links of tx_step or rx_step bytes,
 * for PCIe those of `pcie`; so that a number of samples has an exact number of bytes. The first one holds no number. */
#define _GNU_SOURCE
#include "cupti.h"
#include "cupti_metrics.h"
#include "monitors.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const scenario_player = "cupti";

/* Parameters: a size and a pointer first, as in all of them. */
#define HEAD size_t size; void *private
struct plain { HEAD; };
struct chip { HEAD; size_t device; const char *name; };
struct chips { HEAD; size_t count; const char *const *names; };
struct host_new { HEAD; unsigned kind; const char *chip; const unsigned char *availability; void *host; };
struct of_host { HEAD; void *host; };
struct add { HEAD; void *host; const char **names; size_t count; };
struct base { HEAD; void *host; unsigned type; const char **names; size_t count; };
struct endings { HEAD; void *host; unsigned type; const char *name; size_t count; const char **endings; };
struct image_size { HEAD; void *host; size_t bytes; };
struct image { HEAD; void *host; size_t bytes; unsigned char *image; };
struct passes { HEAD; size_t bytes; unsigned char *image; size_t passes; };
struct evaluate { HEAD; void *host; const unsigned char *data; size_t bytes, sample; const char **names; size_t count;
	double *values; };
struct availability { HEAD; size_t device, bytes; unsigned char *image; };
struct enable { HEAD; size_t device; void *object; };
struct of_object { HEAD; void *object; };
struct config { HEAD; void *object; size_t bytes; const unsigned char *image; size_t buffer; uint64_t interval;
	unsigned trigger, append; };
struct data_size { HEAD; void *object; const char **names; size_t count; unsigned samples; size_t bytes; };
struct data_new { HEAD; void *object; size_t bytes; unsigned char *data; };
struct decode { HEAD; void *object; unsigned char *data; size_t bytes; unsigned reason; unsigned char overflow; };
struct info { HEAD; const unsigned char *data; size_t bytes, total, populated, completed; };
struct sample { HEAD; void *object; const unsigned char *data; size_t bytes, index; uint64_t start, end; };

enum { HOSTS = 256, REASON_FULL = 1, REASON_END = 2, MAGIC = 0x7e57, IMAGE_BYTES = 96 };

/* A configuration image. */
struct made { unsigned magic, chip, names, passes; unsigned char checksum; };
/* A counter data image. */
struct data { unsigned magic, space, count; struct { uint64_t start, end, number; int place; } samples[]; };

static struct { bool alive, spoiled; char chip[16]; unsigned names, adds, counters[UNITS]; } hosts[HOSTS];
static struct { bool enabled, configured, started; const unsigned char *image; uint64_t interval, taken; int64_t since;
	int place; unsigned space; } monitors[MAX_GPUS];
static bool initialised;

static void *cuda(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	return library ? dlsym(library, name) : NULL;
}

bool cuda_is_initialised(void)
{
	int (*query)(void);
	void *found = cuda("throughline_double_is_initialised");
	memcpy(&query, &found, sizeof query);
	return found && query();
}

int cuda_context(void)
{
	int (*query)(void);
	void *found = cuda("throughline_double_context");
	memcpy(&query, &found, sizeof query);
	return found ? query() : -1;
}

struct gpu *device_gpu(size_t device, int *place)
{
	struct scenario *now = scenario_now();
	for (int i = 0; i < MAX_GPUS; i++)
		if (now->gpus[i].present && device-- == 0) {
			*place = i;
			return &now->gpus[i];
		}
	return NULL;
}

int64_t monotonic_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether the structure has the size that this release gives it. */
static bool fits(size_t given, size_t expected)
{
	return given == expected;
}
#define SIZE_TO(type, last) (offsetof(struct type, last) + sizeof ((struct type *)0)->last)

EXPORT unsigned cuptiGetVersion(unsigned *version);
unsigned cuptiGetVersion(unsigned *version)
{
#ifdef RELEASE_13_2
	abort();
#endif
	*version = scenario_now()->cupti;
	return OK;
}

#ifdef RELEASE_13_2
EXPORT unsigned cuptiProfilerHostGetSinglePassSets(void *parameters);
unsigned cuptiProfilerHostGetSinglePassSets(void *parameters)
{
	(void)parameters;
	abort();
}
#endif

EXPORT unsigned cuptiProfilerInitialize(struct plain *p);
unsigned cuptiProfilerInitialize(struct plain *p)
{
	if (!fits(p->size, sizeof *p))
		return INVALID_PARAMETER;
	unsigned code = cuda_is_initialised() ? scenario_failure("cupti_init") : NOT_INITIALIZED;
	initialised = code == OK;
	return code;
}

EXPORT unsigned cuptiDeviceGetChipName(struct chip *p);
unsigned cuptiDeviceGetChipName(struct chip *p)
{
	int place;
	if (!initialised)
		abort(); /* as the real library after a failed cuptiProfilerInitialize */
	const struct gpu *gpu = device_gpu(p->device, &place);
	if (!fits(p->size, SIZE_TO(chip, name)) || !gpu)
		return INVALID_PARAMETER;
	p->name = gpu->chip;
	return scenario_failure("chip");
}

EXPORT unsigned cuptiProfilerHostGetSupportedChips(struct chips *p);
unsigned cuptiProfilerHostGetSupportedChips(struct chips *p)
{
	if (!fits(p->size, SIZE_TO(chips, names)))
		return INVALID_PARAMETER;
	p->count = CHIP_COUNT;
	p->names = CHIPS;
	return OK;
}

EXPORT unsigned cuptiProfilerHostInitialize(struct host_new *p);
unsigned cuptiProfilerHostInitialize(struct host_new *p)
{
	if (!fits(p->size, SIZE_TO(host_new, host)) || p->kind != 1 || !p->chip)
		return INVALID_PARAMETER;
	if (strcmp(p->chip, "GV100") == 0 || strcmp(p->chip, "GP100") == 0)
		return NOT_SUPPORTED;
	for (int i = 0; i < HOSTS; i++)
		if (!hosts[i].alive) {
			memset(&hosts[i], 0, sizeof hosts[i]);
			hosts[i].alive = true;
			snprintf(hosts[i].chip, sizeof hosts[i].chip, "%s", p->chip);
			p->host = &hosts[i];
			return OK;
		}
	return UNKNOWN; /* objects that nobody gives back */
}

static int host_index(const void *host)
{
	for (int i = 0; i < HOSTS; i++)
		if (host == &hosts[i] && hosts[i].alive)
			return i;
	return -1;
}

EXPORT unsigned cuptiProfilerHostDeinitialize(struct of_host *p);
unsigned cuptiProfilerHostDeinitialize(struct of_host *p)
{
	int i = host_index(p->host);
	if (!fits(p->size, SIZE_TO(of_host, host)) || i < 0)
		return INVALID_PARAMETER;
	hosts[i].alive = false;
	return OK;
}

EXPORT unsigned cuptiProfilerHostConfigAddMetrics(struct add *p);
unsigned cuptiProfilerHostConfigAddMetrics(struct add *p)
{
	int i = host_index(p->host);
	if (!fits(p->size, SIZE_TO(add, count)) || i < 0 || !p->count)
		return INVALID_PARAMETER;
	for (size_t n = 0; n < p->count; n++)
		if (hosts[i].spoiled || !add_counters(hosts[i].chip, p->names[n], hosts[i].counters)) {
			unsigned code = hosts[i].spoiled ? UNKNOWN : INVALID_PARAMETER;
			hosts[i].spoiled = true;
			return code;
		}
	hosts[i].names += (unsigned)p->count;
	hosts[i].adds++; /* each is a pass of its own */
	return OK;
}

EXPORT unsigned cuptiProfilerHostGetBaseMetrics(struct base *p);
unsigned cuptiProfilerHostGetBaseMetrics(struct base *p)
{
	int i = host_index(p->host);
	if (!fits(p->size, SIZE_TO(base, count)) || i < 0)
		return INVALID_PARAMETER;
	return list_metrics(hosts[i].chip, p->type, &p->names, &p->count);
}

EXPORT unsigned cuptiProfilerHostGetSubMetrics(struct endings *p);
unsigned cuptiProfilerHostGetSubMetrics(struct endings *p)
{
	int i = host_index(p->host);
	if (!fits(p->size, SIZE_TO(endings, endings)) || i < 0 || !p->name)
		return INVALID_PARAMETER;
	return list_endings(hosts[i].chip, p->type, p->name, &p->endings, &p->count);
}

EXPORT unsigned cuptiProfilerHostGetConfigImageSize(struct image_size *p);
unsigned cuptiProfilerHostGetConfigImageSize(struct image_size *p)
{
	int i = host_index(p->host);
	if (!fits(p->size, SIZE_TO(image_size, bytes)) || i < 0)
		return INVALID_PARAMETER;
	p->bytes = IMAGE_BYTES;
	return hosts[i].spoiled ? UNKNOWN : OK;
}

static unsigned char checksum(const unsigned char *bytes)
{
	unsigned char sum = 1;
	for (size_t i = sizeof(struct made); i < IMAGE_BYTES; i++)
		sum = (unsigned char)(sum * 31 + bytes[i]);
	return sum;
}

EXPORT unsigned cuptiProfilerHostGetConfigImage(struct image *p);
unsigned cuptiProfilerHostGetConfigImage(struct image *p)
{
	int i = host_index(p->host);
	if (!fits(p->size, SIZE_TO(image, image)) || i < 0 || p->bytes != IMAGE_BYTES)
		return INVALID_PARAMETER;
	memset(p->image, 0xC5, IMAGE_BYTES);
	unsigned passes = passes_of(hosts[i].counters);
	struct made made = {MAGIC, 0, hosts[i].names, hosts[i].adds > passes ? hosts[i].adds : passes, checksum(p->image)};
	memcpy(p->image, &made, sizeof made);
	return OK;
}

static bool is_image(const unsigned char *image, size_t bytes, struct made *made)
{
	if (!image || bytes != IMAGE_BYTES)
		return false;
	memcpy(made, image, sizeof *made);
	return made->magic == MAGIC && made->checksum == checksum(image);
}

EXPORT unsigned cuptiProfilerHostGetNumOfPasses(struct passes *p);
unsigned cuptiProfilerHostGetNumOfPasses(struct passes *p)
{
	struct made made;
	if (!fits(p->size, SIZE_TO(passes, passes)) || !is_image(p->image, p->bytes, &made))
		return INVALID_PARAMETER;
	p->passes = made.passes;
	return OK;
}

EXPORT unsigned cuptiPmSamplingGetCounterAvailability(struct availability *p);
unsigned cuptiPmSamplingGetCounterAvailability(struct availability *p)
{
	int place;
	if (!initialised)
		return NOT_INITIALIZED;
	if (!fits(p->size, SIZE_TO(availability, image)) || !device_gpu(p->device, &place))
		return INVALID_PARAMETER;
	if (p->image && p->bytes != 32)
		return INVALID_PARAMETER;
	p->bytes = 32;
	if (p->image)
		memset(p->image, 0xAB, 32);
	return scenario_failure("availability");
}

static int monitor_index(const void *object)
{
	for (int i = 0; i < MAX_GPUS; i++)
		if (object == &monitors[i] && monitors[i].enabled)
			return i;
	return -1;
}

/* Takes it, where processes share it. */
static bool monitor_is_free(int place)
{
	const char *folder = scenario_now()->monitors;
	return !*folder || monitor_take(folder, place);
}

EXPORT unsigned cuptiPmSamplingEnable(struct enable *p);
unsigned cuptiPmSamplingEnable(struct enable *p)
{
	int place;
	if (!initialised)
		return NOT_INITIALIZED;
	if (!fits(p->size, SIZE_TO(enable, object)) || !device_gpu(p->device, &place))
		return INVALID_PARAMETER;
	unsigned code = scenario_absent(place, 0, FIELD_ENABLE);
	if (code == OK)
		code = scenario_failure("pm_enable");
	if (code == OK)
		code = monitors[place].enabled || !monitor_is_free(place) ? HARDWARE_BUSY : OK;
	if (code != OK)
		return code;
	memset(&monitors[place], 0, sizeof monitors[place]);
	monitors[place].enabled = true;
	monitors[place].place = place;
	p->object = &monitors[place];
	return OK;
}

EXPORT unsigned cuptiPmSamplingSetConfig(struct config *p);
unsigned cuptiPmSamplingSetConfig(struct config *p)
{
	int i = monitor_index(p->object);
	struct made made;
	/* The append mode came with 12.8. */
	size_t size = scenario_now()->cupti < 26 ? SIZE_TO(config, trigger) : SIZE_TO(config, append);
	if (!fits(p->size, size) || i < 0 || !is_image(p->image, p->bytes, &made) || !p->buffer || !p->interval)
		return INVALID_PARAMETER;
	if (made.passes != 1)
		return NOT_SUPPORTED;
	const char *chip = scenario_now()->gpus[i].chip;
	bool by_clock = strncmp(chip, "TU", 2) == 0 || strcmp(chip, "GA100") == 0;
	if (by_clock != (p->trigger == 0))
		return NOT_SUPPORTED;
	monitors[i].configured = true;
	monitors[i].image = p->image;
	/* The double's clock runs at 1.5 GHz. */
	monitors[i].interval = by_clock ? p->interval * 2 / 3 : p->interval;
	return scenario_failure("pm_config");
}

EXPORT unsigned cuptiPmSamplingGetCounterDataSize(struct data_size *p);
unsigned cuptiPmSamplingGetCounterDataSize(struct data_size *p)
{
	int i = monitor_index(p->object);
	if (!fits(p->size, SIZE_TO(data_size, bytes)) || i < 0 || !monitors[i].configured || !p->names || !p->count || !p->samples)
		return INVALID_PARAMETER;
	monitors[i].space = p->samples;
	p->bytes = sizeof(struct data) + p->samples * sizeof ((struct data *)0)->samples[0];
	return OK;
}

EXPORT unsigned cuptiPmSamplingCounterDataImageInitialize(struct data_new *p);
unsigned cuptiPmSamplingCounterDataImageInitialize(struct data_new *p)
{
	int i = monitor_index(p->object);
	if (!fits(p->size, SIZE_TO(data_new, data)) || i < 0 || !p->data ||
	    p->bytes != sizeof(struct data) + monitors[i].space * sizeof ((struct data *)0)->samples[0])
		return INVALID_PARAMETER;
	struct data empty = {.magic = MAGIC, .space = monitors[i].space};
	memcpy(p->data, &empty, sizeof empty);
	return OK;
}

EXPORT unsigned cuptiPmSamplingStart(struct of_object *p);
unsigned cuptiPmSamplingStart(struct of_object *p)
{
	int i = monitor_index(p->object);
	if (!fits(p->size, SIZE_TO(of_object, object)) || i < 0)
		return INVALID_PARAMETER;
	if (!monitors[i].configured || monitors[i].started)
		return INVALID_OPERATION;
	monitors[i].started = true;
	monitors[i].since = monotonic_now();
	return scenario_failure("pm_start");
}

EXPORT unsigned cuptiPmSamplingStop(struct of_object *p);
unsigned cuptiPmSamplingStop(struct of_object *p)
{
	int i = monitor_index(p->object);
	if (!fits(p->size, SIZE_TO(of_object, object)) || i < 0 || !monitors[i].started)
		return INVALID_OPERATION;
	monitors[i].started = false;
	return OK;
}

EXPORT unsigned cuptiPmSamplingDisable(struct of_object *p);
unsigned cuptiPmSamplingDisable(struct of_object *p)
{
	int i = monitor_index(p->object);
	if (!fits(p->size, SIZE_TO(of_object, object)) || i < 0 || monitors[i].started)
		return INVALID_OPERATION;
	monitors[i].enabled = false;
	monitor_give(i);
	return OK;
}

#ifndef WITHOUT_DECODE
EXPORT unsigned cuptiPmSamplingDecodeData(struct decode *p);
unsigned cuptiPmSamplingDecodeData(struct decode *p)
{
	int i = monitor_index(p->object);
	struct made made;
	if (!fits(p->size, SIZE_TO(decode, overflow)) || i < 0 || !p->data)
		return INVALID_PARAMETER;
	if (!monitors[i].started || !is_image(monitors[i].image, IMAGE_BYTES, &made))
		return INVALID_OPERATION; /* the configuration was not retained alive */
	struct data *data = (struct data *)(void *)p->data;
	if (data->magic != MAGIC || data->count)
		return INVALID_PARAMETER;
	scenario_count_reading(i);
	unsigned code = scenario_absent(i, 0, FIELD_DECODE);
	if (code == OK)
		code = scenario_failure("pm_decode");
	uint64_t due = (uint64_t)(monotonic_now() - monitors[i].since) / monitors[i].interval;
	for (; code == OK && monitors[i].taken < due && data->count < data->space; monitors[i].taken++, data->count++) {
		uint64_t start = (uint64_t)monitors[i].since + monitors[i].taken * monitors[i].interval;
		data->samples[data->count].start = start;
		data->samples[data->count].end = start + monitors[i].interval;
		data->samples[data->count].number = monitors[i].taken;
		data->samples[data->count].place = i;
	}
	p->reason = monitors[i].taken < due ? REASON_FULL : REASON_END;
	p->overflow = 0;
	return code;
}
#endif

EXPORT unsigned cuptiPmSamplingGetCounterDataInfo(struct info *p);
unsigned cuptiPmSamplingGetCounterDataInfo(struct info *p)
{
	const struct data *data = (const struct data *)(const void *)p->data;
	if (!fits(p->size, SIZE_TO(info, completed)) || !data || data->magic != MAGIC)
		return INVALID_PARAMETER;
	p->total = data->space;
	p->populated = p->completed = data->count;
	return OK;
}

EXPORT unsigned cuptiPmSamplingCounterDataGetSampleInfo(struct sample *p);
unsigned cuptiPmSamplingCounterDataGetSampleInfo(struct sample *p)
{
	const struct data *data = (const struct data *)(const void *)p->data;
	if (!fits(p->size, SIZE_TO(sample, end)) || monitor_index(p->object) < 0 || !data || data->magic != MAGIC ||
	    p->index >= data->count)
		return INVALID_PARAMETER;
	p->start = data->samples[p->index].start;
	p->end = data->samples[p->index].end;
	return OK;
}

EXPORT unsigned cuptiProfilerHostEvaluateToGpuValues(struct evaluate *p);
unsigned cuptiProfilerHostEvaluateToGpuValues(struct evaluate *p)
{
	const struct data *data = (const struct data *)(const void *)p->data;
	int i = host_index(p->host);
	if (!fits(p->size, SIZE_TO(evaluate, values)) || i < 0 || hosts[i].names != p->count || !data ||
	    data->magic != MAGIC || p->sample >= data->count)
		return INVALID_PARAMETER;
	bool is_first = data->samples[p->sample].number == 0;
	for (size_t n = 0; n < p->count; n++)
		p->values[n] = is_first ? (double)NAN : value_of(data->samples[p->sample].place, p->names[n], data->samples[p->sample].number);
	return OK;
}
