/* Reads scenario files, again when they change, and keeps counters moving. The format is scenario.h's, its lines are read
 * by statements.c. Knows nothing of any library's calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "carry.h"
#include "refuse.h"
#include "scenario.h"
#include "statements.h"

/* The files that were read, to see a change. */
static struct {
	char path[4096];
	struct timespec modified;
	ino_t inode;
	bool there;
} files[MAX_FILES];
static unsigned file_count;

static void settle(struct counter *counter)
{
	counter->base = counter_value(counter);
	counter->since = monotonic();
	counter->rate = counter->step = counter->reads = 0;
}

static void read_file(const char *path, bool required);

static void include(const char *path)
{
	read_file(path, false);
}

/* Reads a file; a missing one that is not required is no error. */
static void read_file(const char *path, bool required)
{
	struct stat status;
	const char *outer_path = reading.path;
	int outer_line = reading.line;
	if (file_count == MAX_FILES)
		refuse("more than %d files", MAX_FILES);
	char *stored = files[file_count].path;
	if (stored != path)
		copy(stored, sizeof files[0].path, path);
	unsigned mine = file_count++;
	FILE *file = fopen(stored, "re");
	files[mine].there = file && fstat(fileno(file), &status) == 0;
	if (!files[mine].there) {
		if (required)
			refuse("cannot open %s: %s", path, strerror(errno));
		if (file)
			fclose(file);
		return;
	}
	files[mine].modified = status.st_mtim;
	files[mine].inode = status.st_ino;
	reading.path = stored;
	reading.line = 0;
	char *line = NULL;
	size_t size = 0;
	while (getline(&line, &size, file) >= 0) {
		reading.line++;
		read_line(line, stored, include);
	}
	free(line);
	fclose(file);
	reading.path = outer_path;
	reading.line = outer_line;
}

static bool changed(void)
{
	for (unsigned i = 0; i < file_count; i++) {
		struct stat status;
		bool there = stat(files[i].path, &status) == 0;
		if (there != files[i].there)
			return true;
		if (there && (status.st_ino != files[i].inode || status.st_mtim.tv_sec != files[i].modified.tv_sec ||
			      status.st_mtim.tv_nsec != files[i].modified.tv_nsec))
			return true;
	}
	return file_count == 0;
}

/* Evicts all but the counters and how often they were read: those go on. */
static void begin_again(void)
{
	for (int i = 0; i < MAX_GPUS; i++) {
		struct gpu *gpu = &scenario.gpus[i];
		settle(&gpu->pcie_tx);
		settle(&gpu->pcie_rx);
		struct gpu stored = {.pcie_tx = gpu->pcie_tx, .pcie_rx = gpu->pcie_rx, .polls = gpu->polls,
				   .state_field = true, .ecc = true, .minor = (unsigned)i, .pcie_generation = 4,
				   .pcie_width = 16, .pcie_bits = 32};
		for (int l = 0; l < MAX_LINKS; l++) {
			struct link *link = &gpu->links[l];
			settle(&link->tx);
			settle(&link->rx);
			stored.links[l] = (struct link){.tx = link->tx, .rx = link->rx, .up = true, .remote_type = 255,
						      .bits = 64};
		}
		strcpy(stored.chip, "GH100");
		store_counters(i, gpu);
		*gpu = stored;
	}
	strcpy(scenario.driver, "0.0");
	strcpy(scenario.nvml, "0.0");
	scenario.cupti = 130001;
	scenario.print[0] = scenario.monitors[0] = 0;
	scenario.na_count = scenario.failure_count = scenario.value_count = scenario.metric_count = scenario.xid_count = file_count = 0;
	scenario.crash_after = scenario.hang_after = -1;
}

/* Files are looked at once a millisecond: a look costs more than all else that a call does. */
static bool is_time_to_look(void)
{
	static int64_t last;
	int64_t now = monotonic();
	if (file_count && now - last < 1000000)
		return false;
	last = now;
	return true;
}

struct scenario *scenario_now(void)
{
	if (is_time_to_look() && changed()) {
		/* A copy: read_file keeps paths in `files`, which is written anew. */
		char path[4096];
		const char *given = getenv("THROUGHLINE_NVML_SCENARIO");
		if (!given)
			refuse("set THROUGHLINE_NVML_SCENARIO to a scenario file");
		copy(path, sizeof path, given);
		begin_again();
		read_file(path, true);
	}
	return &scenario;
}
