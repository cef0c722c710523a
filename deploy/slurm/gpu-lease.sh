#!/bin/sh
# Prolog and Epilog of slurmd: a job that profiles GPUs by itself takes them from throughline-agent (section [cupti]) for
# as long as it runs. It asks by `--comment=throughline=profile` or by a feature named profile (`-C profile`).
# Never fails: a job must not be held up by it.
leases=${THROUGHLINE_GPU_LEASES:-/run/throughline/gpu-leases}
job=${SLURM_JOB_ID:-}

case $job in
'' | *[!0-9]*) exit 0 ;;
esac
case ${SLURM_SCRIPT_CONTEXT:-} in
epilog*)
    rm -f "$leases/$job"
    exit 0
    ;;
prolog*) ;;
*) exit 0 ;;
esac
case ",${SLURM_JOB_COMMENT:-},${SLURM_JOB_CONSTRAINTS:-}," in
*[,\ \;]throughline=profile[,\ \;]* | *[,\&\|]profile[,\&\|]*)
    # The agent looks five times a second, and needs half a second to give the GPUs back.
    mkdir -p "$leases" && : >"$leases/$job" && sleep 1
    ;;
esac
exit 0
