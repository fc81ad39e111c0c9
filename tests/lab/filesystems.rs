//! `numaio copy` to and from file systems that this machine's kernel may lack.
//!
//! The emulated machine creates and mounts FAT, exFAT, f2fs, xfs, btrfs, ext4 and overlay.

use numaio_lab::{skip, Folder, Lab};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Kernel modules of the file systems.
const MODULES: [&str; 13] = [
    "loop",
    "crc32c_generic",
    "crc32_generic",
    "ext4",
    "vfat",
    "nls_utf8",
    "nls_ascii",
    "nls_cp437",
    "exfat",
    "xfs",
    "btrfs",
    "f2fs",
    "overlay",
];

/// Packs programs of this machine with their libraries, and prints the names of those it found.
const PACK_TOOLS: &str = r#"
PATH=$PATH:/usr/sbin:/sbin archive=$1; shift
for tool in "$@"; do
    path=$(command -v "$tool") && echo "$tool" && { echo "$path"; ldd "$path" | grep -o '/[^ ]*'; } >>"$archive.list"
done
sort -u "$archive.list" | sed 's,^/,,' | tar -C / -chf "$archive" -T -
"#;

/// Shell functions that the scripts use. They write results to /out.
const PRELUDE: &str = r#"
tar -C / -xf /bin/tools.tar || exit 90
PATH=/bin:/usr/sbin:/sbin:/usr/bin
# make_fs NAME SIZE TYPE MKFS OPTION...: creates a file system at /NAME
make_fs() {
    name=$1 size=$2 type=$3; shift 3
    truncate -s $size /tmp/$name.image && "$@" /tmp/$name.image >/out/$name.made 2>&1 || exit 91
    losetup $(losetup -f) /tmp/$name.image && mkdir /$name || exit 92
    mount_fs $name $type || exit 93
}
loop_of() { losetup -a | grep "/tmp/$1.image" | cut -d: -f1; }
mount_fs() { mount -t $2 $(loop_of $1) /$1; }
remove_fs() { umount /$1 && losetup -d $(loop_of $1) && rm /tmp/$1.image || exit 94; }
# copy LABEL OPTION... SRC DST: copies, and records events and exit status
copy() {
    label=$1; shift
    numaio copy --no-job --json "$@" >/out/$label.events 2>/out/$label.err
    echo $? >/out/$label.code
}
# tree LABEL FOLDER: lists the names, sorted
tree() { (cd $2 && find . | sort) >/out/$1.tree; }
# identical LABEL FROM TO: lists the files with equal contents in both
identical() { (cd $2 && find . -type f | sort | while read -r it; do cmp -s "$it" "$3/$it" && echo "$it"; done) >/out/$1.identical; }
count_partials() { find $1 -name '.numaio*' | wc -l; }
small_xfs() { TEST_DIR=/ TEST_DEV=/ QA_CHECK_FS=1 "$@"; } # otherwise mkfs.xfs rejects sizes below 300 MB
"#;

/// Events and exit status of a copy.
struct CopyRun {
    label: String,
    code: String,
    events: Vec<Value>,
}

impl CopyRun {
    fn load(folder: &Path, label: &str) -> Self {
        let read = |end: &str| text(folder, &format!("{label}.{end}"));
        let events = read("events");
        let events = events.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        Self { label: label.to_owned(), code: read("code").trim().to_owned(), events }
    }

    fn end(&self) -> &Value {
        let end = self.events.last().unwrap_or_else(|| panic!("{}: no event", self.label));
        assert_eq!(end["event"], "end", "{}: {end}", self.label);
        end
    }

    /// Asserts the exit status, and the counts of moved, removed and failed entries.
    #[track_caller]
    fn assert_end(&self, code: u8, moved: u64, removed: u64, failed: u64) -> &Self {
        let end = self.end();
        let numbers = ["moved", "removed", "failed"].map(|name| end[name].as_u64());
        let actual = (self.code.as_str(), numbers);
        let expected = (&*code.to_string(), [Some(moved), Some(removed), Some(failed)]);
        assert_eq!(actual, expected, "{}: {:#?}", self.label, self.events);
        self
    }

    fn names(&self, matches: impl Fn(&Value) -> bool) -> BTreeSet<String> {
        let name = |event: &Value| event["name"].as_str().expect("a name").to_owned();
        self.events.iter().filter(|event| matches(event)).map(name).collect()
    }

