//! The queue of a daemon's authenticated sessions: which of them may transfer.

use super::config::Config;
use super::session_ipc::{AdmissionRequest, QueuePosition};
use numaio_broker::{Broker, HostOrder, Policy, Request, Resource, ResourceId, TaskId, TaskView, WaitReason};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting session gets its position.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(3);
/// Why the queue is closed.
const SHUTTING_DOWN: &str = "the daemon is shutting down";

/// A device that serves a limited number of sessions at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLimit {
    /// Its name.
    pub name: String,
    /// Maximum number of sessions.
    pub sessions: u32,
    /// Names of the roots on it.
    pub roots: Vec<String>,
}

/// The queue.
pub struct SessionQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    devices: Vec<DeviceLimit>,
    began: Instant,
}

struct QueueState {
    broker: Broker,
    next: u64,
    /// Whether the daemon is shutting down.
    is_closed: bool,
}

/// The state of a session in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It may transfer.
    Admitted,
    /// It waits.
    Waiting(QueuePosition),
}

impl SessionQueue {
    /// A queue for sessions that use these devices.
    pub fn new(devices: Vec<DeviceLimit>) -> Self {
        let resource = |device: &DeviceLimit| Resource {
            bandwidth: None,
            threads: device.sessions.max(1),
            tasks: device.sessions.max(1),
        };
        let resources = devices.iter().map(resource).collect();
        // Connections limit the queue. Sessions do not stop for others.
        let (waiting, waiting_per_user) = (usize::MAX, usize::MAX);
        let policy = Policy { waiting, waiting_per_user, turn: None, ..Policy::default() };
        let state = QueueState { broker: Broker::new(resources, policy), next: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), devices, began: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session into the queue.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn enter(&self, request: &AdmissionRequest, config: &Config) -> Result<QueuedSession<'_>, String> {
        let Some(user) = config.users.get(&request.user) else {
            return Err(format!("'{}' is not a user any more", request.user));
        };
        let uses = self.devices.iter().enumerate().filter(|(_, device)| device.roots.contains(&request.root));
        let task = Request {
            user: request.user.as_str().into(),
            user_limit: user.sessions,
            priority: user.priority,
            uses: uses.map(|(index, _)| ResourceId(index)).collect(),
            rate_limit: None,
            bytes: None,
            order: HostOrder::Only,
        };
        let mut state = self.state();
        if state.is_closed {
            return Err(SHUTTING_DOWN.to_owned());
        }
        state.next += 1;
        let id = TaskId(state.next);
        state.broker.submit(self.began.elapsed(), id, task).map_err(|refusal| refusal.to_string())?;
        drop(state);
        let user_limit = user.sessions;
        Ok(QueuedSession { queue: self, id, user: request.user.clone(), user_limit })
    }

    /// Refuses all waiting sessions, and further ones.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Returns the number of waiting sessions.
    pub fn waiting(&self) -> u64 {
        self.state().broker.waiting() as u64
    }
}

/// A session in the queue, which it leaves when it is dropped.
pub struct QueuedSession<'q> {
    queue: &'q SessionQueue,
    id: TaskId,
    user: String,
    user_limit: usize,
}

impl Drop for QueuedSession<'_> {
    fn drop(&mut self) {
        self.queue.state().broker.end(self.queue.began.elapsed(), self.id);
        self.queue.changed.notify_all();
    }
}

