/*
 * Who this rank is: what the HELLO frame says about job, launcher and host. Read from the environment and
 * /proc only. MPI is never used to agree on an identity: a job's ranks find the same text because their
 * launcher gave each of them the same address of itself.
 */
#define _GNU_SOURCE
#include "identity.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame.h"
#include "launch.h"
#include "processes.h"
#include "world.h"

/* Variables that schedulers and launchers set. The agent makes the job key from them. */
static const char *const variables[] = {
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
    "SLURM_JOB_SLUID", "SLURM_CLUSTER_NAME", "SLURM_HET_SIZE", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "SLURM_JOB_NAME", "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_PARTITION",
    "PBS_JOBID", "PBS_JOBNAME", "PBS_ACCOUNT", "PBS_QUEUE",
    "LSB_JOBID", "LSB_JOBINDEX", "LSB_JOBNAME", "LSB_PROJECT_NAME", "LSB_QUEUE",
    "FLUX_JOB_ID", "FLUX_JOB_ID_PATH", "PMIX_NAMESPACE", "PMI_JOBID",
};

/* Names that other programs use, too: Grid Engine's only where its own variable is. */
static const char *const grid_engine_variables[] = {
    "SGE_TASK_ID", "SGE_ACCOUNT", "JOB_ID", "JOB_NAME", "QUEUE",
};

/* Open MPI 4: mpirun's own address and a random number of the job. PRRTE (Open MPI 5): its host and process are in the
 * namespace's name (prterun-HOST-PID@N). Hydra of newer MPICH sets PMI_ID only, so its process is examined. */
static const char *const launcher_variables[] = {
    "PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_precondition_transports",
};

enum { ANCESTORS = 8, TEXT_LIMIT = 1024 };

/* Value of an option in a command line of /proc: words end in NUL. */
static const char *option(const char *line, size_t length, const char *name) {
    for (size_t i = 0; i < length; i += strlen(line + i) + 1) {
        if (strcmp(line + i, name) != 0) continue;
        size_t value = i + strlen(name) + 1;
        return value < length ? line + value : NULL;
    }
    return NULL;
}

/* Whether all ranks of the world are on this node, by the launcher's word. Only then do they all know the same processes of it. */
static int is_one_node(const char *variable) {
    const char *ranks = getenv(variable);
    return ranks && tl_world_size > 0 && atoi(ranks) == tl_world_size;
}

/* Ports and process ids are given again: the start of the launcher's process makes the name that of one launch. */
static void put_start(char *text, size_t size, const char *start) {
    size_t used = strlen(text);
    if (used < size) snprintf(text + used, size - used, " at %s", start);
}

/* Hydra starts a proxy on each node, each started with the address where mpiexec listens: that address and the process group
 * name the job. A wrapper script may stand between, so a few ancestors are examined. On one node the start of the proxy is added;
 * on several, whose proxies start one after the other, that of mpiexec, where it could pass it on (launch.c). */
static int hydra_launcher(char *text, size_t size) {
    static char line[16384];
    char start[TL_START_LIMIT];
    pid_t pid = getppid();
    for (int i = 0; i < ANCESTORS && pid > 1; i++, pid = tl_process_parent(pid)) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
        ssize_t length = tl_read_file(path, line, sizeof line);
        if (length <= 0) continue;
        const char *port = option(line, (size_t)length, "--control-port");
        if (!port) continue;
        const char *group = option(line, (size_t)length, "--pgid"), *launch = getenv(TL_LAUNCH_VARIABLE);
        /* MPICH 5 has one proxy for spawned processes, too; those of two spawns it does not distinguish. */
        snprintf(text, size, "hydra %s %s%s", port, group ? group : "0", getenv("PMI_SPAWNED") ? " spawned" : "");
        if (is_one_node("MPI_LOCALNRANKS") && tl_process_start(pid, start)) put_start(text, size, start);
        else if (launch && *launch) put_start(text, size, launch);
        return 1;
    }
    return 0;
}

