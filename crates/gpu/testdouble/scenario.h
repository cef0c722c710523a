/* The scenario that the test doubles of vendors' libraries play: GPUs, links, traffic, faults.
 *
 * Text, one statement a line, words separated by blanks; '#' begins a comment.
 * Numbers are decimal, N_GPU and N_LINK a number, a range A-B, or '*'.
 *
 *   driver VERSION                    nvml VERSION                cupti CUPTI_API_VERSION (default 130001)
 *   gpu N key=value ...               one GPU (or a range of equal ones):
 *       uuid=GPU-...                    (a range: the index is put in the last two digits)
 *       name=TEXT                       '_' stands for a blank
 *       pci=DOMAIN:BUS:DEVICE.0         hexadecimal
 *       minor=N                         N of /dev/nvidiaN, default the index
 *       pcie=GENERATIONxWIDTH           default 4x16
 *       pcie_bits=32|64                 width of the PCIe byte counters, default 32 as on hardware
 *       counters=kib|bytes|none         fields 138/139 or 202/204, default kib
 *       errors=links|numbered|nvlink5|none      161-163, 32-119, or 206-222 and 235-250; default links
 *       c2c=N c2c_mbps=N                C2C links to a CPU: fields 170-172, 232
 *       gpm=yes|no                      whether GPM answers for PCIe, default no
 *       chip=NAME                       what CUPTI calls it: GH100 (default), GV100, ...
 *       state_field=yes|no              whether field 165 answers, default yes
 *       ecc=yes|no                      no: error counters of links answer 3 (not supported), all of them; default yes
 *   link N_GPU N_LINK key=value ...   physical links:
 *       version=N (nvmlNvlinkVersion_t) speed_mbps=N state=up|down
 *       remote=gpu|cpu|switch|unknown remote_pci=DOMAIN:BUS:DEVICE.0
 *       remote_link=N                   (a range of links: the first one's; it counts on)
 *   traffic N_GPU N_LINK key=value ...  counters of links:
 *       tx=BYTES rx=BYTES               value now; left out: continues
 *       tx_rate=B rx_rate=B             bytes per second of CLOCK_MONOTONIC from now on
 *       tx_step=B rx_step=B             bytes added before each reading, for exact tests
 *       replay=N recovery=N crc=N       error counters
 *       tx_jump=B rx_jump=B             added now, each time that the file is read
 *       bits=N                          counters wrap after so many bits (in their own unit)
 *   pcie N_GPU key=value ...          the same keys (tx rx tx_rate rx_rate tx_step rx_step) for PCIe
 *   gpm N_GPU SENT RECEIVED           what GPM answers in the place of what passed, MiB a second; nan and 1e300 are values, too
 *   field N_GPU N_LINK FIELD VALUE    this field has this value (byte counters of links and PCIe, whatever they counted; NVLink 5's
 *                                     errors and of C2C, 0 unless reported; 74 to 81, link 0: nanoseconds in which the GPU was
 *                                     slowed down, not supported unless reported)
 *   metric N_GPU NAME VALUE [VALUE …]  what successive samples of CUPTI hold of a metric, again from the first (8 at most); nan is
 *                                     a value, too. Of a metric without a line 0, of bytes over links and PCIe what `traffic` and `pcie` say
 *   part N_GPU INDEX uuid=MIG-... name=TEXT gi=N ci=N    a partition (MIG device) of a GPU
 *   fabric N_GPU CLUSTER CLIQUE [STATE [STATUS]]   its registration in a fabric of NVLinks: UUID of the cluster (all 0: the node's own),
 *                                     not_supported, not_started, in_progress or completed (default), and NVML's code
 *   process N_GPU PID [GI CI]         this process has a compute context on the GPU, or on a partition of it
 *   na N_GPU N_LINK FIELD CODE        this field answers with this code (FIELD 0: all fields)
 *   fail CALL CODE                    this call fails: init, count, handle, uuid, name, pci, pcie,
 *                                     fields, state, version, remote, processes, fabric; connect (DCGM)
 *                                     of libcuda cuInit, cuCtxCreate; of libcupti cupti_init, chip, availability,
 *                                     pm_enable, pm_config, pm_start, pm_decode
 *                                     (of one GPU: na N_GPU * 9001 enable, 9002 decode, 9003 links)
 *   lost N_GPU                        every call with this GPU answers 15
 *   gone N_GPU                        the GPU is not listed any more, and later ones have lower indices; calls with it answer 15
 *   xid N_GPU NUMBER                  the driver reports this Xid, once; later ones stand below
 *   after POLLS N_GPU N_LINK up|down  the link changes state before reading POLLS+1 of its GPU
 *   crash POLLS [WHOSE] | hang POLLS [WHOSE]   abort, or never return, in the reading after POLLS ones (of GPU 0);
 *                                     WHOSE: only in this library: nvml, cupti, dcgm, amd_smi, level_zero
 *   monitors FOLDER                   processes share the performance monitors, by locks in FOLDER: the second who enables PM Sampling
 *                                     of a GPU gets 26; without it each process has them for itself
 *   print WORD                        nvmlInit_v2 prints WORD on standard output, as libraries should not
 *   include FILE                      read FILE here, relative to this one; a missing FILE is no error
 *
 * When a file changes (a new inode or time of modification), all is read again at a call a
 * millisecond later or more: counters go
 * on from where they are unless tx= or rx= sets them. A wrong line is reported on standard error and ends the
 * process: a scenario with a mistake must not pass a test. While an included file is being replaced by
 * rename(2) nobody observes half of it. */
#ifndef THROUGHLINE_SCENARIO_H
#define THROUGHLINE_SCENARIO_H

#include "gpus.h"

/* The scenario of THROUGHLINE_NVML_SCENARIO, read again if a file of it has changed. */
struct scenario *scenario_now(void);
/* The code that a scenario gives a call as a whole, 0 for none. */
unsigned scenario_failure(const char *call);
/* The code with which a field of a link is absent, 0 where it is there. */
unsigned scenario_absent(int gpu, unsigned link, unsigned field);
/* One reading of a GPU's links: steps, changes of state, crash and hang are counted by it. */
void scenario_count_reading(int gpu);

#endif