impl QueuedSession<'_> {
    /// Waits until the session is admitted, at most for `patience`.
    ///
    /// # Errors
    /// The daemon is shutting down.
    pub fn wait(&self, patience: Duration) -> Result<Turn, String> {
        let deadline = Instant::now() + patience;
        let mut state = self.queue.state();
        loop {
            let now = self.queue.began.elapsed();
            // The sessions see their states; the broker has no other use of these events here.
            drop(state.broker.poll(now));
            if state.is_closed {
                return Err(SHUTTING_DOWN.to_owned());
            }
            let view = state.broker.task(now, self.id);
            let Some(view) = view.filter(|view| !view.state.has_threads()) else { return Ok(Turn::Admitted) };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Turn::Waiting(self.position(&view)));
            }
            let wake = state.broker.wake(now).map_or(left, |wake| wake.saturating_sub(now));
            let wait = left.min(wake.max(Duration::from_millis(1)));
            state = self.queue.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn position(&self, view: &TaskView) -> QueuePosition {
        let device = |resource: ResourceId| &self.queue.devices[resource.0];
        let why = match view.reason {
            Some(WaitReason::Threads(resource)) => {
                let DeviceLimit { name, sessions, .. } = device(resource);
                format!("{name} serves {sessions} at once")
            }
            Some(WaitReason::KeptFree(resource)) => {
                format!("{} is kept free for one that has waited longer", device(resource).name)
            }
            Some(WaitReason::UserLimit | WaitReason::Peer) | None => {
                let Self { user, user_limit, .. } = self;
                format!("{user} has {user_limit} sessions already, which is the limit")
            }
        };
        QueuePosition { position: view.position.unwrap_or(1) as u64, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_schema::TransferDirection;
    use std::thread;

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

    fn queue() -> (SessionQueue, Config) {
        let device = DeviceLimit { name: "sda".to_owned(), sessions: 1, roots: vec!["disk".to_owned()] };
        (SessionQueue::new(vec![device]), Config::parse(USERS).expect("a valid file"))
    }

    fn request(user: &str, root: &str) -> AdmissionRequest {
        let (user, root) = (user.to_owned(), root.to_owned());
        AdmissionRequest { user, root, direction: TransferDirection::Read, can_wait: true }
    }

    #[test]
    fn sessions_wait_for_their_device_by_priority() {
        let (queue, config) = queue();
        let enter = |user, root| queue.enter(&request(user, root), &config).expect("room");
        let first = enter("alice", "disk");
        assert_eq!(first.wait(SHORT), Ok(Turn::Admitted));
        let (second, third) = (enter("alice", "disk"), enter("bob", "disk"));
        let waiting =
            |position| Ok(Turn::Waiting(QueuePosition { position, why: "sda serves 1 at once".to_owned() }));
        assert_eq!((second.wait(SHORT), third.wait(SHORT)), (waiting(2), waiting(1)));
        assert_eq!(queue.waiting(), 2);
        assert_eq!(enter("bob", "memory").wait(SHORT), Ok(Turn::Admitted));
        thread::scope(|scope| {
            let waits = scope.spawn(|| third.wait(Duration::from_secs(300)));
            drop(first);
            assert_eq!(waits.join().expect("the thread finishes"), Ok(Turn::Admitted));
        });
        assert_eq!(second.wait(SHORT), waiting(1));
    }

    #[test]
    fn sessions_beyond_the_limit_of_their_user_wait() {
        let (queue, config) = queue();
        let enter = |user| queue.enter(&request(user, "memory"), &config).expect("room");
        let sessions = [enter("alice"), enter("alice"), enter("alice")];
        let why = "alice has 2 sessions already, which is the limit".to_owned();
        assert_eq!(sessions[2].wait(SHORT), Ok(Turn::Waiting(QueuePosition { position: 1, why })));
        assert_eq!(enter("bob").wait(SHORT), Ok(Turn::Admitted));
        let [first, _second, third] = sessions;
        drop(first);
        assert_eq!(third.wait(SHORT), Ok(Turn::Admitted));
        let removed = queue.enter(&request("carol", "memory"), &config).err();
        assert_eq!(removed.as_deref(), Some("'carol' is not a user any more"));
    }

    #[test]
    fn shutdown_refuses_waiting_sessions() {
        let (queue, config) = queue();
        let _first = queue.enter(&request("alice", "disk"), &config).expect("room");
        let second = queue.enter(&request("alice", "disk"), &config).expect("room");
        thread::scope(|scope| {
            let waits = scope.spawn(|| second.wait(Duration::from_secs(300)));
            queue.close();
            assert_eq!(waits.join().expect("the thread finishes"), Err(SHUTTING_DOWN.to_owned()));
        });
        assert!(queue.enter(&request("bob", "disk"), &config).is_err());
    }
}
