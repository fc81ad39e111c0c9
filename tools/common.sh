# Functions of tools/check, tools/test and tools/test-unit, which source this file in the repository root.
# shellcheck shell=sh

[ -x "$HOME/.cargo/bin/cargo" ] && PATH="$HOME/.cargo/bin:$PATH"
mkdir -p target

# The lab's disk is a separate workspace.
disk=lab/disk/Cargo.toml
disk_target=lab/build/disk
# Messages about missing tools.
missing_tools=

# Runs a check, or reports it as skipped if its tool is missing: a minimal Rust installation lacks some.
check() { # TOOL REMEDY COMMAND...
    name=$1 remedy=$2
    shift 2
    # shellcheck disable=SC2086  # "cargo fmt" is a command and its argument
    if $name --version >/dev/null 2>&1; then
        "$@" || { echo "$(basename "$0"): $name failed" >&2; exit 1; }
    else
        missing_tools="$missing_tools
skipped: $name: not installed ($remedy)"
    fi
}

check_format() {
    check "cargo fmt" "rustup component add rustfmt" cargo fmt --all --check
    check "cargo fmt" "rustup component add rustfmt" cargo fmt --manifest-path "$disk" --check
}

check_lints() {
    check "cargo clippy" "rustup component add clippy" cargo clippy --workspace --all-targets --quiet -- -D warnings
    check "cargo clippy" "rustup component add clippy" \
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

# Runs a function, counts the results of its tests, and exits.
run_and_count() { # FUNCTION
    log=target/$(basename "$0").log
    { "$1" 2>&1; echo "$?" >target/test.status; } | tee "$log"
    status=$(cat target/test.status)
    [ "$status" = 0 ] || status=1
    passed=$(count_results passed)
    failed=$(count_results failed)
    # Each reason counts once, because several tests may need the same tool.
    { grep -o 'skipped: .*' "$log"; echo "$missing_tools"; } | grep . | sort -u >target/skipped
    skipped=$(grep -c . target/skipped)
    cat target/skipped
    # A failed build reports no test.
    [ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
    echo "$passed passed, $failed failed, $skipped skipped"
    exit "$status"
}

count_results() { # passed|failed
    awk -v what="$1" '/^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ "^" what) sum += $(i - 1) } END { print sum + 0 }' "$log"
}
