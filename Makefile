# Two commands do everything: `make run` and `make test`.

CARGO ?= cargo

.PHONY: run test lint bench docs pictures prove tools demo

run:
	$(CARGO) run --release

# Lints and every test, against real tools on loopback. Starts nothing on the ports of this machine's
# own services and needs no root.
test: tools lint
	CARGO="$(CARGO)" tests/all.sh

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --test flush_live --test unscaled -- -D warnings
	$(CARGO) clippy --no-default-features --lib --bins -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items

# The cost of running, in one table, beside Debian's prometheus-node-exporter.
bench: tools
	$(CARGO) bench --bench cost

# Writes the references and golden files anew.
docs:
	UPDATE=1 $(CARGO) test --test generated --test rules --test alerts

# Pictures of every view for people, below target/pictures and docs/pictures. The dashboards are drawn by
# the program that PREVIEW names.
pictures: tools
	tests/pictures.sh

# Slow proofs; their figures are in docs/PROOFS.md with date and commit.
prove: tools
	tests/prove.sh

# An eventful hour of a shared box, replayed in five minutes on http://localhost:10058.
demo:
	$(CARGO) run --release -- replay tests/scenarios/eventful-hour.txt --serve --speed 12

tools:
	@tests/tools.sh
