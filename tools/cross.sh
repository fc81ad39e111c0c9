# Selects Rust's musl target of a processor, its C compiler and flags, for tools/static, tools/test and
# tools/test-aarch64.
# shellcheck shell=sh

[ -x "$HOME/.cargo/bin/cargo" ] && PATH="$HOME/.cargo/bin:$PATH"

# Paths of this machine must not be in the binary, so that builds in other folders are equal.
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=numaio --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"

has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; }

# Sets target, and missing to the reason if a program is missing.
use_musl() { # ARCH
    target=$1-unknown-linux-musl
    missing=
    variable=$(echo "$target" | tr - _)
    if ! has_target && command -v rustup >/dev/null 2>&1; then
        rustup target add "$target" >&2 || true
    fi
    has_target || missing="Rust's target $target is missing ('rustup target add $target')"
    if [ "$1" = "$(uname -m)" ]; then
        compiler=musl-gcc package=musl-tools
    else
        compiler=$1-linux-gnu-gcc package=gcc-$1-linux-gnu
    fi
    command -v "$compiler" >/dev/null 2>&1 || missing="$compiler is missing (Debian's package $package)"
    [ -z "$missing" ] || return 0
    # The cc crate expects the compiler under another name than some distributions use.
    eval "export CC_$variable=\${CC_$variable:-$compiler}"
    [ "$1" = "$(uname -m)" ] || use_glibc_compiler "$1"
}

# The cross compiler is for glibc: musl has no checked functions, no helper functions of atomics, and no other names
# of functions with 64-bit offsets, which SQLite asks for.
use_glibc_compiler() { # ARCH
    upper=$(echo "$variable" | tr '[:lower:]' '[:upper:]')
    eval "export CARGO_TARGET_${upper}_LINKER=$compiler"
    flags="-U_FORTIFY_SOURCE -DSQLITE_DISABLE_LFS"
    [ "$1" != aarch64 ] || flags="$flags -mno-outline-atomics"
    eval "export CFLAGS_$variable=\"$flags\""
}
