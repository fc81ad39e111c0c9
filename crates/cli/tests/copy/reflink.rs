//! `numaio copy --reflink` on real file systems.

use crate::support::{skipped, CommandOutput, Home};

/// Runs a script as root with an image of this size mounted at `to`; None if that is impossible.
fn on_image(home: &Home, make: &str, size: &str, script: &str) -> Option<CommandOutput> {
    let all = format!(
        "truncate -s {size} image && {make} image >/dev/null && mkdir to && mount -o loop image to || exit 99
        trap 'umount to' EXIT
        {script}"
    );
    home.run_unshared("-m", &[&all])
}

/// There is no space for copies: the clones share their data.
#[test]
fn clones_share_their_data() {
    for (make, size) in [("mkfs.btrfs -q", "400M"), ("mkfs.xfs -q", "400M")] {
        let home = Home::new();
        let script = "
            mkdir -p to/src/below && head -c 150M /dev/urandom >to/src/below/large && echo x >to/src/small
            ln to/src/small to/src/link; chmod 750 to/src/small; touch -d 2020-01-01T00:00:00Z to/src/below/large
            $NUMAIO copy --no-job -a --reflink=always to/src/ to/one; echo code $?
            $NUMAIO copy --no-job -a --reflink=auto to/src to/two; echo code $?
            $NUMAIO copy --no-job --reflink to/src/below/large to/renamed; echo code $?
            diff -r to/src to/one && diff -r to/src to/two/src && cmp to/src/below/large to/renamed && echo same
            TZ=UTC stat -c '%a %y %h' to/one/below/large to/one/small
            $NUMAIO copy --no-job -a --reflink=always to/src/ to/one
        ";
        let Some(output) = on_image(&home, make, size, script) else {
            skipped(format!("{make}: needs root and the program"));
            continue;
        };
        let lines: Vec<&str> =
            output.out.lines().filter(|line| !line.contains(" moved, 0 unchanged")).collect();
        let [first, second, third, same, large, small, again] = lines[..] else {
            panic!("{make}: {}\n{}", output.out, output.err)
        };
        assert_eq!(
            [first, second, third, same],
            ["code 0", "code 0", "code 0", "same"],
            "{make}: {}",
            output.err
        );
        assert!(
            large.contains("2020-01-01 00:00:00") && small.starts_with("750 ") && small.ends_with(" 2"),
            "{make}"
        );
        assert!(again.starts_with("0 moved"), "{make}: {again}");
    }
}

/// ext4 has no clones.
#[test]
fn files_are_copied_where_clones_are_refused() {
    let home = Home::new();
    let script = "
        mkdir -p to/src && head -c 5M /dev/urandom >to/src/large && echo x >to/src/small
        $NUMAIO copy --no-job -r --reflink=auto to/src/ to/one; echo code $?
        diff -r to/src to/one && echo same
        $NUMAIO copy --no-job -r --reflink=always to/src/ to/two; echo code $?
        ls -A to/two
    ";
    let Some(output) = on_image(&home, "mkfs.ext4 -q", "64M", script) else {
        return skipped("mkfs.ext4: needs root and the program");
    };
    let lines: Vec<&str> = output.out.lines().filter(|line| !line.contains(" moved,")).collect();
    assert_eq!(lines, ["code 0", "same", "code 3"], "{}\n{}", output.out, output.err);
    assert_eq!(output.err.matches("cannot clone").count(), 2, "{}", output.err);
}

#[test]
fn clones_need_one_machine() {
    let home = Home::new();
    home.file("file", "x");
    home.run(&["copy", "--reflink=always", "file", "host:file"]).failed(2, &["works within one machine"]);
}
