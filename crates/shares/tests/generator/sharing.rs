//! Bandwidth shared max-min fairly between flows: each gets what it wants or as much as any other on a full link of its way.

/// A flow: what it wants to send, and the part of it that each of its links carries.
pub struct Demand {
    pub bytes: f64,
    pub links: Vec<(u32, f64)>,
}

/// Links whose share is within this of the smallest are full at once: exactness to a part in fifty, in few rounds.
const STEP: f64 = 1.02;

/// Bytes that each flow gets where each link carries `capacity` bytes.
pub fn share(demands: &[Demand], links: usize, capacity: f64) -> Vec<f64> {
    let mut got: Vec<Option<f64>> = vec![None; demands.len()];
    let mut left = vec![capacity; links];
    let mut weight = vec![0.0_f64; links];
    for (link, part) in demands.iter().flat_map(|demand| &demand.links) {
        weight[*link as usize] += part;
    }
    let mut open: Vec<usize> = (0..demands.len()).collect();
    while !open.is_empty() {
        let of_link = |link: usize| {
            if weight[link] > 1e-9 { left[link].max(0.0) / weight[link] } else { f64::INFINITY }
        };
        let level = (0..links).map(of_link).fold(f64::INFINITY, f64::min) * STEP;
        let is_satisfied = |flow: &usize| demands[*flow].bytes <= level;
        let is_at_full =
            |flow: &usize| demands[*flow].links.iter().any(|(link, _)| of_link(*link as usize) <= level);
        let any_satisfied = open.iter().any(is_satisfied);
        let (done, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|flow| if any_satisfied { is_satisfied(flow) } else { is_at_full(flow) });
        let bytes_of = |flow: usize| {
            let fair = demands[flow]
                .links
                .iter()
                .map(|(link, _)| of_link(*link as usize))
                .fold(f64::INFINITY, f64::min);
            demands[flow].bytes.min(fair)
        };
        let bytes: Vec<f64> = done.iter().map(|flow| bytes_of(*flow)).collect();
        for (flow, bytes) in done.into_iter().zip(bytes) {
            got[flow] = Some(bytes);
            for (link, part) in &demands[flow].links {
                left[*link as usize] -= bytes * part;
                weight[*link as usize] -= part;
            }
        }
        open = rest;
    }
    got.into_iter().map(Option::unwrap_or_default).collect()
}
