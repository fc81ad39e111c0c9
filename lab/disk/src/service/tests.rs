use super::*;

const BLOCK: u64 = 128 << 10;
/// Requests of a stream in flight.
const DEPTH: u64 = 16;
const MB: f64 = 1e6;

/// Returns rates in MB/s, with a rule.
fn rates_of(sharing: SharingRule, nodes: &[f64], cap: f64) -> Rates {
    let nodes = nodes.iter().map(|rate| rate * MB).collect();
    Rates { nodes, cap: cap * MB, stream: None, sharing, stalls: None, stream_bytes: DEPTH * BLOCK }
}

/// Returns the MB/s of each node, which keeps `depths` requests in flight for 12 seconds.
fn simulate(rates: &Rates, depths: &[u64]) -> Vec<f64> {
    simulate_late(rates, depths, 0.0)
}

/// As [`simulate`], on a host that runs the disk and the guest only every `late` seconds.
fn simulate_late(rates: &Rates, depths: &[u64], late: f64) -> Vec<f64> {
    let mut service = Service::new(rates);
    let mut bytes = vec![0; depths.len()];
    let mut next = 0;
    let mut owner = HashMap::new();
    for (node, &depth) in depths.iter().enumerate() {
        for _ in 0..depth {
            service.submit(0.0, 0.0, next, &[(node, BLOCK)]);
            owner.insert(next, node);
            next += 1;
        }
    }
    let seconds = 12.0;
    while let Some(now) = service.next_end().filter(|&now| now < seconds) {
        // Host times of stalls are rounded.
        let now = now + late + 1e-9;
        while let Some(request) = service.pop_served(now) {
            let node = owner.remove(&request).expect("a submitted request");
            bytes[node] += BLOCK;
            service.submit(now, now, next, &[(node, BLOCK)]);
            owner.insert(next, node);
            next += 1;
        }
    }
    bytes.iter().map(|&bytes| bytes as f64 / seconds / MB).collect()
}

/// Returns the MB/s of each node with a number of streams.
fn streams(sharing: SharingRule, nodes: &[f64], cap: f64, streams: &[u64]) -> Vec<f64> {
    let depths: Vec<u64> = streams.iter().map(|streams| streams * DEPTH).collect();
    simulate(&rates_of(sharing, nodes, cap), &depths)
}

fn rates(nodes: &[f64], cap: f64, depths: &[u64]) -> Vec<f64> {
    simulate(&rates_of(SharingRule::Bytes, nodes, cap), depths)
}

fn assert_rates(found: &[f64], expected: &[f64]) {
    assert_rates_within(found, expected, 0.012);
}

fn assert_rates_within(found: &[f64], expected: &[f64], error: f64) {
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= error * b, "{found:?}, expected {expected:?}");
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
fn streams_share_the_cap_max_min_fairly() {
    let rule = || SharingRule::BytesByStreams;
    assert_rates(&streams(rule(), &[50.0, 50.0], 40.0, &[1, 3]), &[10.0, 30.0]);
    assert_rates(&streams(rule(), &[50.0, 20.0], 40.0, &[1, 3]), &[20.0, 20.0]);
}

#[test]
fn nodes_share_the_time_of_the_engine() {
    let time = |nodes: &[f64], factor, counts: &[u64]| {
        streams(SharingRule::TimeByNodes { factor, weights: Vec::new() }, nodes, 500.0, counts)
    };
    // A single node gets the rate of its path.
    assert_rates(&time(&[20.0, 40.0], 1.2, &[1, 0]), &[20.0, 0.0]);
    // Equation 1: each node gets an equal part of the time, at its individual rate.
    assert_rates(&time(&[20.0, 40.0], 1.0, &[1, 1]), &[10.0, 20.0]);
    assert_rates(&time(&[20.0, 40.0], 1.2, &[3, 1]), &[12.0, 24.0]);
    assert_rates(&time(&[30.0, 20.0, 40.0], 1.0, &[1, 1, 1]), &[10.0, 20.0 / 3.0, 40.0 / 3.0]);
    let weighted = SharingRule::TimeByNodes { factor: 1.0, weights: vec![3.0, 1.0] };
    assert_rates(&streams(weighted, &[8.0, 4.0], 99.0, &[1, 3]), &[6.0, 1.0]);
}

