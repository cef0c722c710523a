/* Reads the lines of a scenario; scenario.h documents them. Opens no file and looks at no clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carry.h"
#include "refuse.h"
#include "statements.h"

struct scenario scenario;

static uint64_t number(const char *text)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno || end == text || *end)
		refuse("'%s' is no number", text);
	return value;
}

static void range(const char *text, int most, int *first, int *last)
{
	char low[16];
	const char *dash = text ? strchr(text, '-') : NULL;
	if (!text)
		refuse("a number, a range or * is missing");
	if (strcmp(text, "*") == 0) {
		*first = 0;
		*last = most - 1;
		return;
	}
	if (dash) {
		snprintf(low, sizeof low, "%.*s", (int)(dash - text), text);
		*first = (int)number(low);
		*last = (int)number(dash + 1);
	} else {
		*first = *last = (int)number(text);
	}
	if (*first > *last || *last >= most)
		refuse("'%s' is out of range (most is %d)", text, most - 1);
}

static char *word(char **rest)
{
	char *found;
	do
		found = strsep(rest, " \t\r\n");
	while (found && !*found);
	return found;
}

/* Splits key=value; NULL at the end of the line. */
static char *pair(char **rest, char **value)
{
	char *key = word(rest);
	if (!key)
		return NULL;
	*value = strchr(key, '=');
	if (!*value)
		refuse("'%s' is not key=value", key);
	*(*value)++ = 0;
	return key;
}

static bool is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

void copy(char *to, size_t size, const char *from)
{
	if (strlen(from) >= size)
		refuse("'%s' is longer than %zu", from, size - 1);
	strcpy(to, from);
}

/* As copy, with blanks for '_'. */
static void copy_name(char *to, size_t size, const char *from)
{
	copy(to, size, from);
	for (char *at = to; *at; at++)
		*at = *at == '_' ? ' ' : *at;
}

static void gpu_key(struct gpu *gpu, int index, bool several, const char *key, char *value)
{
	if (is(key, "uuid")) {
		copy(gpu->uuid, sizeof gpu->uuid, value);
		size_t length = strlen(gpu->uuid);
		if (several && length > 2)
			snprintf(gpu->uuid + length - 2, 3, "%02u", (unsigned)index % 100u);
	} else if (is(key, "name")) {
		copy_name(gpu->name, sizeof gpu->name, value);
	} else if (is(key, "pci")) {
		copy(gpu->pci, sizeof gpu->pci, value);
	} else if (is(key, "minor")) {
		gpu->minor = (unsigned)number(value);
	} else if (is(key, "pcie")) {
		if (sscanf(value, "%ux%u", &gpu->pcie_generation, &gpu->pcie_width) != 2)
			refuse("pcie=%s is not GENERATIONxWIDTH", value);
	} else if (is(key, "pcie_bits")) {
		gpu->pcie_bits = (unsigned)number(value);
	} else if (is(key, "counters")) {
		gpu->counters = is(value, "kib") ? COUNT_KIB : is(value, "bytes") ? COUNT_BYTES : COUNT_NONE;
	} else if (is(key, "errors")) {
		gpu->errors = is(value, "links")      ? ERRORS_LINKS
			    : is(value, "numbered")   ? ERRORS_NUMBERED
			    : is(value, "nvlink5")    ? ERRORS_NVLINK5
						      : ERRORS_NONE;
	} else if (is(key, "ecc")) {
		gpu->ecc = is(value, "yes");
	} else if (is(key, "chip")) {
		copy(gpu->chip, sizeof gpu->chip, value);
	} else if (is(key, "state_field")) {
		gpu->state_field = is(value, "yes");
	} else if (is(key, "gpm")) {
		gpu->gpm = is(value, "yes");
	} else if (is(key, "c2c")) {
		gpu->c2c = (unsigned)number(value);
	} else if (is(key, "c2c_mbps")) {
		gpu->c2c_mbps = (unsigned)number(value);
	} else {
		refuse("a GPU has no '%s'", key);
	}
}

