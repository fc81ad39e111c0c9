//! Ports whose threads wait for buffers held elsewhere.

use crate::port_setup::{file, identity, outcomes, setting, Folder};
use numaio_mover::port::{Operation, Port, ReadPiece};
use numaio_mover_linux::port::FilePort;
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

/// For example by a link whose peer reads no more.
#[test]
fn closing_a_port_does_not_wait_for_lost_buffers() {
    let folder = Folder::new("buffers");
    fs::write(folder.0.join("file"), "content").expect("a file");
    let pair = FilePort::pair(setting(&folder.0, 2, 1, false), setting(&folder.0, 1, 1, false));
    let (mut port, other) = pair.expect("ports");
    let identity = identity(&mut port);
    for ticket in 0..3 {
        let piece = ReadPiece { at: file(), identity, offset: 0, length: 7, as_it_is: false };
        port.submit(
            ticket,
            Operation::Read { pieces: vec![piece], hash: |_| Default::default(), pack: None },
        );
    }
    let held = outcomes(&mut port, 2);
    // The thread has started the third read by then; otherwise the test checks nothing.
    std::thread::sleep(Duration::from_millis(100));
    let (finished, result) = channel();
    std::thread::spawn(move || {
        drop(port);
        let _ = finished.send(());
    });
    result.recv_timeout(Duration::from_secs(60)).expect("the port closes");
    drop((held, other));
}
