/* GPUs, links, traffic and faults as a scenario has them. */
#ifndef THROUGHLINE_GPUS_H
#define THROUGHLINE_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "counter.h"

enum { MAX_GPUS = 32, MAX_LINKS = 24, MAX_FAULTS = 64, MAX_FILES = 8, MAX_PROCESSES = 256, MAX_PARTS = 8,
       MAX_VALUES = 256, MAX_METRICS = 64, MAX_METRIC_VALUES = 8 };
enum counters { COUNT_KIB, COUNT_BYTES, COUNT_NONE };
enum errors { ERRORS_LINKS, ERRORS_NUMBERED, ERRORS_NVLINK5, ERRORS_NONE };

struct link {
	bool present, up;
	unsigned version, speed_mbps, remote_type;
	char remote_pci[32];
	unsigned remote_link;
	struct counter tx, rx;
	uint64_t replay, recovery, crc;
	unsigned bits;
	unsigned changes_after; /* 0: never */
	bool changes_to;
};

struct part {
	bool present;
	char uuid[80], name[64];
	unsigned gpu_instance, compute_instance;
};

struct process {
	unsigned pid, gpu_instance, compute_instance; /* ~0u: not on a partition */
};

/* Registration in a fabric of NVLinks; state 0: it takes part in none. */
struct fabric {
	unsigned state, status, clique;
	unsigned char cluster[16];
};

struct gpu {
	struct fabric fabric;
	bool present, lost, state_field, gpm, gpm_is_given, ecc;
	double gpm_given[2]; /* MiB a second, sent and received */
	unsigned c2c, c2c_mbps;
	struct part parts[MAX_PARTS];
	char uuid[80], name[64], pci[32], chip[16];
	unsigned minor, pcie_generation, pcie_width, pcie_bits;
	enum counters counters;
	enum errors errors;
	struct counter pcie_tx, pcie_rx;
	struct link links[MAX_LINKS];
	struct process processes[MAX_PROCESSES];
	unsigned process_count;
	uint64_t polls; /* readings of byte counters, or of PCIe where there are no links */
};

struct na {
	int gpu_first, gpu_last, link_first, link_last;
	unsigned field, code;
};

/* A value that a scenario gives a field. */
struct value {
	int gpu_first, gpu_last, link_first, link_last;
	unsigned field;
	uint64_t value;
};

/* What samples of a GPU's performance monitor hold of a metric, one after the other and again from the first. */
struct sampled_metric {
	int gpu_first, gpu_last;
	char name[128];
	double values[MAX_METRIC_VALUES];
	unsigned value_count;
};

/* An event of a GPU. */
struct xid {
	int gpu;
	unsigned number;
};

struct failure {
	char call[16];
	unsigned code;
};

struct scenario {
	char driver[64], nvml[64];
	unsigned cupti;
	struct gpu gpus[MAX_GPUS];
	struct na na[MAX_FAULTS];
	unsigned na_count;
	struct value values[MAX_VALUES];
	unsigned value_count;
	struct sampled_metric metrics[MAX_METRICS];
	unsigned metric_count;
	struct failure failures[MAX_FAULTS];
	unsigned failure_count;
	struct xid xids[MAX_FAULTS];
	unsigned xid_count;
	char print[64];
	char monitors[4096]; /* a folder, or empty: each process has them for itself */
	int64_t crash_after, hang_after; /* -1: never */
};

/* The library that plays, as scenarios name it; each library defines it. */
extern const char *const scenario_player;

#endif
