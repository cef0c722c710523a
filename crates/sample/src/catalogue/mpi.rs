//! Metrics of MPI ranks: operations and rank-to-rank traffic. All are cumulative within an epoch.

use super::Width::Wraps;
use super::metrics;

metrics! { OPS, MpiOps:
    301 MPI_CALLS "calls" Counter Count Wraps(63), "Calls of this MPI operation, by size class.", "calls counted by the shim";
    302 MPI_BYTES "bytes" Counter Bytes Wraps(63), "What callers of this MPI operation passed to send: count x datatype size.", "call arguments";
    303 MPI_ELAPSED_SECONDS "elapsed_seconds" Counter Seconds Wraps(63), "Time spent inside this MPI operation.", "time around the call";
    304 MPI_LONGEST_SECONDS "longest_seconds" Gauge Seconds Wraps(63), "Longest single call of this MPI operation since the rank began.", "time around the call";
    305 MPI_WAIT_SECONDS "wait_seconds" Counter Seconds Wraps(63), "Time from the return of the call that began this MPI operation to its completion.", "completion of requests";
    306 MPI_RECEIVED_BYTES "received_bytes" Counter Bytes Wraps(63), "What receives of this MPI operation got.", "status at completion";
    307 MPI_LEAST_SECONDS "least_seconds" Counter Seconds Wraps(63), "What calls of this MPI operation would have taken, had each been as short as the shortest of its bin.", "time around the call";
}

metrics! { REGIONS, MpiRegions:
    341 REGION_VISITS "visits" Counter Count Wraps(63), "Times that this annotated region was entered.", "annotations in the program";
    342 REGION_ELAPSED_SECONDS "elapsed_seconds" Counter Seconds Wraps(63), "Time in this annotated region, regions within it included, over all threads.", "annotations in the program";
    343 REGION_OWN_SECONDS "own_seconds" Counter Seconds Wraps(63), "Time in which this annotated region was its thread's innermost one, over all threads.", "annotations in the program";
    344 REGION_MPI_CALLS "mpi_calls" Counter Count Wraps(63), "MPI operations while this annotated region was the innermost one.", "calls counted by the shim";
    345 REGION_MPI_SECONDS "mpi_seconds" Counter Seconds Wraps(63), "Time inside MPI operations while this annotated region was the innermost one.", "time around the call";
}

metrics! { REGION_PATHS, MpiRegionPaths:
    351 PATH_VISITS "visits" Counter Count Wraps(63), "Times that the innermost region of this path was entered from the path around it.", "annotations in the program";
    352 PATH_ELAPSED_SECONDS "elapsed_seconds" Counter Seconds Wraps(63), "Inclusive time of this path of annotated regions, paths within it included, over all threads.", "annotations in the program";
    353 PATH_OWN_SECONDS "own_seconds" Counter Seconds Wraps(63), "Exclusive time of this path of annotated regions, without paths within it, over all threads.", "annotations in the program";
    354 PATH_MPI_CALLS "mpi_calls" Counter Count Wraps(63), "MPI operations in the exclusive time of this path of annotated regions.", "calls counted by the shim";
    355 PATH_MPI_SECONDS "mpi_seconds" Counter Seconds Wraps(63), "Time inside MPI operations in the exclusive time of this path of annotated regions.", "time around the call";
}

metrics! { PEERS, MpiPeers:
    321 PEER_BYTES "bytes" Counter Bytes Wraps(63), "Bytes from this rank to the peer.", "call arguments (logical) or messages really sent (wire)";
    322 PEER_MESSAGES "messages" Counter Count Wraps(63), "Messages from this rank to the peer.", "call arguments (logical) or messages really sent (wire)";
}

metrics! { TRAFFIC, MpiTraffic:
    331 TRAFFIC_BYTES "bytes" Counter Bytes Wraps(63), "Bytes of this MPI operation between this node's ranks of the job and the peer.", "messages that the library reports (measured), call arguments by the shape of the algorithm (modelled) or as they are (logical)";
    332 TRAFFIC_MESSAGES "messages" Counter Count Wraps(63), "Messages of this MPI operation between this node's ranks of the job and the peer.", "messages that the library reports (measured), call arguments by the shape of the algorithm (modelled) or as they are (logical)";
}
