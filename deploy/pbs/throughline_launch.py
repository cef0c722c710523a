# OpenPBS and PBS Professional: a hook that puts the MPI shim into what a job starts on each node.
#
#   qmgr -c "create hook throughline event=execjob_launch"
#   qmgr -c "import hook throughline application/x-python default throughline_launch.py"
#
# It runs where a job's script or a task of it is started (pbs_tmrsh, pbsdsh, an mpirun built for PBS) and changes its
# environment only. Users switch it off with `qsub -v THROUGHLINE_SHIM=off`. Set FAMILY to what most programs use.
import os

import pbs

LIBRARIES = "/usr/lib/throughline"
FAMILY = "mpi3"


def preload(variables):
    """The new LD_PRELOAD, or None where it stays as it is."""
    if variables.get("THROUGHLINE_SHIM", "on") in ("off", "0", "no"):
        return None
    family = variables.get("THROUGHLINE_MPI", FAMILY)
    library = os.path.join(LIBRARIES, "libthroughline-%s.so" % family)
    before = variables.get("LD_PRELOAD", "")
    if not os.access(library, os.R_OK) or "libthroughline-" in before:
        return None
    return library + ":" + before if before else library


event = pbs.event()
wanted = preload(event.env)
if wanted is not None:
    event.env["LD_PRELOAD"] = wanted
event.accept()