/* Intel MPI's Hydra gives each launch a number of its own, the same on all nodes, and its proxies no address in their command lines. */
static int intel_launcher(char *text, size_t size) {
    const char *launch = getenv("I_MPI_HYDRA_UUID"), *group = getenv("HYDRA_BSTRAP_PGID");
    if (!launch || !*launch || !getenv("PMI_RANK")) return 0;
    snprintf(text, size, "impi %s %s%s", launch, group ? group : "0", getenv("PMI_SPAWNED") ? " spawned" : "");
    return 1;
}

/* PRRTE's namespace has the process id of prterun or prte. On one node it is an ancestor of all ranks. */
static void prrte_start(char *text, size_t size) {
    char start[TL_START_LIMIT];
    const char *namespace = getenv("PMIX_NAMESPACE"), *at = namespace ? strrchr(namespace, '@') : NULL;
    if (!at || !is_one_node("OMPI_COMM_WORLD_LOCAL_SIZE")) return;
    const char *digits = at;
    while (digits > namespace && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    pid_t named = atoi(digits), pid = getppid();
    for (int i = 0; i < ANCESTORS && pid > 1 && pid != named; i++) pid = tl_process_parent(pid);
    if (pid > 1 && pid == named && tl_process_start(pid, start)) put_start(text, size, start);
}

static char launcher[TEXT_LIMIT];
static pthread_once_t launcher_once = PTHREAD_ONCE_INIT;

/* Once: when this process ends, its launcher may have ended before it. */
static void learn_launcher(void) {
    size_t used = 0;
    for (size_t i = 0; i < sizeof launcher_variables / sizeof *launcher_variables; i++) {
        const char *value = getenv(launcher_variables[i]);
        if (!value || used >= sizeof launcher) continue;
        int wrote = snprintf(launcher + used, sizeof launcher - used, "%s%s", used ? " " : "pmix ", value);
        if (wrote > 0) used += (size_t)wrote;
    }
    if (used > 0) prrte_start(launcher, sizeof launcher);
    else if (!intel_launcher(launcher, sizeof launcher)) hydra_launcher(launcher, sizeof launcher);
}

int tl_identity_job(char *text, size_t size) {
    static const char *const common[] = {
        "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_CLUSTER_NAME", "PBS_JOBID",
        "LSB_JOBID", "LSB_JOBINDEX", "FLUX_JOB_ID", "PMI_JOBID",
    };
    pthread_once(&launcher_once, learn_launcher);
    size_t used = (size_t)snprintf(text, size, "%s", launcher);
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        const char *value = getenv(common[i]);
        int wrote = value && used < size ? snprintf(text + used, size - used, " %s=%s", common[i], value) : 0;
        if (wrote > 0) used += (size_t)wrote;
    }
    return used > 0;
}

static void put_variables(struct tl_frame *frame, const char *const *names, size_t count) {
    char text[TEXT_LIMIT];
    for (size_t i = 0; i < count; i++) {
        const char *value = getenv(names[i]);
        if (!value) continue;
        int wrote = snprintf(text, sizeof text, "%s=%s", names[i], value);
        if (wrote > 0 && (size_t)wrote < sizeof text) tl_field_text(frame, TL_HELLO_VARIABLE, text);
    }
}

void tl_identity_put(struct tl_frame *frame) {
    char text[TEXT_LIMIT];
    tl_field_u32(frame, TL_HELLO_PID, (uint32_t)getpid());
    if (gethostname(text, sizeof text) == 0) {
        text[sizeof text - 1] = '\0';
        tl_field_text(frame, TL_HELLO_HOST, text);
    }
    put_variables(frame, variables, sizeof variables / sizeof *variables);
    if (getenv("SGE_TASK_ID"))
        put_variables(frame, grid_engine_variables, sizeof grid_engine_variables / sizeof *grid_engine_variables);
    pthread_once(&launcher_once, learn_launcher);
    if (launcher[0]) tl_field_text(frame, TL_HELLO_LAUNCHER, launcher);
}
