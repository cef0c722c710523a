CREATE OR REPLACE FUNCTION internal.gpu_source_rank(source text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN coalesce(array_position(ARRAY['nvml', 'nvml_gpm', 'amd_smi', 'level_zero', 'dcgm', 'cupti'], source), 7);
COMMENT ON FUNCTION internal.gpu_source_rank IS
    'Which source of a GPU''s counters is believed where there are several: the one with the lowest number.';
