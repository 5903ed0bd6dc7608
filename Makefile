# The two commands of the README, and what else is worth a name. `make run` needs a Rust toolchain and a C compiler.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
EXAMPLES := $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/examples
BAREMARK := $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/baremark

# Every target here is a command.
.PHONY: $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

build:
	$(CARGO) build --release --locked -p baremark

# Build, then the standard study on this machine.
run: build
	$(BAREMARK)

# The members of the study `gpu`, beside the program, where it finds them: a workspace of its own (apps/gpu), so that nothing else depends on
# Vulkan. Linked dynamically, since a driver is loaded as it runs; that needs one, such as Debian's mesa-vulkan-drivers.
GPU_BUILD := cd apps/gpu && RUSTFLAGS="-C target-feature=-crt-static" CARGO_TARGET_DIR=$(abspath $(TARGET_DIR))/gpu $(CARGO)
gpu-programs:
	$(GPU_BUILD) build --release --locked
	install -D $(TARGET_DIR)/gpu/x86_64-unknown-linux-gnu/release/baremark-gpu $(dir $(BAREMARK))baremark-gpu

# Their lints and tests; what needs a Vulkan driver is skipped, and counted, where there is none.
test-gpu: gpu-programs
	cd apps/gpu && $(CARGO) fmt --check
	$(GPU_BUILD) clippy --release --locked --all-targets -- -D warnings
	$(GPU_BUILD) test --release --locked

# Tests, by what their outcome depends on (docs/testing.md). FILTER="word" picks tests whose suite or name has it.
RUNNER := $(TARGET_DIR)/x86_64-unknown-linux-gnu/release/test-runner
test-runner:
	$(CARGO) build --release --locked --workspace --bin test-runner

# Those whose outcome follows from the code alone. Nothing is installed for them. SUITE=report builds and runs those of one crate, or of one target.
test: test-runner
	$(RUNNER) code $(if $(SUITE),--suite $(SUITE)) $(FILTER)

# Those with other people's programs and of privileged parts of the kernel. What the machine lacks is counted and printed. SUITE=kernel
# picks one; RECORD=1 appends a row to the table in docs/testing.md.
test-systems: $(if $(filter-out gpu,$(SUITE)),,test-gpu) test-runner
	./scripts/install-needs $(SUITE)
	$(if $(filter-out qemu servers kernel places,$(SUITE)),,./scripts/fetch-kernel || echo "no kernel for guests: their tests will be skipped, each with its reason")
	$(if $(filter-out servers,$(SUITE)),,./scripts/install-schemathesis || echo "no schemathesis: its test will be skipped")
	$(RUNNER) systems $(if $(SUITE),--suite $(SUITE)) $(if $(RECORD),--record) $(FILTER)

# Those that judge live measurements, on a quiet machine: a table of rates. WHAT=ab picks by name, ROUNDS=N runs each N times (3 without), RECORD=1
# writes what was found into docs/measured.md.
test-measured: test-runner
	./scripts/install-needs measured
	$(RUNNER) measured $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RECORD),--record) $(WHAT)

# Before every commit: format, lints, and the tests that need no system but this one: crates of pure functions, the shape of the source's
# crates, argument parsing, statistics without their long simulations. `-p baremark` has the dependencies built as for the whole workspace.
check: lint
	$(CARGO) test --release --locked --quiet -p baremark $(patsubst %,-p baremark-%,$(PURE)) --lib --bin baremark --test model --test language
PURE := model stats kernels mmu report store workloads

# What is handed out: a tarball, a Debian package and a Python wheel in target/dist, the same bytes for the same commit.
dist:
	./scripts/dist

# Runs what README.md and docs/guide.md show, and writes what it printed into docs/samples and both documents. ONLY="ab load" picks samples. Wants a quiet
# machine with /dev/kvm, and root.
docs-samples: build
	./scripts/docs-samples $(BAREMARK) $(ONLY)
	UPDATE_PAGES=1 $(CARGO) test --release --locked -p baremark --test documents samples::

# Pictures of a report of each kind of run and of a site, 1280 and 390 pixels wide, light and dark, in target/screenshots/COMMIT. Needs Chromium.
screenshots: build
	$(CARGO) build --release --locked --workspace --example pages
	./scripts/screenshots $(BAREMARK) $(EXAMPLES)/pages $(TARGET_DIR)/screenshots

# The tarball's files below PREFIX.
PREFIX ?= /usr/local
install:
	./scripts/install $(TARGET_DIR)/dist $(DESTDIR)$(PREFIX)

# The second run has the test targets that are not run by default.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --release --locked --workspace --test '*' -- -D warnings

