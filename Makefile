# make model       install missing packages, build, and model this machine
# make check       check formatting, lints, documentation, and the rules of the source tree
# make test-unit   run the tests that need nothing but Rust
# make test        install missing packages, build, and run every test
# make bench       compare our copy loops and our sampling with other programs
# make bench-plan  measure how long planning takes
# make bench-copy  copy trees and large files, beside other programs (as root)
# make static      build one static binary to copy onto any host
# make man         write man pages and shell completions under target/
# make tapes       record the shipped machines again (lab/README.md)
# make clean       remove everything that was built

export PATH := $(HOME)/.cargo/bin:$(PATH)
NUMAIO := target/release/numaio

.PHONY: model build check test-unit test bench bench-plan bench-copy static man tapes clean

model: build
	$(NUMAIO) model

build:
	@tools/setup build
	cargo build --release -p numaio-cli

check:
	@tools/setup build
	@tools/check

test-unit:
	@tools/setup build
	@tools/test-unit

test:
	@tools/setup test
	@tools/test

bench: build
	@tools/setup bench
	@tools/bench

bench-plan:
	@tools/setup build
	@tools/bench plan

bench-copy: build
	@tools/setup bench-copy
	@tools/bench-copy

static:
	@tools/setup static
	@tools/static

man: build
	$(NUMAIO) generate man target/man
	$(NUMAIO) generate completions target/completions

tapes:
	@tools/setup test
	@tools/tapes

clean:
	cargo clean
	rm -rf lab/build
