# Shared by tools/check, tools/test and tools/test-unit: sourced in the root of the repository.
# shellcheck shell=sh

[ -x "$HOME/.cargo/bin/cargo" ] && PATH="$HOME/.cargo/bin:$PATH"
mkdir -p target

# The lab's disk is a workspace of its own.
disk=lab/disk/Cargo.toml
disk_target=lab/build/disk
# Lines about tools that are not installed.
lacking=

# Runs a check with a part of Rust that a minimal installation lacks: name, remedy, command...
check() {
    name=$1 remedy=$2
    shift 2
    if "$1" "$2" --version >/dev/null 2>&1; then
        "$@" || { echo "$(basename "$0"): $name failed" >&2; exit 1; }
    else
        lacking="$lacking
skipped: $name: not installed ($remedy)"
    fi
}

check_format() {
    check rustfmt "rustup component add rustfmt" cargo fmt --all --check
    check rustfmt "rustup component add rustfmt" cargo fmt --manifest-path "$disk" --check
}

check_lints() {
    check clippy "rustup component add clippy" cargo clippy --workspace --all-targets --quiet -- -D warnings
    check clippy "rustup component add clippy" \
        cargo clippy --manifest-path "$disk" --target-dir "$disk_target" --all-targets --quiet -- -D warnings
}

check_dependencies() {
    check "cargo deny" "cargo install cargo-deny" cargo deny --log-level error check bans licenses sources
    check "cargo deny" "cargo install cargo-deny" \
        cargo deny --manifest-path "$disk" --config deny.toml --log-level error check bans licenses sources
}

check_docs() {
    RUSTDOCFLAGS="-D warnings" check rustdoc "rustup component add rustdoc" cargo doc --workspace --no-deps --quiet
}

# Runs the commands of a function, counts the results of their tests, and exits: function.
run_and_count() {
    log=target/$(basename "$0").log
    { "$1" 2>&1; echo "$?" >target/test.status; } | tee "$log"
    status=$(cat target/test.status)
    [ "$status" = 0 ] || status=1
    passed=$(count_results passed)
    failed=$(count_results failed)
    # Each reason counts once: several tests may lack the same tool.
    { grep -o 'skipped: .*' "$log"; echo "$lacking"; } | grep . | sort -u >target/skipped
    skipped=$(grep -c . target/skipped)
    cat target/skipped
    # A build that fails reports no test.
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    echo "$passed passed, $failed failed, $skipped skipped"
    exit "$status"
}

count_results() { # passed|failed
    awk -v what="$1" '/^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ "^" what) sum += $(i - 1) } END { print sum + 0 }' "$log"
}
