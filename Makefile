# SPDX-License-Identifier: Apache-2.0
# The front door. Every target is a few words over CMake presets and the scripts of tools/.

SHELL := /bin/bash
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
# Further words for `renaissance train` in the demo, e.g. make demo DEMO_ARGS="--data /my/mnist"
DEMO_ARGS ?=
# A Python that has PyTorch: with it the benchmarks run their peers too.
BENCH_PYTHON ?=
# Where `make install` puts things.
PREFIX ?= /usr/local
# lint looks at the files that differ from this commit.
BASE ?= HEAD~1

RELEASE := build/release

.PHONY: help deps configure build install package test test-extended test-gpu demo bundle bench lint fuzz clean

help:  ## this list
	@echo "Renaissance: make TARGET"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

deps:  ## install what is missing by apt-get, or print the one command that does
	@tools/deps.sh

configure: deps
	@cmake --preset release

build: configure  ## Release build: programs, benchmarks and tests in build/release/bin
	@cmake --build --preset release -j $(JOBS)

install: build  ## library, headers, package files and command under PREFIX
	@cmake --install $(RELEASE) --prefix $(PREFIX)

package: build  ## the same as a Debian package in dist/
	@cd $(RELEASE) && cpack

test: deps  ## everything that this machine can run: Release tests, then unit and case tests under ASan/UBSan
	@JOBS=$(JOBS) tools/run_tests.sh

test-extended: deps  ## TSan, fuzzers, accuracy over five seeds, the bundle in a bare root
	@JOBS=$(JOBS) FUZZ_SECONDS=$(FUZZ_SECONDS) tools/run_extended_tests.sh

test-gpu: deps  ## the tests that need a GPU; an error where there is no nvcc or no GPU
	@JOBS=$(JOBS) tools/run_gpu_tests.sh

demo: configure  ## build the command and train recipe mnist-mlp for ten epochs
	@cmake --build --preset release -j $(JOBS) --target renaissance
	@rm -rf build/demo && mkdir -p build/demo
	@$(RELEASE)/bin/renaissance train mnist-mlp --epochs 10 --log build/demo/log.jsonl --checkpoint build/demo/checkpoints $(DEMO_ARGS)

bundle: configure  ## relocatable folder in dist/ that needs nothing but a C library (TESTS=1: with test programs)
	@cmake --build --preset release -j $(JOBS)
	@TESTS=$(TESTS) tools/make_bundle.sh

bench: build  ## run every benchmark; rows on the terminal, JSON in build/bench
	@BENCH_PYTHON=$(BENCH_PYTHON) tools/run_benchmarks.sh

lint:  ## the source checkers; clang-tidy-16, where installed, on what changed since BASE
	@BASE=$(BASE) tools/lint.sh

fuzz: deps  ## each libFuzzer target for FUZZ_SECONDS seconds
	@JOBS=$(JOBS) FUZZ_SECONDS=$(FUZZ_SECONDS) tools/run_fuzzers.sh

clean:  ## remove build/ and dist/
	rm -rf build dist
