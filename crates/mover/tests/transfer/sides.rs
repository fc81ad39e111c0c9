//! Sources and sinks that expect no hashes.

use numaio_mover::chunk::ChunkPolicy;
use numaio_mover::hash::HashKind;
use numaio_mover::port::{BlockSize, FileInfo, FileKind, FileStat, Stamp};
use numaio_mover::simulator;
use numaio_mover::sink::{PreserveOptions, Sink, SinkOptions, WriterIdentity};
use numaio_mover::source::{ReadOrder, Source, SourceDevice, SourceOptions, SourceStorage};

/// Creates a source of everything below a root. In eager mode it sends data without requests.
pub fn source(by_address: bool, eager: bool) -> Source<Vec<u8>> {
    Source::new(source_options(by_address, eager)).expect("a policy")
}

/// Returns the options of such a source.
pub fn source_options(by_address: bool, eager: bool) -> SourceOptions {
    let order = if by_address { ReadOrder::PhysicalIfSlow } else { ReadOrder::Inode };
    SourceOptions {
        hash: HashKind::None,
        policy: ChunkPolicy { bundle_files: 20, ..ChunkPolicy::for_port(BlockSize::default()) },
        storage: SourceStorage::single(SourceDevice { reads: 2, order }),
        eager,
        ..simulator::source_options()
    }
}

/// Creates a matching sink.
pub fn sink(eager: bool) -> Sink<Vec<u8>> {
    Sink::new(sink_options(eager))
}

/// Creates a sink of a user that preserves some attributes.
pub fn sink_for_user(eager: bool, preserve: PreserveOptions, writer: WriterIdentity) -> Sink<Vec<u8>> {
    Sink::new(SinkOptions { preserve, writer, ..sink_options(eager) })
}

/// Returns the options of such a sink.
pub fn sink_options(eager: bool) -> SinkOptions {
    SinkOptions { hash: HashKind::None, eager, ..simulator::sink_options() }
}

/// Returns an empty object.
pub fn found(kind: FileKind) -> FileInfo {
    let mtime = Stamp { seconds: 5, nanoseconds: 6 };
    let metadata = FileStat {
        kind,
        mode: 0o640,
        user: 0,
        group: 0,
        size: 0,
        mtime,
        ctime: mtime,
        inode: 1,
        volume: 1,
        links: 1,
    };
    FileInfo {
        metadata,
        has_hidden_xattrs: false,
        other_xattrs: Vec::new(),
        target: None,
        xattrs: Vec::new(),
        data: None,
        address: None,
        is_link_destination: false,
        handle: None,
    }
}
