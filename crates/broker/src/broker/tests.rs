//! Tests of single rules of the broker.

use super::*;
use crate::{TaskView, WaitReason};

const SECOND: Duration = Duration::from_secs(1);
const DISK: ResourceId = ResourceId(0);
const NIC: ResourceId = ResourceId(1);

/// A disk of 100 bytes/s, and a network interface of 1,000 bytes/s.
fn broker(disk_threads: u32) -> Broker {
    let resource = |bandwidth, threads| Resource { bandwidth: Some(bandwidth), threads, tasks: threads };
    Broker::new(vec![resource(100, disk_threads), resource(1_000, 8)], Policy::default())
}

fn request(user: &str, uses: &[ResourceId]) -> Request {
    let uses = uses.to_vec();
    Request {
        user: user.into(),
        user_limit: 64,
        priority: 0,
        uses,
        rate_limit: None,
        bytes: None,
        order: HostOrder::Only,
    }
}

fn view(broker: &Broker, now: Duration, id: u64) -> TaskView {
    broker.task(now, TaskId(id)).expect("a task")
}

fn rate(broker: &Broker, id: u64) -> Option<u64> {
    view(broker, Duration::ZERO, id).grant.and_then(|grant| grant.rate)
}

#[test]
fn users_share_a_device_evenly_whatever_number_of_tasks_they_have() {
    let mut broker = broker(8);
    for (id, user) in [(1, "a"), (2, "a"), (3, "a"), (4, "b")] {
        broker.submit(Duration::ZERO, TaskId(id), request(user, &[DISK])).expect("room");
    }
    assert_eq!([1, 2, 3, 4].map(|id| rate(&broker, id)), [16, 16, 16, 50].map(Some));
    broker.end(SECOND, TaskId(4));
    assert_eq!([1, 2, 3].map(|id| rate(&broker, id)), [33, 33, 33].map(Some));
}

#[test]
fn task_without_limits_has_no_rate() {
    let mut broker = Broker::new(vec![Resource { bandwidth: None, threads: 3, tasks: 3 }], Policy::default());
    broker.submit(SECOND, TaskId(1), request("a", &[DISK])).expect("room");
    assert_eq!(broker.poll(SECOND), [Event::Granted(TaskId(1), Grant { rate: None, threads: vec![3] })]);
}

#[test]
fn a_task_waits_until_all_its_devices_have_threads_and_holds_none_meanwhile() {
    let mut broker = broker(1);
    broker.submit(Duration::ZERO, TaskId(1), request("a", &[DISK])).expect("room");
    broker.submit(Duration::ZERO, TaskId(2), request("b", &[NIC, DISK])).expect("room");
    broker.submit(Duration::ZERO, TaskId(3), request("c", &[NIC])).expect("room");
    let waiting = view(&broker, SECOND, 2);
    assert_eq!((waiting.state, waiting.reason), (TaskState::Waiting, Some(WaitReason::Threads(DISK))));
    assert_eq!(waiting.position, Some(1));
    assert_eq!(rate(&broker, 3), Some(1_000), "nothing is reserved for a task that waits");
    broker.end(SECOND, TaskId(1));
    assert_eq!(view(&broker, SECOND, 2).state, TaskState::Transferring);
    assert_eq!(rate(&broker, 2), Some(100));
    assert_eq!(rate(&broker, 3), Some(900));
}

#[test]
fn the_user_with_fewer_tasks_is_next() {
    let mut broker = broker(2);
    for (id, user) in [(1, "a"), (2, "a"), (3, "a"), (4, "b")] {
        broker.submit(Duration::ZERO, TaskId(id), request(user, &[DISK])).expect("room");
    }
    broker.end(SECOND, TaskId(1));
    assert_eq!(view(&broker, SECOND, 4).state, TaskState::Transferring);
    assert_eq!(view(&broker, SECOND, 3).state, TaskState::Waiting);
}

