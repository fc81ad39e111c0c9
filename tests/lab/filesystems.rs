//! `numaio copy` to and from file systems that the kernel at hand may not have: those of other systems, and those of Linux with their
//! peculiarities. The emulated machine makes and mounts real ones.

use crate::support::{skip, Folder, Lab};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Modules that the file systems need.
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

/// Puts programs of this machine and the libraries that they need into an archive, and tells which programs it found.
const PACK: &str = r#"
PATH=$PATH:/usr/sbin:/sbin archive=$1; shift
for tool in "$@"; do
    path=$(command -v "$tool") && echo "$tool" && { echo "$path"; ldd "$path" | grep -o '/[^ ]*'; } >>"$archive.list"
done
sort -u "$archive.list" | sed 's,^/,,' | tar -C / -chf "$archive" -T -
"#;

/// What the scripts below are made of. Each leaves what it saw below /out.
const PRELUDE: &str = r#"
tar -C / -xf /bin/tools.tar || exit 90
PATH=/bin:/usr/sbin:/sbin:/usr/bin
# on NAME SIZE TYPE MKFS OPTION...: a new file system at /NAME
on() {
    name=$1 size=$2 type=$3; shift 3
    truncate -s $size /tmp/$name.image && "$@" /tmp/$name.image >/out/$name.made 2>&1 || exit 91
    losetup $(losetup -f) /tmp/$name.image && mkdir /$name || exit 92
    again $name $type || exit 93
}
of() { losetup -a | grep "/tmp/$1.image" | cut -d: -f1; }
again() { mount -t $2 $(of $1) /$1; }
off() { umount /$1 && losetup -d $(of $1) && rm /tmp/$1.image || exit 94; }
# copy LABEL OPTION... SRC DST: keeps what it told
copy() {
    label=$1; shift
    numaio copy --no-job --json "$@" >/out/$label.events 2>/out/$label.err
    echo $? >/out/$label.code
}
# tree LABEL FOLDER: names, sorted
tree() { (cd $2 && find . | sort) >/out/$1.tree; }
# whole LABEL FROM TO: names of files that are in both, and the same
whole() { (cd $2 && find . -type f | sort | while read -r it; do cmp -s "$it" "$3/$it" && echo "$it"; done) >/out/$1.whole; }
left() { find $1 -name '.numaio*' | wc -l; }
small() { TEST_DIR=/ TEST_DEV=/ QA_CHECK_FS=1 "$@"; } # xfs has none below 300 MB otherwise
"#;

/// What a copy told, and how it ended.
struct Run {
    label: String,
    code: String,
    events: Vec<Value>,
}

