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

# With cargo-auditable, binaries carry the list of their dependencies.
AUDITABLE := $(shell $(CARGO) auditable --version >/dev/null 2>&1 && echo auditable)

.PHONY: help deps prefix pages build install demo test lint shim preloads testdouble bench soak advisories sbom

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

prefix: deps
	@$(CARGO) xtask prefix all

# Objects for LD_PRELOAD and the NVML test double lie beside the binaries that look for them.
OUT := $(DEBUG)/lib/throughline
shim:
	@$(MAKE) --no-print-directory -C crates/mpit-bridge/shim OUT=$(CURDIR)/$(OUT)

# What enters users' programs and containers: the shim and throughline-exec, for a glibc older than this machine's.
BIN := $(DEBUG)
preloads: OUT = $(BIN)/lib/throughline
preloads: shim
	$(CARGO) $(AUDITABLE) rustc --profile $(or $(filter demo release,$(notdir $(BIN))),dev) --package throughline-mpit-bridge --bin throughline-exec \
		-- -C linker=$(CURDIR)/xtask/user-cc.sh -C link-arg=-Wl,--build-id=sha1
	@deploy/check-glibc.sh $(OUT)/libthroughline-*.so $(BIN)/throughline-exec

testdouble:
	@$(MAKE) --no-print-directory -C crates/gpu/testdouble OUT=$(CURDIR)/$(OUT)

# Pages of throughline serve: built before the crate that embeds them. npm's own list says what is installed.
WEB := crates/gateway/web
PAGES := $(WEB)/dist/pages/index.html
pages: deps
	@$(MAKE) --no-print-directory $(PAGES)

$(WEB)/node_modules/.package-lock.json: $(WEB)/package.json $(WEB)/package-lock.json
	cd $(WEB) && npm ci --loglevel=error
	@touch $@

$(PAGES): $(WEB)/node_modules/.package-lock.json crates/gateway/openapi.yaml $(wildcard $(addprefix $(WEB)/,*.ts *.json index.html build/*)) \
		$(shell find $(WEB)/src $(WEB)/public -type f ! -name schema.ts)
	cd $(WEB) && npm run --silent build
	@touch $@

PRODUCTS := $(addprefix --package throughline-,cli agent fabric)
build: deps pages
	$(CARGO) $(AUDITABLE) build --release --bins $(PRODUCTS)
	@$(MAKE) --no-print-directory preloads BIN=$(RELEASE)

# Builds nothing: whoever installs as root should not compile as root.
PREFIX ?= /usr
FROM := $(RELEASE)
install:
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) deploy/install.sh $(FROM)

# The products, and beside them the demo with its test double, which no installation has. By a profile of its own: whoever tries
# it out waits for the compiler most of all.
demo: deps pages
	$(CARGO) build --profile demo --bins $(PRODUCTS) --package throughline-demo
	@$(MAKE) --no-print-directory preloads testdouble BIN=$(DEMO) OUT=$(DEMO)/lib/throughline
	@$(DEMO)/throughline demo $(ARGS)

lint: deps
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	shellcheck $$(git ls-files '*.sh' .ci/run)
	@deploy/check-units.sh
	@$(MAKE) --no-print-directory preloads
	@$(CARGO) xtask deny bans licenses sources
	@$(MAKE) --no-print-directory advisories

# Known faults of dependencies. Nothing is fetched here: docs/RELEASE.md says how to bring the list up to date.
ADVISORIES ?= $(or $(CARGO_HOME),$(HOME)/.cargo)/advisory-dbs
advisories:
	@if [ -z "$$(ls -A '$(ADVISORIES)' 2>/dev/null)" ]; then \
	   xtask/skipped.sh left-out "make advisories" "no list in $(ADVISORIES); cargo deny fetch db"; \
	 else $(CARGO) xtask deny --disable-fetch advisories; fi

# What a release is made of, for those who look for faults in its parts.
sbom:
	@$(CARGO) xtask sbom

# Tests and checks that could not check anything, for the list at the end.
test: export THROUGHLINE_SKIPPED_FILE := $(CURDIR)/target/skipped-tests.txt
test: prefix pages
	@: > $(THROUGHLINE_SKIPPED_FILE)
	@$(MAKE) --no-print-directory lint
	cd $(WEB) && npm test --silent
	$(CARGO) build --workspace --bins
	@$(MAKE) --no-print-directory shim testdouble OUT=$(DEBUG)/lib/throughline
	@$(CARGO) xtask test; status=$$?; \
	 xtask/skipped.sh list $(THROUGHLINE_SKIPPED_FILE); exit $$status

bench: build prefix
	@benches/run.sh

soak: build prefix
	@benches/soak.sh
