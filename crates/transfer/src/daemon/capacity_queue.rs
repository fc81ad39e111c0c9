//! The queue of a daemon's transfers: which of them may transfer, at which rates. Transfers are the
//! sessions of authenticated clients, and those of programs on this host.

use super::config::{Config, Limits};
use super::device_capacity::{device_of, resources, resources_of, DeviceCapacity};
use super::hello::{CapacityExchange, HelloCapacity};
use super::session_ipc::AdmissionRequest;
use crate::capacity::messages::{
    CapacityOffer, CapacityReply, CapacityRequest, LocalTransfer, PeerMessage, MAX_REQUEST_BYTES,
};
use crate::json_lines::{send, LineReader};
use numaio_broker::{
    Broker, Event, HostOrder, Policy, Request, ResourceId, TaskId, TaskState, TaskView, WaitReason,
};
use numaio_linux::io::tcp::interface_by_address;
use numaio_schema::{CapacityState, LentCapacity, QueuedTransfer, TransferDirection};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a waiting session gets its position.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(3);
/// How often the transfers get the changes that have no event of their own, such as estimates.
const DISPATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a transfer that does not read its messages may delay all others, once.
const SEND_TIMEOUT: Duration = Duration::from_millis(5);
/// Why the queue is closed.
const SHUTTING_DOWN: &str = "the daemon is shutting down";

/// The queue.
pub struct CapacityQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    devices: Vec<DeviceCapacity>,
    /// Name of this host for other hosts: the public key of its daemon.
    host: String,
    began: Instant,
}

struct QueueState {
    broker: Broker,
    entries: BTreeMap<TaskId, Entry>,
    next: u64,
    /// Whether the daemon is shutting down.
    is_closed: bool,
}

/// The daemon's knowledge of a transfer.
struct Entry {
    user: String,
    what: String,
    user_limit: usize,
    /// In the order of the broker.
    uses: Vec<ResourceId>,
    /// The resources whose threads the transfer uses.
    storage: Vec<ResourceId>,
    bytes: u64,
    /// Whether the daemon of another host takes part.
    has_peer: bool,
    /// Where the transfer gets its changes.
    channel: Option<UnixStream>,
    /// The last message to it, and when it was sent.
    sent: Option<(LentCapacity, Instant)>,
    /// Messages to the other host that were not sent yet.
    for_peer: Vec<PeerMessage>,
}

impl Entry {
    /// Sends the transfer what it has or waits for, if that has changed, and the messages for the
    /// other host. A waiting one gets its place repeatedly, as a sign of life.
    fn inform(&mut self, lent: LentCapacity) {
        let Some(channel) = &self.channel else { return };
        let is_due = |(sent, at): &(LentCapacity, Instant)| {
            *sent != lent || lent.position.is_some() && at.elapsed() >= REPORT_INTERVAL
        };
        let mut sent = Ok(());
        for message in self.for_peer.drain(..) {
            sent = sent.and_then(|()| send(channel, &CapacityReply::ForPeer(message)));
        }
        if self.sent.as_ref().is_none_or(is_due) {
            sent = sent.and_then(|()| send(channel, &CapacityReply::Lent(lent.clone())));
            self.sent = Some((lent, Instant::now()));
        }
        if sent.is_err() {
            // It has ended, or reads nothing: it notices that nothing is lent any more.
            let _ = channel.shutdown(Shutdown::Both);
            self.channel = None;
        }
    }
}

/// A transfer that enters the queue.
struct NewTransfer {
    user: String,
    what: String,
    /// Maximum number of transfers of the user at once.
    user_limit: usize,
    /// The same with those that wait.
    connection_limit: usize,
    priority: i8,
    /// Devices by index, each with the direction; storage first.
    devices: Vec<(usize, TransferDirection)>,
    /// Whether it waits if a device or its user has too many transfers.
    can_wait: bool,
    /// Its own limit in bytes/s.
    rate_limit: Option<u64>,
    /// When this host reserves its devices.
    order: HostOrder,
}

