use super::*;

const BLOCK: u64 = 128 << 10;

/// Returns the MB/s of each node, whose streams keep `depth` requests in flight for 5 seconds.
fn rates(nodes: &[f64], cap: f64, depths: &[u64]) -> Vec<f64> {
    simulate(SharedResource::Bytes, nodes, cap, depths)
}

fn simulate(share: SharedResource, nodes: &[f64], cap: f64, depths: &[u64]) -> Vec<f64> {
    let scale = 1e6;
    let nodes: Vec<f64> = nodes.iter().map(|rate| rate * scale).collect();
    let mut share = FairShare::new(&Rates { nodes, cap: cap * scale, share });
    let mut bytes = vec![0; depths.len()];
    let mut next = 0;
    let mut owner = HashMap::new();
    for (node, &depth) in depths.iter().enumerate() {
        for _ in 0..depth {
            share.submit(0.0, 0.0, next, &[(node, BLOCK)]);
            owner.insert(next, node);
            next += 1;
        }
    }
    let seconds = 5.0;
    while let Some(now) = share.next_end().filter(|&now| now < seconds) {
        while let Some(request) = share.pop_served(now) {
            let node = owner.remove(&request).expect("a submitted request");
            bytes[node] += BLOCK;
            share.submit(now, now, next, &[(node, BLOCK)]);
            owner.insert(next, node);
            next += 1;
        }
    }
    bytes.iter().map(|&bytes| bytes as f64 / seconds / scale).collect()
}

fn assert_rates(found: &[f64], expected: &[f64]) {
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 0.005 * b, "{found:?}, expected {expected:?}");
    }
}

#[test]
fn a_single_node_gets_the_rate_of_its_path() {
    for depth in [1, 2, 16] {
        assert_rates(&rates(&[36.0, 57.6], 57.6, &[depth, 0]), &[36.0, 0.0]);
        assert_rates(&rates(&[36.0, 57.6], 57.6, &[0, depth]), &[0.0, 57.6]);
        assert_rates(&rates(&[36.0, 57.6], 20.0, &[0, depth]), &[0.0, 20.0]);
    }
}

#[test]
fn nodes_share_the_cap_max_min_fairly() {
    assert_rates(&rates(&[36.0, 57.6], 57.6, &[16, 16]), &[28.8, 28.8]);
    assert_rates(&rates(&[10.0, 57.6], 57.6, &[16, 16]), &[10.0, 47.6]);
    assert_rates(&rates(&[10.0, 57.6, 40.0, 22.0], 90.0, &[16, 16, 16, 16]), &[10.0, 29.0, 29.0, 22.0]);
    assert_rates(&rates(&[30.0, 20.0], 90.0, &[16, 16]), &[30.0, 20.0]);
}

#[test]
fn nodes_share_the_time_of_the_engine() {
    let time = |nodes: &[f64], cap, depths: &[u64]| simulate(SharedResource::Time, nodes, cap, depths);
    // A single node gets the rate of its path.
    assert_rates(&time(&[20.0, 40.0], 48.0, &[16, 0]), &[20.0, 0.0]);
    // Equation 1: each node gets an equal part of the time, at its individual rate.
    assert_rates(&time(&[20.0, 40.0], 40.0, &[16, 16]), &[10.0, 20.0]);
    assert_rates(&time(&[20.0, 40.0], 48.0, &[16, 16]), &[12.0, 24.0]);
    assert_rates(&time(&[30.0, 20.0, 40.0], 40.0, &[16, 16, 16]), &[10.0, 20.0 / 3.0, 40.0 / 3.0]);
}

#[test]
fn more_requests_of_one_node_do_not_slow_another() {
    assert_rates(&rates(&[57.6, 57.6], 57.6, &[64, 4]), &[28.8, 28.8]);
    assert_rates(&rates(&[57.6, 12.0], 57.6, &[64, 1]), &[45.6, 12.0]);
}

#[test]
fn a_request_on_two_nodes_ends_with_its_last_part() {
    let mut share = FairShare::new(&Rates { nodes: vec![1e6, 2e6], cap: 1e9, share: SharedResource::Bytes });
    share.submit(0.0, 0.0, 7, &[(0, 100_000), (1, 100_000)]);
    share.submit(0.0, 0.0, 8, &[(1, 100_000)]);
    assert!((share.next_end().expect("a request") - 0.05).abs() < 1e-9);
    assert_eq!(share.pop_served(0.0999), None);
    let mut served = [share.pop_served(0.1001), share.pop_served(0.1001)];
    served.sort_unstable();
    assert_eq!(served, [Some(7), Some(8)]);
    assert_eq!(share.next_end(), None);
}

#[test]
fn idle_time_gives_no_credit() {
    let mut share = FairShare::new(&Rates { nodes: vec![1e6], cap: 2e6, share: SharedResource::Bytes });
    for request in 0..10 {
        share.submit(5.0, 5.0, request, &[(0, 100_000)]);
    }
    assert_eq!((0..10).filter(|_| share.pop_served(5.55).is_some()).count(), 5);
}

#[test]
fn delay_by_the_host_is_compensated() {
    let mut share = FairShare::new(&Rates { nodes: vec![1e6], cap: 2e6, share: SharedResource::Bytes });
    share.submit(5.0, 4.99, 1, &[(0, 100_000)]);
    assert!((share.next_end().expect("a request") - 5.09).abs() < 1e-9);
}

/// Returns the MB of two nodes after two seconds; the second node's requests arrive at `second`.
fn after_two_seconds(cap: f64, megabytes: [u64; 2], second: f64) -> [usize; 2] {
    let mut share =
        FairShare::new(&Rates { nodes: vec![10e6, 10e6], cap: cap * 1e6, share: SharedResource::Bytes });
    let mut submit = |node: usize, now: f64| {
        for request in 0..megabytes[node] {
            share.submit(now, now, 2 * request + node as u64, &[(node, 1_000_000)]);
        }
    };
    submit(0, 0.0);
    submit(1, second);
    let served: Vec<u64> = std::iter::from_fn(|| share.pop_served(2.001)).collect();
    [0, 1].map(|node| served.iter().filter(|&request| request % 2 == node).count())
}

#[test]
fn a_starved_path_gets_no_burst() {
    // Both get 6 MB/s for a second. Then one is alone, and its path limits it to 10 MB/s, not the
    // cap of 12.
    assert_eq!(after_two_seconds(12.0, [30, 6], 0.0), [16, 6]);
}

#[test]
fn a_late_node_gets_no_more_than_its_share() {
    assert_eq!(after_two_seconds(10.0, [30, 30], 1.0), [15, 5]);
}