# What takes too long for every change: ten million fuzz cases of each kind, a thousand kills, a hundred failovers, machines under signals, images
# of every tier, a database in an emulated guest, control groups of version 2, device-mapper, NBD and netem in such guests, a hundred A/A runs, of
# which ten may say that something differs, `ab` of real programs with themselves and with injected losses, forecasts of `plan --pilot` against real runs,
# the simulations of intervals, gates and their confirmation, injected causes that must be named, predictions of protection against what is measured, and standard runs whose answers must be narrow and
# agree (all of these want a quiet machine).
soak: stream-source build
	./scripts/soak-aa $(BAREMARK) $(TARGET_DIR)/soak-aa
	./scripts/soak-ab $(BAREMARK) $(TARGET_DIR)/soak-ab
	./scripts/soak-phases $(BAREMARK) $(TARGET_DIR)/soak-phases
	./scripts/soak-plan $(BAREMARK) $(TARGET_DIR)/soak-plan
	./scripts/soak-causes $(BAREMARK) $(TARGET_DIR)/soak-causes
	./scripts/soak-answers $(BAREMARK) $(TARGET_DIR)/soak-answers
	./scripts/soak-networks $(BAREMARK) $(TARGET_DIR)/soak-networks
	./scripts/kill-everything $(BAREMARK) 100
	cd fuzz && $(CARGO) run --release --locked --bin soak -- study 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- bundle 100000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- import 1000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- job 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- histogram 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- frame 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- trace 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- machine 1000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- http1 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- http2 10000000
	cd fuzz && $(CARGO) run --release --locked --bin soak -- scenario 10000000
	BAREMARK_INTERFACE_EXAMPLES=200 $(SOAK) --test programs -- --nocapture every_operation
	BAREMARK_POWER_LOSSES=100 $(SOAK) --test kernel -- --nocapture when_power_is_lost
	BAREMARK_SERVER_KILLS=100 $(SOAK) --test servers --test databases -- --nocapture a_kill_
	BAREMARK_FAILOVERS=100 $(SOAK) --test runs --test servers --test programs -- --nocapture failover
	BAREMARK_KILLS=1000 $(SOAK) --test runs -- --ignored --nocapture random_moments
	BAREMARK_CONTAINER_KILLS=200 $(SOAK) --test podman -- --nocapture kills::
	./scripts/install-needs soak
	./scripts/fetch-sources
	$(SOAK) --test stats --test guest -- --ignored --nocapture soak
	$(SOAK) --test commands -- --ignored --nocapture schemas_of
	$(SOAK) --test measured -- --ignored --nocapture --test-threads=1 soak studies_of_kernels
	./scripts/make-base
	$(SOAK) --test podman --test places --test programs -- --ignored --nocapture --test-threads=1 every_tier_runs tiers_in_guests gromacs apache under_mpi
	$(STREAM) $(SOAK) --test kernel --test qemu -- --ignored --nocapture --test-threads=1 soak java_and_a_compiler
	$(STREAM) $(SOAK) --test programs -- --ignored --nocapture --test-threads=1 soak_threads
	BAREMARK_SOAK_SECONDS=300 $(SOAK) --test microvm -- --ignored --nocapture soak
	$(MAKE) soak-check

# Test targets of all crates by name, with new random cases in each run.
SOAK = PROPTEST_RNG_SEED=$$(date +%s) $(CARGO) test --release --locked --workspace

# How much of what the best fixed plan would reach in the same time the standard study reaches here, by resampling a trace of ten minutes: a line for each ratio, and the
# share of the time that is measured. Fails where an efficiency is below 0.8 or less than 75 % of the time is measured. RECORD=1 appends the table to docs/statistics.md. Takes a quarter of an hour; wants a quiet machine.
efficiency: build
	./scripts/efficiency $(BAREMARK) $(TARGET_DIR)/efficiency $(if $(RECORD),--record docs/statistics.md)

# Are causes of small losses named? ROUNDS=N rounds of each kind, 100 without; those of earlier starts with the same program count. KINDS="disk cpu"
# picks kinds.
soak-causes: build
	./scripts/soak-causes $(BAREMARK) $(TARGET_DIR)/soak-causes $(or $(ROUNDS),100) $(KINDS)

# Other people's programs natively and in the microVM, in turns: whether they print and end alike, their run times, and the calls that were
# forwarded, as a table. Goes on where an earlier start with the same build ended. ONLY="gcc" picks programs. Fails where one differs or takes
# longer than 30 s, a control that computes is slower than 1.03 times natively, or, of all, fewer than 36 are identical. STREAM_C=FILE is the
# author's stream.c.
soak-programs: stream-source
	./scripts/install-needs soak
	BAREMARK_ONLY="$(ONLY)" $(STREAM) $(CARGO) test --release --locked --workspace --test programs -- --ignored --nocapture soak_programs

