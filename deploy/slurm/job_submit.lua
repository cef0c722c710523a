-- Slurm's job_submit/lua: `#SBATCH --comment=throughline=off` (or trace) for jobs whose users would rather not set
-- variables. Goes to the folder of slurm.conf, with JobSubmitPlugins=lua; where a job_submit.lua is there already, take
-- over the function throughline_comment and call it. Works for sbatch: what salloc and srun run has its environment
-- from the user's shell, where `export THROUGHLINE_SHIM=off` does the same.

local values = { off = "THROUGHLINE_SHIM=off", trace = "THROUGHLINE_TRACE=1" }

function throughline_comment(job)
    local wish = job.comment and string.match(job.comment, "throughline=(%a+)")
    local variable = wish and values[wish]
    if variable == nil or job.environment == nil then
        return
    end
    local name, value = string.match(variable, "^(.-)=(.*)$")
    job.environment[name] = value
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    throughline_comment(job_desc)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
