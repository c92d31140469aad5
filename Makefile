# A thin front: `make run` and `make test` work on a bare Debian 12; the rest is CMake and Ninja.
SHELL = /bin/bash
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
LANES ?=
SOAK_MINUTES ?= 60

.PHONY: help run test check bench soak install format clean dev release servers
.DEFAULT_GOAL := help

help:
	@echo 'make run       set up, build and serve the built-in site (build/release/weft serve) until Ctrl-C'
	@echo 'make test      set up, build, and run the tests'
	@echo 'make check     every lane: sanitizers, valgrind, clang, aarch64, explorer ... (LANES="asan tsan")'
	@echo 'make bench     measure against other runtimes (bench/compare)'
	@echo 'make soak      the long run: 100,000 idle connections, 1,000,000 actors, the stress tests (SOAK_MINUTES=60)'
	@echo 'make install   the libraries, the tool and the documents into PREFIX=/usr/local, below DESTDIR= if set'
	@echo 'make format    lay out the sources with clang-format'
	@echo 'make clean     remove build/'

run:
	@tools/setup build
	@[ -e build/release/build.ninja ] || cmake --preset release
	cmake --build build/release -j$(JOBS) --target weft_tool
	build/release/weft serve --log -

test: servers release dev
	ctest --test-dir build/release -j$(JOBS) --output-on-failure --no-label-summary -L 'install|hardening|layering'
	ctest --test-dir build/dev -j$(JOBS) --output-on-failure --no-label-summary -L 'unit|stress'

check:
	tools/check $(LANES)

bench: release
	@tools/setup bench
	bench/compare

soak: release dev
	SOAK_MINUTES=$(SOAK_MINUTES) tools/soak

# Not the tests, nor the benchmarks.
install:
	@tools/setup build
	@[ -e build/release/build.ninja ] || cmake --preset release
	cmake --build build/release -j$(JOBS) --target weft_libraries weft_tool
	DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@case '$(PREFIX)' in /usr|/usr/local) ;; *) \
	    echo 'For programs that use Weft from $(PREFIX): export PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig,'; \
	    echo 'and link with -Wl,-rpath,$(PREFIX)/lib (docs/install.md)' ;; esac

format:
	@tools/setup check
	tools/format

clean:
	rm -rf build

# A build that was configured without them looks again.
servers:
	@tools/setup servers
	@[ ! -e build/dev/build.ninja ] || cmake --preset dev >/dev/null

# Configures once, and again by itself when a list of files changes.
dev release:
	@tools/setup build
	@[ -e build/$@/build.ninja ] || cmake --preset $@
	cmake --build build/$@ -j$(JOBS)
