//! Two hosts with their brokers, and the transfers between them.
//!
//! A transfer is submitted at the host that is first in the order of hosts. When it has threads
//! there, the other host gets the request with the offer, and answers with its own offer as soon as
//! it has threads, too. Each change of an offer and each suspension is a message.

use crate::chance::Chance;
use numaio_broker::{
    Broker, Event, Grant, HostOrder, Policy, Request, Resource, ResourceId, TaskId, TaskState,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time between two steps.
const STEP: Duration = Duration::from_millis(200);
/// Part of a rate by which shares may deviate from the exact solution.
const TOLERANCE: f64 = 0.05;

/// The parts of a random world.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Devices of each host.
    pub devices: [usize; 2],
    pub transfers: u64,
    /// Whether transfers never end by themselves.
    pub endless: bool,
    /// Whether connections are cut and brokers crash.
    pub faults: bool,
}

impl Settings {
    pub fn random(chance: &mut Chance) -> Self {
        let devices = [0; 2].map(|_| 2 + chance.below(7) as usize);
        Self { devices, transfers: 1 + chance.below(24), endless: false, faults: chance.once_in(2) }
    }
}

/// A message to a host.
#[derive(Debug)]
enum Message {
    /// The offer of a turn; the first one also has the request.
    Offer(TaskId, u64, Option<u64>),
    Suspended(TaskId, u64),
    /// The connection of a transfer is closed.
    Closed(TaskId),
}

/// A transfer.
struct Transfer {
    /// Its requests to both hosts.
    requests: [Request; 2],
    bytes: f64,
    /// When it is submitted.
    begins: Duration,
    /// Whether it was submitted, at the first host and at the second one.
    known: [bool; 2],
    ended: bool,
}

pub struct World {
    seed: u64,
    chance: Chance,
    settings: Settings,
    now: Duration,
    resources: [Vec<Resource>; 2],
    brokers: [Broker; 2],
    /// Messages to each host; those of one transfer keep their order.
    inboxes: [VecDeque<Message>; 2],
    grants: [BTreeMap<TaskId, Grant>; 2],
    transfers: BTreeMap<TaskId, Transfer>,
    pub suspended: u64,
    pub crashed: u64,
    pub cut: u64,
}

fn policy() -> Policy {
    let seconds = Duration::from_secs;
    Policy {
        aging: seconds(60),
        preemption_wait: seconds(120),
        time_slice: Some(seconds(5)),
        ..Policy::default()
    }
}

fn resources(chance: &mut Chance, count: usize) -> Vec<Resource> {
    let one = |_| {
        let threads = if chance.once_in(3) { 1 } else { 1 + chance.below(16) as u32 };
        let bandwidth = (!chance.once_in(8)).then(|| 1_000_000 + chance.below(10_000_000_000));
        Resource { bandwidth, threads, tasks: threads + chance.below(2) as u32 * 8 }
    };
    (0..count).map(one).collect()
}

fn request(chance: &mut Chance, devices: usize) -> Request {
    let uses = (0..1 + chance.below(2)).map(|_| ResourceId(chance.below(devices as u64) as usize)).collect();
    let rate_limit = chance.once_in(4).then(|| 1_000 + chance.below(1_000_000_000));
    let user = format!("user{}", chance.below(4)).into();
    Request {
        user,
        user_limit: 64,
        priority: chance.below(3) as i8,
        uses,
        rate_limit,
        bytes: None,
        order: HostOrder::First,
    }
}

impl World {
    pub fn new(chance: &mut Chance, settings: Settings, seed: u64) -> Self {
        let resources = settings.devices.map(|count| resources(chance, count));
        let brokers = resources.clone().map(|resources| Broker::new(resources, policy()));
        let mut transfers = BTreeMap::new();
        for number in 0..settings.transfers {
            let first = request(chance, settings.devices[0]);
            // The second host knows the transfer by the same user and priority.
            let second = request(chance, settings.devices[1]);
            let (user, priority) = (first.user.clone(), first.priority);
            let second = Request { user, priority, order: HostOrder::Second, ..second };
            let transfer = Transfer {
                requests: [first, second],
                bytes: 1_000.0 * 10f64.powi(chance.below(6) as i32),
                begins: Duration::from_millis(chance.below(20_000)),
                known: [false; 2],
                ended: false,
            };
            transfers.insert(TaskId(number), transfer);
        }
        Self {
            seed,
            chance: chance.clone(),
            settings,
            now: Duration::ZERO,
            resources,
            brokers,
            inboxes: Default::default(),
            grants: Default::default(),
            transfers,
            suspended: 0,
            crashed: 0,
            cut: 0,
        }
    }