impl CapacityQueue {
    /// A queue for transfers that use these devices.
    pub fn new(devices: Vec<DeviceCapacity>, limits: &Limits, host: String) -> Arc<Self> {
        // Connections limit the queue.
        let (waiting, waiting_per_user) = (usize::MAX, usize::MAX);
        let (time_slice, preemption_wait) = (Some(limits.time_slice), limits.preemption_wait);
        let policy = Policy { waiting, waiting_per_user, time_slice, preemption_wait, ..Policy::default() };
        let broker = Broker::new(resources(&devices), policy);
        let state = QueueState { broker, entries: BTreeMap::new(), next: 0, is_closed: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(Self { state, changed, devices, host, began: Instant::now() })
    }

    /// Informs the transfers of changes, in a thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn run_in_background(self: &Arc<Self>) -> io::Result<()> {
        let queue = self.clone();
        let run = move || loop {
            let state = queue.state();
            let now = queue.began.elapsed();
            let wake = state.broker.wake(now).map_or(DISPATCH_INTERVAL, |wake| wake.saturating_sub(now));
            let wait = wake.clamp(Duration::from_millis(1), DISPATCH_INTERVAL);
            drop(queue.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0);
            queue.dispatch(&mut queue.state());
        };
        thread::Builder::new().name("capacity".to_owned()).spawn(run).map(drop)
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends each transfer what has changed for it.
    fn dispatch(&self, state: &mut QueueState) {
        let now = self.began.elapsed();
        self.collect_events(state);
        let views = state.broker.tasks(now);
        let users = ResourceUsers::count(state, &views);
        let lent: Vec<_> = views.iter().map(|view| (view.id, self.lent(state, &users, view))).collect();
        for (id, lent) in lent {
            if let Some(entry) = state.entries.get_mut(&id) {
                entry.inform(lent);
            }
        }
    }

    /// Collects what the other hosts must know. The transfers themselves get their present states.
    fn collect_events(&self, state: &mut QueueState) {
        for event in state.broker.poll(self.began.elapsed()) {
            let (id, message) = match event {
                Event::Offer { id, turn, rate } => (id, PeerMessage::Offer(CapacityOffer { turn, rate })),
                Event::Suspended { id, turn } => (id, PeerMessage::Suspended { turn }),
                Event::Granted(..) => continue,
            };
            if let Some(entry) = state.entries.get_mut(&id).filter(|entry| entry.has_peer) {
                entry.for_peer.push(message);
            }
        }
    }

    /// Enters a session of a client that reached this host at `address`.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn enter_session(
        self: &Arc<Self>,
        request: &AdmissionRequest,
        address: Option<IpAddr>,
        config: &Config,
    ) -> Result<QueuedTransferPlace, String> {
        let Some(user) = config.users.get(&request.user) else {
            return Err(format!("'{}' is not a user any more", request.user));
        };
        let devices = self.devices_where(|device| device.roots.contains(&request.root), request.direction);
        let network = address.map(|address| (address, request.direction.opposite()));
        let capacity = request.capacity.clone().unwrap_or_default();
        let order = self.session_order(&capacity);
        let place = self.enter(NewTransfer {
            user: request.user.clone(),
            what: request.root.clone(),
            user_limit: user.sessions,
            connection_limit: user.connections,
            priority: user.priority,
            devices: devices.into_iter().chain(self.network_devices(network)).collect(),
            can_wait: true,
            rate_limit: user.bytes_per_second,
            order,
        })?;
        if let Some(CapacityOffer { turn, rate }) = capacity.offer {
            self.state().broker.peer_offered(self.began.elapsed(), place.id, turn, rate);
            self.changed.notify_all();
        }
        Ok(place)
    }

