//! Batches of documents: threads parse the next batch while the previous one is written.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

/// Maximum number of documents of a batch, which is one transaction.
pub(super) const MOST_DOCUMENTS: usize = 128;

/// Maximum bytes of the documents of a batch, unless one document is larger. Two batches and their
/// parsed values are in memory.
pub(super) const MOST_BYTES: u64 = 24 << 20;

/// Processes batches in order until one is empty: `next` reads inputs, `work` runs on `threads`
/// threads, and `write` gets the outputs of a batch in the order of its inputs.
pub(super) fn run<I: Sync, O: Send, E>(
    threads: usize,
    mut next: impl FnMut() -> Result<Vec<I>, E>,
    work: impl Fn(&I) -> O + Sync,
    mut write: impl FnMut(Vec<O>) -> Result<(), E>,
) -> Result<(), E> {
    let mut outputs = Vec::new();
    loop {
        let inputs = next()?;
        if inputs.is_empty() {
            return write(outputs);
        }
        let slots: Vec<Mutex<Option<O>>> = inputs.iter().map(|_| Mutex::new(None)).collect();
        let taken = AtomicUsize::new(0);
        let process = || loop {
            let index = taken.fetch_add(1, Ordering::Relaxed);
            let (Some(input), Some(slot)) = (inputs.get(index), slots.get(index)) else { return };
            let output = work(input);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(output);
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads.clamp(1, inputs.len()) {
                scope.spawn(process);
            }
            write(std::mem::take(&mut outputs))
        })?;
        outputs = slots.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_all_outputs_in_order() {
        for threads in [1, 3] {
            let mut inputs =
                (0..100).collect::<Vec<u32>>().chunks(7).map(<[u32]>::to_vec).collect::<Vec<_>>();
            inputs.reverse();
            let mut written = Vec::new();
            let next = || Ok::<_, ()>(inputs.pop().unwrap_or_default());
            run(
                threads,
                next,
                |input| input * 2,
                |outputs| {
                    written.extend(outputs);
                    Ok(())
                },
            )
            .expect("no error");
            assert_eq!(written, (0..100).map(|input| input * 2).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn stops_at_the_first_error() {
        let mut batches = 0;
        let next = || {
            batches += 1;
            Ok(vec![batches])
        };
        let write = |outputs: Vec<i32>| if outputs.contains(&3) { Err("full") } else { Ok(()) };
        assert_eq!(run(2, next, |input| *input, write), Err("full"));
        assert!(batches <= 4, "{batches}");
    }
}
