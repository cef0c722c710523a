CREATE OR REPLACE VIEW internal.ib_port_lane_values AS
SELECT c.time, c.port_id, c.epoch, c.source, lane.number - 1 AS lane,
       c.sl_transmit_data_bytes[lane.number] AS sl_transmit_data_bytes,
       c.sl_receive_data_bytes[lane.number] AS sl_receive_data_bytes,
       c.vl_transmit_wait[lane.number] AS vl_transmit_wait,
       c.vl_flow_control_errors[lane.number] AS vl_flow_control_errors,
       c.vl_congestion[lane.number] AS vl_congestion,
       c.vl_operation_packets[lane.number] AS vl_operation_packets,
       c.vl_operation_data[lane.number] AS vl_operation_data
FROM internal.ib_port_lane_counters c
CROSS JOIN LATERAL generate_series(1, greatest(
    cardinality(c.sl_transmit_data_bytes), cardinality(c.sl_receive_data_bytes), cardinality(c.vl_transmit_wait),
    cardinality(c.vl_flow_control_errors), cardinality(c.vl_congestion), cardinality(c.vl_operation_packets),
    cardinality(c.vl_operation_data))) AS lane (number);
COMMENT ON VIEW internal.ib_port_lane_values IS 'ib_port_lane_counters with a row for each service level or virtual lane.';