    /// Returns the names whose problem contains a text.
    fn problems(&self, text: &str) -> BTreeSet<String> {
        self.names(|event| {
            event["event"] == "problem" && event["text"].as_str().is_some_and(|found| found.contains(text))
        })
    }

    /// Returns the names on which an action was done.
    fn done(&self, action: &str) -> BTreeSet<String> {
        self.names(|event| event["event"] == "did" && event["action"] == action)
    }
}

fn text(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names in a file, without a leading `./`.
fn lines(folder: &Path, name: &str) -> BTreeSet<String> {
    let text = text(folder, name);
    text.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Runs a script on an emulated machine with tools of this one, and reports missing tools.
///
/// Returns the folder of results and the names of the tools that were found.
fn run(test: &str, lab: &Lab, tools: &[(&str, &str)], script: &str) -> (Folder, BTreeSet<String>) {
    let folder = Folder::new(test);
    let archive = folder.0.join("tools.tar").display().to_string();
    let names: Vec<&str> = tools.iter().map(|tool| tool.0).collect();
    let packed =
        Command::new("sh").args(["-c", PACK_TOOLS, "sh", &archive]).args(&names).output().expect("sh");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let found: BTreeSet<String> =
        String::from_utf8_lossy(&packed.stdout).lines().map(str::to_owned).collect();
    for (tool, what) in tools.iter().filter(|tool| !found.contains(tool.0)) {
        skip(test, &format!("{what}: {tool} is not installed"));
    }
    let mut options = vec!["--full-speed", "--add", &archive];
    options.extend(MODULES.iter().flat_map(|module| ["--module", module]));
    let installed: Vec<&str> = found.iter().map(String::as_str).collect();
    let script = format!(
        "has() {{ case ' {} ' in *\" $1 \"*) ;; *) false ;; esac; }}\n{PRELUDE}{script}",
        installed.join(" ")
    );
    let output = lab.run_with_options(&options, "uniform-2n", &folder.0, &["sh", "-c", &script]);
    let printed = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{}: {printed}", output.status);
    (folder, found)
}

/// Copies to case-insensitive directories: `/NAME/at` on each file system.
const FOLDING: &str = r#"
e=$(printf 'e\314\201') E=$(printf '\303\211')
mkdir -p /src/Dir /src/sub/deep; cd /src
echo file >Dir/File; echo readme >README; echo accent >"${e}t"; echo dot >dot.; : >empty; echo long >$(printf 'L%0200d' 1)
echo odd >odd; touch -d '2021-03-04 05:06:07' odd sub/deep sub
mkdir -p /fold/Dir /fold/dir; cd /fold
echo 1 >Dir/x; echo 22 >dir/y; echo 333 >FILE; echo 4444 >file; echo 55555 >"${e}"; echo 666666 >"$E"; echo alone >alone
mkdir -p /kinds/X; cd /kinds; echo in >X/in; echo a file >Y
cd /
folding() {
    at=/$1/at
    copy $1.first -r /src/ $at; copy $1.second -r /src/ $at; copy $1.update -ru --delete /src/ $at
    umount /$1 && mount_fs $1 $2 || exit 95
    copy $1.mounted -r /src/ $at
    cd $at && mv README r && mv r readMe && mv Dir d && mv d dIR && mv dIR/File f && mv f dIR/fILE || exit 96
    mv "${e}t" t && mv t "$3" && mkdir more && echo x >more/x && echo extra >extra || exit 97
    cd /
    copy $1.delete -r --delete /src/ $at; copy $1.deleted -r --delete /src/ $at
    tree $1.delete $at; identical $1.delete /src $at
    copy $1.fold -r /fold/ $at/fold; copy $1.folded -r --delete /fold/ $at/fold; identical $1.fold /fold $at/fold
    mkdir -p $at/kinds/y/deep && echo old >$at/kinds/x || exit 98
    copy $1.kinds -r /kinds/ $at/kinds; copy $1.cleared -r --delete /kinds/ $at/kinds; identical $1.kinds /kinds $at/kinds
    count_partials /$1 >/out/$1.partials
}
"#;

/// Copies that exceed what FAT can store.
const FAT_LIMITS: &str = r#"
mkdir -p /refused/d:; cd /refused; echo in >d:/in; for it in 'a:b' 'a?b' 'a"b' 'a|b' '...' good; do echo "$it" >"$it"; done
mkdir /times; cd /times
for year in 1975 1980 2107 2108 2200; do echo $year >$year; touch -d "$year-12-31 23:59:59" $year; done
mkdir -p /links/d; cd /links; echo linked >file; ln file hardlink; ln -s file link; mkfifo pipe; echo mode >mode; chmod 640 mode
mkdir /owned; cd /owned; echo owned >file; chown 12:34 file; echo mine >mine; echo secret >secret; chmod 755 mine . /links/d; chmod 600 secret
mkdir /tmp/large; truncate -s 4294967296 /tmp/large/large; echo small >/tmp/large/small
cd /
foreign() {
    for it in refused times links; do
        copy $1.$it -r /$it/ /$1/$it; copy $1.$it-again -r /$it/ /$1/$it; identical $1.$it /$it /$1/$it
    done
    copy $1.owned -a /owned/ /$1/owned; copy $1.owned-again -a /owned/ /$1/owned; identical $1.owned /owned /$1/owned
    copy $1.large -r /tmp/large/ /$1/large; tree $1.large /$1/large
    count_partials /$1 >/out/$1.foreign.partials
}
"#;

/// Copies of names that are short names of other files on FAT.
const SHORT_NAMES: &str = r#"
short() {
    mkdir -p /short/one /short/two/longdirectory /$1/short/one
    echo NEW >'/short/one/LONGFI~1.TXT'; echo old >/$1/short/one/longfilename.txt
    touch -d 2020-02-02 '/short/one/LONGFI~1.TXT' /$1/short/one/longfilename.txt
    cd /short/two; echo AAAA >longfilename.txt; echo BB >'LONGFI~1.TXT'; echo in >longdirectory/x; echo DDD >'LONGDI~1'; echo own >'MIN~1.TXT'
    mkdir -p '/short/dir/LONGDI~1' /$1/short/dir/longdirectory; echo NEW >'/short/dir/LONGDI~1/x'; echo old >/$1/short/dir/longdirectory/x
    cd /; copy $1.by-dir -r /short/dir/ /$1/short/dir; cat /$1/short/dir/longdirectory/x >/out/$1.short.below
    copy $1.short -r --delete /short/one/ /$1/short/one; cat /$1/short/one/longfilename.txt >/out/$1.short.long
    for it in both in-place; do
        it_is=; [ $it = both ] || it_is=--inplace
        copy $1.$it -r --delete $it_is /short/two/ /$1/short/$it; identical $1.$it /short/two /$1/short/$it
        copy $1.$it-again -r --delete $it_is /short/two/ /$1/short/$it; identical $1.$it-again /short/two /$1/short/$it
    done
}
"#;

/// Copies to a case-sensitive destination with case-insensitive directories.
const NESTED_FOLDING: &str = r#"
below() {
    for it in ci usb; do mkdir -p /below/$it; echo File >/below/$it/File; echo same >/below/$it/same; done
    mkdir -p /ext4/below/ci /ext4/below/usb && chattr +F /ext4/below/ci || exit 80
    has mkfs.exfat && { mkdir /exfat/below && mount --bind /exfat/below /ext4/below/usb || exit 81; }
    copy below.first -r --delete /below/ /ext4/below
    for it in ci usb; do
        cd /ext4/below/$it && mv File f && mv f fILE && echo extra >extra && mkdir more && echo x >more/x || exit 82
    done
    cd /; copy below.delete -r --delete /below/ /ext4/below
    for it in ci usb; do identical below.$it /below/$it /ext4/below/$it; tree below.$it /ext4/below/$it; done
    has mkfs.exfat && umount /ext4/below/usb
}
"#;

/// Copies to a file system with 12 MB left, where the large file does not fit, then frees space.
/// `frozen` makes the file system read-only during a copy.
const FULL: &str = r#"
mkdir -p /tmp/full/a; cd /tmp/full; for it in $(seq 20); do dd if=/dev/urandom of=a/$it bs=20000 count=1 2>/dev/null; done
dd if=/dev/urandom of=large bs=1M count=14 2>/dev/null; cd /
full() {
    dd if=/dev/urandom of=/$1/fill bs=64k 2>/dev/null; sync
    truncate -s $(($(stat -c %s /$1/fill) - 12000000)) /$1/fill; sync
    copy $1.full -r /tmp/full/ /$1/full; count_partials /$1 >/out/$1.full.partials; identical $1.full /tmp/full /$1/full; tree $1.full /$1/full
    rm /$1/fill; sync
    copy $1.room -r /tmp/full/ /$1/full; count_partials /$1 >>/out/$1.full.partials; identical $1.room /tmp/full /$1/full
    rm -r /$1/full
}
# Remounts all file systems read-only, as after an error, once a part of the large file is written.
frozen() {
    numaio copy --no-job --json --bwlimit 2M -r /tmp/full/ /$1/frozen >/out/$1.frozen.events 2>/out/$1.frozen.err & copy=$!
    until [ $(du -sk /$1/frozen 2>/dev/null | cut -f1 | grep . || echo 0) -ge 3000 ]; do kill -0 $copy && sleep 0.1 || exit 83; done
    echo u >/proc/sysrq-trigger
    wait $copy; echo $? >/out/$1.frozen.code
    for it in $(cut -d' ' -f2 /proc/mounts); do [ $it = / ] || [ ! -e /tmp${it}.image ] || mount -o remount,rw $it || exit 84; done
    identical $1.frozen /tmp/full /$1/frozen; (cd /$1/frozen && find . -type f ! -name '.numaio*') >/out/$1.frozen.tree
    copy $1.thawed -r /tmp/full/ /$1/frozen; identical $1.thawed /tmp/full /$1/frozen; count_partials /$1 >/out/$1.frozen.partials
    rm -r /$1/frozen
}
"#;

/// Runs the copies on the file systems of other systems.
const FOREIGN_FILE_SYSTEMS: &str = r#"
# FAT folds case, but keeps composed and decomposed accents distinct.
large=$(printf 'E\314\201T')
if has mkfs.vfat; then make_fs fat 40M vfat mkfs.vfat; folding fat vfat $large; foreign fat; short fat; full fat; frozen fat; fi
if has mkfs.exfat; then make_fs exfat 40M exfat mkfs.exfat; folding exfat exfat $large; fi
make_fs ext4 40M ext4 mkfs.ext4 -q -O casefold; mkdir /ext4/at && chattr +F /ext4/at || exit 70; folding ext4 ext4 "${E}T"; below
if has mkfs.f2fs; then
    make_fs f2fs 64M f2fs mkfs.f2fs -O casefold,extra_attr -C utf8; mkdir /f2fs/at && chattr +F /f2fs/at || exit 71; folding f2fs f2fs "${E}T"
fi
if has mkfs.xfs; then make_fs xci 64M xfs small_xfs mkfs.xfs -n version=ci; folding xci xfs $large; fi
:
"#;

#[test]
fn copy_reports_names_times_and_kinds_that_the_destination_lacks() {
    const TEST: &str = "copy_reports_names_times_and_kinds_that_the_destination_lacks";
    let Some(lab) = Lab::open(TEST) else { return };
    let tools = [
        ("mkfs.vfat", "FAT"),
        ("mkfs.exfat", "exFAT"),
        ("mkfs.f2fs", "f2fs"),
        ("mkfs.xfs", "xfs"),
        ("mkfs.ext4", "ext4"),
        ("chattr", "ext4"),
    ];
    let script = [FOLDING, FAT_LIMITS, SHORT_NAMES, NESTED_FOLDING, FULL, FOREIGN_FILE_SYSTEMS].concat();
    let (folder, found) = run(TEST, &lab, &tools, &script);
    let folder = &folder.0;
    for (name, tool, strips_dots) in [
        ("fat", "mkfs.vfat", true),
        ("exfat", "mkfs.exfat", true),
        ("ext4", "mkfs.ext4", false),
        ("f2fs", "mkfs.f2fs", false),
        ("xci", "mkfs.xfs", false),
    ] {
        if found.contains(tool) {
            check_case_folding(folder, name, strips_dots);
        }
    }
    if found.contains("mkfs.vfat") {
        check_full(folder, "fat");
        check_limits(folder, "fat");
        check_short_names(folder, "fat");
        check_read_only(folder, "fat");
    }
    check_nested_folding(folder, found.contains("mkfs.exfat"));
}

/// Checks a second run and `--delete` on a case-insensitive file system.
#[track_caller]
fn check_case_folding(folder: &Path, name: &str, strips_dots: bool) {
    let run = |label: &str| CopyRun::load(folder, &format!("{name}.{label}"));
    run("first").assert_end(0, 11, 0, 0);
    for label in ["second", "update", "mounted", "deleted"] {
        run(label).assert_end(0, 0, 0, 0);
    }
    let deleted = run("delete");
    assert_eq!(
        (deleted.code.as_str(), deleted.done("removed")),
        ("0", set(&["extra", "more", "more/x"])),
        "{name}"
    );
    assert_eq!(deleted.done("copied"), set(&[]), "{name}: it exists in another case");
    let identical = lines(folder, &format!("{name}.delete.identical"));
    assert_eq!(identical.len(), 7, "{name}: {identical:?}");
    let tree = lines(folder, &format!("{name}.delete.tree"));
    assert!(
        ["readMe", "dIR/fILE", if strips_dots { "dot" } else { "dot." }].iter().all(|it| tree.contains(*it)),
        "{name}: {tree:?}"
    );
    assert_eq!(tree.len(), 11, "{name}: {tree:?}");

    let fold = run("fold");
    let problems = fold.assert_end(3, 7, 0, 3).problems("case-insensitive duplicate");
    let identical = lines(folder, &format!("{name}.fold.identical"));
    // One name of each pair is reported and the other copied; both directories merge into one.
    for pair in [["FILE", "file"], ["e\u{301}", "\u{c9}"]] {
        assert_eq!(pair.iter().filter(|it| problems.contains(**it)).count(), 1, "{name}: {problems:?}");
        assert!(
            pair.iter().all(|it| problems.contains(*it) != identical.contains(*it)),
            "{name}: {problems:?} {identical:?}"
        );
    }
    assert!(["Dir", "dir"].iter().filter(|it| problems.contains(**it)).count() == 1, "{name}: {problems:?}");
    assert!(["Dir/x", "dir/y", "alone"].iter().all(|it| identical.contains(*it)), "{name}: {identical:?}");
    run("folded").assert_end(3, 0, 0, 3);

    let kinds = run("kinds");
    assert_eq!(
        (kinds.code.as_str(), kinds.problems("a directory with this name exists")),
        ("3", set(&["Y"])),
        "{name}"
    );
    assert_eq!((run("cleared").code.as_str(), run("cleared").done("removed")), ("0", set(&["Y"])), "{name}");
    assert_eq!(lines(folder, &format!("{name}.kinds.identical")), set(&["X/in", "Y"]), "{name}");
    assert_eq!(text(folder, &format!("{name}.partials")), "0\n", "{name}");
}

/// Checks that everything FAT cannot store is reported, and the rest copied.
#[track_caller]
fn check_limits(folder: &Path, name: &str) {
    let run = |label: &str| CopyRun::load(folder, &format!("{name}.{label}"));
    let identical = |label: &str| lines(folder, &format!("{name}.{label}.identical"));
    let refused = ["a:b", "a?b", "a\"b", "a|b", "...", "d:", "d:/in"];
    assert_eq!(run("refused").assert_end(3, 2, 0, 7).problems(""), set(&refused), "{name}");
    run("refused-again").assert_end(3, 0, 0, 7);
    assert_eq!(identical("refused"), set(&["good"]), "{name}");

    run("times").assert_end(0, 6, 0, 0);
    // Times outside of the range of FAT never match, so the files are copied again.
    assert_eq!(
        run("times-again").assert_end(0, 3, 0, 0).done("copied"),
        set(&["1975", "2108", "2200"]),
        "{name}"
    );
    assert_eq!(identical("times").len(), 5, "{name}");

    assert_eq!(
        run("links").assert_end(3, 5, 0, 2).problems("cannot create: "),
        set(&["link", "pipe"]),
        "{name}"
    );
    run("links-again").assert_end(3, 0, 0, 2);
    assert_eq!(identical("links"), set(&["file", "hardlink", "mode"]), "{name}");

    for (label, moved) in [("owned", 4), ("owned-again", 0)] {
        let run = run(label);
        run.assert_end(0, moved, 0, 0);
        for kind in ["owners", "modes"] {
            let problems = run.problems(&format!("the file system keeps no {kind} (and "));
            assert_eq!(problems.len(), 1, "{name}: {kind} are reported once: {problems:?}");
        }
    }
    assert_eq!(identical("owned"), set(&["file", "mine", "secret"]), "{name}");

    let large = run("large");
    assert_eq!(
        (large.code.as_str(), large.problems("file too large")),
        ("3", set(&["large"])),
        "{name}: {:?}",
        large.events
    );
    assert_eq!(lines(folder, &format!("{name}.large.tree")), set(&[".", "small"]), "{name}");
    assert_eq!(text(folder, &format!("{name}.foreign.partials")), "0\n", "{name}");
}

/// Checks that no file is written or removed under the short name of another one.
#[track_caller]
fn check_short_names(folder: &Path, name: &str) {
    let problems = |label: &str| {
        CopyRun::load(folder, &format!("{name}.{label}")).problems("the short name of another file")
    };
    assert_eq!(problems("short"), set(&["LONGFI~1.TXT"]));
    assert_eq!(text(folder, &format!("{name}.short.long")), "", "the source does not have the long name");
    assert_eq!(problems("by-dir"), set(&["LONGDI~1"]));
    assert_eq!(
        text(folder, &format!("{name}.short.below")),
        "old\n",
        "contents of a directory with a long name"
    );
    let all = ["longfilename.txt", "longdirectory/x", "MIN~1.TXT", "LONGFI~1.TXT", "LONGDI~1"];
    for label in ["both", "both-again", "in-place", "in-place-again"] {
        let (identical, problems) = (lines(folder, &format!("{name}.{label}.identical")), problems(label));
        assert!(all[..3].iter().all(|it| identical.contains(*it)), "{label}: {identical:?}");
        assert!(
            all.iter().all(|it| identical.contains(*it) != problems.contains(*it)),
            "{label}: {identical:?} {problems:?}"
        );
    }
}

/// Checks that files without space are reported, leave no name, and are copied once space is free.
#[track_caller]
fn check_full(folder: &Path, name: &str) {
    let run = |label: &str| CopyRun::load(folder, &format!("{name}.{label}"));
    let (full, room) = (run("full"), run("room"));
    let problems = full.problems("no space left on device");
    assert!(full.code == "3" && problems.contains("large"), "{name}: {:?}", full.events);
    let identical = |label: &str| lines(folder, &format!("{name}.{label}.identical"));
    let files: BTreeSet<String> = lines(folder, &format!("{name}.full.tree"))
        .into_iter()
        .filter(|it| !["", ".", "a"].contains(&it.as_str()))
        .collect();
    assert_eq!(identical("full"), files, "{name}: files under their names are complete");
    assert_eq!(files.len() + problems.len(), 21, "{name}: {problems:?} {files:?}");
    assert!(files.len() > 5, "{name}: small files fit: {files:?}");
    room.assert_end(0, problems.len() as u64, 0, 0);
    assert_eq!(
        (identical("room").len(), text(folder, &format!("{name}.full.partials"))),
        (21, "0\n0\n".to_owned()),
        "{name}"
    );
}

/// Checks that a read-only remount is reported, and that a later run completes all files.
#[track_caller]
fn check_read_only(folder: &Path, name: &str) {
    let run = |label: &str| CopyRun::load(folder, &format!("{name}.{label}"));
    let frozen = run("frozen");
    assert!(
        frozen.code == "3" && frozen.problems("read-only file system").contains("large"),
        "{name}: {:?}",
        frozen.events
    );
    let identical = |label: &str| lines(folder, &format!("{name}.{label}.identical"));
    assert_eq!(identical("frozen"), lines(folder, &format!("{name}.frozen.tree")), "{name}");
    assert!(
        run("thawed").code == "0" && identical("thawed").len() == 21,
        "{name}: {:?}",
        run("thawed").events
    );
    assert_eq!(text(folder, &format!("{name}.frozen.partials")), "0\n", "{name}");
}

/// Checks that nothing is deleted in a case-insensitive directory of a case-sensitive destination.
#[track_caller]
fn check_nested_folding(folder: &Path, has_exfat: bool) {
    let first = CopyRun::load(folder, "below.first");
    assert_eq!(first.code, "0", "{:?}", first.events);
    let problems = CopyRun::load(folder, "below.delete").problems("not deleted: this directory ignores case");
    for (name, _) in [("ci", true), ("usb", has_exfat)].iter().filter(|it| it.1) {
        let kept = ["fILE", "extra", "more"].map(|it| format!("{name}/{it}"));
        assert!(kept.iter().all(|it| problems.contains(it)), "{name}: {problems:?}");
        assert_eq!(lines(folder, &format!("below.{name}.identical")), set(&["File", "same"]), "{name}");
        assert!(lines(folder, &format!("below.{name}.tree")).contains("more/x"), "{name}");
    }
}

/// Copies a tree with everything that `-a` preserves. `describe FOLDER` prints it, sorted by name.
const ROUND_TRIP: &str = r#"
mkdir -p /ext4/src/d; cd /ext4/src
echo 1 >one; ln one hardlink; setfattr -n user.a -v hello one; setfattr -n trusted.t -v root one; setfattr -n user.large -v $(printf '%02000d' 7) one
echo 2 >two; setfattr -n user.b -v b two; chown 8:9 two; setfacl -m u:1000:r,g:50:rw,m::r two
echo 3 >three; chown 5:6 three; chmod 6755 three; setfattr -n security.capability -v 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA= three
setfacl -d -m u:7:rwx d; chown 3:4 d; chmod 2775 d; mkfifo pipe; mknod device b 7 9; ln -s none link; touch -h -d '2001-02-03 04:05:06' link; chown -h 4:4 link
# Large enough for direct I/O.
mkdir /ext4/large; cd /ext4/large
for at in 0 100 299; do dd if=/dev/urandom of=sparse bs=1M count=1 seek=$at conv=notrunc 2>/dev/null; done; echo odd >>sparse
cd /; sync
describe() {
    cd $1; getfattr -h -d -m '^user|^trusted\.t|^security|posix' $(find . | sort); getfacl -n $(find . ! -type l | sort)
    stat -c '%n %f %u %g %t:%T %Y %N' $(find . | sort); stat -c '%n %h %s' $(find . ! -type d | sort); cd /
}
sum() { (cd $1; stat -c %s sparse; for at in 0 100 299; do dd if=sparse bs=1M count=2 skip=$at 2>/dev/null | md5sum; done); }
sum /ext4/large >/out/src.sum
describe /ext4/src >/out/src.described || exit 60
round_trip() {
    copy $1.first -a /ext4/src/ $2/at; describe $2/at >/out/$1.first.described
    copy $1.second -a --delete /ext4/src/ $2/at; copy $1.sums -a --checksum /ext4/src/ $2/at
    echo more >$2/at/two; echo extra >$2/at/extra; touch -d 2020-02-02 $2/at/three; setfattr -x user.a $2/at/one
    copy $1.repaired -a --delete --fsync file /ext4/src/ $2/at; describe $2/at >/out/$1.repaired.described
    copy $1.inplace -a --ignore-times --inplace --fsync end /ext4/src/ $2/at; describe $2/at >/out/$1.inplace.described
    echo 3 >/proc/sys/vm/drop_caches
    copy $1.large -r /ext4/large/ $2/large; du -sk $2/large | cut -f1 >/out/$1.size; sum $2/large >/out/$1.large.sum
    umount $2 && eval "$3" || exit 61
    copy $1.back -a $2/at/ /ext4/back; describe /ext4/back >/out/$1.back.described; copy $1.again -a --delete $2/at/ /ext4/back
    copy $1.from -r $2/large/ /ext4/from; sum /ext4/from >/out/$1.from.sum
    rm -r /ext4/back /ext4/from; count_partials $2 >/out/$1.partials
}
"#;

/// Runs the copies on the file systems of Linux.
const LINUX_FILE_SYSTEMS: &str = r#"
if has mkfs.xfs; then
    make_fs xfs 64M xfs small_xfs mkfs.xfs; round_trip xfs /xfs 'mount_fs xfs xfs'; rm -r /xfs/at /xfs/large; full xfs; remove_fs xfs
fi
if has mkfs.btrfs; then make_fs btrfs 128M btrfs mkfs.btrfs; round_trip btrfs /btrfs 'mount_fs btrfs btrfs'; remove_fs btrfs; fi
mkdir -p /ext4/lower/at/d /ext4/upper /ext4/work /overlay
echo lower >/ext4/lower/at/old; echo lower >/ext4/lower/at/d/old; echo lower >/ext4/lower/at/two; ln /ext4/lower/at/two /ext4/lower/at/one
layers='mount -t overlay -o lowerdir=/ext4/lower,upperdir=/ext4/upper,workdir=/ext4/work none /overlay'
eval "$layers" || exit 62
tree lower /overlay/at; copy cleared -a --delete /ext4/src/ /overlay/at; tree cleared /overlay/at; cat /ext4/lower/at/two >/out/lower.two
round_trip overlay /overlay "$layers"; umount /overlay
mkdir /plain && mount -t tmpfs none /plain || exit 63
copy plain -a /ext4/src/ /plain/at; getfacl -n /plain/at/two >/out/plain.acl
frozen ext4
mount -o remount,ro /ext4; copy closed -r /tmp/full/ /ext4/lower; copy closed.new -r /tmp/full/ /ext4/new
:
"#;

#[test]
fn linux_file_systems_preserve_all_attributes_in_both_directions() {
    const TEST: &str = "linux_file_systems_preserve_all_attributes_in_both_directions";
    let Some(lab) = Lab::open(TEST) else { return };
    let others = [("mkfs.xfs", "xfs"), ("mkfs.btrfs", "btrfs")];
    let needed =
        ["mkfs.ext4", "setfattr", "getfattr", "setfacl", "getfacl"].map(|tool| (tool, "all file systems"));
    let names = needed.map(|tool| tool.0).join(" ");
    let begin = format!(
        "for it in {names}; do has $it || exit 0; done\nmake_fs ext4 100M ext4 mkfs.ext4 -q -b 4096\n"
    );
    let script = [FULL, &begin, ROUND_TRIP, LINUX_FILE_SYSTEMS].concat();
    let (folder, found) = run(TEST, &lab, &[&others[..], &needed].concat(), &script);
    if needed.iter().any(|(tool, _)| !found.contains(*tool)) {
        return;
    }
    let folder = &folder.0;
    for (_, name) in others.iter().filter(|it| found.contains(it.0)) {
        check_round_trip(folder, name);
    }
    if found.contains("mkfs.xfs") {
        check_full(folder, "xfs");
    }
    check_round_trip(folder, "overlay");
    assert!(lines(folder, "lower.tree").contains("d/old") && text(folder, "lower.two") == "lower\n");
    let cleared = CopyRun::load(folder, "cleared");
    assert_eq!((cleared.code.as_str(), cleared.done("removed")), ("0", set(&["old", "d/old"])));
    assert_eq!(lines(folder, "cleared.tree").len(), 9);
    // tmpfs rejects the extended attributes, but stores the ACL.
    let plain = CopyRun::load(folder, "plain");
    let problems = plain.problems("not supported (and 1 other entry)");
    assert!(plain.code == "5" && problems.len() == 1, "{:?}", plain.events);
    let acl = text(folder, "plain.acl");
    assert!(["user:1000:r--", "group:50:rw-", "mask::r--"].iter().all(|it| acl.contains(it)), "{acl}");
    check_read_only(folder, "ext4");
    let closed = CopyRun::load(folder, "closed");
    let problems = closed.problems("read-only file system");
    assert!(problems.is_superset(&set(&["large", "a"])), "{:?}", closed.events);
    // The time of the directory itself is an attribute.
    closed.assert_end(3, 0, 0, 22);
    let error = text(folder, "closed.new.err").to_lowercase();
    assert!(
        text(folder, "closed.new.code") == "1\n"
            && error.contains("/ext4/new")
            && error.contains("read-only file system"),
        "{error}"
    );
}

/// Checks that `-a` preserves everything there and back, and that a second run copies nothing.
#[track_caller]
fn check_round_trip(folder: &Path, name: &str) {
    let run = |label: &str| CopyRun::load(folder, &format!("{name}.{label}"));
    let described = text(folder, "src.described");
    assert!(
        ["user.large", "security.capability", "user:1000:r--", "default:user:7:rwx"]
            .iter()
            .all(|it| described.contains(it)),
        "{described}"
    );
    let first = run("first");
    assert_eq!(first.code, "0", "{name}: {:?}", first.events);
    for label in ["second", "sums", "again"] {
        run(label).assert_end(0, 0, 0, 0);
    }
    let repaired = run("repaired");
    assert_eq!(
        (repaired.code.as_str(), repaired.done("removed")),
        ("0", set(&["extra"])),
        "{name}: {:?}",
        repaired.events
    );
    assert_eq!(repaired.done("copied"), set(&["two", "three"]), "{name}");
    // Of two hard links only the first one listed is copied.
    assert_eq!(run("inplace").done("copied").len(), 3, "{name}");
    assert_eq!(run("back").done("copied").len(), 3, "{name}");
    for label in ["first", "repaired", "inplace", "back"] {
        assert_eq!(text(folder, &format!("{name}.{label}.described")), described, "{name}: {label}");
    }
    for label in ["large", "from"] {
        run(label).assert_end(0, 2, 0, 0);
        assert_eq!(text(folder, &format!("{name}.{label}.sum")), text(folder, "src.sum"), "{name}: {label}");
    }
    let size: u64 = text(folder, &format!("{name}.size")).trim().parse().expect("a number");
    assert!((3_000..200_000).contains(&size), "{name}: a file of 301 MiB with 3 of data has {size} KiB");
    assert_eq!(text(folder, &format!("{name}.partials")), "0\n", "{name}");
}
