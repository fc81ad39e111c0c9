//! Threads of a port that wait for buffers, which others have.

use crate::port_setup::{file, identity, outcomes, setting, Folder};
use numaio_linux::port::FilePort;
use numaio_machine::port::{Operation, Port, ReadPiece};
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

/// As those are that a link holds whose other side takes no more.
#[test]
fn a_port_that_is_closed_waits_for_no_buffer_that_does_not_come_back() {
    let folder = Folder::new("buffers");
    fs::write(folder.0.join("file"), "content").expect("a file");
    let pair = FilePort::pair(setting(&folder.0, 2, 1, false), setting(&folder.0, 1, 1, false));
    let (mut port, other) = pair.expect("ports");
    let identity = identity(&mut port);
    for ticket in 0..3 {
        let piece = ReadPiece { at: file(), identity, offset: 0, length: 7 };
        port.submit(
            ticket,
            Operation::Read { pieces: vec![piece], hash: |_| Default::default(), pack: None },
        );
    }
    let held = outcomes(&mut port, 2);
    // The thread begins with the third by then; else the test tells nothing.
    std::thread::sleep(Duration::from_millis(100));
    let (ended, told) = channel();
    std::thread::spawn(move || {
        drop(port);
        let _ = ended.send(());
    });
    told.recv_timeout(Duration::from_secs(60)).expect("it ends");
    drop((held, other));
}
