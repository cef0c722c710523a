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
local function object(name)
    return pathJoin(libraries, "libthroughline-" .. name .. ".so")
end

if mode() == "unload" then
    -- Whichever it was: another MPI's module may have come since. What prepends takes away now.
    for _, name in ipairs({ "openmpi", "openmpi5", "mpich", "mpi3" }) do
        prepend_path("LD_PRELOAD", object(name), ":")
    end
elseif isFile(object(family)) then
    prepend_path("LD_PRELOAD", object(family), ":")
else
    LmodWarning("throughline: " .. object(family) .. " is not there; programs run without it")
end
