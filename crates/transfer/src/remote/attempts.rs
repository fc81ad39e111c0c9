//! Attempts of a transfer with another host, until one is over.

use super::retry::{wait_for_retry, RetryState};
use crate::reporter::{Notice, Reporter, TransferEnd};
use crate::TransferError;
use numaio_linux::interrupt::interrupted;
use numaio_mover::wire::Side;
use numaio_schema::JobTotals;
use std::time::{Duration, Instant};

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

/// Runs attempts until one is over, or there has been no progress for `limit`, if there is one.
///
/// `host` is the name of the other host, and `side` its side. An attempt gets the totals of the
/// earlier ones; its error means that another attempt would fail the same way.
///
/// # Errors
/// The first attempt did not begin.
pub fn run(
    limit: Option<Duration>,
    (host, side): (&str, Side),
    mut reporter: Reporter<'_>,
    mut attempt: impl FnMut(&mut Reporter<'_>, Option<JobTotals>) -> Result<AttemptOutcome, TransferError>,
) -> Result<TransferEnd, TransferError> {
    let mut retries = RetryState::new(limit);
    loop {
        let began = Instant::now();
        let (why, unreachable) = match attempt(&mut reporter, retries.earlier_totals()) {
            Ok(AttemptOutcome::Over(totals)) => return Ok(reporter.end(retries.total_with(totals))),
            Ok(AttemptOutcome::Lost { totals, reached, why }) => {
                retries.record_lost_attempt(totals, reached);
                (why, None)
            }
            Ok(AttemptOutcome::Unreachable(error)) if retries.accepts(&error) => {
                retries.record_unreachable(began);
                (error.to_string(), Some(error))
            }
            Ok(AttemptOutcome::Unreachable(error)) | Err(error) if retries.is_first() => return Err(error),
            // The retry failed, but the earlier attempts have moved data.
            Ok(AttemptOutcome::Unreachable(error)) | Err(error) => {
                reporter.give_up(side, &error.to_string());
                return Ok(reporter.end(retries.total()));
            }
        };
        let Some(pause) = retries.next_pause().filter(|_| !interrupted()) else {
            match unreachable {
                Some(error) if retries.is_first() => return Err(error),
                // The new error is more relevant than the earlier loss.
                Some(_) => reporter.give_up(side, &why),
                None if reporter.given_up.is_none() => reporter.give_up(side, &format!("{host}: {why}")),
                None => {}
            }
            return Ok(reporter.end(retries.total()));
        };
        let (host, repeats) = (host.to_owned(), pause == retries.longest_pause());
        reporter.notice_once(Notice::Retrying { host, why, seconds: pause.as_secs_f64(), repeats });
        wait_for_retry(pause, || reporter.alive());
    }
}