#[test]
fn higher_priority_suspends_a_transfer_after_its_turn() {
    let mut broker = broker(1);
    let time_slice = broker.policy.time_slice.expect("a time slice");
    broker.submit(Duration::ZERO, TaskId(1), request("a", &[DISK])).expect("room");
    broker.submit(SECOND, TaskId(2), Request { priority: 1, ..request("b", &[DISK]) }).expect("room");
    broker.poll(SECOND);
    assert_eq!(view(&broker, SECOND, 2).state, TaskState::Waiting);
    assert_eq!(broker.wake(SECOND), Some(time_slice));
    let events = broker.poll(time_slice);
    assert_eq!(events[0], Event::Suspended { id: TaskId(1), turn: 0 });
    assert_eq!(view(&broker, time_slice, 2).state, TaskState::Transferring);
    assert_eq!(view(&broker, time_slice, 1).state, TaskState::Suspended);
    broker.end(2 * time_slice, TaskId(2));
    assert_eq!(view(&broker, time_slice, 1).state, TaskState::Transferring);
}

#[test]
fn users_of_one_priority_preempt_after_their_wait() {
    let mut broker = broker(1);
    let wait = broker.policy.preemption_wait;
    for (id, user) in [(1, "a"), (2, "a"), (3, "b")] {
        broker.submit(Duration::ZERO, TaskId(id), request(user, &[DISK])).expect("room");
    }
    broker.poll(wait - SECOND);
    assert_eq!(view(&broker, SECOND, 1).state, TaskState::Transferring);
    let states = |broker: &Broker, now| [1, 2, 3].map(|id| view(broker, now, id).state);
    assert_eq!(broker.wake(wait - SECOND), Some(wait));
    broker.poll(wait);
    let (waiting, running) = (TaskState::Waiting, TaskState::Transferring);
    assert_eq!(states(&broker, wait), [TaskState::Suspended, waiting, running]);
    // The second task of the first user waited for longer than its first one.
    broker.poll(2 * wait);
    assert_eq!(states(&broker, 2 * wait), [TaskState::Suspended, running, TaskState::Suspended]);
}

#[test]
fn what_a_slow_transfer_leaves_unused_goes_to_others() {
    let resource = Resource { bandwidth: Some(100 << 20), threads: 8, tasks: 8 };
    let mut broker = Broker::new(vec![resource], Policy::default());
    for (id, user) in [(1, "slow"), (2, "fast")] {
        broker.submit(Duration::ZERO, TaskId(id), request(user, &[DISK])).expect("room");
    }
    let rates = |broker: &Broker| [1, 2].map(|id| rate(broker, id).expect("a rate") >> 20);
    assert_eq!(rates(&broker), [50, 50]);
    let moved = |broker: &mut Broker, seconds: u32, slow: u64, fast: u64| {
        broker.progressed(seconds * SECOND, TaskId(1), slow << 20);
        broker.progressed(seconds * SECOND, TaskId(2), fast << 20);
    };
    moved(&mut broker, 1, 0, 0);
    moved(&mut broker, 2, 10, 50);
    assert_eq!(rates(&broker), [15, 85]);
    // It uses all that it got, so that it may grow.
    moved(&mut broker, 3, 25, 135);
    assert_eq!(rates(&broker), [50, 50]);
}

#[test]
fn more_tasks_than_threads_have_one_each() {
    let resource = Resource { bandwidth: Some(90), threads: 2, tasks: 3 };
    let mut broker = Broker::new(vec![resource], Policy::default());
    for id in 1..=4 {
        broker.submit(Duration::ZERO, TaskId(id), request("a", &[DISK])).expect("room");
    }
    let grant = |id| view(&broker, SECOND, id).grant;
    assert_eq!(grant(3), Some(Grant { rate: Some(30), threads: vec![1] }));
    assert_eq!(grant(4), None);
}