static void link_key(struct link *link, int offset, const char *key, const char *value)
{
	if (is(key, "version"))
		link->version = (unsigned)number(value);
	else if (is(key, "speed_mbps"))
		link->speed_mbps = (unsigned)number(value);
	else if (is(key, "state"))
		link->up = is(value, "up");
	else if (is(key, "remote"))
		link->remote_type = is(value, "gpu") ? 0 : is(value, "cpu") ? 1 : is(value, "switch") ? 2 : 255;
	else if (is(key, "remote_pci"))
		copy(link->remote_pci, sizeof link->remote_pci, value);
	else if (is(key, "remote_link"))
		link->remote_link = (unsigned)number(value) + (unsigned)offset;
	else
		refuse("a link has no '%s'", key);
}

/* The counter that a key is about; `key` is left at what follows tx or rx. */
static struct counter *counter_of(const char **key, struct counter *tx, struct counter *rx)
{
	struct counter *counter = strncmp(*key, "tx", 2) == 0 ? tx : strncmp(*key, "rx", 2) == 0 ? rx : NULL;
	*key += 2;
	return counter;
}

static bool counter_key(struct counter *tx, struct counter *rx, const char *key, const char *value)
{
	if (strlen(key) < 2)
		return false;
	struct counter *counter = counter_of(&key, tx, rx);
	if (!counter)
		return false;
	if (is(key, "")) {
		counter->base = number(value);
		counter->since = monotonic();
		counter->reads = 0;
	} else if (is(key, "_jump")) {
		counter->base += number(value);
	} else if (is(key, "_rate")) {
		counter->rate = number(value);
	} else if (is(key, "_step")) {
		counter->step = number(value);
	} else {
		return false;
	}
	return true;
}

static void link_traffic_key(struct link *link, const char *key, const char *value)
{
	if (counter_key(&link->tx, &link->rx, key, value))
		return;
	if (is(key, "replay"))
		link->replay = number(value);
	else if (is(key, "recovery"))
		link->recovery = number(value);
	else if (is(key, "crc"))
		link->crc = number(value);
	else if (is(key, "bits"))
		link->bits = (unsigned)number(value);
	else
		refuse("traffic has no '%s'", key);
}

static void read_gpu(char *rest)
{
	int first, last;
	char *key, *value;
	range(word(&rest), MAX_GPUS, &first, &last);
	for (int i = first; i <= last; i++)
		scenario.gpus[i].present = true;
	while ((key = pair(&rest, &value)))
		for (int i = first; i <= last; i++) {
			gpu_key(&scenario.gpus[i], i, first != last, key, value);
			if (is(key, "uuid"))
				adopt_counters(&scenario.gpus[i]);
		}
}

static void read_links(char *rest, bool traffic)
{
	int first, last, first_link, last_link;
	char *key, *value;
	range(word(&rest), MAX_GPUS, &first, &last);
	range(word(&rest), MAX_LINKS, &first_link, &last_link);
	if (!traffic)
		for (int i = first; i <= last; i++)
			for (int l = first_link; l <= last_link; l++)
				scenario.gpus[i].links[l].present = true;
	while ((key = pair(&rest, &value)))
		for (int i = first; i <= last; i++)
			for (int l = first_link; l <= last_link; l++) {
				if (traffic)
					link_traffic_key(&scenario.gpus[i].links[l], key, value);
				else
					link_key(&scenario.gpus[i].links[l], l - first_link, key, value);
			}
}

static void read_pcie(char *rest)
{
	int first, last;
	char *key, *value;
	range(word(&rest), MAX_GPUS, &first, &last);
	while ((key = pair(&rest, &value)))
		for (int i = first; i <= last; i++)
			if (!counter_key(&scenario.gpus[i].pcie_tx, &scenario.gpus[i].pcie_rx, key, value))
				refuse("pcie has no '%s'", key);
}

static void read_process(char *rest)
{
	int first, last;
	range(word(&rest), MAX_GPUS, &first, &last);
	const char *pid = word(&rest), *gi = word(&rest), *ci = word(&rest);
	for (int i = first; i <= last; i++) {
		struct gpu *gpu = &scenario.gpus[i];
		if (gpu->process_count == MAX_PROCESSES)
			refuse("more than %d processes on a GPU", MAX_PROCESSES);
		gpu->processes[gpu->process_count++] =
			(struct process){(unsigned)number(pid ? pid : ""), gi ? (unsigned)number(gi) : ~0u,
					 ci ? (unsigned)number(ci) : ~0u};
	}
}

