# The two commands of the README, and what else is worth a name. `make run` needs a Rust toolchain and a C compiler.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
BAREMARK := $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/baremark

# Every target here is a command.
.PHONY: $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

build:
	$(CARGO) build --release --locked -p baremark

# Build, then the standard study on this machine.
run: build
	$(BAREMARK)

# Everything that must hold: tests of every crate, then lints. What the machine lacks is counted and printed.
test: install-needs lint
	./scripts/test

# Before every commit: format, lints, and the tests that need no system but this one: crates of pure functions, the shape of the source's
# crates, argument parsing, statistics without their long simulations.
check: lint
	$(CARGO) test --release --locked --quiet --lib $(patsubst %,-p baremark-%,$(PURE))
	$(CARGO) test --release --locked --quiet -p baremark-model --tests
	$(CARGO) test --release --locked --quiet -p baremark --bin baremark
PURE := model stats kernels mmu report store workloads

# What is handed out: a tarball, a Debian package and a Python wheel in target/dist, the same bytes for the same commit.
dist:
	./scripts/dist

# The tarball's files below PREFIX.
PREFIX ?= /usr/local
install:
	./scripts/install $(TARGET_DIR)/dist $(DESTDIR)$(PREFIX)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

# What takes too long for every change: ten million fuzz cases of each kind, a thousand kills, machines under signals, images
# of every tier, a hundred A/A runs, of which ten may say that something differs, forecasts of `plan --pilot` against real runs, injected
# causes that must be named, and standard runs whose answers must be narrow and agree (both want a quiet machine).
soak: install-needs build
	./scripts/soak-aa $(BAREMARK) $(TARGET_DIR)/soak-aa
	./scripts/soak-phases $(BAREMARK) $(TARGET_DIR)/soak-phases
	./scripts/soak-plan $(BAREMARK) $(TARGET_DIR)/soak-plan
	./scripts/soak-causes $(BAREMARK) $(TARGET_DIR)/soak-causes
	./scripts/soak-answers $(BAREMARK) $(TARGET_DIR)/soak-answers
	cd fuzz && $(CARGO) run --release --locked --bin soak -- study 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- frame 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- trace 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- machine 1000000
	for what in http1 http2 scenario; do (cd fuzz && $(CARGO) run --release --locked --bin soak -- $$what 10000000) || exit 1; done
	BAREMARK_POWER_LOSSES=100 $(CARGO) test --release --locked -p baremark-databases --test databases -- --nocapture when_power_is_lost
	BAREMARK_KILLS=1000 $(CARGO) test --release --locked -p baremark --test end_to_end -- --nocapture random_moments
	./scripts/install-needs soak
	./scripts/fetch-sources
	$(CARGO) test --release --locked -p baremark --test end_to_end -- --ignored --nocapture programs
	$(CARGO) test --release --locked -p baremark --test end_to_end -- --ignored --nocapture studies_of_kernels
	$(CARGO) test --release --locked -p baremark --test end_to_end -- --ignored --nocapture schemas_of
	./scripts/make-base
	$(CARGO) test --release --locked -p baremark --test end_to_end -- --ignored --nocapture tiers
	$(CARGO) test --release --locked -p baremark-host --test features -- --ignored --nocapture soak
	$(CARGO) test --release --locked -p baremark-guest-program --test guest -- --ignored --nocapture --test-threads=1 soak
	BAREMARK_SOAK_SECONDS=300 $(CARGO) test --release --locked -p baremark-microvm --test microvm -- --ignored --nocapture soak

# Figures of the microVM on this machine: first instruction, exits, leaves, random access by leaf.
figures:
	$(CARGO) test --release --locked -p baremark-microvm --test microvm -- --ignored --nocapture --test-threads=1 figures

# The programs of other people that the tests use; installed by name where they are missing.
install-needs:
	./scripts/install-needs
	./scripts/install-schemathesis || echo "no schemathesis: its test will be skipped"
	./scripts/fetch-kernel || echo "no kernel for guests: their tests will be skipped, each with its reason"

# The auction's app server on PostgreSQL: processor time of each operation and of the mix, loading, drawing, memory when idle.
bench-auction:
	$(CARGO) test --release --locked -p baremark-auction --test auction -- --ignored --nocapture figures

