# make model       install missing packages, build (3 minutes on 2 CPUs), and model this machine
# make check       check formatting, lints, documentation, and the rules of the source tree
# make test-unit   run the hermetic tests, which need only Rust and Python
# make test        install missing packages, build, and run the tests; ARGS=--times: with the seconds of each suite
# make test-all    also run the tests that take long: aarch64 under emulation, package installs, TeX, soft-RoCE, campaigns
# make check-msrv  build with the oldest supported Rust (rust-version in Cargo.toml)
# make check-aarch64  check the sources for aarch64
# make test-aarch64  run hermetic tests for aarch64 under qemu-user (make test-all does, too)
# make bench       measure numaio's loops and engines beside other programs
# make bench-plan  measure how long planning takes
# make bench-predict  predict mixes of 10,000 simulated devices (20 minutes) and of the lab's disks (90 minutes);
#                  ARGS=sharing-4n:0: only disk 0 of a machine
# make bench-copy  measure copies of trees and large files beside other programs (as root); ARGS=--ablation: switches
# make static      build one static binary for any host
# make dist        build packages in target/dist (docs/guide/install.md); ARGS="deb tar": some of them
# make man         write man pages and shell completions to target/man and target/completions
# make docs        build the documentation as a book, in target/book
# make tapes       record the shipped machines again (lab/README.md)
# make clean       remove build outputs

export PATH := $(HOME)/.cargo/bin:$(PATH)
NUMAIO := target/release/numaio
TEST_ALL_MINUTES := 60
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: model build check test-unit test test-all bench bench-plan bench-predict bench-copy static dist man docs check-msrv check-aarch64 test-aarch64 tapes clean

model: build
	$(NUMAIO) model

build:
	@tools/setup build
	@[ -e $(NUMAIO) ] || echo "building numaio: about 3 minutes on 2 CPUs, without downloads"
	cargo build --release -p numaio-cli

check:
	@tools/setup build
	@tools/check

test-unit:
	@tools/setup unit
	@tools/test --unit $(ARGS)

# Cargo.toml states the oldest supported Rust as rust-version.
check-msrv:
	@tools/setup build
	rustup toolchain install $(MSRV) --profile minimal
	cargo +$(MSRV) check --workspace --all-targets --target-dir target/msrv

# Needs a C compiler for aarch64 (Debian's package gcc-aarch64-linux-gnu).
check-aarch64:
	@tools/setup build
	@tools/test-aarch64 --check

test-aarch64:
	@tools/setup build
	@tools/test-aarch64

test:
	@tools/setup test
	@tools/test $(ARGS)

test-all:
	@tools/setup test-all
	@echo "test-all: about $(TEST_ALL_MINUTES) minutes on 2 CPUs from a clean clone"
	@tools/test --all $(ARGS)

bench: build
	@tools/setup bench
	@tools/bench

bench-plan:
	@tools/setup build
	@tools/bench plan

bench-predict:
	@tools/setup test
	@tools/bench predict
	@tools/bench predict-lab $(ARGS)

bench-copy: build
	@tools/setup bench-copy
	@tools/bench-copy $(ARGS)

static:
	@tools/setup static
	@tools/static

dist:
	@tools/setup dist
	@tools/dist $(ARGS)

man: build
	$(NUMAIO) generate man --dir target/man
	$(NUMAIO) generate completions --dir target/completions

docs:
	@tools/docs

tapes:
	@tools/setup test
	@tools/tapes

clean:
	cargo clean
	rm -rf lab/build