#[test]
fn devices_are_kept_free_for_a_task_that_waited_for_long() {
    let mut broker = broker(1);
    let wait = broker.policy.preemption_wait;
    broker.submit(Duration::ZERO, TaskId(1), request("a", &[DISK])).expect("room");
    broker.submit(Duration::ZERO, TaskId(2), request("a", &[DISK, NIC])).expect("room");
    broker.submit(wait, TaskId(3), request("c", &[NIC])).expect("room");
    let waits = view(&broker, wait, 3);
    assert_eq!((waits.state, waits.reason), (TaskState::Waiting, Some(WaitReason::KeptFree(NIC))));
    broker.end(wait, TaskId(1));
    assert_eq!(view(&broker, wait, 2).state, TaskState::Transferring);
    assert_eq!(view(&broker, wait, 3).state, TaskState::Transferring);
}

#[test]
fn limits_of_users_and_of_the_queue_are_kept() {
    let mut broker = broker(4);
    broker.policy = Policy { waiting_per_user: 1, waiting: 2, ..Policy::default() };
    let limited = |user| Request { user_limit: 2, ..request(user, &[DISK]) };
    let mut submit = |id, user| broker.submit(Duration::ZERO, TaskId(id), limited(user));
    assert_eq!([submit(1, "a"), submit(2, "a"), submit(3, "a")], [Ok(()); 3]);
    assert_eq!(submit(3, "b"), Err(Refusal::Duplicate));
    assert_eq!(submit(4, "a"), Err(Refusal::UserQueueFull));
    assert_eq!([submit(5, "b"), submit(6, "b"), submit(7, "b")], [Ok(()); 3]);
    assert_eq!(submit(8, "c"), Err(Refusal::QueueFull));
    assert_eq!(
        broker.submit(SECOND, TaskId(9), request("a", &[ResourceId(7)])),
        Err(Refusal::UnknownResource)
    );
    assert_eq!(view(&broker, SECOND, 3).reason, Some(WaitReason::UserLimit));
}

#[test]
fn the_smaller_offer_of_both_hosts_counts_and_the_rest_is_given_back() {
    let mut broker = broker(8);
    let with_peer = Request { order: HostOrder::First, ..request("a", &[DISK]) };
    broker.submit(Duration::ZERO, TaskId(1), with_peer).expect("room");
    broker.submit(Duration::ZERO, TaskId(2), request("b", &[DISK])).expect("room");
    let events = broker.poll(Duration::ZERO);
    assert!(events.contains(&Event::Offer { id: TaskId(1), turn: 1, rate: Some(50) }), "{events:?}");
    assert_eq!(view(&broker, SECOND, 1).reason, Some(WaitReason::Peer));
    assert_eq!(rate(&broker, 2), Some(100), "a task without a rate uses nothing");
    broker.peer_offered(SECOND, TaskId(1), 1, Some(20));
    assert_eq!([rate(&broker, 1), rate(&broker, 2)], [Some(20), Some(80)]);
    // The neighbour ends: the host offers more, and the peer follows.
    broker.end(SECOND, TaskId(2));
    assert!(broker.poll(SECOND).contains(&Event::Offer { id: TaskId(1), turn: 1, rate: Some(100) }));
    broker.peer_offered(SECOND, TaskId(1), 1, None);
    assert_eq!(rate(&broker, 1), Some(100));
}

#[test]
fn a_host_decides_alone_if_the_other_one_has_no_broker() {
    let mut broker = broker(1);
    let ordered = |order| Request { order, ..request("a", &[DISK]) };
    broker.submit(Duration::ZERO, TaskId(1), ordered(HostOrder::First)).expect("room");
    broker.submit(Duration::ZERO, TaskId(2), ordered(HostOrder::Second)).expect("room");
    assert_eq!([rate(&broker, 1), rate(&broker, 2)], [None; 2]);
    broker.without_peer(SECOND, TaskId(1));
    assert_eq!(rate(&broker, 1), Some(100));
    broker.end(SECOND, TaskId(1));
    broker.without_peer(SECOND, TaskId(2));
    assert_eq!(rate(&broker, 2), Some(100));
}