static void read_part(char *rest)
{
	int first, last, index, same;
	char *key, *value;
	range(word(&rest), MAX_GPUS, &first, &last);
	range(word(&rest), MAX_PARTS, &index, &same);
	struct part *part = &scenario.gpus[first].parts[index];
	part->present = true;
	while ((key = pair(&rest, &value))) {
		if (is(key, "uuid"))
			copy(part->uuid, sizeof part->uuid, value);
		else if (is(key, "name"))
			copy_name(part->name, sizeof part->name, value);
		else if (is(key, "gi"))
			part->gpu_instance = (unsigned)number(value);
		else if (is(key, "ci"))
			part->compute_instance = (unsigned)number(value);
		else
			refuse("a part has no '%s'", key);
	}
}

/* A UUID's digits, dashes left out. */
static void read_uuid(unsigned char *bytes, const char *text)
{
	for (int i = 0; i < 16; i++) {
		char digits[3] = {0};
		text += *text == '-';
		strncpy(digits, text, 2);
		char *end;
		bytes[i] = (unsigned char)strtoul(digits, &end, 16);
		if (end != digits + 2)
			refuse("a UUID lacks digits at '%s'", text);
		text += 2;
	}
	if (*text)
		refuse("'%s' is beyond a UUID", text);
}

static void read_fabric(char *rest)
{
	static const char *const states[] = {"not_supported", "not_started", "in_progress", "completed"};
	int first, last;
	range(word(&rest), MAX_GPUS, &first, &last);
	const char *cluster = word(&rest), *clique = word(&rest), *state = word(&rest), *status = word(&rest);
	struct fabric fabric = {.state = 3, .status = status ? (unsigned)number(status) : 0,
				.clique = (unsigned)number(clique ? clique : "")};
	read_uuid(fabric.cluster, cluster ? cluster : "");
	for (unsigned i = 0; state && !is(states[fabric.state = i], state); i++)
		if (i == 3)
			refuse("a fabric has no state '%s'", state);
	for (int i = first; i <= last; i++)
		scenario.gpus[i].fabric = fabric;
}

static void read_value(char *rest)
{
	if (scenario.value_count == MAX_VALUES)
		refuse("more than %d lines field", MAX_VALUES);
	struct value *value = &scenario.values[scenario.value_count++];
	range(word(&rest), MAX_GPUS, &value->gpu_first, &value->gpu_last);
	range(word(&rest), MAX_LINKS, &value->link_first, &value->link_last);
	char *field = word(&rest), *to = word(&rest);
	value->field = (unsigned)number(field ? field : "");
	value->value = number(to ? to : "");
}

static void read_metric(char *rest)
{
	if (scenario.metric_count == MAX_METRICS)
		refuse("more than %d lines metric", MAX_METRICS);
	struct sampled_metric *metric = &scenario.metrics[scenario.metric_count++];
	metric->value_count = 0;
	range(word(&rest), MAX_GPUS, &metric->gpu_first, &metric->gpu_last);
	const char *name = word(&rest), *value;
	copy(metric->name, sizeof metric->name, name ? name : "");
	while ((value = word(&rest))) {
		if (metric->value_count == MAX_METRIC_VALUES)
			refuse("more than %d values of a metric", MAX_METRIC_VALUES);
		metric->values[metric->value_count++] = strtod(value, NULL);
	}
	if (!metric->value_count)
		refuse("metric needs a value");
}

/* What GPM answers in the place of what passed: text, so that it may be no number. */
static void read_gpm(char *rest)
{
	int first, last;
	range(word(&rest), MAX_GPUS, &first, &last);
	const char *sent = word(&rest), *received = word(&rest);
	if (!sent || !received)
		refuse("gpm needs two values");
	for (int i = first; i <= last; i++) {
		struct gpu *gpu = &scenario.gpus[i];
		gpu->gpm_is_given = true;
		gpu->gpm_given[0] = strtod(sent, NULL);
		gpu->gpm_given[1] = strtod(received, NULL);
	}
}

