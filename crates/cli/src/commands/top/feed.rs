//! Threads that supply the view with snapshots: samples of this machine, or a recording.

use super::balance_advisor::ConfirmedMove;
use super::sampler::Sampler;
use numaio_schema::{TopRecording, TopSnapshot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time to the second sample, so that rates appear early.
const FIRST_INTERVAL: Duration = Duration::from_millis(500);
/// Sleep while the view is paused.
const PAUSE: Duration = Duration::from_millis(100);
/// Shortest and longest time that a recorded snapshot is shown.
const SHOWN: std::ops::RangeInclusive<u64> = 50..=10_000;

/// A message from a feed.
#[derive(Debug)]
pub enum FeedEvent {
    /// A snapshot.
    Snapshot(Box<TopSnapshot>),
    /// The recording ended.
    End,
}

/// A request of the view to a feed.
#[derive(Debug, Default)]
pub struct FeedControl {
    focus: Mutex<Vec<u32>>,
    moves: Mutex<Vec<ConfirmedMove>>,
    expires_inspections: AtomicBool,
    is_paused: AtomicBool,
}

impl FeedControl {
    /// Sets the programs that the view shows.
    pub fn set_focus(&self, pids: Vec<u32>) {
        *self.focus.lock().unwrap_or_else(PoisonError::into_inner) = pids;
    }

    /// Sets whether the feed waits.
    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Reports a move, after which the program is inspected again.
    pub fn report_move(&self, moved: ConfirmedMove) {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner).push(moved);
    }

    /// Requests that all programs are inspected again.
    pub fn expire_inspections(&self) {
        self.expires_inspections.store(true, Ordering::Relaxed);
    }

    fn take_moves(&self) -> Vec<ConfirmedMove> {
        std::mem::take(&mut *self.moves.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn focus(&self) -> Vec<u32> {
        self.focus.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a time, and then while the view is paused.
    fn wait(&self, time: Duration) {
        thread::sleep(time);
        while self.is_paused.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
        }
    }
}

/// Snapshots from a thread of their own, which the process does not wait for at its end: a daemon
/// that does not respond delays samples, but not the view.
pub struct Feed {
    /// The snapshots.
    pub events: Receiver<FeedEvent>,
    /// Requests of the view.
    pub control: Arc<FeedControl>,
}

impl Feed {
    /// Starts to sample this machine.
    pub fn sample(sampler: Sampler, every: Duration) -> Self {
        Self::start(move |events, control| sample(sampler, every, events, control))
    }

    /// Starts to replay a recording.
    pub fn replay(recording: TopRecording) -> Self {
        Self::start(move |events, control| replay(recording, events, control))
    }

    fn start(run: impl FnOnce(&SyncSender<FeedEvent>, &FeedControl) + Send + 'static) -> Self {
        let (sender, events) = sync_channel(1);
        let control = Arc::new(FeedControl::default());
        let of_feed = control.clone();
        thread::spawn(move || run(&sender, &of_feed));
        Self { events, control }
    }
}

fn sample(mut sampler: Sampler, every: Duration, events: &SyncSender<FeedEvent>, control: &FeedControl) {
    let mut interval = every.min(FIRST_INTERVAL);
    loop {
        let started = Instant::now();
        for moved in control.take_moves() {
            sampler.record_move(&moved);
        }
        if control.expires_inspections.swap(false, Ordering::Relaxed) {
            sampler.expire_inspections();
        }
        let snapshot = sampler.sample(&control.focus());
        if events.send(FeedEvent::Snapshot(Box::new(snapshot))).is_err() {
            return;
        }
        control.wait(interval.saturating_sub(started.elapsed()));
        interval = every;
    }
}

fn replay(recording: TopRecording, events: &SyncSender<FeedEvent>, control: &FeedControl) {
    let mut snapshots = recording.snapshots.into_iter().peekable();
    while let Some(snapshot) = snapshots.next() {
        let taken = snapshot.taken_at_ms;
        let shown = snapshots.peek().map(|next| next.taken_at_ms.saturating_sub(taken));
        if events.send(FeedEvent::Snapshot(Box::new(snapshot))).is_err() {
            return;
        }
        if let Some(shown) = shown {
            control.wait(Duration::from_millis(shown.clamp(*SHOWN.start(), *SHOWN.end())));
        }
    }
    // The view may have ended.
    let _ = events.send(FeedEvent::End);
}
