//! Transfers of a snapshot.

use numaio_schema::{CommandArg, Job, JobState, QueuedTransfer, TopTransfer, TransferSource};

/// Returns the entry of a transfer in the daemon's queue.
pub fn daemon_transfer(queued: &QueuedTransfer) -> TopTransfer {
    TopTransfer {
        source: TransferSource::Daemon,
        job: None,
        user: queued.user.clone(),
        subject: queued.subject.clone(),
        state: queued.capacity.state.name().to_owned(),
        position: queued.capacity.position,
        devices: queued.devices.clone(),
        bytes: queued.bytes,
        bytes_per_s: None,
    }
}

/// Returns the entry of a job that waits or runs; `None` for others.
pub fn job_transfer(job: &Job) -> Option<TopTransfer> {
    let state = match job.state {
        JobState::Waiting | JobState::Running | JobState::Cancelling => job.state.name(),
        JobState::Done | JobState::Failed | JobState::Interrupted => return None,
    };
    let words = job.command.iter().map(|word| match word {
        CommandArg::Text(text) => text.clone(),
        CommandArg::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    });
    Some(TopTransfer {
        source: TransferSource::Job,
        job: Some(job.id),
        user: String::new(),
        subject: words.collect::<Vec<String>>().join(" "),
        state: state.to_owned(),
        position: None,
        devices: Vec::new(),
        bytes: job.totals.bytes,
        bytes_per_s: None,
    })
}

/// Adds the rates since an earlier snapshot, for transfers that both contain.
pub fn add_transfer_rates(before: &[TopTransfer], after: &mut [TopTransfer], seconds: f64) {
    for transfer in after {
        let same = |other: &&TopTransfer| {
            (other.source, other.job, &other.user, &other.subject)
                == (transfer.source, transfer.job, &transfer.user, &transfer.subject)
        };
        let grown = before.iter().find(same).and_then(|before| transfer.bytes.checked_sub(before.bytes));
        transfer.bytes_per_s = grown.filter(|_| seconds > 0.0).map(|bytes| bytes as f64 / seconds);
    }
}