static void read_fault(const char *kind, char *rest)
{
	int first, last, first_link, last_link;
	if (is(kind, "na")) {
		if (scenario.na_count == MAX_FAULTS)
			refuse("more than %d lines na", MAX_FAULTS);
		struct na *na = &scenario.na[scenario.na_count++];
		range(word(&rest), MAX_GPUS, &na->gpu_first, &na->gpu_last);
		range(word(&rest), MAX_LINKS, &na->link_first, &na->link_last);
		char *field = word(&rest), *code = word(&rest);
		na->field = (unsigned)number(field ? field : "");
		na->code = (unsigned)number(code ? code : "");
	} else if (is(kind, "fail")) {
		if (scenario.failure_count == MAX_FAULTS)
			refuse("more than %d lines fail", MAX_FAULTS);
		struct failure *failure = &scenario.failures[scenario.failure_count++];
		char *call = word(&rest), *code = word(&rest);
		copy(failure->call, sizeof failure->call, call ? call : "");
		failure->code = (unsigned)number(code ? code : "");
	} else if (is(kind, "xid")) {
		if (scenario.xid_count == MAX_FAULTS)
			refuse("more than %d lines xid", MAX_FAULTS);
		range(word(&rest), MAX_GPUS, &first, &last);
		char *value = word(&rest);
		scenario.xids[scenario.xid_count++] = (struct xid){ .gpu = first, .number = (unsigned)number(value ? value : "") };
	} else if (is(kind, "lost")) {
		range(word(&rest), MAX_GPUS, &first, &last);
		for (int i = first; i <= last; i++)
			scenario.gpus[i].lost = true;
	} else if (is(kind, "gone")) {
		range(word(&rest), MAX_GPUS, &first, &last);
		for (int i = first; i <= last; i++)
			scenario.gpus[i].present = false;
	} else { /* after */
		char *polls = word(&rest);
		unsigned after = (unsigned)number(polls ? polls : "");
		range(word(&rest), MAX_GPUS, &first, &last);
		range(word(&rest), MAX_LINKS, &first_link, &last_link);
		char *to = word(&rest);
		for (int i = first; i <= last; i++)
			for (int l = first_link; l <= last_link; l++) {
				scenario.gpus[i].links[l].changes_after = after;
				scenario.gpus[i].links[l].changes_to = to && is(to, "up");
			}
	}
}

/* A statement of one value, and for faults the library that has it. */
static void read_single(const char *kind, char *rest, const char *path, void (*include)(const char *path))
{
	char *value = word(&rest), *whose = word(&rest);
	if (!value)
		refuse("'%s' needs a value, or is no statement of a scenario", kind);
	bool mine = !whose || is(whose, scenario_player);
	if (is(kind, "driver"))
		copy(scenario.driver, sizeof scenario.driver, value);
	else if (is(kind, "nvml"))
		copy(scenario.nvml, sizeof scenario.nvml, value);
	else if (is(kind, "cupti"))
		scenario.cupti = (unsigned)number(value);
	else if (is(kind, "print"))
		copy(scenario.print, sizeof scenario.print, value);
	else if (is(kind, "monitors"))
		copy(scenario.monitors, sizeof scenario.monitors, value);
	else if (is(kind, "crash"))
		scenario.crash_after = mine ? (int64_t)number(value) : scenario.crash_after;
	else if (is(kind, "hang"))
		scenario.hang_after = mine ? (int64_t)number(value) : scenario.hang_after;
	else if (is(kind, "include")) {
		char beside[4096];
		const char *slash = strrchr(path, '/');
		int folder = *value == '/' || !slash ? 0 : (int)(slash - path) + 1;
		snprintf(beside, sizeof beside, "%.*s%s", folder, path, value);
		include(beside);
	} else
		refuse("'%s' is no statement of a scenario", kind);
}

void read_line(char *line, const char *path, void (*include)(const char *path))
{
	char *comment = strchr(line, '#');
	if (comment)
		*comment = 0;
	char *rest = line, *kind = word(&rest);
	if (!kind)
		return;
	if (is(kind, "gpu"))
		read_gpu(rest);
	else if (is(kind, "link"))
		read_links(rest, false);
	else if (is(kind, "traffic"))
		read_links(rest, true);
	else if (is(kind, "pcie"))
		read_pcie(rest);
	else if (is(kind, "process"))
		read_process(rest);
	else if (is(kind, "part"))
		read_part(rest);
	else if (is(kind, "fabric"))
		read_fabric(rest);
	else if (is(kind, "field"))
		read_value(rest);
	else if (is(kind, "metric"))
		read_metric(rest);
	else if (is(kind, "gpm"))
		read_gpm(rest);
	else if (is(kind, "na") || is(kind, "fail") || is(kind, "lost") || is(kind, "gone") || is(kind, "xid") || is(kind, "after"))
		read_fault(kind, rest);
	else
		read_single(kind, rest, path, include);
}