# The load engine beside wrk and h2load on an nginx of its own, plain and through TLS, its send lag, and 50,000 users (needs
# nginx, wrk, nghttp2-client and two quiet CPUs). One line a pairing: ours, the peer's, the ratio with its interval, the goal,
# and `ok`, `SHORT` or `undecided` by the rule of `make bench`.
bench-load:
	$(CARGO) build --release --locked -p baremark-load --examples
	$(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples/bench

# The disk engine beside fio at equal settings, six patterns on the disk of TMPDIR (needs fio and 1 GiB): IOPS, CPU per I/O and p99,
# each with its ratio, goal and verdict. ONLY="random-read" picks patterns.
bench-disk:
	$(CARGO) run --release --locked -p baremark-disks --example bench -- $(ONLY)

# What tracing every I/O costs at the highest rate here, in pairs with and without: IOPS, CPU per I/O (needs root and 256 MiB).
bench-histograms:
	$(CARGO) build --release --locked -p baremark-trace --example bench-histograms
	$(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples/bench-histograms $(if $(ROUNDS),rounds=$(ROUNDS))

# Streams and round trips beside iperf3 and sockperf, over loopback and a veth pair (needs iperf3, sockperf, root and two quiet CPUs). One line a
# figure: ours, the peer's, the ratio with its interval, the goal, and `ok`, `SHORT` or `undecided`. ROUNDS=N for more than 12.
bench-net:
	$(CARGO) build --release --locked -p baremark-streams --examples
	$(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples/bench-net $(if $(ROUNDS),rounds=$(ROUNDS))

# The database driver beside pgbench (single statement, TPC-B-like) and sysbench (read-write on MariaDB): transactions per second,
# CPU time of the driver, send lag. Needs postgresql, mariadb-server, sysbench and two quiet CPUs; WHAT="select tpcb" picks pairings.
bench-db:
	$(CARGO) build --release --locked -p baremark-databases --example bench-db
	$(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples/bench-db $(WHAT)

# Translations a second of the page-walk simulator, by stream and scheme, against its goal (wants a quiet CPU).
bench-mmu:
	$(CARGO) run --release --locked -p baremark-mmu --example speed
# baremark beside the HPC Challenge's own programs, and against its own limits: one line a pairing, `ok`, `SHORT` or `undecided`
# at its end. It says how long it takes; ONLY="hpl dgemm" picks pairings. Wants a quiet machine.
PEERS := $(TARGET_DIR)/peers
BENCH := BAREMARK_PEERS=$(abspath $(PEERS)) $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples/pairings

bench: bench-build
	$(BENCH) $(ONLY)

bench-quick: bench-build
	$(BENCH) --quick $(ONLY)

bench-build: build
	$(CARGO) build --release --locked -p baremark --example pairings
	./scripts/bench-peers $(PEERS) || echo "no peers: their pairings cannot be run"

# What observing a machine once a second takes of one CPU, beside reading nothing; fails above half a percent.
bench-observe: build
	$(BAREMARK) top --cost --count 60
	$(BAREMARK) top --rows --cost --count 60

# What bringing 100 MiB to a site takes in time and in memory of both ends, over the frames of the wire.
bench-carry: build
	$(CARGO) run --release --locked -p baremark --example carry

# `history` within 0.3 s and `report` within 1 s on a store of 10,000 runs, which it makes: one line a command, `ok` or `SHORT`.
bench-store: build
	$(CARGO) build --release --locked -p baremark-store --example many_runs
	./scripts/bench-store $(BAREMARK) $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples/many_runs

# `ab` against hyperfine -N and a bare loop of posix_spawn and wait4: what it adds to the time of an empty static program, whether the
# times of two commands agree, and how much their ratio varies at equal wall time: `ok`, `SHORT` or `undecided` (needs hyperfine).
# Takes five minutes; ROUNDS=N for more than 10.
bench-ab: build
	./scripts/bench-ab $(BAREMARK) $(ROUNDS)

# What a program in the guest costs to start, and a forwarded system call, beside native.
bench-guest:
	$(CARGO) run --release --locked -p baremark-guest-program --example bench

# For an owner of a host with real KVM: every part that needs it, bounded, and what became of each.
verify-kvm:
	./scripts/verify-kvm
