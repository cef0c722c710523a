//! What every Throughline process does the same way: configuration, exit codes, logging, state folders, /metrics, clean stop.