# STREAM by its author for these programs: the file that STREAM_C names, else Debian's copy.
stream-source:
	$(if $(STREAM_C),,./scripts/fetch-hpcc $(PEERS) || echo "no source of hpcc: stream.c is left out")
STREAM = BAREMARK_PEERS=$(abspath $(PEERS)) STREAM_C=$(if $(STREAM_C),$(abspath $(STREAM_C)))

# Does `ab` find a difference where there is none, in 20 A/A rounds of each of ten real programs, and does it find 3 % and bound 1 % in a C program?
# ROUNDS=N for fewer; rounds of earlier starts with the same program count. KINDS="gzip plus-3" picks. By its budgets a round of all programs takes 2 minutes, and every other one 2 more for injections.
soak-ab: build
	./scripts/soak-ab $(BAREMARK) $(TARGET_DIR)/soak-ab --rounds $(or $(ROUNDS),20) $(KINDS)

# Does `check --confirm` fail where nothing has changed, and does it find a loss of 2 %? RUNS runs of a program of 1 s (150 without, a quarter of an hour; those of earlier starts with
# the same program count), of which gates are drawn: a table for wall time and one for CPU time. Fails where a goal is missed.
soak-check: build
	./scripts/soak-check $(BAREMARK) $(TARGET_DIR)/soak-check $(RUNS)
	short=0; for metric in wall_s cpu_s; do \
	$(CARGO) run --release --locked --quiet -p baremark-stats --example stored-gates -- $(TARGET_DIR)/soak-check/$$metric || short=1; \
	done; exit $$short

# Figures of the microVM on this machine: first instruction, exits, leaves, random access by leaf.
figures:
	$(CARGO) test --release --locked -p baremark-microvm --test measured -- --ignored --nocapture --test-threads=1 figures

# The programs of other people that the tests of all systems use; installed by name where they are missing.
install-needs:
	./scripts/install-needs
	./scripts/install-schemathesis || echo "no schemathesis: its test will be skipped"
	./scripts/fetch-kernel || echo "no kernel for guests: their tests will be skipped, each with its reason"

# The auction's app server on PostgreSQL: processor time of each operation and of the mix, loading, drawing, memory when idle.
bench-auction:
	$(CARGO) test --release --locked -p baremark-auction --test measured -- --ignored --nocapture figures

# The load engine beside wrk and h2load on an nginx of its own, plain and through TLS, its send lag, and 50,000 users (needs
# nginx, wrk, nghttp2-client and two quiet CPUs). One line a pairing: ours, the peer's, the ratio with its interval, the goal,
# and `ok`, `SHORT` or `undecided` by the rule of `make bench`. As every bench of `scripts/held`, it fails where a line is short.
bench-load:
	$(CARGO) build --release --locked --workspace --example bench-load
	./scripts/held $(EXAMPLES)/bench-load

# The disk engine beside fio at equal settings, six patterns on the disk of TMPDIR (needs fio and 1 GiB): IOPS, CPU per I/O and p99,
# each with its ratio, goal and verdict. ONLY="random-read" picks patterns.
bench-disk:
	$(CARGO) build --release --locked --workspace --example bench-disk
	./scripts/held $(EXAMPLES)/bench-disk $(ONLY)

# What tracing every I/O costs at the highest rate here, in pairs with and without: IOPS, CPU per I/O (needs root and 256 MiB).
bench-histograms:
	$(CARGO) build --release --locked --workspace --example bench-histograms
	./scripts/held $(EXAMPLES)/bench-histograms $(if $(ROUNDS),rounds=$(ROUNDS))

# Streams and round trips beside iperf3 and sockperf, over loopback and a veth pair (needs iperf3, sockperf, root and two quiet CPUs). One line a
# figure: ours, the peer's, the ratio with its interval, the goal, and `ok`, `SHORT` or `undecided`. ROUNDS=N for more than 12.
bench-net:
	$(CARGO) build --release --locked --workspace --example bench-net
	./scripts/held $(EXAMPLES)/bench-net $(if $(ROUNDS),rounds=$(ROUNDS))

# The database driver beside pgbench (single statement, TPC-B-like) and sysbench (read-write on MariaDB): transactions per second,
# CPU time of the driver, send lag. Needs postgresql, mariadb-server, sysbench and two quiet CPUs; WHAT="select tpcb" picks pairings.
bench-db:
	$(CARGO) build --release --locked --workspace --example bench-db
	./scripts/held $(EXAMPLES)/bench-db $(WHAT)