    /// Returns when this host reserves the devices of a session.
    ///
    /// The second host needs an offer of the first one; without it this host decides alone.
    fn session_order(&self, capacity: &HelloCapacity) -> HostOrder {
        match (self.order(capacity.host.as_deref()), capacity.offer) {
            (HostOrder::Second, None) => HostOrder::Only,
            (order, _) => order,
        }
    }

    /// Returns when this host reserves devices if the other one has a daemon with this name.
    pub fn order(&self, peer: Option<&str>) -> HostOrder {
        let is_known = |peer: &&str| !self.host.is_empty() && !peer.is_empty() && **peer != *self.host;
        peer.filter(is_known)
            .map_or(HostOrder::Only, |peer| HostOrder::of(self.host.as_bytes(), peer.as_bytes()))
    }

    /// Returns the name of this host for other hosts.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the exchange of capacity with the client of a session.
    pub fn exchange_with(&self, capacity: Option<&HelloCapacity>) -> CapacityExchange {
        match capacity.map(|capacity| self.session_order(capacity)) {
            None => CapacityExchange::None,
            Some(HostOrder::Only) => CapacityExchange::Reports,
            Some(HostOrder::First | HostOrder::Second) => CapacityExchange::Negotiates,
        }
    }

    /// Enters a transfer of a program on this host.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn enter_local(
        self: &Arc<Self>,
        transfer: &LocalTransfer,
        (user, what): (String, String),
        (user_limit, priority): (usize, i8),
    ) -> Result<QueuedTransferPlace, String> {
        let of = |(number, direction): &(u64, TransferDirection)| {
            self.devices_where(|device| device.file_systems.contains(number), *direction)
        };
        let storage = transfer.file_systems.iter().flat_map(of);
        let devices = storage.chain(self.network_devices(transfer.network)).collect();
        let (rate_limit, order) = (transfer.rate_limit, self.order(transfer.peer.as_deref()));
        let can_wait = !transfer.is_far_side;
        let user_limit = if can_wait { user_limit } else { usize::MAX };
        let connection_limit = usize::MAX;
        self.enter(NewTransfer {
            user,
            what,
            user_limit,
            connection_limit,
            priority,
            devices,
            can_wait,
            rate_limit,
            order,
        })
    }

    fn devices_where(
        &self,
        condition: impl Fn(&DeviceCapacity) -> bool,
        direction: TransferDirection,
    ) -> Vec<(usize, TransferDirection)> {
        let found = self.devices.iter().enumerate().filter(|(_, device)| condition(device));
        found.map(|(index, _)| (index, direction)).collect()
    }

    fn network_devices(
        &self,
        network: Option<(IpAddr, TransferDirection)>,
    ) -> Vec<(usize, TransferDirection)> {
        let Some((address, direction)) = network else { return Vec::new() };
        let Some(interface) = interface_by_address(address) else { return Vec::new() };
        self.devices_where(|device| device.interfaces.contains(&interface), direction)
    }

    fn enter(self: &Arc<Self>, new: NewTransfer) -> Result<QueuedTransferPlace, String> {
        let of_device = |(index, direction): &(usize, TransferDirection)| resources_of(*index, *direction);
        let mut uses: Vec<ResourceId> = match new.can_wait {
            true => new.devices.iter().flat_map(of_device).collect(),
            // Bandwidth has no limit of transfers.
            false => new.devices.iter().map(|of| of_device(of)[0]).collect(),
        };
        uses.sort_unstable();
        uses.dedup();
        let is_storage =
            |(index, _): &&(usize, TransferDirection)| self.devices[*index].interfaces.is_empty();
        let mut storage: Vec<ResourceId> =
            new.devices.iter().filter(is_storage).map(|of| of_device(of)[0]).collect();
        storage.sort_unstable();
        storage.dedup();
        let request = Request {
            user: new.user.as_str().into(),
            user_limit: new.user_limit,
            priority: new.priority,
            uses: uses.clone(),
            rate_limit: new.rate_limit,
            bytes: None,
            order: new.order,
        };
        let mut state = self.state();
        if state.is_closed {
            return Err(SHUTTING_DOWN.to_owned());
        }
        if state.entries.values().filter(|entry| entry.user == new.user).count() >= new.connection_limit {
            return Err(format!("{} clients have all their {} connections", new.user, new.connection_limit));
        }
        state.next += 1;
        let id = TaskId(state.next);
        state.broker.submit(self.began.elapsed(), id, request).map_err(|refusal| refusal.to_string())?;
        let entry = Entry {
            user: new.user,
            what: new.what,
            user_limit: new.user_limit,
            uses,
            storage,
            bytes: 0,
            has_peer: new.order != HostOrder::Only,
            channel: None,
            sent: None,
            for_peer: Vec::new(),
        };
        state.entries.insert(id, entry);
        self.collect_events(&mut state);
        drop(state);
        self.changed.notify_all();
        Ok(QueuedTransferPlace { queue: self.clone(), id })
    }

    /// Refuses all waiting transfers, and further ones.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Returns the number of waiting transfers.
    pub fn waiting(&self) -> u64 {
        self.state().broker.waiting() as u64
    }

    /// Returns the transfers of a user, or all of them.
    pub fn transfers(&self, user: Option<&str>) -> Vec<QueuedTransfer> {
        let state = self.state();
        let views = state.broker.tasks(self.began.elapsed());
        let users = ResourceUsers::count(&state, &views);
        let transfer = |view: &TaskView| {
            let entry = state.entries.get(&view.id)?;
            let devices = entry.uses.iter().filter_map(|resource| {
                let (device, direction) = device_of(&self.devices, *resource);
                Some(format!("{} {}", device.name, direction?.name()))
            });
            Some(QueuedTransfer {
                user: entry.user.clone(),
                subject: entry.what.clone(),
                devices: devices.collect(),
                bytes: entry.bytes,
                capacity: self.lent(&state, &users, view),
            })
        };
        let transfers = views.iter().filter_map(transfer);
        transfers.filter(|transfer| user.is_none_or(|user| transfer.user == user)).collect()
    }

    /// Returns the slot or place of a transfer.
    fn lent(&self, state: &QueueState, users: &ResourceUsers, view: &TaskView) -> LentCapacity {
        let entry = &state.entries[&view.id];
        let grant = view.grant.as_ref();
        let threads_of = |storage: &ResourceId| {
            let index = entry.uses.iter().position(|resource| resource == storage)?;
            grant?.threads.get(index).copied()
        };
        let threads: Option<u32> = entry.storage.iter().map(threads_of).sum();
        let is_fixed = |storage: &ResourceId| device_of(&self.devices, *storage).0.transfers.is_some();
        LentCapacity {
            state: match view.state {
                TaskState::Waiting => CapacityState::Waiting,
                TaskState::Active => CapacityState::Active,
                TaskState::Suspended => CapacityState::Suspended,
                TaskState::Transferring => CapacityState::Transferring,
            },
            rate: grant.and_then(|grant| grant.rate),
            is_limited: self.is_limited(entry, users),
            threads: threads.filter(|_| !entry.storage.is_empty()),
            has_fixed_threads: entry.storage.iter().all(is_fixed),
            position: view.position.map(|position| position as u64),
            reason: view.reason.map_or_else(String::new, |reason| self.reason(entry, reason)),
            starts_in: view.starts_in.map(|time| time.as_secs()),
        }
    }

    /// Returns whether a transfer shares a device with others, or uses one whose bandwidth is
    /// configured.
    fn is_limited(&self, entry: &Entry, users: &ResourceUsers) -> bool {
        entry.uses.iter().any(|resource| {
            let (device, direction) = device_of(&self.devices, *resource);
            direction.is_some_and(|direction| {
                device.direction(direction).is_configured
                    || users.0.get(resource).is_some_and(|users| *users > 1)
            })
        })
    }

    fn reason(&self, entry: &Entry, reason: WaitReason) -> String {
        let device = |resource: ResourceId| device_of(&self.devices, resource).0;
        match reason {
            WaitReason::Threads(resource) => {
                let DeviceCapacity { name, transfers, .. } = device(resource);
                format!("{name} serves {} at once", transfers.unwrap_or(u32::MAX))
            }
            WaitReason::KeptFree(resource) => {
                format!("{} is kept free for one that has waited longer", device(resource).name)
            }
            WaitReason::UserLimit => {
                let Entry { user, user_limit, .. } = entry;
                format!("{user} has {user_limit} sessions already, which is the limit")
            }
            WaitReason::Peer => LentCapacity::AWAITS_PEER.to_owned(),
        }
    }
}