/// The example of Li et al. (ICPP 2013): Equation 1 with two streams on each of two nodes.
#[test]
fn streams_share_the_time_of_the_engine() {
    let rule = || SharingRule::TimeByStreams { factor: 1.0 };
    assert_rates(&streams(rule(), &[21.998, 18.036], 99.0, &[2, 2]), &[10.999, 9.018]);
    assert_rates(&streams(rule(), &[8.0, 4.0], 99.0, &[1, 3]), &[2.0, 3.0]);
    // The cap limits the total, and leaves the shares.
    assert_rates(&streams(rule(), &[8.0, 4.0], 4.0, &[1, 3]), &[1.6, 2.4]);
}

/// One request of each in turn: 1/8 + 1/4 of a second for two bytes.
#[test]
fn requests_in_turn_get_equal_bytes() {
    let found = streams(SharingRule::Requests { factor: 1.0 }, &[8.0, 4.0], 99.0, &[1, 1]);
    assert_rates(&found, &[8.0 / 3.0, 8.0 / 3.0]);
}

#[test]
fn a_link_limits_only_the_nodes_behind_it() {
    let rule = SharingRule::SharedLink { nodes: vec![1, 2], bytes_per_s: 6.0 * MB };
    assert_rates(&streams(rule.clone(), &[9.0, 5.0, 5.0], 20.0, &[1, 1, 1]), &[9.0, 3.0, 3.0]);
    assert_rates(&streams(rule, &[9.0, 5.0, 5.0], 9.0, &[1, 1, 1]), &[3.0, 3.0, 3.0]);
}

/// Sixteen slots: two streams of latencies 0.1 and 0.3 s need 32 of them. The wait w solves
/// 16 * 0.1 / (w + 0.1) + 16 * 0.3 / (w + 0.3) = 16.
#[test]
fn slots_of_slow_requests_are_held_longer() {
    let rule = || SharingRule::InFlight { requests: 16, latency_s: vec![0.1, 0.3] };
    let block = BLOCK as f64 / MB;
    assert_rates(&streams(rule(), &[999.0, 999.0], 999.0, &[1, 0]), &[16.0 * block / 0.1, 0.0]);
    let wait = 0.03f64.sqrt();
    let wanted = [16.0 * block / (wait + 0.1), 16.0 * block / (wait + 0.3)];
    assert_rates_within(&streams(rule(), &[999.0, 999.0], 999.0, &[1, 1]), &wanted, 0.015);
}

#[test]
fn the_guests_reaction_time_leaves_the_rate_of_slots() {
    let free = SharingRule::InFlight { requests: 40, latency_s: vec![0.1, 0.15] };
    let rates = rates_of(free, &[999.0, 999.0], 999.0);
    for depths in [[DEPTH, 0], [2 * DEPTH, 2 * DEPTH]] {
        assert_rates_within(&simulate_late(&rates, &depths, 0.02), &simulate(&rates, &depths), 0.02);
    }
}

#[test]
fn cores_and_copies_limit_the_host() {
    let cores = SharingRule::Cores { cores: 2.0, core_bytes_per_s: vec![4.0 * MB, 2.0 * MB] };
    assert_rates(&streams(cores.clone(), &[99.0, 99.0], 99.0, &[1, 1]), &[4.0, 2.0]);
    // Four streams at a rate r: 2 r / 4 + 2 r / 2 = 2 cores.
    assert_rates(&streams(cores, &[99.0, 99.0], 99.0, &[2, 2]), &[8.0 / 3.0, 8.0 / 3.0]);
    let copies = SharingRule::Copies { bytes_per_s: 12.0 * MB, copies: vec![1.0, 2.0] };
    assert_rates(&streams(copies, &[99.0, 99.0], 99.0, &[1, 1]), &[4.0, 4.0]);
}

