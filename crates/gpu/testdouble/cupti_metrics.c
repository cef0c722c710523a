/* The metrics of libcupti's test double: which of them a chip has and what counters they need. Names, types and which chip has
 * them are as CUPTI 13.0 lists them; of its many it has those that tests use. A pass of a GPU's monitor has room for so many
 * counters of each unit: with that the passes of each metric alone are those of the real library on a GH100. */
#define _GNU_SOURCE
#include "cupti_metrics.h"

#include <string.h>

#include "cupti_codes.h"
#include "scenario.h"

enum { COUNTER, RATIO, THROUGHPUT, TYPES };
enum { SM, DRAM, LTS, FRONT, LINKS_UNIT, PCIE };

/* Chips, in the order of the letters of `chips`. */
const char *const CHIPS[] = {"GV100", "TU102", "GA100", "GH100", "AD102", "GB100", "GB20B"};
const size_t CHIP_COUNT = sizeof CHIPS / sizeof *CHIPS;
static const char LETTERS[] = "vtahdby";

static const struct {
	const char *name, *chips;
	int type, unit;
	unsigned counters;
} METRICS[] = {
	{"sm__cycles_active", "tahdby", COUNTER, SM, 1},
	{"sm__cycles_elapsed", "tahdby", COUNTER, SM, 1},
	{"sm__warps_active", "tahdby", COUNTER, SM, 1},
	{"sm__inst_executed", "tahdby", COUNTER, SM, 1},
	{"sm__inst_executed_pipe_fma", "thdby", COUNTER, SM, 2},
	{"sm__inst_executed_pipe_tensor", "tahdby", COUNTER, SM, 8},
	{"sm__throughput", "tahdby", THROUGHPUT, SM, 76},
	{"smsp__inst_executed", "tahdby", COUNTER, SM, 1},
	{"l1tex__t_sectors", "tahdby", COUNTER, SM, 3},
	{"dram__bytes_read", "tahdb", COUNTER, DRAM, 1},
	{"dram__bytes_write", "tahdb", COUNTER, DRAM, 1},
	{"dram__throughput", "tahdb", THROUGHPUT, DRAM, 2},
	{"lts__t_sectors", "tahdby", COUNTER, LTS, 1},
	{"lts__t_sector_hit_rate", "tahdby", RATIO, LTS, 6},
	{"gpc__cycles_elapsed", "tahdby", COUNTER, FRONT, 1},
	{"gr__cycles_active", "tahdby", COUNTER, FRONT, 1},
	{"sys__cycles_elapsed", "tahdby", COUNTER, FRONT, 1},
	{"nvltx__bytes", "tahb", COUNTER, LINKS_UNIT, 1},
	{"nvlrx__bytes", "tahb", COUNTER, LINKS_UNIT, 1},
	{"pcie__read_bytes", "tahd", COUNTER, PCIE, 1},
	{"pcie__write_bytes", "tahd", COUNTER, PCIE, 1},
	{"PCI.TriageCompute.pcie__read_bytes", "hb", COUNTER, PCIE, 1},
	{"PCI.TriageCompute.pcie__write_bytes", "hb", COUNTER, PCIE, 1},
};
enum { METRIC_COUNT = sizeof METRICS / sizeof *METRICS, COUNTERS_OF_UNIT = 4 };

static const char *const ENDINGS[TYPES][13] = {
	{".avg", ".avg.per_second", ".avg.pct_of_peak_sustained_active", ".max", ".max.per_second", ".min", ".min.per_second",
	 ".sum", ".sum.per_second", ".sum.pct_of_peak_sustained_elapsed"},
	{".max_rate", ".pct", ".ratio"},
	{".avg.pct_of_peak_sustained_active", ".avg.pct_of_peak_sustained_elapsed", ".max.pct_of_peak_sustained_elapsed"},
};

static bool is_of(const char *chip, size_t metric)
{
	for (size_t c = 0; c < CHIP_COUNT; c++)
		if (strcmp(CHIPS[c], chip) == 0)
			return strchr(METRICS[metric].chips, LETTERS[c]) != NULL;
	return false;
}

/* The place of a metric by its whole name, -1 where a chip has none. */
static int find(const char *chip, const char *name)
{
	for (size_t m = 0; m < METRIC_COUNT; m++) {
		size_t length = strlen(METRICS[m].name);
		if (strncmp(name, METRICS[m].name, length) != 0 || !is_of(chip, m))
			continue;
		for (size_t e = 0; ENDINGS[METRICS[m].type][e]; e++)
			if (strcmp(name + length, ENDINGS[METRICS[m].type][e]) == 0)
				return (int)m;
	}
	return -1;
}

bool add_counters(const char *chip, const char *name, unsigned counters[UNITS])
{
	int metric = find(chip, name);
	if (metric >= 0)
		counters[METRICS[metric].unit] += METRICS[metric].counters;
	return metric >= 0;
}

unsigned passes_of(const unsigned counters[UNITS])
{
	unsigned most = 1;
	for (int u = 0; u < UNITS; u++) {
		unsigned passes = (counters[u] + COUNTERS_OF_UNIT - 1) / COUNTERS_OF_UNIT;
		most = passes > most ? passes : most;
	}
	return most;
}

unsigned list_metrics(const char *chip, unsigned type, const char ***names, size_t *count)
{
	static const char *found[METRIC_COUNT];
	if (type >= TYPES)
		return INVALID_PARAMETER;
	*count = 0;
	for (size_t m = 0; m < METRIC_COUNT; m++)
		if (METRICS[m].type == (int)type && is_of(chip, m))
			found[(*count)++] = METRICS[m].name;
	*names = found;
	return OK;
}

unsigned list_endings(const char *chip, unsigned type, const char *name, const char ***endings, size_t *count)
{
	static const char *found[13];
	*count = 0;
	int metric = find(chip, name);
	if (metric < 0)
		return INVALID_METRIC_NAME; /* as CUDA 12's answers for a name without ending, too */
	if (METRICS[metric].type != (int)type)
		return INVALID_PARAMETER;
	for (; ENDINGS[type][*count]; ++*count)
		found[*count] = ENDINGS[type][*count];
	*endings = found;
	return OK;
}

/* Bytes over links and PCIe are those of a sample of the traffic, others are what the scenario has for the metric. */
double value_of(int place, const char *name, uint64_t sample)
{
	const struct scenario *now = scenario_now();
	const struct gpu *gpu = &now->gpus[place];
	uint64_t sum = 0;
	if (strstr(name, "pcie__read_bytes"))
		return (double)gpu->pcie_rx.step;
	if (strstr(name, "pcie__write_bytes"))
		return (double)gpu->pcie_tx.step;
	for (unsigned m = 0; m < now->metric_count; m++) {
		const struct sampled_metric *metric = &now->metrics[m];
		if (place >= metric->gpu_first && place <= metric->gpu_last && strcmp(metric->name, name) == 0)
			return metric->values[sample % metric->value_count];
	}
	if (strncmp(name, "nvl", 3) != 0)
		return 0;
	for (int l = 0; l < MAX_LINKS; l++)
		if (gpu->links[l].present && gpu->links[l].up)
			sum += strstr(name, "nvltx") ? gpu->links[l].tx.step : gpu->links[l].rx.step;
	return (double)sum;
}
