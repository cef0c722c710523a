/* Reads scenario files, again when they change, and keeps counters moving. The format is scenario.h's, its lines are read
 * by statements.c. Knows nothing of any library's calls. */
#define _GNU_SOURCE
#include "statements.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct scenario scenario;
/* The files that were read, to see a change. */
static struct {
	char path[4096];
	struct timespec modified;
	ino_t inode;
	bool there;
} files[MAX_FILES];
static unsigned file_count;
static const char *current_path;
static int current_line;

void refuse(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "test double: %s:%d: ", current_path ? current_path : "?", current_line);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	_Exit(70);
}

int64_t monotonic(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t counter_value(const struct counter *counter)
{
	/* Whole and fractional seconds apart: a rate times nanoseconds would overflow. */
	uint64_t elapsed = (uint64_t)(monotonic() - counter->since);
	uint64_t seconds = elapsed / 1000000000, rest = elapsed % 1000000000;
	uint64_t moved = counter->rate * seconds + counter->rate / 1000000 * rest / 1000 +
			 counter->rate % 1000000 * rest / 1000000000;
	return counter->base + moved + counter->step * counter->reads;
}

static void settle(struct counter *counter)
{
	counter->base = counter_value(counter);
	counter->since = monotonic();
	counter->rate = counter->step = counter->reads = 0;
}

void read_file(const char *path, bool required)
{
	struct stat status;
	const char *outer_path = current_path;
	int outer_line = current_line;
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
	current_path = stored;
	current_line = 0;
	char *line = NULL;
	size_t size = 0;
	while (getline(&line, &size, file) >= 0) {
		current_line++;
		read_line(line, stored);
	}
	free(line);
	fclose(file);
	current_path = outer_path;
	current_line = outer_line;
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
				   .state_field = true, .ecc = true, .pcie_generation = 4, .pcie_width = 16, .pcie_bits = 32};
		for (int l = 0; l < MAX_LINKS; l++) {
			struct link *link = &gpu->links[l];
			settle(&link->tx);
			settle(&link->rx);
			stored.links[l] = (struct link){.tx = link->tx, .rx = link->rx, .up = true, .remote_type = 255,
						      .bits = 64};
		}
		strcpy(stored.chip, "GH100");
		*gpu = stored;
	}
	strcpy(scenario.driver, "0.0");
	strcpy(scenario.nvml, "0.0");
	scenario.cupti = 130001;
	scenario.print[0] = 0;
	scenario.na_count = scenario.failure_count = scenario.value_count = file_count = 0;
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
