#!/bin/sh
# Slurm's TaskProlog: puts the MPI shim into each task of each job, so that nobody needs to write throughline-exec.
#
#   slurm.conf:  TaskProlog=/usr/lib/throughline/task-prolog.sh
#
# slurmstepd runs it as the user before each task and takes over what it prints as `export NAME=value`. So it prints
# nothing else on standard output, and whatever is missing, the task runs as it would without.
#
# Left alone: the batch script (its srun is a task of its own), tasks without an MPI launcher, and what the user or a
# module switched off with THROUGHLINE_SHIM=off. Which object: THROUGHLINE_MPI (openmpi, openmpi5, mpich, mpi3), which
# the module of an MPI may set; else what throughline-exec makes of the task's environment. A task may be a shell that
# starts several programs; the object has only functions that their MPI has, as long as they use one MPI.
set -u

libraries=${THROUGHLINE_LIB_DIR:-/usr/lib/throughline}
exec_program=${THROUGHLINE_EXEC:-throughline-exec}

case ${THROUGHLINE_SHIM:-on} in off | 0 | no) exit 0 ;; esac
[ -n "${PMIX_RANK:-}${PMI_RANK:-}" ] || exit 0

case ${THROUGHLINE_MPI:-} in
openmpi | openmpi5 | mpich | mpi3)
    object=$libraries/libthroughline-$THROUGHLINE_MPI.so
    ;;
*)
    # A shell is linked to no MPI: what is reported is what the launcher passes on.
    object=$(THROUGHLINE_LIB_DIR=$libraries "$exec_program" --dry-run /bin/sh 2>/dev/null |
        sed -n 's/^preload \([^:]*\): .*/\1/p')
    ;;
esac
[ -n "$object" ] && [ -r "$object" ] || exit 0

# Blanks and colons divide the list, and nothing quotes them.
case $object in *[\ :]*) exit 0 ;; esac

case ${LD_PRELOAD:-} in
*libthroughline-*) ;;
"") echo "export LD_PRELOAD=$object" ;;
# AddressSanitizer insists on the first place.
*libasan*) echo "export LD_PRELOAD=$LD_PRELOAD:$object" ;;
*) echo "export LD_PRELOAD=$object:$LD_PRELOAD" ;;
esac
