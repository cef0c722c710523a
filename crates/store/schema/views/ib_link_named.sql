CREATE OR REPLACE VIEW public.ib_link_named AS
SELECT l.port_a_id, l.port_b_id, a.link_name AS name, a.fabric,
       a.guid AS guid_a, a.port AS port_a, a.description AS description_a, a.node_type AS type_a,
       b.guid AS guid_b, b.port AS port_b, b.description AS description_b, b.node_type AS type_b,
       a.width, a.speed, a.rate_bytes_per_second, l.valid_from
FROM internal.ib_link l
JOIN public.ib_port_named a ON a.port_id = l.port_a_id
JOIN public.ib_port_named b ON b.port_id = l.port_b_id
WHERE l.valid_to IS NULL;
COMMENT ON VIEW public.ib_link_named IS 'Cables as they are now, with names of both ends.';
