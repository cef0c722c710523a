CREATE OR REPLACE FUNCTION host_port_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, host_port_id integer, epoch timestamptz, source text, port_data_transmitted_bytes bigint,
    port_data_received_bytes bigint, port_packets_transmitted bigint, port_packets_received bigint,
    unicast_packets_transmitted bigint, unicast_packets_received bigint, multicast_packets_transmitted bigint,
    multicast_packets_received bigint, port_transmit_wait bigint, symbol_error bigint, link_error_recovery bigint,
    link_downed bigint, port_errors_received bigint, port_receive_remote_physical_errors bigint,
    port_receive_switch_relay_errors bigint, port_discards_transmitted bigint,
    port_constraint_errors_transmitted bigint, port_constraint_errors_received bigint,
    local_link_integrity_errors bigint, excessive_buffer_overrun_errors bigint, vl15_dropped bigint,
    rate_bytes_per_second bigint, state_id bigint, physical_state_id bigint, pcie_bytes_per_second bigint)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT
        c.time, c.host_port_id, c.epoch, c.source, c.port_data_transmitted_bytes, c.port_data_received_bytes,
        c.port_packets_transmitted, c.port_packets_received, c.unicast_packets_transmitted,
        c.unicast_packets_received, c.multicast_packets_transmitted, c.multicast_packets_received,
        c.port_transmit_wait, c.symbol_error, c.link_error_recovery, c.link_downed, c.port_errors_received,
        c.port_receive_remote_physical_errors, c.port_receive_switch_relay_errors, c.port_discards_transmitted,
        c.port_constraint_errors_transmitted, c.port_constraint_errors_received, c.local_link_integrity_errors,
        c.excessive_buffer_overrun_errors, c.vl15_dropped, c.rate_bytes_per_second, c.state_id, c.physical_state_id,
        c.pcie_bytes_per_second
    FROM host_port_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        packed_time(h.times[r.number]), h.host_port_id, packed_time(h.epochs[r.number]), h.sources[r.number],
        h.port_data_transmitted_bytes[r.number], h.port_data_received_bytes[r.number],
        h.port_packets_transmitted[r.number], h.port_packets_received[r.number],
        h.unicast_packets_transmitted[r.number], h.unicast_packets_received[r.number],
        h.multicast_packets_transmitted[r.number], h.multicast_packets_received[r.number],
        h.port_transmit_wait[r.number], h.symbol_error[r.number], h.link_error_recovery[r.number],
        h.link_downed[r.number], h.port_errors_received[r.number], h.port_receive_remote_physical_errors[r.number],
        h.port_receive_switch_relay_errors[r.number], h.port_discards_transmitted[r.number],
        h.port_constraint_errors_transmitted[r.number], h.port_constraint_errors_received[r.number],
        h.local_link_integrity_errors[r.number], h.excessive_buffer_overrun_errors[r.number],
        h.vl15_dropped[r.number], h.rate_bytes_per_second[r.number], h.state_id[r.number],
        h.physical_state_id[r.number], h.pcie_bytes_per_second[r.number]
    FROM (
        -- Grouped, so that each series is unpacked once and not for each of its readings. A series that the query does not
        -- use is neither read nor unpacked.
        SELECT m.host_port_id,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = -2 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS times,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = -3 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS epochs,
               packed_texts((SELECT b.samples FROM host_port_blocks b WHERE b.metric = -4 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS sources,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 101 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_data_transmitted_bytes,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 102 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_data_received_bytes,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 103 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_packets_transmitted,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 104 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_packets_received,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 105 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS unicast_packets_transmitted,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 106 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS unicast_packets_received,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 107 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS multicast_packets_transmitted,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 108 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS multicast_packets_received,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 109 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_transmit_wait,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 110 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS symbol_error,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 111 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS link_error_recovery,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 112 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS link_downed,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 113 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_errors_received,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 114 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_receive_remote_physical_errors,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 115 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_receive_switch_relay_errors,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 116 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_discards_transmitted,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 117 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_constraint_errors_transmitted,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 118 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS port_constraint_errors_received,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 119 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS local_link_integrity_errors,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 120 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS excessive_buffer_overrun_errors,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 121 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS vl15_dropped,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 122 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS rate_bytes_per_second,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 123 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS state_id,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 124 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS physical_state_id,
               packed_integers((SELECT b.samples FROM host_port_blocks b WHERE b.metric = 125 AND b.host_port_id = m.host_port_id
                   AND b.time = m.time AND b.time > since - INTERVAL '1 hour' AND b.time <= until)) AS pcie_bytes_per_second
        FROM host_port_blocks m, packed_state s
        WHERE s.readings = 'host_port_counters' AND m.metric = 0 AND m.time >= s.packed_from AND m.time < s.packed_until
          AND m.time > since - INTERVAL '1 hour' AND m.time <= until
        GROUP BY m.host_port_id, m.time
    ) h
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE packed_time(h.times[r.number]) >= since AND packed_time(h.times[r.number]) <= until
$$;
COMMENT ON FUNCTION host_port_readings IS
    'Readings of hosts'' own adapter ports from since to until, as host_port_counters has them: rows, and hours that are packed only. Condition '
    'host_port_id, so that no others are unpacked.';