#[test]
fn turns_begin_again_after_a_lost_connection() {
    let mut broker = broker(1);
    let second = Request { order: HostOrder::Second, ..request("a", &[DISK]) };
    broker.submit(Duration::ZERO, TaskId(1), second).expect("room");
    broker.peer_offered(SECOND, TaskId(1), 3, Some(60));
    assert_eq!(rate(&broker, 1), Some(60));
    broker.peer_restarted(SECOND, TaskId(1));
    assert_eq!(view(&broker, SECOND, 1).reason, Some(WaitReason::Peer));
    broker.peer_offered(SECOND, TaskId(1), 1, Some(70));
    assert_eq!(rate(&broker, 1), Some(70));
}

#[test]
fn start_is_estimated_from_sizes_and_rates() {
    let mut broker = broker(1);
    let sized = |bytes| Request { bytes: Some(bytes), ..request("a", &[DISK]) };
    broker.submit(Duration::ZERO, TaskId(1), sized(1_000)).expect("room");
    broker.submit(Duration::ZERO, TaskId(2), sized(500)).expect("room");
    broker.submit(Duration::ZERO, TaskId(3), sized(500)).expect("room");
    broker.progressed(SECOND, TaskId(1), 400);
    assert_eq!(view(&broker, SECOND, 2).starts_in, Some(6 * SECOND));
    assert_eq!(view(&broker, SECOND, 3).starts_in, None, "it starts when another one has ended");
    broker.end(SECOND, TaskId(2));
    assert_eq!(view(&broker, SECOND, 3).starts_in, Some(6 * SECOND));
}

#[test]
fn both_hosts_give_back_the_threads_of_a_suspended_transfer() {
    let (mut first, mut second) = (broker(1), broker(1));
    let time_slice = first.policy.time_slice.expect("a time slice");
    let ordered = |order| Request { order, ..request("a", &[DISK]) };
    first.submit(Duration::ZERO, TaskId(1), ordered(HostOrder::First)).expect("room");
    second.submit(Duration::ZERO, TaskId(1), ordered(HostOrder::Second)).expect("room");
    assert_eq!(view(&second, SECOND, 1).reason, Some(WaitReason::Peer), "the first host has no threads yet");
    second.peer_offered(SECOND, TaskId(1), 1, Some(60));
    assert_eq!(rate(&second, 1), Some(60));
    first.peer_offered(SECOND, TaskId(1), 1, Some(100));
    assert_eq!(rate(&first, 1), Some(100));
    // A task of the second host alone takes the threads.
    second.submit(time_slice, TaskId(2), Request { priority: 1, ..request("b", &[DISK]) }).expect("room");
    second.poll(2 * time_slice);
    assert_eq!(view(&second, 2 * time_slice, 2).state, TaskState::Transferring);
    first.peer_suspended(2 * time_slice, TaskId(1), 1);
    // The first host begins another turn, and messages of the last one count no longer.
    first.peer_offered(2 * time_slice, TaskId(1), 1, Some(100));
    let again = view(&first, 2 * time_slice, 1);
    assert_eq!((again.state, again.reason), (TaskState::Active, Some(WaitReason::Peer)));
    second.peer_suspended(2 * time_slice, TaskId(1), 1);
    second.peer_offered(2 * time_slice, TaskId(1), 2, Some(60));
    assert_eq!(view(&second, 2 * time_slice, 1).reason, Some(WaitReason::Threads(DISK)));
    second.end(3 * time_slice, TaskId(2));
    first.peer_offered(3 * time_slice, TaskId(1), 2, Some(60));
    assert_eq!([rate(&first, 1), rate(&second, 1)], [Some(60); 2]);
}
