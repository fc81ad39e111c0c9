//! One block, packed by zstd.

use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// The fastest of the usual levels. Level 3 made 7 MB of source code in Rust and C 11 % smaller, in three times the CPU time.
const LEVEL: i32 = 1;
/// A block that keeps more than all but a 16th of its bytes is not worth unpacking.
const MIN_SAVING: usize = 16;

thread_local! {
    // What they hold is worth keeping: some hundred KiB, which take longer to make than a small block to pack.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Packs bytes into one frame of zstd; none if that has not at least a 16th less, or does not fit. For ports.
pub fn compress(bytes: &[u8], into: &mut [u8]) -> Option<usize> {
    let most = (bytes.len() - bytes.len() / MIN_SAVING).min(into.len());
    COMPRESSOR.with_borrow_mut(|context| {
        if context.is_none() {
            *context = Compressor::new(LEVEL).ok();
        }
        context.as_mut()?
            .compress_to_buffer(bytes, &mut into[..most])
            .ok()
            .filter(|length| *length < bytes.len())
    })
}

/// Unpacks frames of zstd that anybody may have sent, so that they fill a buffer exactly. For ports.
///
/// # Errors
/// In words: it is no such thing, or is shorter or longer. Nothing is allocated by what the bytes say.
pub fn decompress(bytes: &[u8], into: &mut [u8]) -> Result<(), String> {
    DECOMPRESSOR.with_borrow_mut(|context| {
        if context.is_none() {
            *context = Some(Decompressor::new().map_err(|error| error.to_string())?);
        }
        let Some(context) = context.as_mut() else { return Err("there is no memory for it".to_owned()) };
        match context.decompress_to_buffer(bytes, into) {
            Ok(length) if length == into.len() => Ok(()),
            Ok(length) => Err(format!("it is {length} bytes, and not {}", into.len())),
            Err(error) => Err(error.to_string()),
        }
    })
}
