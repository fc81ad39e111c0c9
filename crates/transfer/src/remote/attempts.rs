//! Attempts of a transfer with another host, until one is over.

use super::retry::{wait_for_retry, RetryState};
use crate::reporter::{Notice, Reporter, TransferEnd};
use crate::TransferError;
use numaio_linux::interrupt::interrupted;
use numaio_mover::wire::Side;
use numaio_schema::JobTotals;
use std::time::Duration;

/// How an attempt ended.
pub enum AttemptOutcome {
    /// Finished with these totals; another attempt would end the same way.
    Over(JobTotals),
    /// The connection was lost.
    Lost {
        /// Totals of the attempt.
        totals: JobTotals,
        /// [Progress](numaio_mover::drive::TransferCore::progress) of the attempt.
        reached: u64,
        /// Why it was lost.
        why: String,
    },
    /// The other host could not be reached.
    Unreachable(TransferError),
}

/// Runs attempts until one is over, or there has been no progress for `limit`.
///
/// `host` is the name of the other host, and `side` its side. An attempt gets the totals of the
/// earlier ones; its error means that another attempt would fail the same way.
///
/// # Errors
/// The first attempt did not begin.
pub fn run(
    limit: Duration,
    (host, side): (&str, Side),
    mut reporter: Reporter<'_>,
    mut attempt: impl FnMut(&mut Reporter<'_>, Option<JobTotals>) -> Result<AttemptOutcome, TransferError>,
) -> Result<TransferEnd, TransferError> {
    let mut retries = RetryState::new(limit);
    loop {
        let tried = match attempt(&mut reporter, retries.earlier_totals()) {
            // The retry failed, but the earlier attempts have moved data.
            Err(error) if !retries.is_first() => {
                reporter.give_up(side, &error.to_string());
                return Ok(reporter.end(retries.total()));
            }
            tried => tried?,
        };
        let why = match tried {
            AttemptOutcome::Over(totals) => return Ok(reporter.end(retries.total_with(totals))),
            AttemptOutcome::Lost { totals, reached, why } => {
                retries.record_lost_attempt(totals, reached);
                why
            }
            AttemptOutcome::Unreachable(error) if retries.is_first() => return Err(error),
            AttemptOutcome::Unreachable(error) => {
                // The new error is more relevant than the earlier loss.
                let why = error.to_string();
                reporter.give_up(side, &why);
                why
            }
        };
        let Some(pause) = retries.next_pause().filter(|_| !interrupted()) else {
            if reporter.given_up.is_none() {
                reporter.give_up(side, &format!("{host}: {why}"));
            }
            return Ok(reporter.end(retries.total()));
        };
        reporter.notice(Notice::Retrying { host: host.to_owned(), why, seconds: pause.as_secs_f64() });
        wait_for_retry(pause, || reporter.alive());
    }
}
