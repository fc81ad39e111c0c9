//! Iterations of the STREAM loops, which each architecture implements.

/// Factor of scale and triad, as in STREAM.
pub const SCALAR: f64 = 3.0;

/// Bytes of a cache line: non-temporal stores write whole lines to memory.
pub const LINE: usize = 64;

/// Doubles written per loop iteration.
pub const ITERATION_DOUBLES: usize = 4 * LINE / size_of::<f64>();

/// Writes [`ITERATION_DOUBLES`] doubles per iteration to the first array, computed from the others.
///
/// # Safety
/// As for [`super::Streamer::run_raw`], for that many iterations; the first array begins with a
/// cache line.
pub type IterationFn = unsafe fn(*mut f64, *const f64, *const f64, usize);
