# The two commands of the README, and what else is worth a name. `make run` needs a Rust toolchain and a C compiler.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
BAREMARK := $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/baremark

.PHONY: run test build lint soak figures install-needs bench-load bench-mmu

build:
	$(CARGO) build --release --locked -p baremark

# Build, then the standard study on this machine.
run: build
	$(BAREMARK)

# Everything that must hold: tests of every crate, then lints. What the machine lacks is counted and printed.
test: install-needs lint
	./scripts/test

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

# What takes too long for every change: ten million fuzz cases of each kind, a thousand kills, machines under signals.
soak: install-needs
	cd fuzz && $(CARGO) run --release --locked --bin soak -- study 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- frame 10000000
	for what in http1 http2 scenario; do (cd fuzz && $(CARGO) run --release --locked --bin soak -- $$what 10000000) || exit 1; done
	BAREMARK_KILLS=1000 $(CARGO) test --release --locked -p baremark --test end_to_end -- --nocapture random_moments
	BAREMARK_SOAK_SECONDS=300 $(CARGO) test --release --locked -p baremark-microvm --test microvm -- --ignored --nocapture soak

# Figures of the microVM on this machine: first instruction, exits, leaves, random access by leaf.
figures:
	$(CARGO) test --release --locked -p baremark-microvm --test microvm -- --ignored --nocapture --test-threads=1 figures

# The programs of other people that the tests use; installed by name where they are missing.
install-needs:
	./scripts/install-needs
	./scripts/fetch-kernel || echo "no kernel for guests: their tests will be skipped, each with its reason"

# The load engine beside wrk and h2load on an nginx of its own, plain and through TLS, its send lag, and 50,000 users (needs
# nginx, wrk, nghttp2-client and two quiet CPUs). One line a pairing: ours, the peer's, the ratio with its interval, the goal.
bench-load:
	$(CARGO) build --release --locked -p baremark-load --examples
	$(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples/bench

# Translations a second of the page-walk simulator, by stream and scheme, against its goal (wants a quiet CPU).
bench-mmu:
	$(CARGO) run --release --locked -p baremark-mmu --example speed