/// Number of transfers that use each resource at the moment.
struct ResourceUsers(BTreeMap<ResourceId, usize>);

impl ResourceUsers {
    fn count(state: &QueueState, views: &[TaskView]) -> Self {
        let mut users = BTreeMap::new();
        let transferring = views.iter().filter(|view| view.state == TaskState::Transferring);
        let entries = transferring.filter_map(|view| state.entries.get(&view.id));
        entries.flat_map(|entry| &entry.uses).for_each(|resource| *users.entry(*resource).or_default() += 1);
        Self(users)
    }
}

/// A transfer's place in the queue, which it leaves when this is dropped.
pub struct QueuedTransferPlace {
    queue: Arc<CapacityQueue>,
    id: TaskId,
}

impl Drop for QueuedTransferPlace {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.broker.end(self.queue.began.elapsed(), self.id);
        if let Some(channel) = state.entries.remove(&self.id).and_then(|entry| entry.channel) {
            // The reader of its messages stops.
            let _ = channel.shutdown(Shutdown::Both);
        }
        drop(state);
        self.queue.changed.notify_all();
    }
}

impl QueuedTransferPlace {
    /// Waits until the transfer may begin, at most for `limit`, and returns what it has.
    ///
    /// # Errors
    /// The daemon is shutting down.
    pub fn wait(&self, limit: Duration) -> Result<LentCapacity, String> {
        let deadline = Instant::now() + limit;
        let mut state = self.queue.state();
        loop {
            let now = self.queue.began.elapsed();
            // The background thread passes on what this changes.
            self.queue.collect_events(&mut state);
            if state.is_closed {
                return Err(SHUTTING_DOWN.to_owned());
            }
            let Some(view) = state.broker.task(now, self.id) else {
                return Err("the transfer is not in the queue any more".to_owned());
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if view.state.has_threads() || left.is_zero() {
                let users = ResourceUsers::count(&state, &state.broker.tasks(now));
                return Ok(self.queue.lent(&state, &users, &view));
            }
            let wake = state.broker.wake(now).map_or(left, |wake| wake.saturating_sub(now));
            let wait = left.min(wake.max(Duration::from_millis(1)));
            state = self.queue.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends all further changes over a channel, and receives the progress over it until it closes
    /// or is silent for `limit`.
    ///
    /// # Errors
    /// The transfer broke the protocol, or ended in the middle of a line.
    pub fn exchange(&self, channel: &UnixStream, limit: Option<Duration>) -> io::Result<()> {
        channel.set_write_timeout(Some(SEND_TIMEOUT))?;
        let ours = channel.try_clone()?;
        if let Some(entry) = self.queue.state().entries.get_mut(&self.id) {
            entry.channel = Some(ours);
        }
        self.queue.changed.notify_all();
        let mut requests = LineReader::new(channel);
        loop {
            match requests.receive(MAX_REQUEST_BYTES, limit)? {
                None => return Ok(()),
                Some(CapacityRequest::Progress(bytes)) => self.progressed(bytes),
                Some(CapacityRequest::FromPeer(message)) => self.received(&message),
                Some(CapacityRequest::NoPeer) => self.change(|broker, now, id| broker.without_peer(now, id)),
                Some(CapacityRequest::PeerRestarted) => {
                    self.change(|broker, now, id| broker.peer_restarted(now, id));
                }
                Some(CapacityRequest::Submit(_) | CapacityRequest::List) => {
                    return Err(io::Error::other("unexpected message of a transfer"));
                }
            }
        }
    }

    /// Processes a message of the other host's daemon.
    fn received(&self, message: &PeerMessage) {
        match *message {
            PeerMessage::Offer(CapacityOffer { turn, rate }) => {
                self.change(|broker, now, id| broker.peer_offered(now, id, turn, rate));
            }
            PeerMessage::Suspended { turn } => {
                self.change(|broker, now, id| broker.peer_suspended(now, id, turn));
            }
            PeerMessage::Lent(_) => {}
        }
    }

    fn change(&self, change: impl FnOnce(&mut Broker, Duration, TaskId)) {
        change(&mut self.queue.state().broker, self.queue.began.elapsed(), self.id);
        self.queue.changed.notify_all();
    }

    /// Records the bytes that were transferred by now.
    fn progressed(&self, bytes: u64) {
        let mut state = self.queue.state();
        state.broker.progressed(self.queue.began.elapsed(), self.id, bytes);
        if let Some(entry) = state.entries.get_mut(&self.id) {
            entry.bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::device_capacity::DirectionCapacity;
    use super::*;

    const USERS: &str = "
        key = \"/k\"
        [root.disk]
        path = \"/disk\"
        read = \"*\"
        [root.memory]
        path = \"/memory\"
        read = \"*\"
        [user.alice]
        keys = \"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"
        sessions = 2
        [user.bob]
        keys = \"ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c\"
        priority = 6
    ";
    const SHORT: Duration = Duration::from_millis(1);

    fn queue() -> (Arc<CapacityQueue>, Config) {
        let direction = |bandwidth| DirectionCapacity { bandwidth, is_configured: false, threads: 4 };
        let device = |name: &str, transfers, bandwidth: Option<u64>, roots: &[&str]| DeviceCapacity {
            name: name.to_owned(),
            read: direction(bandwidth),
            write: direction(bandwidth),
            transfers,
            roots: roots.iter().map(|root| (*root).to_owned()).collect(),
            ..DeviceCapacity::default()
        };
        let devices =
            vec![device("sda", Some(1), None, &["disk"]), device("memory", None, Some(1_000), &["memory"])];
        let config = Config::parse(USERS).expect("a valid file");
        (CapacityQueue::new(devices, &config.limits, "us".to_owned()), config)
    }

    fn try_enter(
        queue: &(Arc<CapacityQueue>, Config),
        user: &str,
        root: &str,
    ) -> Result<QueuedTransferPlace, String> {
        let (user, root) = (user.to_owned(), root.to_owned());
        let direction = TransferDirection::Read;
        let request = AdmissionRequest { user, root, direction, capacity: Some(HelloCapacity::default()) };
        queue.0.enter_session(&request, None, &queue.1)
    }

    fn enter(queue: &(Arc<CapacityQueue>, Config), user: &str, root: &str) -> QueuedTransferPlace {
        try_enter(queue, user, root).expect("room")
    }

    /// Returns the state, the position and the reason.
    fn state(place: &QueuedTransferPlace) -> (CapacityState, Option<u64>, String) {
        let lent = place.wait(SHORT).expect("the daemon runs");
        (lent.state, lent.position, lent.reason)
    }

    fn waiting(position: u64, why: &str) -> (CapacityState, Option<u64>, String) {
        (CapacityState::Waiting, Some(position), why.to_owned())
    }

    const TRANSFERS: (CapacityState, Option<u64>, String) =
        (CapacityState::Transferring, None, String::new());

    #[test]
    fn sessions_wait_for_their_device_by_priority() {
        let queue = queue();
        let first = enter(&queue, "alice", "disk");
        assert_eq!(state(&first), TRANSFERS);
        let lent = first.wait(SHORT).expect("the daemon runs");
        assert_eq!(lent.operation_limit(), Some(4), "the threads of the disk are fixed");
        let (second, third) = (enter(&queue, "alice", "disk"), enter(&queue, "bob", "disk"));
        let why = "sda serves 1 at once";
        assert_eq!((state(&second), state(&third)), (waiting(2, why), waiting(1, why)));
        assert_eq!(queue.0.waiting(), 2);
        assert_eq!(state(&enter(&queue, "bob", "memory")), TRANSFERS);
        thread::scope(|scope| {
            let waits = scope.spawn(|| third.wait(Duration::from_secs(300)));
            drop(first);
            let lent = waits.join().expect("the thread finishes").expect("the daemon runs");
            assert_eq!(lent.state, CapacityState::Transferring);
        });
        assert_eq!(state(&second), waiting(1, why));
        let listed = queue.0.transfers(Some("alice"));
        assert_eq!(
            (listed.len(), &*listed[0].subject, &listed[0].devices[..]),
            (1, "disk", &["sda read".to_owned()][..])
        );
    }

    #[test]
    fn sessions_beyond_the_limit_of_their_user_wait() {
        let queue = queue();
        let [first, _second, third] = [0; 3].map(|_| enter(&queue, "alice", "memory"));
        let why = "alice has 2 sessions already, which is the limit";
        assert_eq!(state(&third), waiting(1, why));
        assert_eq!(state(&enter(&queue, "bob", "memory")), TRANSFERS);
        drop(first);
        assert_eq!(state(&third), TRANSFERS);
        let removed = try_enter(&queue, "carol", "memory").err();
        assert_eq!(removed.as_deref(), Some("'carol' is not a user any more"));
    }

    #[test]
    fn transfers_of_one_device_share_it_and_get_each_change() {
        let queue = queue();
        let first = enter(&queue, "alice", "memory");
        let lent = first.wait(SHORT).expect("the daemon runs");
        assert_eq!((lent.rate, lent.is_limited, lent.threads), (Some(1_000), false, Some(4)));
        assert_eq!(lent.operation_limit(), None, "the number of threads is an estimate");
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        theirs.set_read_timeout(Some(Duration::from_secs(300))).expect("an option");
        thread::scope(|scope| {
            scope.spawn(|| first.exchange(&ours, None));
            let mut replies = LineReader::new(&theirs);
            let mut until = |rate, is_limited| loop {
                queue.0.dispatch(&mut queue.0.state());
                let reply = replies.receive(1 << 16, Some(Duration::from_secs(300))).expect("a message");
                let Some(CapacityReply::Lent(lent)) = reply else { panic!("{reply:?}") };
                if (lent.rate, lent.is_limited) == (Some(rate), is_limited) {
                    return lent.threads;
                }
            };
            while queue.0.state().entries.values().all(|entry| entry.channel.is_none()) {
                thread::yield_now();
            }
            assert_eq!(until(1_000, false), Some(4));
            let second = enter(&queue, "bob", "memory");
            assert_eq!(until(500, true), Some(2));
            drop(second);
            assert_eq!(until(1_000, false), Some(4));
            send(&theirs, &CapacityRequest::Progress(77)).expect("sent");
            let bytes = || queue.0.transfers(None)[0].bytes;
            while bytes() != 77 {
                thread::yield_now();
            }
            // A transfer that breaks the protocol is ignored.
            send(&theirs, &CapacityRequest::List).expect("sent");
        });
    }

    #[test]
    fn shutdown_refuses_waiting_sessions() {
        let queue = queue();
        let _first = enter(&queue, "alice", "disk");
        let second = enter(&queue, "alice", "disk");
        thread::scope(|scope| {
            let waits = scope.spawn(|| second.wait(Duration::from_secs(300)));
            queue.0.close();
            assert_eq!(waits.join().expect("the thread finishes"), Err(SHUTTING_DOWN.to_owned()));
        });
        assert!(try_enter(&queue, "bob", "disk").is_err());
    }
}
