# make model   install what is missing, build, and model this machine
# make test    install what is missing, build, and run every test
# make bench   compare our copy loops and our sampling with others
# make bench-plan  how long planning takes
# make bench-copy  copy trees and large files, beside other programs (as root)
# make static  one static binary to copy onto any host
# make man     man pages and shell completions under target/
# make docs    the documentation as a book, in target/book

export PATH := $(HOME)/.cargo/bin:$(PATH)
NUMAIO := target/release/numaio

.PHONY: model build test bench bench-plan bench-copy static man docs tapes clean

model: build
	$(NUMAIO) model

build:
	@tools/setup build
	cargo build --release -p numaio-cli

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

docs:
	@tools/docs

# Records the shipped machines anew; see lab/README.md.
tapes:
	@tools/setup test
	@tools/tapes

clean:
	cargo clean
	rm -rf lab/build
