# The two commands of the README, and what else is worth a name. `make run` needs a Rust toolchain and a C compiler.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
BAREMARK := $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/baremark

.PHONY: run test build lint soak bench install-needs

build:
	$(CARGO) build --release --locked -p baremark

# Build, then the standard study on this machine.
run: build
	$(BAREMARK)

# Everything that must hold: tests of every crate, then lints. What the machine lacks is counted and printed.
test: install-needs
	./scripts/probe
	$(CARGO) test --release --locked --workspace
	$(MAKE) lint

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

# What takes too long for every change: ten million fuzz cases, a thousand kills.
soak: install-needs
	BAREMARK_SOAK=1 $(CARGO) test --release --locked --workspace -- --include-ignored --nocapture

# The programs of other people that the tests use; installed by name where they are missing.
install-needs:
	./scripts/install-needs
	./scripts/fetch-kernel || echo "no kernel for guests: their tests will be skipped, each with its reason"