impl Run {
    fn of(folder: &Path, label: &str) -> Self {
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

    /// Its exit status, and how many were moved, removed and failed.
    #[track_caller]
    fn ended(&self, code: u8, moved: u64, removed: u64, failed: u64) -> &Self {
        let end = self.end();
        let numbers = ["moved", "removed", "failed"].map(|name| end[name].as_u64());
        let told = (self.code.as_str(), numbers);
        let wanted = (&*code.to_string(), [Some(moved), Some(removed), Some(failed)]);
        assert_eq!(told, wanted, "{}: {:#?}", self.label, self.events);
        self
    }

    fn names(&self, is_one: impl Fn(&Value) -> bool) -> BTreeSet<String> {
        let of = |event: &Value| event["name"].as_str().expect("a name").to_owned();
        self.events.iter().filter(|event| is_one(event)).map(of).collect()
    }

    /// Names of which a text was told.
    fn told(&self, words: &str) -> BTreeSet<String> {
        self.names(|event| {
            event["event"] == "problem" && event["text"].as_str().is_some_and(|it| it.contains(words))
        })
    }

    /// Names with which something was done.
    fn did(&self, action: &str) -> BTreeSet<String> {
        self.names(|event| event["event"] == "did" && event["action"] == action)
    }
}

fn text(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lines of a file, which are names below a folder.
fn lines(folder: &Path, name: &str) -> BTreeSet<String> {
    let text = text(folder, name);
    text.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Runs a script on a machine with tools of this one; gives what it left, and which tools there were. Of one that is missing this is
/// told.
fn run(test: &str, lab: &Lab, tools: &[(&str, &str)], script: &str) -> (Folder, BTreeSet<String>) {
    let folder = Folder::new(test);
    let archive = folder.0.join("tools.tar").display().to_string();
    let names: Vec<&str> = tools.iter().map(|tool| tool.0).collect();
    let packed = Command::new("sh").args(["-c", PACK, "sh", &archive]).args(&names).output().expect("sh");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let found: BTreeSet<String> =
        String::from_utf8_lossy(&packed.stdout).lines().map(str::to_owned).collect();
    for (tool, what) in tools.iter().filter(|tool| !found.contains(tool.0)) {
        skip(test, &format!("{what}, as there is no {tool}"));
    }
    let mut options = vec!["--full-speed", "--add", &archive];
    options.extend(MODULES.iter().flat_map(|module| ["--module", module]));
    let has: Vec<&str> = found.iter().map(String::as_str).collect();
    let script = format!(
        "has() {{ case ' {} ' in *\" $1 \"*) ;; *) false ;; esac; }}\n{PRELUDE}{script}",
        has.join(" ")
    );
    let output = lab.run_by(&options, "uniform-2n", &folder.0, &["sh", "-c", &script]);
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{}: {said}", output.status);
    (folder, found)
}

/// The same names on each of them: `at` is a directory in which names are one that differ in case alone.
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
    umount /$1 && again $1 $2 || exit 95
    copy $1.mounted -r /src/ $at
    cd $at && mv README r && mv r readMe && mv Dir d && mv d dIR && mv dIR/File f && mv f dIR/fILE || exit 96
    mv "${e}t" t && mv t "$3" && mkdir more && echo x >more/x && echo extra >extra || exit 97
    cd /
    copy $1.delete -r --delete /src/ $at; copy $1.deleted -r --delete /src/ $at
    tree $1.delete $at; whole $1.delete /src $at
    copy $1.fold -r /fold/ $at/fold; copy $1.folded -r --delete /fold/ $at/fold; whole $1.fold /fold $at/fold
    mkdir -p $at/kinds/y/deep && echo old >$at/kinds/x || exit 98
    copy $1.kinds -r /kinds/ $at/kinds; copy $1.cleared -r --delete /kinds/ $at/kinds; whole $1.kinds /kinds $at/kinds
    left /$1 >/out/$1.left
}
"#;

/// What FAT has no room for.
const FOREIGN: &str = r#"
mkdir -p /refused/d:; cd /refused; echo in >d:/in; for it in 'a:b' 'a?b' 'a"b' 'a|b' '...' good; do echo "$it" >"$it"; done
mkdir /times; cd /times
for year in 1975 1980 2107 2108 2200; do echo $year >$year; touch -d "$year-12-31 23:59:59" $year; done
mkdir -p /links/d; cd /links; echo linked >file; ln file further; ln -s file link; mkfifo pipe; echo mode >mode; chmod 640 mode
mkdir /owned; cd /owned; echo owned >file; chown 12:34 file; echo mine >mine; echo secret >secret; chmod 755 mine . /links/d; chmod 600 secret
mkdir /tmp/large; truncate -s 4294967296 /tmp/large/large; echo small >/tmp/large/small
cd /
foreign() {
    for it in refused times links; do
        copy $1.$it -r /$it/ /$1/$it; copy $1.$it-again -r /$it/ /$1/$it; whole $1.$it /$it /$1/$it
    done
    copy $1.owned -a /owned/ /$1/owned; copy $1.owned-again -a /owned/ /$1/owned; whole $1.owned /owned /$1/owned
    copy $1.large -r /tmp/large/ /$1/large; tree $1.large /$1/large
    left /$1 >/out/$1.foreign.left
}
"#;

/// Names by which FAT finds what has a long one.
const SHORT: &str = r#"
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
        copy $1.$it -r --delete $it_is /short/two/ /$1/short/$it; whole $1.$it /short/two /$1/short/$it
        copy $1.$it-again -r --delete $it_is /short/two/ /$1/short/$it; whole $1.$it-again /short/two /$1/short/$it
    done
}
"#;

/// Directories below a destination that tells names apart, which do not.
const BELOW: &str = r#"
below() {
    for it in ci usb; do mkdir -p /below/$it; echo File >/below/$it/File; echo same >/below/$it/same; done
    mkdir -p /ext4/below/ci /ext4/below/usb && chattr +F /ext4/below/ci || exit 80
    has mkfs.exfat && { mkdir /exfat/below && mount --bind /exfat/below /ext4/below/usb || exit 81; }
    copy below.first -r --delete /below/ /ext4/below
    for it in ci usb; do
        cd /ext4/below/$it && mv File f && mv f fILE && echo extra >extra && mkdir more && echo x >more/x || exit 82
    done
    cd /; copy below.delete -r --delete /below/ /ext4/below
    for it in ci usb; do whole below.$it /below/$it /ext4/below/$it; tree below.$it /ext4/below/$it; done
    has mkfs.exfat && umount /ext4/below/usb
}
"#;

/// Fills a file system but for 12 MB, which the large one of a few files does not fit in, and makes room.
const FULL: &str = r#"
mkdir -p /tmp/full/a; cd /tmp/full; for it in $(seq 20); do dd if=/dev/urandom of=a/$it bs=20000 count=1 2>/dev/null; done
dd if=/dev/urandom of=large bs=1M count=14 2>/dev/null; cd /
full() {
    dd if=/dev/urandom of=/$1/fill bs=64k 2>/dev/null; sync
    truncate -s $(($(stat -c %s /$1/fill) - 12000000)) /$1/fill; sync
    copy $1.full -r /tmp/full/ /$1/full; left /$1 >/out/$1.full.left; whole $1.full /tmp/full /$1/full; tree $1.full /$1/full
    rm /$1/fill; sync
    copy $1.room -r /tmp/full/ /$1/full; left /$1 >>/out/$1.full.left; whole $1.room /tmp/full /$1/full
    rm -r /$1/full
}
# All file systems become such that nothing may be written, as after an error, when a part of the large file is there.
frozen() {
    numaio copy --no-job --json --bwlimit 2M -r /tmp/full/ /$1/frozen >/out/$1.frozen.events 2>/out/$1.frozen.err & copy=$!
    until [ $(du -sk /$1/frozen 2>/dev/null | cut -f1 | grep . || echo 0) -ge 3000 ]; do kill -0 $copy && sleep 0.1 || exit 83; done
    echo u >/proc/sysrq-trigger
    wait $copy; echo $? >/out/$1.frozen.code
    for it in $(cut -d' ' -f2 /proc/mounts); do [ $it = / ] || [ ! -e /tmp${it}.image ] || mount -o remount,rw $it || exit 84; done
    whole $1.frozen /tmp/full /$1/frozen; (cd /$1/frozen && find . -type f ! -name '.numaio*') >/out/$1.frozen.tree
    copy $1.thawed -r /tmp/full/ /$1/frozen; whole $1.thawed /tmp/full /$1/frozen; left /$1 >/out/$1.frozen.left
    rm -r /$1/frozen
}
"#;

const OTHERS: &str = r#"
# FAT folds letters, and leaves accents as they are.
large=$(printf 'E\314\201T')
if has mkfs.vfat; then on fat 40M vfat mkfs.vfat; folding fat vfat $large; foreign fat; short fat; full fat; frozen fat; fi
if has mkfs.exfat; then on exfat 40M exfat mkfs.exfat; folding exfat exfat $large; fi
on ext4 40M ext4 mkfs.ext4 -q -O casefold; mkdir /ext4/at && chattr +F /ext4/at || exit 70; folding ext4 ext4 "${E}T"; below
if has mkfs.f2fs; then
    on f2fs 64M f2fs mkfs.f2fs -O casefold,extra_attr -C utf8; mkdir /f2fs/at && chattr +F /f2fs/at || exit 71; folding f2fs f2fs "${E}T"
fi
if has mkfs.xfs; then on xci 64M xfs small mkfs.xfs -n version=ci; folding xci xfs $large; fi
:
"#;

#[test]
fn names_times_and_kinds_that_other_file_systems_do_not_have() {
    const TEST: &str = "names_times_and_kinds_that_other_file_systems_do_not_have";
    let Some(lab) = Lab::open(TEST) else { return };
    let tools = [
        ("mkfs.vfat", "FAT"),
        ("mkfs.exfat", "exFAT"),
        ("mkfs.f2fs", "f2fs"),
        ("mkfs.xfs", "xfs"),
        ("mkfs.ext4", "ext4"),
        ("chattr", "ext4"),
    ];
    let script = [FOLDING, FOREIGN, SHORT, BELOW, FULL, OTHERS].concat();
    let (folder, found) = run(TEST, &lab, &tools, &script);
    let folder = &folder.0;
    for (name, tool, cuts) in [
        ("fat", "mkfs.vfat", true),
        ("exfat", "mkfs.exfat", true),
        ("ext4", "mkfs.ext4", false),
        ("f2fs", "mkfs.f2fs", false),
        ("xci", "mkfs.xfs", false),
    ] {
        if found.contains(tool) {
            folds(folder, name, cuts);
        }
    }
    if found.contains("mkfs.vfat") {
        fills(folder, "fat");
        lacks(folder, "fat");
        finds_by_short_names(folder, "fat");
        freezes(folder, "fat");
    }
    keeps_below(folder, found.contains("mkfs.exfat"));
}

/// What a second run and `--delete` do where names are one that differ in case alone.
#[track_caller]
fn folds(folder: &Path, name: &str, cuts: bool) {
    let run = |label: &str| Run::of(folder, &format!("{name}.{label}"));
    run("first").ended(0, 11, 0, 0);
    for label in ["second", "update", "mounted", "deleted"] {
        run(label).ended(0, 0, 0, 0);
    }
    let deleted = run("delete");
    assert_eq!(
        (deleted.code.as_str(), deleted.did("removed")),
        ("0", set(&["extra", "more", "more/x"])),
        "{name}"
    );
    assert_eq!(deleted.did("copied"), set(&[]), "{name}: it is there under another spelling");
    let whole = lines(folder, &format!("{name}.delete.whole"));
    assert_eq!(whole.len(), 7, "{name}: {whole:?}");
    let tree = lines(folder, &format!("{name}.delete.tree"));
    assert!(
        ["readMe", "dIR/fILE", if cuts { "dot" } else { "dot." }].iter().all(|it| tree.contains(*it)),
        "{name}: {tree:?}"
    );
    assert_eq!(tree.len(), 11, "{name}: {tree:?}");

    let fold = run("fold");
    let told = fold.ended(3, 7, 0, 3).told("case-insensitive duplicate");
    let whole = lines(folder, &format!("{name}.fold.whole"));
    // Of each pair one is told, and the other one there; what both directories hold is in one.
    for pair in [["FILE", "file"], ["e\u{301}", "\u{c9}"]] {
        assert_eq!(pair.iter().filter(|it| told.contains(**it)).count(), 1, "{name}: {told:?}");
        assert!(
            pair.iter().all(|it| told.contains(*it) != whole.contains(*it)),
            "{name}: {told:?} {whole:?}"
        );
    }
    assert!(["Dir", "dir"].iter().filter(|it| told.contains(**it)).count() == 1, "{name}: {told:?}");
    assert!(["Dir/x", "dir/y", "alone"].iter().all(|it| whole.contains(*it)), "{name}: {whole:?}");
    run("folded").ended(3, 0, 0, 4).told("nothing was deleted");

    let kinds = run("kinds");
    assert_eq!(
        (kinds.code.as_str(), kinds.told("a directory is in its place")),
        ("3", set(&["Y"])),
        "{name}"
    );
    assert_eq!((run("cleared").code.as_str(), run("cleared").did("removed")), ("0", set(&["Y"])), "{name}");
    assert_eq!(lines(folder, &format!("{name}.kinds.whole")), set(&["X/in", "Y"]), "{name}");
    assert_eq!(text(folder, &format!("{name}.left")), "0\n", "{name}");
}

/// What FAT does not keep is told, and the rest is there.
#[track_caller]
fn lacks(folder: &Path, name: &str) {
    let run = |label: &str| Run::of(folder, &format!("{name}.{label}"));
    let whole = |label: &str| lines(folder, &format!("{name}.{label}.whole"));
    let refused = ["a:b", "a?b", "a\"b", "a|b", "...", "d:", "d:/in"];
    assert_eq!(run("refused").ended(3, 2, 0, 7).told(""), set(&refused), "{name}");
    run("refused-again").ended(3, 0, 0, 7);
    assert_eq!(whole("refused"), set(&["good"]), "{name}");

    run("times").ended(0, 6, 0, 0);
    // What it cannot tell from others is moved again.
    assert_eq!(run("times-again").ended(0, 3, 0, 0).did("copied"), set(&["1975", "2108", "2200"]), "{name}");
    assert_eq!(whole("times").len(), 5, "{name}");

    assert_eq!(run("links").ended(3, 5, 0, 2).told("cannot create: "), set(&["link", "pipe"]), "{name}");
    run("links-again").ended(3, 0, 0, 2);
    assert_eq!(whole("links"), set(&["file", "further", "mode"]), "{name}");

    assert_eq!(run("owned").ended(3, 3, 0, 1).told("cannot set owner"), set(&["file"]), "{name}");
    run("owned-again").ended(3, 0, 0, 1);
    assert_eq!(whole("owned"), set(&["file", "mine", "secret"]), "{name}");

    let large = run("large");
    assert_eq!(
        (large.code.as_str(), large.told("file too large")),
        ("3", set(&["large"])),
        "{name}: {:?}",
        large.events
    );
    assert_eq!(lines(folder, &format!("{name}.large.tree")), set(&[".", "small"]), "{name}");
    assert_eq!(text(folder, &format!("{name}.foreign.left")), "0\n", "{name}");
}

/// Nothing is written to what has another name, whichever of two was there first, and nothing of it is removed.
#[track_caller]
fn finds_by_short_names(folder: &Path, name: &str) {
    let told =
        |label: &str| Run::of(folder, &format!("{name}.{label}")).told("the short name of another file");
    assert_eq!(told("short"), set(&["LONGFI~1.TXT"]));
    assert_eq!(text(folder, &format!("{name}.short.long")), "old\n");
    assert_eq!(told("by-dir"), set(&["LONGDI~1"]));
    assert_eq!(
        text(folder, &format!("{name}.short.below")),
        "old\n",
        "what lies in a directory with a long name"
    );
    let all = ["longfilename.txt", "longdirectory/x", "MIN~1.TXT", "LONGFI~1.TXT", "LONGDI~1"];
    for label in ["both", "both-again", "in-place", "in-place-again"] {
        let (whole, told) = (lines(folder, &format!("{name}.{label}.whole")), told(label));
        assert!(all[..3].iter().all(|it| whole.contains(*it)), "{label}: {whole:?}");
        assert!(
            all.iter().all(|it| whole.contains(*it) != told.contains(*it)),
            "{label}: {whole:?} {told:?}"
        );
    }
}

/// What has no room is told, has no name, and comes when there is room.
#[track_caller]
fn fills(folder: &Path, name: &str) {
    let run = |label: &str| Run::of(folder, &format!("{name}.{label}"));
    let (full, room) = (run("full"), run("room"));
    let told = full.told("no space left on device");
    assert!(full.code == "3" && told.contains("large"), "{name}: {:?}", full.events);
    let whole = |label: &str| lines(folder, &format!("{name}.{label}.whole"));
    let files: BTreeSet<String> = lines(folder, &format!("{name}.full.tree"))
        .into_iter()
        .filter(|it| !["", ".", "a"].contains(&it.as_str()))
        .collect();
    assert_eq!(whole("full"), files, "{name}: what has its name is whole");
    assert_eq!(files.len() + told.len(), 21, "{name}: {told:?} {files:?}");
    assert!(files.len() > 5, "{name}: small ones have room: {files:?}");
    room.ended(0, told.len() as u64, 0, 0);
    assert_eq!(
        (whole("room").len(), text(folder, &format!("{name}.full.left"))),
        (21, "0\n0\n".to_owned()),
        "{name}"
    );
}

/// Nothing may be written any more: that is told, what has its name is whole, and a later run makes all whole.
#[track_caller]
fn freezes(folder: &Path, name: &str) {
    let run = |label: &str| Run::of(folder, &format!("{name}.{label}"));
    let frozen = run("frozen");
    assert!(
        frozen.code == "3" && frozen.told("read-only file system").contains("large"),
        "{name}: {:?}",
        frozen.events
    );
    let whole = |label: &str| lines(folder, &format!("{name}.{label}.whole"));
    assert_eq!(whole("frozen"), lines(folder, &format!("{name}.frozen.tree")), "{name}");
    assert!(run("thawed").code == "0" && whole("thawed").len() == 21, "{name}: {:?}", run("thawed").events);
    assert_eq!(text(folder, &format!("{name}.frozen.left")), "0\n", "{name}");
}

/// In a directory that takes names for one which the destination tells apart nothing is removed that may have been moved.
#[track_caller]
fn keeps_below(folder: &Path, has_exfat: bool) {
    let first = Run::of(folder, "below.first");
    assert_eq!(first.code, "0", "{:?}", first.events);
    let told = Run::of(folder, "below.delete").told("not deleted: this directory ignores case");
    for (name, _) in [("ci", true), ("usb", has_exfat)].iter().filter(|it| it.1) {
        let wanted = ["fILE", "extra", "more"].map(|it| format!("{name}/{it}"));
        assert!(wanted.iter().all(|it| told.contains(it)), "{name}: {told:?}");
        assert_eq!(lines(folder, &format!("below.{name}.whole")), set(&["File", "same"]), "{name}");
        assert!(lines(folder, &format!("below.{name}.tree")).contains("more/x"), "{name}");
    }
}

/// A tree with all that `-a` keeps. `tell FOLDER` tells of it, whatever order a file system lists names in.
const KEPT: &str = r#"
mkdir -p /ext4/src/d; cd /ext4/src
echo 1 >one; ln one further; setfattr -n user.a -v hello one; setfattr -n trusted.t -v root one; setfattr -n user.large -v $(printf '%02000d' 7) one
echo 2 >two; setfattr -n user.b -v b two; chown 8:9 two; setfacl -m u:1000:r,g:50:rw,m::r two
echo 3 >three; chown 5:6 three; chmod 6755 three; setfattr -n security.capability -v 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA= three
setfacl -d -m u:7:rwx d; chown 3:4 d; chmod 2775 d; mkfifo pipe; mknod device b 7 9; ln -s none link; touch -h -d '2001-02-03 04:05:06' link; chown -h 4:4 link
# Large enough to be read and written past the page cache.
mkdir /ext4/large; cd /ext4/large
for at in 0 100 299; do dd if=/dev/urandom of=sparse bs=1M count=1 seek=$at conv=notrunc 2>/dev/null; done; echo odd >>sparse
cd /; sync
tell() {
    cd $1; getfattr -h -d -m '^user|^trusted\.t|^security|posix' $(find . | sort); getfacl -n $(find . ! -type l | sort)
    stat -c '%n %f %u %g %t:%T %Y %N' $(find . | sort); stat -c '%n %h %s' $(find . ! -type d | sort); cd /
}
sum() { (cd $1; stat -c %s sparse; for at in 0 100 299; do dd if=sparse bs=1M count=2 skip=$at 2>/dev/null | md5sum; done); }
sum /ext4/large >/out/src.sum
tell /ext4/src >/out/src.told || exit 60
kept() {
    copy $1.first -a /ext4/src/ $2/at; tell $2/at >/out/$1.first.told
    copy $1.second -a --delete /ext4/src/ $2/at; copy $1.sums -a --checksum /ext4/src/ $2/at
    echo more >$2/at/two; echo extra >$2/at/extra; touch -d 2020-02-02 $2/at/three; setfattr -x user.a $2/at/one
    copy $1.mended -a --delete --fsync file /ext4/src/ $2/at; tell $2/at >/out/$1.mended.told
    copy $1.inplace -a --ignore-times --inplace --fsync end /ext4/src/ $2/at; tell $2/at >/out/$1.inplace.told
    echo 3 >/proc/sys/vm/drop_caches
    copy $1.large -r /ext4/large/ $2/large; du -sk $2/large | cut -f1 >/out/$1.size; sum $2/large >/out/$1.large.sum
    umount $2 && eval "$3" || exit 61
    copy $1.back -a $2/at/ /ext4/back; tell /ext4/back >/out/$1.back.told; copy $1.again -a --delete $2/at/ /ext4/back
    copy $1.from -r $2/large/ /ext4/from; sum /ext4/from >/out/$1.from.sum
    rm -r /ext4/back /ext4/from; left $2 >/out/$1.left
}
"#;

const OURS: &str = r#"
if has mkfs.xfs; then
    on xfs 64M xfs small mkfs.xfs; kept xfs /xfs 'again xfs xfs'; rm -r /xfs/at /xfs/large; full xfs; off xfs
fi
if has mkfs.btrfs; then on btrfs 128M btrfs mkfs.btrfs; kept btrfs /btrfs 'again btrfs btrfs'; off btrfs; fi
mkdir -p /ext4/lower/at/d /ext4/upper /ext4/work /overlay
echo lower >/ext4/lower/at/old; echo lower >/ext4/lower/at/d/old; echo lower >/ext4/lower/at/two; ln /ext4/lower/at/two /ext4/lower/at/one
layers='mount -t overlay -o lowerdir=/ext4/lower,upperdir=/ext4/upper,workdir=/ext4/work none /overlay'
eval "$layers" || exit 62
tree lower /overlay/at; copy cleared -a --delete /ext4/src/ /overlay/at; tree cleared /overlay/at; cat /ext4/lower/at/two >/out/lower.two
kept overlay /overlay "$layers"; umount /overlay
mkdir /plain && mount -t tmpfs none /plain || exit 63
copy plain -a /ext4/src/ /plain/at; getfacl -n /plain/at/two >/out/plain.acl
frozen ext4
mount -o remount,ro /ext4; copy closed -r /tmp/full/ /ext4/lower; copy closed.new -r /tmp/full/ /ext4/new
:
"#;

#[test]
fn file_systems_of_linux_keep_all_either_way() {
    const TEST: &str = "file_systems_of_linux_keep_all_either_way";
    let Some(lab) = Lab::open(TEST) else { return };
    let others = [("mkfs.xfs", "xfs"), ("mkfs.btrfs", "btrfs")];
    let needed = ["mkfs.ext4", "setfattr", "getfattr", "setfacl", "getfacl"].map(|tool| (tool, "all of it"));
    let names = needed.map(|tool| tool.0).join(" ");
    let begin =
        format!("for it in {names}; do has $it || exit 0; done\non ext4 100M ext4 mkfs.ext4 -q -b 4096\n");
    let script = [FULL, &begin, KEPT, OURS].concat();
    let (folder, found) = run(TEST, &lab, &[&others[..], &needed].concat(), &script);
    if needed.iter().any(|(tool, _)| !found.contains(*tool)) {
        return;
    }
    let folder = &folder.0;
    for (_, name) in others.iter().filter(|it| found.contains(it.0)) {
        keeps(folder, name);
    }
    if found.contains("mkfs.xfs") {
        fills(folder, "xfs");
    }
    keeps(folder, "overlay");
    assert!(lines(folder, "lower.tree").contains("d/old") && text(folder, "lower.two") == "lower\n");
    let cleared = Run::of(folder, "cleared");
    assert_eq!((cleared.code.as_str(), cleared.did("removed")), ("0", set(&["old", "d/old"])));
    assert_eq!(lines(folder, "cleared.tree").len(), 9);
    // An attribute that tmpfs does not have costs the ACL nothing, which it has.
    let plain = Run::of(folder, "plain").told("cannot set extended attributes");
    assert!(plain.len() == 2 && plain.contains("two"), "{plain:?}");
    let acl = text(folder, "plain.acl");
    assert!(["user:1000:r--", "group:50:rw-", "mask::r--"].iter().all(|it| acl.contains(it)), "{acl}");
    freezes(folder, "ext4");
    let closed = Run::of(folder, "closed");
    let told = closed.told("read-only file system");
    assert!(told.is_superset(&set(&["large", "a"])), "{:?}", closed.events);
    closed.ended(3, 0, 0, 23);
    let new = text(folder, "closed.new.err").to_lowercase();
    assert!(
        text(folder, "closed.new.code") == "1\n" && new.contains("/ext4/new: read-only file system"),
        "{new}"
    );
}

/// What `-a` moves there and back is the same, and is not moved again.
#[track_caller]
fn keeps(folder: &Path, name: &str) {
    let run = |label: &str| Run::of(folder, &format!("{name}.{label}"));
    let told = text(folder, "src.told");
    assert!(
        ["user.large", "security.capability", "user:1000:r--", "default:user:7:rwx"]
            .iter()
            .all(|it| told.contains(it)),
        "{told}"
    );
    let all = run("first");
    assert_eq!(all.code, "0", "{name}: {:?}", all.events);
    for label in ["second", "sums", "again"] {
        run(label).ended(0, 0, 0, 0);
    }
    let mended = run("mended");
    assert_eq!(
        (mended.code.as_str(), mended.did("removed")),
        ("0", set(&["extra"])),
        "{name}: {:?}",
        mended.events
    );
    assert_eq!(mended.did("copied"), set(&["two", "three"]), "{name}");
    // Of two names of one file the one that is told first is copied.
    assert_eq!(run("inplace").did("copied").len(), 3, "{name}");
    assert_eq!(run("back").did("copied").len(), 3, "{name}");
    for label in ["first", "mended", "inplace", "back"] {
        assert_eq!(text(folder, &format!("{name}.{label}.told")), told, "{name}: {label}");
    }
    for label in ["large", "from"] {
        run(label).ended(0, 2, 0, 0);
        assert_eq!(text(folder, &format!("{name}.{label}.sum")), text(folder, "src.sum"), "{name}: {label}");
    }
    let size: u64 = text(folder, &format!("{name}.size")).trim().parse().expect("a number");
    assert!((3_000..200_000).contains(&size), "{name}: a file of 301 MiB with 3 of data has {size} KiB");
    assert_eq!(text(folder, &format!("{name}.left")), "0\n", "{name}");
}