    /// Runs until all transfers have ended.
    pub fn run(&mut self, limit: Duration) {
        while self.transfers.values().any(|transfer| !transfer.ended) {
            assert!(self.now < limit, "seed {}: still waiting: {:#?}", self.seed, self.views());
            self.step();
        }
        self.deliver_all();
    }

    fn views(&self) -> [Vec<numaio_broker::TaskView>; 2] {
        [0, 1].map(|host| self.brokers[host].tasks(self.now))
    }

    fn step(&mut self) {
        // Time passes faster when nothing happens, so that long transfers end.
        let is_quiet = self.inboxes.iter().all(VecDeque::is_empty);
        self.now += if is_quiet { STEP * (1 + self.chance.below(200) as u32) } else { STEP };
        self.submit_due();
        for host in [0, 1] {
            for _ in 0..self.chance.below(4) {
                self.deliver(host);
            }
            self.poll(host);
        }
        self.transfer_data();
        if self.settings.faults && self.chance.once_in(40) {
            self.fail();
        }
        self.assert_invariants();
    }

    fn submit_due(&mut self) {
        let due = |transfer: &&Transfer| !transfer.known[0] && transfer.begins <= self.now;
        let due: Vec<TaskId> =
            self.transfers.iter().filter(|(_, transfer)| due(transfer)).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.submit(0, id));
    }

    /// Submits all transfers at once.
    pub fn submit_all(&mut self) {
        let all: Vec<TaskId> = self.transfers.keys().copied().collect();
        for id in all {
            self.submit(0, id);
            self.poll(0);
        }
    }

    fn submit(&mut self, host: usize, id: TaskId) {
        let Some(transfer) = self.transfers.get_mut(&id).filter(|transfer| !transfer.ended) else { return };
        transfer.known[host] = true;
        let request = transfer.requests[host].clone();
        self.brokers[host].submit(self.now, id, request).expect("room in the queue");
    }

    /// Passes the events of a host to its transfers and to the other host.
    fn poll(&mut self, host: usize) {
        for event in self.brokers[host].poll(self.now) {
            match event {
                Event::Offer { id, turn, rate } => {
                    self.inboxes[1 - host].push_back(Message::Offer(id, turn, rate));
                }
                Event::Granted(id, grant) => {
                    self.grants[host].insert(id, grant);
                }
                Event::Suspended { id, turn } => {
                    self.suspended += 1;
                    self.grants[host].remove(&id);
                    self.inboxes[1 - host].push_back(Message::Suspended(id, turn));
                }
            }
        }
    }

    fn deliver(&mut self, host: usize) {
        let Some(message) = self.inboxes[host].pop_front() else { return };
        match message {
            Message::Offer(id, turn, offer) => {
                if host == 1 && !self.transfers[&id].known[1] {
                    self.submit(host, id);
                }
                self.brokers[host].peer_offered(self.now, id, turn, offer);
            }
            Message::Suspended(id, turn) => self.brokers[host].peer_suspended(self.now, id, turn),
            Message::Closed(id) => self.end_at(host, id),
        }
        self.poll(host);
    }

    /// Delivers messages until none is in flight.
    pub fn deliver_all(&mut self) {
        for _ in 0..1_000_000 {
            let full: Vec<usize> =
                [0, 1].into_iter().filter(|host| !self.inboxes[*host].is_empty()).collect();
            if full.is_empty() {
                return;
            }
            let host = full[self.chance.below(full.len() as u64) as usize];
            self.deliver(host);
        }
        panic!("seed {}: offers never settle: {:?}", self.seed, self.inboxes);
    }

    /// Moves the data of a step, at the smaller of both rates.
    fn transfer_data(&mut self) {
        let ids: Vec<TaskId> = self.transfers.keys().copied().collect();
        for id in ids {
            let rates = [0, 1].map(|host| self.grants[host].get(&id).map(|grant| grant.rate));
            let [Some(one), Some(other)] = rates else { continue };
            let rate = one.unwrap_or(u64::MAX).min(other.unwrap_or(u64::MAX)) as f64;
            let transfer = self.transfers.get_mut(&id).expect("a transfer");
            transfer.bytes -= rate * STEP.as_secs_f64();
            if transfer.bytes <= 0.0 && !self.settings.endless {
                self.end(id);
            }
        }
    }

    /// Ends a transfer: each host notices it at its own time.
    fn end(&mut self, id: TaskId) {
        self.transfers.get_mut(&id).expect("a transfer").ended = true;
        (0..2).for_each(|host| self.inboxes[host].push_back(Message::Closed(id)));
    }

    fn end_at(&mut self, host: usize, id: TaskId) {
        self.brokers[host].end(self.now, id);
        self.grants[host].remove(&id);
        self.poll(host);
    }

    /// Cuts a connection, or crashes a broker: then its transfers are closed.
    fn fail(&mut self) {
        let known: Vec<TaskId> = self
            .transfers
            .iter()
            .filter(|(_, transfer)| transfer.known[0] && !transfer.ended)
            .map(|(id, _)| *id)
            .collect();
        if known.is_empty() {
            return;
        }
        if self.chance.once_in(3) {
            let host = self.chance.below(2) as usize;
            self.crashed += 1;
            self.brokers[host] = Broker::new(self.resources[host].clone(), policy());
            self.grants[host].clear();
            return known.into_iter().for_each(|id| self.end(id));
        }
        self.cut += 1;
        let id = known[self.chance.below(known.len() as u64) as usize];
        self.end(id);
    }

    fn assert_invariants(&self) {
        for (host, broker) in self.brokers.iter().enumerate() {
            let views = broker.tasks(self.now);
            for (index, resource) in self.resources[host].iter().enumerate() {
                let uses = |id: TaskId| self.transfers[&id].requests[host].uses.contains(&ResourceId(index));
                let on_it: Vec<_> = views.iter().filter(|view| uses(view.id)).collect();
                let holding = on_it.iter().filter(|view| view.state.has_threads()).count();
                assert!(holding <= resource.tasks as usize, "seed {}: {holding} tasks", self.seed);
                let used: f64 = on_it.iter().filter_map(|view| Some(view.grant.as_ref()?.rate? as f64)).sum();
                let most = resource.bandwidth.map_or(f64::INFINITY, |most| most as f64);
                assert!(used <= most * 1.01 + 1.0, "seed {}: {used} of {most} bytes/s", self.seed);
            }
            // Threads are not left idle while a task without other obstacles waits for them.
            let idle =
                views.iter().find(|view| view.starts_in == Some(Duration::ZERO) && view.reason.is_none());
            assert!(idle.is_none(), "seed {}: {idle:?}", self.seed);
        }
    }

    /// Asserts that nothing is reserved when all transfers have ended.
    pub fn assert_empty(&mut self) {
        for host in [0, 1] {
            assert_eq!(self.brokers[host].tasks(self.now), [], "seed {}", self.seed);
            let all = (0..self.resources[host].len()).map(ResourceId).collect();
            let request = Request {
                uses: all,
                rate_limit: None,
                order: HostOrder::Only,
                ..request(&mut self.chance, 1)
            };
            self.brokers[host].submit(self.now, TaskId(u64::MAX), request).expect("room");
            let events = self.brokers[host].poll(self.now);
            let [Event::Granted(_, grant)] = &events[..] else { panic!("seed {}: {events:?}", self.seed) };
            let least = self.resources[host].iter().filter_map(|resource| resource.bandwidth).min();
            assert_eq!(grant.rate, least, "seed {}: the whole bandwidth is free", self.seed);
        }
    }

    /// Asserts that every transfer is at a limit of its own, or has a bottleneck at one of the
    /// hosts: a device that is used up and on which no other transfer has more for its weight.
    /// Returns the number of transfers.
    pub fn assert_max_min_fair(&self) -> usize {
        let mut compared = 0;
        let views = self.views();
        let rate = |host: usize, id: TaskId| -> Option<f64> {
            let view = views[host].iter().find(|view| view.id == id)?;
            let is_running = view.state == TaskState::Transferring;
            is_running.then(|| {
                view.grant.as_ref().and_then(|grant| grant.rate).map_or(f64::INFINITY, |it| it as f64)
            })
        };
        let both = |id: &TaskId| Some([rate(0, *id)?, rate(1, *id)?]);
        let running: BTreeMap<TaskId, [f64; 2]> =
            self.transfers.keys().filter_map(|id| Some((*id, both(id)?))).collect();
        for (id, rates) in &running {
            let is_same =
                rates[0] == rates[1] || (rates[0] - rates[1]).abs() <= TOLERANCE * rates[0].max(rates[1]);
            assert!(is_same, "seed {}: {id:?} has {rates:?}", self.seed);
            let has_bottleneck = (0..2).any(|host| self.is_limited_at(host, *id, &running));
            assert!(has_bottleneck || rates[0].is_infinite(), "seed {}: {id:?} of {running:?}", self.seed);
            compared += 1;
        }
        compared
    }

    /// Returns whether a host limits the rate of a transfer fairly.
    fn is_limited_at(&self, host: usize, id: TaskId, running: &BTreeMap<TaskId, [f64; 2]>) -> bool {
        let request = |id: &TaskId| &self.transfers[id].requests[host];
        let rate = running[&id][host];
        if request(&id).rate_limit.is_some_and(|limit| rate >= limit as f64 * (1.0 - TOLERANCE)) {
            return true;
        }
        // Users share evenly: a task counts by the number of its user's tasks that meet it.
        let level = |id: &TaskId| {
            let meets = |other: &&TaskId| {
                request(other).user == request(id).user
                    && request(other).uses.iter().any(|resource| request(id).uses.contains(resource))
            };
            running[id][host] * running.keys().filter(meets).count() as f64
        };
        request(&id).uses.iter().any(|resource| {
            let Some(bandwidth) = self.resources[host][resource.0].bandwidth else { return false };
            let on_it = || running.keys().filter(|other| request(other).uses.contains(resource));
            let used: f64 = on_it().map(|other| running[other][host]).sum();
            let most = on_it().map(level).fold(0.0, f64::max);
            used >= bandwidth as f64 * (1.0 - TOLERANCE) && level(&id) >= most * (1.0 - TOLERANCE)
        })
    }
}

