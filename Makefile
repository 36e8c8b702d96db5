# Every target sets up what it needs; `make` alone lists them.

PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
# Empty: the installation keeps the parts that a debugger needs.
STRIP ?= strip
VERSION := $(shell sed -n 's/^version *= *"\([^"]*\)".*/\1/p' Cargo.toml | head -n 1)
SONAME := libmainstay.so.$(firstword $(subst ., ,$(VERSION)))
# How cargo compiles. The tests take `dev`, which is compiled in a sixth of the time of `release`.
BUILD_PROFILE ?= release
export BUILD_PROFILE
BUILT = target/$(patsubst dev,debug,$(BUILD_PROFILE))
SHARE = $(DESTDIR)$(PREFIX)/share
# The oldest glibc that a wheel of `make wheel` runs with: that of RHEL 8 and its like, and of Debian 10.
GLIBC := 2.28
MDBOOK_VERSION := 0.5.4
MDBOOK := target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
# The MPI libraries for ranks in slots: their compiler, and the folder of its objects.
RANKS_CC ?= $(CC)
RANKS_OBJECTS ?= target/ranks-objects
# The library that `mainstay files` loads into programs.
FILES_OBJECTS ?= target/files-objects
FILES = $(MAKE) -s --no-print-directory -f files/preload/Makefile OUT='$(BUILT)/files' OBJECTS='$(FILES_OBJECTS)' CC='$(RANKS_CC)'
RANKS = $(MAKE) -s --no-print-directory -f capi/ranks/Makefile OUT='$(BUILT)/ranks' OBJECTS='$(RANKS_OBJECTS)' CC='$(RANKS_CC)'
BENCHES = $(patsubst bench/%.py,%,$(wildcard bench/*.py))

.DEFAULT_GOAL := help
.PHONY: help build demo test check environments fuzz test-cephfs bench reproduce guide install header api fmt lint campaign clean check-rust check-tests check-cephfs check-slurm check-parallel check-browser check-torch check-criu environment-peers peers stage wheel python

help:
	@echo "make build                    the libraries and the command, in $(BUILT)"
	@echo "make demo                     a parallel job loses a node, and comes back from the memory of another"
	@echo "make test                     the tests that decide whether a change lands, within 10 minutes on two cores"
	@echo "make test NAME=holds::        the tests in Rust with that in their names"
	@echo "make test NAME=tests/test_run.py::test_x     one test in Python, or one file of them"
	@echo "make check                    format, lints, and unit tests of what changed since the last commit"
	@echo "make fuzz                     hostile bytes for every reader, led by coverage; NAME=manifest: one target; SECONDS=1800"
	@echo "make test-cephfs              those that need a CephFS of their own"
	@echo "make bench NAME=path          a benchmark, its rows in bench/out; QUICK=1: within a minute"
	@echo "make reproduce                every table and figure of the five papers, on one page; PAPER=000, FIGURE='7(a)', QUICK=1, NPB=DIR"
	@echo "make peers                    the same work with other savers: numpy, HDF5, PyTorch, CRIU; a table in bench/out/peers.md"
	@echo "make guide                    the guide as a book, in target/guide"
	@echo "make install                  to PREFIX=$(PREFIX), below DESTDIR if given; STRIP= keeps the parts for a debugger"
	@echo "make python                   the Python package for this machine, in .venv and .venv-mpich"
	@echo "make wheel                    the same as a wheel for any Linux of glibc $(GLIBC) or newer, and as an sdist, in dist"
	@echo "make header                   updates the headers of C in capi/include, and the declarations of Fortran"
	@echo "make api                      updates the guide's pages of all calls from the comments in the sources"
	@echo "make fmt                      formats Rust, Python, C and C++"
	@echo "make lint                     formatting and lints, as the tests have them"
	@echo "make campaign                 every test: other seeds, languages and MPIs, CephFS, Slurm; random programs for an hour,"
	@echo "                              or MAINSTAY_CAMPAIGN_SECONDS=..., from MAINSTAY_CAMPAIGN_SEED=... if given"
	@echo "make clean                    removes the results of all these"
	@echo
	@echo "PYTHON=... names the Python (3.10 or newer) that .venv and its like are made from."

.venv/ready: requirements.lock tools/venv.sh
	@PYTHON='$(PYTHON)' sh tools/venv.sh .venv requirements.lock

# MPICH: its commands have the names of those of Open MPI, which is in .venv.
.venv-mpich/ready: requirements-mpich.lock tools/venv.sh
	@PYTHON='$(PYTHON)' sh tools/venv.sh .venv-mpich requirements-mpich.lock

# zig, a hundred megabytes: for `make wheel` alone.
.venv-wheel/ready: requirements-wheel.lock tools/venv.sh
	@PYTHON='$(PYTHON)' sh tools/venv.sh .venv-wheel requirements-wheel.lock

# PyTorch, and with it the libraries of CUDA, 5 GB: for `make peers` alone.
.venv-peers/ready: requirements-peers.lock tools/venv.sh
	@PYTHON='$(PYTHON)' sh tools/venv.sh .venv-peers requirements-peers.lock

environments: .venv/ready .venv-mpich/ready

check-rust:
	@sh tools/check.sh rust c

# Other programs that the tests need. As root, make installs them.
check-tests:
	@sh tools/debian.sh gfortran cmake h5dump:hdf5-tools ncdump:netcdf-bin
	@sh tools/check.sh fortran cmake hdf5

# Daemons and commands of Slurm. Without them the tests that need a Slurm report it, and are skipped.
check-slurm:
	@sh tools/debian.sh slurmctld slurmd sbatch:slurm-client

# Parallel HDF5 and Fortran with MPI, for both MPIs. Without them the tests that need one report it, and are skipped.
check-parallel:
	@sh tools/debian.sh h5pcc.openmpi:libhdf5-openmpi-dev mpiexec.openmpi:openmpi-bin h5pcc.mpich:libhdf5-mpich-dev mpiexec.mpich:mpich

# PyTorch. Without it the test of the training reports it, and is skipped.
check-torch:
	@sh tools/debian.sh torchrun:python3-torch

# CRIU. Without it `make peers` reports it.
check-criu:
	@sh tools/debian.sh criu

# A browser that shows a page of `mainstay report`. Without it its test reports it, and is skipped.
check-browser:
	@sh tools/debian.sh chromium

# Daemons of CephFS, each from the package of its name. Without them the tests that need a CephFS report it, and are skipped.
check-cephfs:
	@sh tools/debian.sh ceph-mon ceph-mgr ceph-osd ceph-mds ceph-fuse

# Cargo decides which files are up to date. Programs look for the soname when they start.
build: check-rust
	cargo build --profile=$(BUILD_PROFILE) --locked
	@ln -sf libmainstay.so $(BUILT)/$(SONAME)
	@$(RANKS)
	@$(FILES)
	@rm -rf $(BUILT)/stand_ins && cp -r capi/stand_ins $(BUILT)/stand_ins

stage: build
	@rm -rf target/wheel-prefix
	@$(MAKE) --no-print-directory install DESTDIR='$(CURDIR)/target/wheel-prefix' PREFIX=/
	@sh tools/stage.sh target/wheel-prefix $(SONAME)

wheel: check-rust .venv-wheel/ready
	sh tools/wheel.sh $(GLIBC)

INSTALL_WHEEL = -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall target/python/*.whl

# The wheel for this machine, from the files of `make build`, installed where tests and demo look for it.
python: stage .venv/ready
	@rm -rf target/python
	.venv/bin/maturin build --profile $(BUILD_PROFILE) --out target/python
	@for home in .venv .venv-mpich; do test ! -e $$home/ready || $$home/bin/python $(INSTALL_WHEEL) || exit; done

demo: build python
	@.venv/bin/python examples/jacobi3d/demo.py

test check: export BUILD_PROFILE = dev
test:
	@$(PYTHON) tools/test.py $(if $(NAMED),--only '$(NAMED)')

fuzz:
	@$(PYTHON) tools/fuzz.py $(if $(SECONDS),--seconds $(SECONDS)) $(NAMED)

check: check-rust .venv/ready
	@$(PYTHON) tools/test.py --check

test-cephfs: check-cephfs build python
	@.venv/bin/python -m pytest tests -m cephfs -rs

# Without optimisation it compiles in half the time, and still builds the book in a second.
$(MDBOOK): | check-rust
	cargo install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --debug \
		--config profile.dev.debug=false --root target/tools/mdbook-$(MDBOOK_VERSION) --target-dir target/tools/build
	@rm -rf target/tools/build

guide: $(MDBOOK)
	$(MDBOOK) build docs/guide

# A NAME from the environment does not count.
NAMED = $(if $(filter command,$(firstword $(origin NAME))),$(NAME))
ifeq ($(filter command,$(firstword $(origin NAME))),)
bench:
	@echo "Which benchmark? make bench NAME=... with one of: $(BENCHES)" >&2; exit 2
else ifeq ($(filter $(NAME),$(BENCHES)),)
bench:
	@echo "There is no benchmark '$(NAME)'. There are: $(BENCHES)" >&2; exit 2
else
bench: build python
	@QUICK='$(QUICK)' .venv/bin/python bench/$(NAME).py
endif

# CephFS, for paper 001, is used if it is there.
reproduce: build python .venv-mpich/ready
	@PAPER='$(PAPER)' FIGURE='$(FIGURE)' QUICK='$(QUICK)' NPB='$(NPB)' KEEP='$(KEEP)' .venv/bin/python bench/reproduce.py

# The other savers, and Mainstay as `make python` has made it.
environment-peers: .venv-peers/ready
	@.venv-peers/bin/python $(INSTALL_WHEEL)

peers: check-criu python
	@$(MAKE) --no-print-directory environment-peers
	@QUICK='$(QUICK)' .venv/bin/python bench/peers.py

# Nothing that is installed knows PREFIX: the folder may be moved. Without cargo, as often under sudo, it
# installs the files of the last build.
install: override PREFIX := $(abspath $(PREFIX))
install: $(if $(shell command -v cargo 2>/dev/null),build)
	@test -e $(BUILT)/libmainstay.so || { sh tools/check.sh rust c; exit 1; }
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(PREFIX)/lib/pkgconfig' \
		'$(DESTDIR)$(PREFIX)/lib/cmake/mainstay' '$(SHARE)/mainstay/fortran' '$(SHARE)/mainstay/ranks' \
		'$(DESTDIR)$(PREFIX)/lib/mainstay/ranks/mpich' '$(DESTDIR)$(PREFIX)/lib/mainstay/ranks/standard' \
		'$(DESTDIR)$(PREFIX)/include/mainstay/ranks/functions' '$(DESTDIR)$(PREFIX)/include/mainstay/ranks/standard'
	install -m 755 $(BUILT)/mainstay '$(DESTDIR)$(PREFIX)/bin/'
	install -m 644 capi/include/mainstay.h capi/include/mainstay.hpp capi/include/mainstay_values.hpp \
		capi/mpi/mainstay_mpi.h capi/mpi/mainstay_mpi.hpp capi/mpi/mainstay_mpi_recovery.h capi/mpi/mainstay_mpi_job.h \
		capi/mpi/mainstay_mpi_agree.h capi/mpi/mainstay_mpi_world.h capi/mpi/mainstay_mpi_regroup.h \
		capi/mpi/mainstay_pfs.h capi/include/mainstay_objects.h capi/include/mainstay_objects.hpp capi/include/mainstay_ranks.h \
		capi/mpi/mainstay_objects_mpi.h capi/mpi/mainstay_objects_mpi.hpp \
		'$(DESTDIR)$(PREFIX)/include/'
	install -m 644 capi/fortran/mainstay.f90 capi/fortran/mainstay_c.inc capi/fortran/mainstay_regions.inc \
		capi/fortran/mainstay_streams.inc capi/fortran/mainstay_recovery.inc capi/fortran/mainstay_reader.f90 \
		capi/fortran/mainstay_fortran.c '$(SHARE)/mainstay/fortran/'
	for folder in . functions standard; do \
		install -m 644 $(BUILT)/ranks/include/$$folder/*.h '$(DESTDIR)$(PREFIX)/include/mainstay/ranks/'$$folder || exit; done
	install -m 644 $(BUILT)/ranks/share/* '$(SHARE)/mainstay/ranks/'
	for file in $$(cd capi && find stand_ins -type f); do \
		install -D -m 644 capi/$$file '$(SHARE)/mainstay/'$$file || exit; done
	install -m 755 $(BUILT)/ranks/mpich/*.so.12 '$(DESTDIR)$(PREFIX)/lib/mainstay/ranks/mpich/'
	install -m 755 $(BUILT)/ranks/standard/*.so.1 '$(DESTDIR)$(PREFIX)/lib/mainstay/ranks/standard/'
	ln -sf libmpi.so.12 '$(DESTDIR)$(PREFIX)/lib/mainstay/ranks/mpich/libmpi.so'
	ln -sf libmpi_abi.so.1 '$(DESTDIR)$(PREFIX)/lib/mainstay/ranks/standard/libmpi_abi.so'
	install -d '$(DESTDIR)$(PREFIX)/lib/mainstay/files'
	install -m 755 $(BUILT)/files/libmainstay_files.so '$(DESTDIR)$(PREFIX)/lib/mainstay/files/'
	install -m 755 $(BUILT)/libmainstay.so '$(DESTDIR)$(PREFIX)/lib/libmainstay.so.$(VERSION)'
	ln -sf libmainstay.so.$(VERSION) '$(DESTDIR)$(PREFIX)/lib/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(PREFIX)/lib/libmainstay.so'
	install -m 644 $(BUILT)/libmainstay.a '$(DESTDIR)$(PREFIX)/lib/'
	@sh tools/strip.sh '$(DESTDIR)$(PREFIX)' '$(STRIP)'
	install -m 644 capi/cmake/mainstay-config.cmake '$(DESTDIR)$(PREFIX)/lib/cmake/mainstay/'
	sed 's|@VERSION@|$(VERSION)|' capi/mainstay.pc.in > '$(DESTDIR)$(PREFIX)/lib/pkgconfig/mainstay.pc'
	sed 's|@VERSION@|$(VERSION)|' capi/cmake/mainstay-config-version.cmake.in \
		> '$(DESTDIR)$(PREFIX)/lib/cmake/mainstay/mainstay-config-version.cmake'
	@chmod 644 '$(DESTDIR)$(PREFIX)/lib/pkgconfig/mainstay.pc' \
		'$(DESTDIR)$(PREFIX)/lib/cmake/mainstay/mainstay-config-version.cmake'
	install -d '$(SHARE)/man/man1' '$(SHARE)/bash-completion/completions' '$(SHARE)/zsh/site-functions' \
		'$(SHARE)/fish/vendor_completions.d'
	$(BUILT)/mainstay man '$(SHARE)/man/man1'
	$(BUILT)/mainstay completions bash > '$(SHARE)/bash-completion/completions/mainstay'
	$(BUILT)/mainstay completions zsh > '$(SHARE)/zsh/site-functions/_mainstay'
	$(BUILT)/mainstay completions fish > '$(SHARE)/fish/vendor_completions.d/mainstay.fish'
	@chmod 644 '$(SHARE)'/man/man1/mainstay*.1 '$(SHARE)/bash-completion/completions/mainstay' \
		'$(SHARE)/zsh/site-functions/_mainstay' '$(SHARE)/fish/vendor_completions.d/mainstay.fish'

header: check-rust
	UPDATE_HEADER=1 cargo test --locked -p mainstay-capi --test header
	$(PYTHON) tools/fortran.py
	$(PYTHON) tools/ranks_fortran.py

# The guide's pages of all calls.
api: python
	.venv/bin/python tools/api.py

fmt: check-rust .venv/ready
	$(PYTHON) tools/format.py

lint: check-rust .venv/ready
	$(PYTHON) tools/words.py
	$(PYTHON) tools/format.py --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

campaign: check-tests check-cephfs check-slurm check-parallel check-browser check-torch wheel $(MDBOOK)
	@$(PYTHON) tools/test.py --campaign

clean:
	rm -rf target .venv .venv-mpich .venv-wheel .venv-peers dist demo-out bench/out
