# `make up` and `make test` set up everything they need by themselves.

ARGS ?=
SCHEDULES ?= 200
SEED ?= 1
AWAY ?=
SECONDS ?= 60

# Shown by `memwide --version`; a tree without history builds too.
export MEMWIDE_COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)

.PHONY: up test tools fmt lint bench faults fuzz help

help:
	@echo 'make up [ARGS="--demo"]   build memwide and run it on this machine'
	@echo 'make test                 everything that must hold before a change goes in'
	@echo 'make tools                fetch nats-server and the engine, print where they are'
	@echo 'make fmt                  format all code'
	@echo 'make lint                 clippy, warnings denied'
	@echo 'make bench                measure, with perf beside us'
	@echo 'make faults SCHEDULES=200 SEED=1   kill processes at random moments, compare sums'
	@echo 'make faults SCHEDULES=0 AWAY=600   take the store away for so many seconds under load'
	@echo 'make fuzz SECONDS=60      feed parsers with random bytes (RUNS=n executions, TARGET=name)'

up:
	scripts/setup up
	cargo build --locked --release -p memwide
	@exec target/release/memwide up $(ARGS)

test:
	@MEMWIDE_COMMIT= scripts/test

tools:
	@scripts/fetch-tools

fmt:
	cargo fmt --all

lint:
	cargo clippy --locked --workspace --all-targets -- -D warnings

bench:
	cargo build --locked --release -p memwide
	cargo bench --locked -p memwide-tests --bench analysis
	cargo bench --locked -p memwide-store --bench insert
	cargo bench --locked -p memwide-query --bench day
	cargo bench --locked -p memwide-collector --bench cost
	cargo bench --locked -p memwide-tests --bench fleet

faults:
	cargo build --locked --release -p memwide
	MEMWIDE_FAULT_SCHEDULES=$(SCHEDULES) MEMWIDE_FAULT_SEED=$(SEED) \
		cargo test --locked --release -p memwide-tests --test faults -- --nocapture schedules
	$(if $(AWAY),MEMWIDE_FAULT_AWAY_S=$(AWAY) cargo test --locked --release -p memwide-tests --test faults -- --nocapture away_for_long)

fuzz:
	@scripts/fuzz $(SECONDS)