# The key-value driver beside redis-benchmark: commands per second and CPU time of the driver per command, one and sixteen under way on each
# connection (needs redis-server, redis-tools and two quiet CPUs). WHAT="get set16" picks pairings, ROUNDS=N for more than 12.
bench-redis:
	$(CARGO) build --release --locked --workspace --example bench-redis
	./scripts/held $(EXAMPLES)/bench-redis $(WHAT) $(if $(ROUNDS),rounds=$(ROUNDS))

# Translations a second of the page-walk simulator, by stream and scheme, against its goal (wants a quiet CPU).
bench-mmu:
	$(CARGO) build --release --locked --workspace --example speed
	./scripts/held $(EXAMPLES)/speed

# baremark beside the HPC Challenge's own programs, and against its own limits: one line a pairing with `ok`, `SHORT`, `undecided`
# or `no goal`; fails where one is short or could not be run. It says how long it takes; ONLY="hpl dgemm" picks pairings. Then, without ONLY and
# where there is /dev/kvm, `make bench-guest`, whatever came before. Wants a quiet machine.
PEERS := $(TARGET_DIR)/peers
BENCH := ./scripts/held env BAREMARK_PEERS=$(abspath $(PEERS)) $(EXAMPLES)/pairings

bench: bench-build
	$(BENCH) $(ONLY); status=$$?; $(if $(ONLY),,$(BENCH_GUEST)) exit $$status

BENCH_GUEST = if [ -w /dev/kvm ]; then $(MAKE) --no-print-directory bench-guest || status=1; \
	else echo "no figures of programs in the microVM: /dev/kvm cannot be opened"; fi;

bench-quick: bench-build
	$(BENCH) --quick $(ONLY)

bench-build: build
	$(CARGO) build --release --locked --workspace --example pairings
	./scripts/bench-peers $(PEERS) || echo "no peers: their pairings cannot be run"

# What observing a machine once a second takes of one CPU, beside reading nothing; fails above half a percent.
bench-observe: build
	$(BAREMARK) top --cost --count 60
	$(BAREMARK) top --rows --cost --count 60

# What bringing 100 MiB to a site takes in time and in memory of both ends, over the frames of the wire.
bench-carry: build
	$(CARGO) build --release --locked --workspace --example carry
	$(EXAMPLES)/carry

# `history` within 0.3 s and `report` within 1 s on a store of 10,000 runs, which it makes: one line a command, `ok` or `SHORT`.
bench-store: build
	$(CARGO) build --release --locked --workspace --example many_runs
	./scripts/bench-store $(BAREMARK) $(EXAMPLES)/many_runs

# Whether this build is slower than an earlier one, OLD=path of its program: kernels, load, disks, a database, import and report, in turns. ONLY="load disk"
# picks works, ROUNDS=N for more than 10; takes about half a minute a round.
bench-self: build
	./scripts/bench-self $(or $(OLD),$(error bench-self: OLD: write OLD=path of the earlier program)) $(BAREMARK) $(or $(ROUNDS),10) $(ONLY)

# How much narrower intervals are where native and a container take turns within a trial, than by OLD=path of a program of a28a8be9 or before, whose trials
# are of one side alone. ONLY="fma block" picks works, ROUNDS=N for more than 3 of eight minutes each; a quiet machine.
bench-turns: build
	./scripts/bench-turns $(or $(OLD),$(error bench-turns: OLD: write OLD=path of the earlier program)) $(BAREMARK) container $(or $(ROUNDS),3) $(ONLY)

# `ab` against hyperfine -N and a bare loop of posix_spawn and wait4: what it adds to the time of an empty static program, whether the
# times of two commands agree, and how much their ratio varies at equal wall time: `ok`, `SHORT` or `undecided` (needs hyperfine).
# Takes five minutes; ROUNDS=N for more than 10.
bench-ab: build
	./scripts/bench-ab $(BAREMARK) $(ROUNDS)

# What a program in the guest costs to start, and a forwarded system call, beside native; beside another program that runs programs in a
# guest, where PEER="elfvm" names one.
bench-guest:
	$(CARGO) build --release --locked --workspace --example bench-guest
	$(if $(PEER),BAREMARK_GUEST_PEER=$(PEER)) ./scripts/held $(EXAMPLES)/bench-guest

# For an owner of a host with real KVM: every part that needs it, bounded, and what became of each.
verify-kvm:
	./scripts/verify-kvm