/// Asserts that a task of the lowest priority starts although others of the highest one arrive as
/// often as they end.
pub fn assert_bounded_waiting(chance: &mut Chance, seed: u64) {
    let policy = policy();
    let resource = |threads| Resource { bandwidth: Some(1_000_000), threads, tasks: threads };
    let threads = 1 + chance.below(4) as u32;
    let mut broker = Broker::new(vec![resource(threads), resource(threads)], policy.clone());
    let submit = |broker: &mut Broker, now, id, user: &str, priority, uses: &[usize]| {
        let uses = uses.iter().copied().map(ResourceId).collect();
        let user = user.into();
        let request = Request {
            user,
            user_limit: 64,
            priority,
            uses,
            rate_limit: None,
            bytes: None,
            order: HostOrder::Only,
        };
        broker.submit(now, TaskId(id), request).expect("room");
    };
    let (mut now, mut next, mut running) = (Duration::ZERO, 1, VecDeque::new());
    let priority = chance.below(8) as i8;
    for _ in 0..2 * threads {
        submit(&mut broker, now, next, "others", priority, &[(next % 2) as usize]);
        running.push_back(next);
        next += 1;
    }
    submit(&mut broker, now, 0, "patient", 0, &[0, 1]);
    // Each step of aging outweighs one step of priority; then its devices are kept free.
    let bound = policy.aging * (priority as u32 + 1) + policy.preemption_wait + Duration::from_secs(60);
    loop {
        now += Duration::from_millis(500 + chance.below(2_000));
        broker.poll(now);
        let waits = broker.tasks(now).iter().any(|view| view.id == TaskId(0) && !view.state.has_threads());
        if !waits {
            return;
        }
        assert!(now < bound, "seed {seed}: still waiting after {now:?} of at most {bound:?}");
        // One ends, and another one of its kind arrives.
        if let Some(ended) = running.pop_front() {
            broker.end(now, TaskId(ended));
        }
        submit(&mut broker, now, next, "others", priority, &[chance.below(2) as usize]);
        running.push_back(next);
        next += 1;
    }
}
