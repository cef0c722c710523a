/* What a scenario says of calls, fields and readings; the same for every library that plays it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

unsigned scenario_failure(const char *call)
{
	const struct scenario *now = scenario_now();
	for (unsigned i = 0; i < now->failure_count; i++)
		if (strcmp(now->failures[i].call, call) == 0)
			return now->failures[i].code;
	return 0;
}

unsigned scenario_absent(int gpu, unsigned link, unsigned field)
{
	const struct scenario *now = scenario_now();
	for (unsigned i = 0; i < now->na_count; i++) {
		const struct na *na = &now->na[i];
		if (gpu >= na->gpu_first && gpu <= na->gpu_last && (int)link >= na->link_first &&
		    (int)link <= na->link_last && (na->field == 0 || na->field == field))
			return na->code;
	}
	return 0;
}

void scenario_count_reading(int index)
{
	struct scenario *now = scenario_now();
	struct gpu *gpu = &now->gpus[index];
	gpu->polls++;
	for (int l = 0; l < MAX_LINKS; l++) {
		struct link *link = &gpu->links[l];
		link->tx.reads++;
		link->rx.reads++;
		if (link->changes_after && gpu->polls > link->changes_after)
			link->up = link->changes_to;
	}
	if (index == 0 && now->crash_after >= 0 && gpu->polls > (uint64_t)now->crash_after)
		abort();
	if (index == 0 && now->hang_after >= 0 && gpu->polls > (uint64_t)now->hang_after) {
		sigset_t all;
		sigfillset(&all);
		for (;;) /* as a wedged driver: only SIGKILL ends it */
			sigsuspend(&all);
	}
}
