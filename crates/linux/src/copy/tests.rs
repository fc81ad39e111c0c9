use super::*;
use std::io::Write as _;
use std::process::Command;

/// Bytes that look different at every place, so that a byte from the wrong place shows.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn available_loops() -> Vec<CopyLoop> {
    CopyLoop::ALL.into_iter().filter(|copy_loop| available(*copy_loop)).collect()
}

#[test]
fn every_loop_copies_exactly_what_it_is_told() {
    const GUARD: u8 = 0xA5;
    const ROOM: usize = 192;
    let lengths = (0..=200).chain([255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 70_001]);
    let from = pattern(70_001 + ROOM);
    for (copy_loop, length) in
        lengths.flat_map(|length| available_loops().into_iter().map(move |l| (l, length)))
    {
        let copier = Copier::new(copy_loop).expect("available");
        for (source_at, sink_at) in [(0, 0), (1, 0), (0, 1), (7, 64), (63, 65), (64, 7), (31, 32), (16, 33)] {
            let mut to = vec![GUARD; length + ROOM];
            copier.copy(&from[source_at..source_at + length], &mut to[sink_at..sink_at + length]);
            let case = format!("{copy_loop}, {length} bytes, {source_at} to {sink_at}");
            assert!(to[sink_at..sink_at + length] == from[source_at..source_at + length], "{case}");
            assert!(to[..sink_at].iter().chain(&to[sink_at + length..]).all(|byte| *byte == GUARD), "{case}");
        }
    }
}

#[test]
fn the_shorter_slice_decides() {
    for copy_loop in available_loops() {
        let copier = Copier::new(copy_loop).expect("available");
        let mut to = [0; 300];
        copier.copy(&[1; 200], &mut to);
        assert_eq!(to.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 200, "{copy_loop}");
        copier.copy(&[2; 400], &mut to[..100]);
        assert_eq!(to.iter().filter(|byte| **byte == 2).count(), 100, "{copy_loop}");
    }
}

#[test]
fn a_loop_of_another_architecture_is_not_available() {
    assert!(available(CopyLoop::Memcpy));
    assert!(!(available(CopyLoop::Stnp) && available(CopyLoop::RepMovsb)));
}

/// The optimiser may not replace a loop by another: its instructions stand in this very program.
#[test]
fn the_loops_consist_of_the_instructions_they_are_named_for() {
    let expected: &[(&str, &[&str])] = if cfg!(target_arch = "x86_64") {
        &[
            ("copy::x86::avx512", &["vmovntdq", "zmm", "sfence"]),
            ("copy::x86::avx2", &["vmovntdq", "ymm", "sfence"]),
            ("copy::x86::rep_movsb", &["rep movs", "sfence"]),
            ("stream::x86::avx512::triad", &["vmulpd", "vaddpd", "vmovntpd", "zmm", "sfence"]),
            ("stream::x86::avx2::copy", &["vmovupd", "vmovntpd", "ymm", "sfence"]),
            ("stream::x86::ordinary_avx2::add", &["vaddpd", "vmovupd", "ymm"]),
            ("stream::x86::ordinary_sse2::scale", &["mulpd", "movupd", "xmm"]),
            ("chase::read", &["movups", "xmm0"]),
        ]
    } else {
        &[
            ("copy::aarch64::stnp", &["stnp", "dmb"]),
            ("stream::aarch64::stnp::triad", &["fmul", "fadd", "stnp", "dmb"]),
            ("stream::aarch64::ordinary::copy", &["ldp", "stp"]),
            ("chase::read", &["ldp"]),
        ]
    };
    let Some(listing) = ["objdump", "llvm-objdump"].iter().find_map(|tool| listing(tool)) else {
        return tell("skipped: neither objdump nor llvm-objdump reads this program");
    };
    for (name, instructions) in expected {
        let body = function(&listing, name);
        for instruction in *instructions {
            assert!(body.contains(instruction), "{name} has no {instruction}:\n{body}");
        }
    }
}

/// This very program, disassembled; none if the tool is not there or cannot read it.
fn listing(tool: &str) -> Option<String> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(tool).args(["-d", "-C", "--no-show-raw-insn"]).arg(program).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The code of one function in a listing of objdump.
fn function(listing: &str, name: &str) -> String {
    let begins = |line: &&str| line.ends_with(">:") && line.contains(name) && line.contains("numaio_linux");
    let lines = listing.lines().skip_while(|line| !begins(line));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Tells the person who runs the tests why one did not run.
fn tell(why: &str) {
    // Past the capture of the test harness, so that it is seen and counted.
    let _ = writeln!(std::io::stderr(), "{why}");
}