#[test]
fn combined_rules_bind_together_or_in_turn() {
    let rules = vec![SharingRule::Bytes, SharingRule::TimeByStreams { factor: 1.0 }];
    let both = SharingRule::Both { rules: rules.clone() };
    assert_rates(&streams(both.clone(), &[8.0, 4.0], 9.0, &[1, 1]), &[4.0, 2.0]);
    // The first rule alone limits each to 2, which leaves time of the second one unused.
    assert_rates(&streams(both, &[8.0, 4.0], 4.0, &[1, 1]), &[2.0, 2.0]);
    let blend = SharingRule::Blend { share: 0.5, rules };
    assert_rates(&streams(blend.clone(), &[8.0, 4.0], 8.0, &[1, 1]), &[4.0, 3.0]);
    assert_rates(&streams(blend, &[8.0, 4.0], 99.0, &[1, 0]), &[8.0, 0.0]);
}

#[test]
fn a_stream_has_its_own_limit() {
    let limited =
        Rates { stream: Some(5.0 * MB), ..rates_of(SharingRule::BytesByStreams, &[20.0, 8.0], 99.0) };
    assert_rates(&simulate(&limited, &[DEPTH, DEPTH]), &[5.0, 5.0]);
    assert_rates(&simulate(&limited, &[3 * DEPTH, 3 * DEPTH]), &[15.0, 8.0]);
}

#[test]
fn stalls_leave_the_mean_rate() {
    for sharing in [SharingRule::Bytes, SharingRule::TimeByStreams { factor: 1.0 }] {
        let steady = rates_of(sharing, &[8.0, 4.0], 9.0);
        let bursty = Rates { stalls: Some(0.1), ..steady.clone() };
        assert_rates(&simulate(&bursty, &[16, 16]), &simulate(&steady, &[16, 16]));
    }
}

/// The guest handles completions late: the disk has fewer requests than the streams keep.
#[test]
fn late_completions_leave_the_number_of_streams() {
    let rule = rates_of(SharingRule::BytesByStreams, &[50.0, 50.0], 40.0);
    assert_rates(&simulate(&rule, &[DEPTH - 5, 3 * DEPTH - 5]), &[10.0, 30.0]);
}

#[test]
fn more_requests_of_one_node_do_not_slow_another() {
    assert_rates(&rates(&[57.6, 57.6], 57.6, &[64, 4]), &[28.8, 28.8]);
    assert_rates(&rates(&[57.6, 12.0], 57.6, &[64, 1]), &[45.6, 12.0]);
}

#[test]
fn a_request_on_two_nodes_ends_with_its_last_part() {
    let mut share = Service::new(&rates_of(SharingRule::Bytes, &[1.0, 2.0], 1e3));
    share.submit(0.0, 0.0, 7, &[(0, 100_000), (1, 100_000)]);
    share.submit(0.0, 0.0, 8, &[(1, 100_000)]);
    assert!((share.next_end().expect("a request") - 0.1).abs() < 1e-9);
    assert_eq!(share.pop_served(0.0999), None);
    let mut served = [share.pop_served(0.1001), share.pop_served(0.1001)];
    served.sort_unstable();
    assert_eq!(served, [Some(7), Some(8)]);
    assert_eq!(share.next_end(), None);
}

#[test]
fn idle_time_gives_no_credit() {
    let mut share = Service::new(&rates_of(SharingRule::Bytes, &[1.0], 2.0));
    for request in 0..10 {
        share.submit(5.0, 5.0, request, &[(0, 100_000)]);
    }
    assert_eq!((0..10).filter(|_| share.pop_served(5.55).is_some()).count(), 5);
}

#[test]
fn delay_by_the_host_is_compensated() {
    let mut share = Service::new(&rates_of(SharingRule::Bytes, &[1.0], 2.0));
    share.submit(5.0, 4.99, 1, &[(0, 100_000)]);
    assert!((share.next_end().expect("a request") - 5.09).abs() < 1e-9);
}

/// Returns the MB of two nodes after two seconds; the second node's requests arrive at `second`.
fn after_two_seconds(cap: f64, megabytes: [u64; 2], second: f64) -> [usize; 2] {
    let mut share = Service::new(&rates_of(SharingRule::Bytes, &[10.0, 10.0], cap));
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
