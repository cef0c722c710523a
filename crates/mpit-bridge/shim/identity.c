/*
 * Who this rank is: what the HELLO frame says about job, launcher and host. Read from the environment and
 * /proc only. MPI is never used to agree on an identity: a job's ranks find the same text because their
 * launcher gave each of them the same address of itself.
 */
#define _GNU_SOURCE
#include "identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame.h"

/* Variables that schedulers and launchers set. The agent makes the job key from them. */
static const char *const variables[] = {
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
    "SLURM_HET_SIZE", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_NAME", "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_PARTITION",
    "PBS_JOBID", "PBS_JOBNAME", "PBS_ACCOUNT", "PBS_QUEUE",
    "LSB_JOBID", "LSB_JOBINDEX", "LSB_JOBNAME", "LSB_PROJECT_NAME", "LSB_QUEUE",
    "FLUX_JOB_ID", "FLUX_JOB_ID_PATH", "PMIX_NAMESPACE", "PMI_JOBID",
};

/* Names that other programs use, too: Grid Engine's only where its own variable is. */
static const char *const grid_engine_variables[] = {
    "SGE_TASK_ID", "SGE_ACCOUNT", "JOB_ID", "JOB_NAME", "QUEUE",
};

/* Open MPI 4: mpirun's own address and a random number of the job. PRRTE (Open MPI 5): its address is in the
 * namespace's name (prterun-HOST-PID@N). Hydra of newer MPICH sets PMI_ID only, so its process is examined. */
static const char *const launcher_variables[] = {
    "PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_precondition_transports",
};

enum { ANCESTORS = 8, TEXT_LIMIT = 1024 };

static ssize_t read_file(const char *path, char *to, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t got = 0;
    while (got < size - 1) {
        ssize_t n = read(fd, to + got, size - 1 - got);
        if (n <= 0) break;
        got += (size_t)n;
    }
    close(fd);
    to[got] = '\0';
    return (ssize_t)got;
}

static pid_t parent_of(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_file(path, text, sizeof text) <= 0) return 0;
    const char *after = strrchr(text, ')'); /* the command may itself hold spaces and parentheses */
    int parent = 0;
    return after && sscanf(after + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Value of an option in a command line of /proc: words end in NUL. */
static const char *option(const char *line, size_t length, const char *name) {
    for (size_t i = 0; i < length; i += strlen(line + i) + 1) {
        if (strcmp(line + i, name) != 0) continue;
        size_t value = i + strlen(name) + 1;
        return value < length ? line + value : NULL;
    }
    return NULL;
}

/* Hydra starts a proxy on each node, each started with the address where mpiexec listens: that address and the process group
 * name the job. A wrapper script may stand between, so a few ancestors are examined. */
static int hydra_launcher(char *text, size_t size) {
    static char line[16384];
    pid_t pid = getppid();
    for (int i = 0; i < ANCESTORS && pid > 1; i++, pid = parent_of(pid)) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
        ssize_t length = read_file(path, line, sizeof line);
        if (length <= 0) continue;
        const char *port = option(line, (size_t)length, "--control-port");
        if (!port) continue;
        const char *group = option(line, (size_t)length, "--pgid");
        /* MPICH 5 has one proxy for spawned processes, too; those of two spawns it does not distinguish. */
        snprintf(text, size, "hydra %s %s%s", port, group ? group : "0", getenv("PMI_SPAWNED") ? " spawned" : "");
        return 1;
    }
    return 0;
}

static void launcher(char *text, size_t size) {
    text[0] = '\0';
    size_t used = 0;
    for (size_t i = 0; i < sizeof launcher_variables / sizeof *launcher_variables; i++) {
        const char *value = getenv(launcher_variables[i]);
        if (!value || used >= size) continue;
        int wrote = snprintf(text + used, size - used, "%s%s", used ? " " : "pmix ", value);
        if (wrote > 0) used += (size_t)wrote;
    }
    if (used == 0) hydra_launcher(text, size);
}

int tl_identity_job(char *text, size_t size) {
    static const char *const common[] = {
        "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_CLUSTER_NAME", "PBS_JOBID",
        "LSB_JOBID", "LSB_JOBINDEX", "FLUX_JOB_ID", "PMI_JOBID",
    };
    launcher(text, size);
    size_t used = strlen(text);
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
    launcher(text, sizeof text);
    if (text[0]) tl_field_text(frame, TL_HELLO_LAUNCHER, text);
}
