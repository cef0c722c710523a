/* Counters of GPUs while a scenario is read again: they are a GPU's, by its UUID, and not its place's. */
#include <string.h>

#include "carry.h"

/* The GPUs before the file was read again. */
static struct gpu before[MAX_GPUS];

void adopt_counters(struct gpu *gpu)
{
	/* One that was not there begins at 0. */
	static const struct gpu none;
	const struct gpu *from = &none;
	bool is_first = true;
	for (int i = 0; i < MAX_GPUS; i++) {
		is_first = is_first && !before[i].uuid[0];
		if (strcmp(before[i].uuid, gpu->uuid) == 0)
			from = &before[i];
	}
	if (is_first)
		return;
	gpu->pcie_tx = from->pcie_tx;
	gpu->pcie_rx = from->pcie_rx;
	gpu->polls = from->polls;
	for (int l = 0; l < MAX_LINKS; l++) {
		gpu->links[l].tx = from->links[l].tx;
		gpu->links[l].rx = from->links[l].rx;
	}
}

void store_counters(int place, const struct gpu *gpu)
{
	before[place] = *gpu;
}
