//! `numaio copy --compress`: files arrive unchanged, and fewer bytes are sent.

use crate::support::{CommandOutput, Home, Limited};
use serde_json::Value;
use std::fs;

/// Compressible text, as programs write it.
fn text(bytes: usize) -> Vec<u8> {
    let lines =
        (0u64..).flat_map(|line| format!("{line}: {} of {}\n", line * 7919 % 10_007, line % 13).into_bytes());
    lines.take(bytes).collect()
}

/// Incompressible bytes (SplitMix64).
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    });
    words.flatten().take(bytes).collect()
}

/// A home with files, and a program in place of ssh that runs the peer on this machine through the
/// shell command `through`.
fn home(files: &[(&str, Vec<u8>)], through: &str) -> Home {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src/small")).expect("a folder");
    files.iter().for_each(|(name, bytes)| fs::write(home.0.join("src").join(name), bytes).expect("a file"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -G ]; then echo hostname 127.0.0.1; exit; fi\n\
         while [ \"$1\" != -- ]; do shift; done\nshift 2\n{through}\n"
    );
    home.script("ssh", &script);
    home
}

const PLAIN: &str = "exec sh -c \"$*\"";

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    let args = [&["copy", "-a", "--json", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    let command = &mut home.numaio(&args);
    CommandOutput::of(command.env("NUMAIO_SSH", home.0.join("ssh")).limited_output().expect("numaio"))
}

/// Bytes of files and bytes sent, from the last event of a successful copy.
fn byte_counts(output: CommandOutput) -> (u64, u64) {
    let out = output.ok();
    let end: Value = serde_json::from_str(out.lines().last().expect("an end")).expect("an event");
    let number = |field: &str| end[field].as_u64().expect(field);
    assert_eq!((&end["event"], number("failed")), (&"end".into(), 0), "{out}");
    (number("bytes"), number("sent"))
}

fn same(home: &Home, to: &str) {
    let output = home.command("diff", &["-r", "src", to]).limited_output().expect("diff");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Text, noise, a file with both, and many small files.
fn mixed() -> Vec<(&'static str, Vec<u8>)> {
    let halves = [noise(3 << 20), text(3 << 20)].concat();
    let small: [&'static str; 6] = ["small/a", "small/b", "small/c", "small/d", "small/e", "small/f"];
    let small = small.into_iter().enumerate().map(|(index, name)| (name, text(index * 40_000)));
    let large = [("text", text(5_000_000)), ("noise", noise(3_000_000)), ("halves", halves)];
    small.chain(large).collect()
}

#[test]
fn trees_arrive_unchanged_with_every_compression() {
    let home = home(&mixed(), PLAIN);
    let hole = fs::File::create(home.0.join("src/hole")).expect("a file");
    hole.set_len(9 << 20).expect("a size");
    let mut number = 0;
    for path_option in
        [&["--tunnel"][..], &["--streams", "2"], &["--data-security", "none", "--hash", "blake3"]]
    {
        for compress in ["zstd", "auto", "none"] {
            number += 1;
            let (there, back) = (format!("there{number}"), format!("back{number}"));
            let options = [path_option, &["--compress", compress]].concat();
            let host = format!("host:{there}");
            let (to_bytes, to_sent) = byte_counts(copy(&home, &[&options[..], &["src/", &host]].concat()));
            same(&home, &there);
            let (bytes, sent) = byte_counts(copy(&home, &[&options[..], &["host:src/", &back]].concat()));
            same(&home, &back);
            assert_eq!(to_bytes, bytes);
            let bounds = match compress {
                // Noise, and what follows it in the same file, is sent uncompressed.
                "zstd" => 6_000_000..=12_000_000,
                "auto" => 6_000_000..=bytes,
                _ => bytes..=bytes,
            };
            assert!(
                bounds.contains(&to_sent) && bounds.contains(&sent),
                "{options:?}: {to_sent} {sent} of {bytes}"
            );
            assert_eq!(byte_counts(copy(&home, &[&options[..], &["src/", &host]].concat())), (0, 0));
        }
    }
}

#[test]
fn auto_compresses_for_a_slow_link() {
    let (lines, random) = (text(6 << 20), noise(1 << 20));
    let home = home(&[("lines", lines), ("random", random)], PLAIN);
    let sent = |name: &str, compress: &str| {
        let (from, to) = (format!("src/{name}"), format!("host:{name}-{compress}"));
        byte_counts(copy(&home, &["--bwlimit", "3M", "--compress", compress, &from, &to]))
    };
    let (bytes, compressed) = sent("lines", "auto");
    assert!(bytes == 6 << 20 && compressed < 2 << 20, "{compressed} of {bytes}");
    assert_eq!(sent("random", "auto"), (1 << 20, 1 << 20), "incompressible data is sent as it is");
    assert_eq!(sent("random", "none"), (1 << 20, 1 << 20));
}

#[test]
fn local_copies_are_not_compressed() {
    let home = home(&[("text", text(3 << 20))], PLAIN);
    assert_eq!(byte_counts(copy(&home, &["--compress", "zstd", "src/", "there"])), (3 << 20, 3 << 20));
    let words =
        ["copy", "-a", "--tunnel", "--compress", "zstd", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")];
    let mut command = home.numaio(&[&words[..], &["src/", "host:other"]].concat());
    let output =
        CommandOutput::of(command.env("NUMAIO_SSH", home.0.join("ssh")).limited_output().expect("numaio"))
            .ok();
    assert!(output.contains(" sent after compression\n"), "{output}");
    let job = home.run(&["jobs", "--json"]).ok();
    let jobs: Value = serde_json::from_str(&job).expect("jobs");
    let sent: Vec<u64> =
        jobs.as_array().expect("jobs").iter().filter_map(|job| job["totals"]["sent"].as_u64()).collect();
    assert!(
        sent.len() == 2 && sent.contains(&(3 << 20)) && sent.iter().any(|sent| *sent < 1 << 20),
        "{sent:?}"
    );
}
