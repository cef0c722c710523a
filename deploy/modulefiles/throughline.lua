-- Lmod: `module load throughline` puts the MPI shim into every MPI program that is started then. Goes to the folder
-- of module files as throughline.lua. Does the same as the Tcl file beside it, for environment-modules.

help([[
Records what the MPI programs started from now on do: calls, bytes and time of each operation, and who sends to whom.
Nothing of messages' contents. It costs some 40 ns a call; a program without MPI does not notice it.

  module load throughline && srun ./program
  THROUGHLINE_SHIM=off srun ./program        not this one
  throughline job show last                  what was recorded
]])
whatis("Records MPI operations, bytes and time of each job")

local libraries = "/usr/lib/throughline"
-- openmpi (4), openmpi5, mpich (4 and later, Intel MPI 2021, Cray) or mpi3: set it in the module of each MPI.
local family = os.getenv("THROUGHLINE_MPI") or "mpi3"
local object = pathJoin(libraries, "libthroughline-" .. family .. ".so")

if isFile(object) then
    prepend_path("LD_PRELOAD", object, ":")
else
    LmodWarning("throughline: " .. object .. " is not there; programs run without it")
end
