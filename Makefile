# Two commands do everything on a fresh Debian 12 or 13 machine with Rust:
#   make demo        the whole path on simulated hardware and a private TimescaleDB (ARGS=--once ends by itself)
#   make test        format, lints, C warnings and sanitizers, every test
# Both fetch what they need first: compilers and headers by apt where allowed (make deps), programs with
# services unpacked into a prefix and never installed (make prefix).

CARGO   ?= cargo
ARGS    ?=
RELEASE := target/release
DEBUG   := target/debug
DEMO    := target/demo
# A command with one line of output and its duration.
STEP    := xtask/step.sh

# With cargo-auditable, binaries carry the list of their dependencies.
AUDITABLE := $(shell $(CARGO) auditable --version >/dev/null 2>&1 && echo auditable)

.PHONY: help deps prefix pages build install demo test lint style shim preloads glibc testdouble bench soak licenses advisories sbom

help:
	@sed -n '2,5s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))
	@echo "  make build       release binaries and the objects beside them, in $(RELEASE)"
	@echo "  make pages       the pages that throughline serve embeds, in $(WEB)/dist"
	@echo "  make install     puts what make build made below PREFIX (/usr), staged below DESTDIR"
	@echo "  make lint        what make test checks before the tests"
	@echo "  make bench       measurements against the standard tools, as ratios"
	@echo "  make sbom        what the binaries and pages are made of, as CycloneDX, in $(RELEASE)"
	@echo "  make soak        the spool and crash tests and the crawler, longer; an hour of faults (tests/chaos); remote write"

deps:
	@xtask/deps.sh

XTASK := $(CARGO) xtask
prefix: deps
	@$(XTASK) prefix all

# Objects for LD_PRELOAD and the NVML test double lie beside the binaries that look for them.
OUT := $(DEBUG)/lib/throughline
shim:
	@$(STEP) "shim" $(MAKE) --no-print-directory -C crates/mpit-bridge/shim OUT=$(CURDIR)/$(OUT)

# What enters users' programs and containers: the shim and throughline-exec, for a glibc older than this machine's.
preloads: shim
	@$(STEP) "throughline-exec" $(CARGO) build --package throughline-mpit-bridge --bins
	@$(MAKE) --no-print-directory glibc

BIN := $(DEBUG)
glibc:
	@deploy/check-glibc.sh $(BIN)/lib/throughline/libthroughline-*.so $(BIN)/throughline-exec

testdouble:
	@$(STEP) "test doubles" $(MAKE) --no-print-directory -C crates/gpu/testdouble OUT=$(CURDIR)/$(OUT)

# Pages of throughline serve: built before the crate that embeds them. npm's own list says what is installed.
WEB := crates/gateway/web
PAGES := $(WEB)/dist/pages/index.html
pages: deps
	@$(MAKE) --no-print-directory $(PAGES)

$(WEB)/node_modules/.package-lock.json: $(WEB)/package.json $(WEB)/package-lock.json
	@$(STEP) "packages of the pages" sh -c "cd $(WEB) && npm ci --loglevel=error"
	@touch $@

$(PAGES): $(WEB)/node_modules/.package-lock.json crates/gateway/openapi.yaml $(wildcard $(addprefix $(WEB)/,*.ts *.json index.html build/*)) \
		$(shell find $(WEB)/src $(WEB)/public -type f ! -name schema.ts)
	@$(STEP) "pages" sh -c "cd $(WEB) && npm run --silent build"
	@touch $@

# In one command: cargo compiles a dependency again for each set of features, and that depends on the packages of a command.
PRODUCTS := $(addprefix --package throughline-,cli agent fabric mpit-bridge)
build: deps pages
	@$(MAKE) --no-print-directory shim OUT=$(RELEASE)/lib/throughline
	@$(STEP) "programs" $(CARGO) $(AUDITABLE) build --release --bins $(PRODUCTS)
	@$(MAKE) --no-print-directory glibc BIN=$(RELEASE)

# Builds nothing: root installs, and should not compile.
PREFIX ?= /usr
FROM := $(RELEASE)
install:
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) deploy/install.sh $(FROM)

# The products, and beside them the demo with its test double, which no installation has. By a profile of its own: compiling takes
# most of the time of a first try.
demo: deps pages
	@$(MAKE) --no-print-directory shim testdouble OUT=$(DEMO)/lib/throughline
	@$(STEP) "programs" $(CARGO) build --profile demo --bins $(PRODUCTS) --package throughline-demo
	@$(MAKE) --no-print-directory glibc BIN=$(DEMO)
	@$(DEMO)/throughline demo $(ARGS)

lint: deps style
	@$(STEP) "clippy" $(CARGO) clippy --workspace --all-targets -- -D warnings
	@$(MAKE) --no-print-directory preloads licenses

style:
	@$(STEP) "format" $(CARGO) fmt --all --check
	@$(STEP) "shellcheck" shellcheck $$(git ls-files '*.sh' .ci/run)
	@deploy/check-units.sh

licenses:
	@$(XTASK) deny bans licenses sources
	@$(MAKE) --no-print-directory advisories

# Known faults of dependencies. Nothing is fetched here: docs/RELEASE.md says how to bring the list up to date.
ADVISORIES ?= $(or $(CARGO_HOME),$(HOME)/.cargo)/advisory-dbs
advisories:
	@if [ -z "$$(ls -A '$(ADVISORIES)' 2>/dev/null)" ]; then \
	   xtask/skipped.sh left-out "make advisories" "no list in $(ADVISORIES); cargo deny fetch db"; \
	 else $(XTASK) deny --disable-fetch advisories; fi

# What a release is made of, for those who look for faults in its parts.
sbom:
	@$(CARGO) xtask sbom

# Tests and checks that could not check anything, for the list at the end.
test: export THROUGHLINE_SKIPPED_FILE := $(CURDIR)/target/skipped-tests.txt
# Programs, tests and lints in one compilation: clippy's driver is a compiler. As cargo clippy calls it.
test: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
test: export CLIPPY_ARGS := -Dwarnings
test: deps pages
	@mkdir -p $(DEBUG)
	@: > $(THROUGHLINE_SKIPPED_FILE)
	@$(MAKE) --no-print-directory style shim testdouble
	@$(STEP) "programs, tests and lints" $(CARGO) build --workspace --all-targets
	@$(MAKE) --no-print-directory glibc prefix licenses XTASK=$(DEBUG)/xtask
	@$(STEP) "tests of the pages" sh -c "cd $(WEB) && npm test --silent"
	@$(DEBUG)/xtask test; status=$$?; \
	 xtask/skipped.sh list $(THROUGHLINE_SKIPPED_FILE); exit $$status

bench: build prefix
	@benches/run.sh

soak: build prefix
	@benches/soak.sh
