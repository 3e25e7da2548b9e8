# inboxfs: one non-recursive Makefile. `make help` lists the targets.
#
#   BUILD=DIR      where everything goes (default build)
#   SANITIZE=LIST  e.g. address,undefined or thread; use a BUILD of its own with it
#   CC=clang       any C17 compiler
#   V=1            show the commands
#   PREFIX=DIR, DESTDIR=DIR, SENDMAIL=yes   see `make install`

.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules

BUILD    ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
SENDMAIL ?=
# The one place for it; NEWS and debian/changelog begin with the same (tests/mount/install.bats).
VERSION  := 0.3.0
ifeq ($(origin CC),default)
CC       := gcc
endif
OPT      ?= -O2
SANITIZE ?=
Q        := $(if $(V),,@)

PACKAGES     := fuse3 libcurl jansson gmime-3.0 libxml-2.0 libmicrohttpd sqlite3 zlib libmagic libssl libcrypto
BUILD_PACKAGES := gcc make pkg-config libfuse3-dev libcurl4-openssl-dev libjansson-dev libgmime-3.0-dev libxml2-dev \
                libmicrohttpd-dev libsqlite3-dev zlib1g-dev libmagic-dev libssl-dev scdoc
# For `make run`, and whoever uses what was built.
RUN_PACKAGES := fuse3 jq
TEST_PACKAGES := clang libcmocka-dev libclang-rt-dev \
                clang-format clang-tidy shellcheck bats inotify-tools entr python3-watchdog curl openssl \
                rsync swaks vim git python3 perl attr procps coreutils bsdutils gdb gojq sqlite3 neomutt mutt notmuch maildir-utils isync \
                dovecot-imapd zsh fish s-nail git-email libmailtools-perl bubblewrap
# For targets that few people need, which install them themselves.
MAKE_DEB_PACKAGES := $(BUILD_PACKAGES) build-essential debhelper lintian git
PROGRAM_PACKAGES  := debootstrap cron at php-cli php-symfony-mailer libphp-phpmailer nmh

# What `make check-programs` unpacks below $(BUILD)/programs, and does not install: two mail servers cannot be installed
# beside each other, and start when they are.
PROGRAM_ARCHIVES := postfix exim4-base exim4-daemon-light fetchmail procmail mdadm fail2ban libdb5.3 libicu72 libnsl2 \
                    libidn12 libgnutls-dane0 libunbound8

# Looked up lazily, so that `make deps` and `make help` work where pkg-config is not installed yet.
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell pkg-config --print-errors --exists $$(PACKAGES) && \
             pkg-config --cflags $$(PACKAGES) | sed 's/-I/-isystem /g' || echo missing))$(if \
             $(filter missing,$(PKG_CFLAGS)),$(error a library is missing: `make deps` installs it, or names its package),$(PKG_CFLAGS))
PKG_LIBS   = $(eval PKG_LIBS := $$(shell pkg-config --libs $$(PACKAGES)))$(PKG_LIBS)

WARNINGS := -Wall -Wextra -Wno-unused-parameter -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wwrite-strings -Wformat=2 -Wvla -Wundef -Werror
HARDEN   := -fstack-protector-strong -fPIE -fno-strict-aliasing -fno-common
# Each library that a program does not need would make its start slower: with a sanitizer, twice as slow.
LDHARDEN := -pie -Wl,-z,relro,-z,now,--as-needed
ifeq ($(SANITIZE),)
# What not every compiler, C library and processor has: as much of it as compiles without a warning.
try_flags = $(if $(shell $(CC) -Werror -O2 $(1) -include stdio.h -xc -c -o /dev/null /dev/null 2>&1 || echo no),,$(1))
FORTIFY   = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(1)
HARDEN_HERE = $(eval HARDEN_HERE := $$(call try_flags,-fstack-clash-protection) $$(call try_flags,-fcf-protection) \
              $$(or $$(call try_flags,$$(call FORTIFY,3)),$$(call FORTIFY,2)))$(HARDEN_HERE)
HARDEN   += $(HARDEN_HERE)
else
SANFLAGS := -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
OPT      := -O1 -g
endif

CPPFLAGS += -Isrc -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DFUSE_USE_VERSION=314 -DINBOXFS_VERSION='"$(VERSION)"'
CFLAGS   += -std=c17 $(OPT) -g $(WARNINGS) $(HARDEN) $(SANFLAGS) -pthread
LDFLAGS  += $(LDHARDEN) $(SANFLAGS) -pthread

# ---------------------------------------------------------------- sources: a folder is a layer, a layer an archive

LAYERS       := fs tree outbox store api http service sql mail base
DEPS_base    :=
DEPS_mail    := base
DEPS_sql     := base
DEPS_http    := base
DEPS_api     := http mail base
DEPS_store   := sql mail base
DEPS_outbox  := sql mail base
DEPS_tree    := store outbox sql mail base
DEPS_fs      := tree store outbox sql mail base
DEPS_service := sql mail base

objects  = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(1))
archives = $(foreach l,$(1),$(BUILD)/lib/$(l).a)

PROGRAMS  := $(BUILD)/inboxfs $(BUILD)/inboxd $(BUILD)/inboxfs-sendmail
# What inboxfs-sendmail calls; nobody else does.
HELPERS   := $(BUILD)/inboxfs-maildrop
SUPPORT   := $(patsubst tests/%.c,$(BUILD)/obj/tests/%.o,$(wildcard tests/support/*.c))
UNIT_SRC  := $(sort $(wildcard tests/unit/*/test_*.c))
UNIT      := $(patsubst tests/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
FUZZ_SRC  := $(filter-out tests/fuzz/replay.c,$(sort $(wildcard tests/fuzz/*.c)))
FUZZ      := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(FUZZ_SRC))
TOOL_SRC  := $(sort $(wildcard tests/tools/*.c))
TOOLS     := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,$(TOOL_SRC)) $(BUILD)/tests/fault_preload.so \
             $(BUILD)/tests/clock_preload.so $(BUILD)/tests/record_preload.so $(BUILD)/tests/power_cuts
# The longest first, so that none of them runs alone at the end.
MOUNT     := $(shell ls -S tests/mount/*.bats)
PROGRAM_TESTS := $(wildcard tests/programs/*.bats)
# Of the unit tests, one that waits for long, and two that have ten times as much to do as others.
LONG_UNIT := $(filter %/tree/test_reply_file %/service/test_sending %/service/test_delivery,$(UNIT))
# Those that can be built: all where cmocka is.
UNIT_HERE  = $(if $(shell pkg-config --exists cmocka || echo no),,$(UNIT))
MANUALS   := $(patsubst man/%.scd,$(BUILD)/man/%,$(wildcard man/*.scd))

.PHONY: all deps test-deps run check check-layers check-unit check-mount bench fuzz torture stress lint format asan tsan \
        install uninstall dist deb check-programs clean help unit-% manuals
.SECONDARY:

all: $(PROGRAMS) $(HELPERS) $(MANUALS) ## build the programs and manuals into build/

$(BUILD)/inboxfs: $(call objects,$(filter-out src/%_main.c,$(wildcard src/*.c))) $(call archives,$(LAYERS))
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

$(BUILD)/inboxd: $(BUILD)/obj/inboxd_main.o $(call archives,service sql mail base)
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

$(BUILD)/inboxfs-sendmail: $(call objects,$(filter-out src/sendmail/maildrop_main.c,$(wildcard src/sendmail/*.c))) $(call archives,mail base)
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

# Never built with a sanitizer, which cannot look into a setgid program.
$(BUILD)/inboxfs-maildrop: src/sendmail/maildrop_main.c $(addprefix src/base/,character.c file.c log.c process.c random.c) \
                           src/sendmail/maildrop.h Makefile
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(filter-out $(SANFLAGS),$(CFLAGS) $(LDFLAGS)) -o $@ $(filter %.c,$^)

define layer_rules
$(BUILD)/lib/$(1).a: $$(call objects,$$(wildcard src/$(1)/*.c))
	@mkdir -p $$(@D)
	@rm -f $$@
	@echo "  AR     $$@"
	$(Q)$$(AR) rcs $$@ $$^
$(BUILD)/tests/unit/$(1)/%: $(BUILD)/obj/tests/unit/$(1)/%.o $(SUPPORT) $(call archives,$(1) $(DEPS_$(1)))
	@mkdir -p $$(@D)
	@echo "  LINK   $$@"
	$(Q)$$(CC) $$(LDFLAGS) -o $$@ $$< -Wl,--start-group $(BUILD)/lib/support.a \
	    $(call archives,$(1) $(DEPS_$(1))) -Wl,--end-group $$(PKG_LIBS) -lcmocka
$(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/$(1)/test_*.c)): $(BUILD)/lib/support.a
unit-$(1): $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/$(1)/test_*.c))
	CMOCKA_MESSAGE_OUTPUT=TAP prove -e '' $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rules,$(l))))

$(BUILD)/lib/support.a: $(SUPPORT)
	@mkdir -p $(@D)
	@rm -f $@
	@echo "  AR     $@"
	$(Q)$(AR) rcs $@ $^

# Started thousands of times: never built with a sanitizer, with which it would take forty times as long.
$(BUILD)/tests/tools/%: tests/tools/%.c Makefile
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(CPPFLAGS) -std=c17 -O2 -g $(WARNINGS) -o $@ $<

# A harness with a main that replays what is kept for it; with FUZZ_WITH=libfuzzer with libFuzzer's, see `make fuzz`.
FUZZ_MAIN := $(if $(filter libfuzzer,$(FUZZ_WITH)),-fsanitize=fuzzer,$(BUILD)/obj/tests/fuzz/replay.o)
FUZZ_LIBS := $(call archives,store api service http sql mail base)
$(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/tests/fuzz/replay.o $(BUILD)/obj/options.o $(FUZZ_LIBS)
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(FUZZ_MAIN) $(BUILD)/obj/options.o -Wl,--start-group $(FUZZ_LIBS) -Wl,--end-group \
	    $(PKG_LIBS)

# Cuts the power: what recovers the states of a disk, linked with the outbox.
CUTS_OBJ := $(patsubst tests/%.c,$(BUILD)/obj/tests/%.o,$(addprefix tests/torture/,power_cuts.c cut_disk.c cut_recovery.c))
$(BUILD)/tests/power_cuts: $(CUTS_OBJ) $(call archives,outbox $(DEPS_outbox))
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(CUTS_OBJ) -Wl,--start-group $(call archives,outbox $(DEPS_outbox)) -Wl,--end-group \
	    $(PKG_LIBS)

# Loaded into inboxfs by a test (LD_PRELOAD), so never built with a sanitizer.
$(BUILD)/tests/%_preload.so: tests/torture/%_preload.c Makefile
	@mkdir -p $(@D)
	@echo "  LINK   $@"
	$(Q)$(CC) $(CPPFLAGS) -std=c17 -O2 -g $(WARNINGS) -fPIC -pthread -shared -o $@ $<

$(BUILD)/obj/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC     $<"
	$(Q)$(CC) $(CPPFLAGS) -Itests $(PKG_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: src/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC     $<"
	$(Q)$(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The first line asks man(1) for tbl(1): not every man runs it unasked.
$(BUILD)/man/%: man/%.scd Makefile
	@mkdir -p $(@D)
	@echo "  MAN    $@"
	$(Q){ printf "'\\\\\" t\n"; scdoc < $<; } > $@

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------- the machine

deps: ## install what builds and runs the programs, by apt (root or sudo); nothing to do is quick
	@scripts/deps $(BUILD_PACKAGES) $(RUN_PACKAGES)

test-deps: ## install what the tests need as well
	@scripts/deps $(BUILD_PACKAGES) $(RUN_PACKAGES) $(TEST_PACKAGES)

# ---------------------------------------------------------------- use and proof

run: deps ## build, mount the embedded local service, show the main job, leave the mount to play with
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) scripts/run

check: test-deps ## build and run every test: layers, unit, mount
	@$(MAKE) --no-print-directory check-layers
	@$(if $(UNIT_HERE),,echo "check: without the unit tests, for libcmocka-dev is missing" >&2)
	@$(MAKE) --no-print-directory all $(UNIT_HERE) $(FUZZ) $(TOOLS)
	@BUILD=$(BUILD) scripts/check $(filter $(LONG_UNIT),$(UNIT_HERE)) $(MOUNT) $(filter-out $(LONG_UNIT),$(UNIT_HERE)) $(FUZZ)

check-layers: ## includes and sizes follow the table in docs/ARCHITECTURE.md
	@scripts/check-layers docs/ARCHITECTURE.md

check-unit: $(UNIT) $(FUZZ) ## the unit tests alone, and what fuzzing found
	@BUILD=$(BUILD) scripts/check $(UNIT) $(FUZZ)

check-mount: all $(TOOLS) ## the mount tests alone
	@BUILD=$(BUILD) scripts/check $(MOUNT)

check-programs: test-deps ## tests with heavy programs, which it installs: mail servers, cron, a clean Debian
	@scripts/deps $(MAKE_DEB_PACKAGES) $(PROGRAM_PACKAGES)
	@scripts/unpack $(BUILD)/programs $(PROGRAM_ARCHIVES)
	@$(MAKE) --no-print-directory all $(TOOLS)
	@BUILD=$(BUILD) $(ON_DISK) DEADLINE=900 scripts/check $(PROGRAM_TESTS)

# On a disk, where durable writes take their time, and a removed file's inode number is soon another's.
ON_DISK = TMPDIR=$(or $(TMPDIR),/tmp)
# Under a sanitizer a test has more to do, and waits less.
SLOWLY = $(ON_DISK) DEADLINE=300 PATIENCE=3 JOBS=$(or $(JOBS),$(shell expr 2 '*' $$(nproc)))

asan: test-deps ## every test under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(SLOWLY) ASAN_OPTIONS=suppressions=$(CURDIR)/tests/asan.supp \
	    LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0 $(MAKE) --no-print-directory check \
	    BUILD=$(BUILD)/asan SANITIZE=address,undefined CC=clang

tsan: test-deps ## every test under ThreadSanitizer
	@$(SLOWLY) TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp $(MAKE) --no-print-directory check \
	    BUILD=$(BUILD)/tsan SANITIZE=thread CC=clang

fuzz: test-deps ## look for inputs that break a parser, SECONDS (60) each; RUNS=n SEED=n ONLY="draft json" KEEP=1
	@$(MAKE) --no-print-directory $(FUZZ:$(BUILD)/%=$(BUILD)/fuzz/%) BUILD=$(BUILD)/fuzz FUZZ_WITH=libfuzzer \
	    SANITIZE=fuzzer-no-link,address,undefined CC=clang
	@BUILD=$(BUILD)/fuzz FUZZ_SECONDS=$(SECONDS) FUZZ_RUNS=$(RUNS) FUZZ_SEED=$(SEED) ONLY="$(ONLY)" KEEP=$(KEEP) \
	    scripts/fuzz

bench: test-deps ## measure against tmpfs, curl and other filesystems; N="10000 …" ONLY="reading …"
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) N="$(N)" ONLY="$(ONLY)" tests/bench/run

torture: test-deps ## kill inboxfs KILLS times (500), cut the power in SESSIONS (200), count what is lost; SEED=N
	@$(MAKE) --no-print-directory all $(TOOLS)
	@BUILD=$(BUILD) KILLS=$(KILLS) SEED=$(SEED) SERVICES=$(SERVICES) tests/torture/run
	@BUILD=$(BUILD) SESSIONS=$(SESSIONS) SEED=$(SEED) tests/torture/power_cuts.py

stress: test-deps $(BUILD)/tests/unit/outbox/test_stress ## random use of the outbox; SECONDS=N (60), SEED=N, SANITIZE=thread
	@STRESS_SECONDS=$(or $(SECONDS),60) STRESS_SEED=$(SEED) $(BUILD)/tests/unit/outbox/test_stress

lint: test-deps ## clang-format, clang-tidy, shellcheck
	@BUILD=$(BUILD) scripts/lint

format: ## rewrite the sources in the project's format
	clang-format -i $(shell git ls-files '*.[ch]')

# What is installed: SOURCE:TARGET, the target below PREFIX.
MANUALS_IN  = $(foreach m,$(MANUALS),$(m):share/man/man$(subst .,,$(suffix $(m)))/$(notdir $(m)))
DOCUMENTS   = README.md NEWS LICENSE $(wildcard docs/*.md) docs/tree.svg
COMPLETIONS = $(foreach p,$(notdir $(PROGRAMS)),completions/inboxfs.bash:share/bash-completion/completions/$(p)) \
              completions/inboxfs.zsh:share/zsh/site-functions/_inboxfs \
              $(foreach p,$(notdir $(PROGRAMS)),completions/inboxfs.fish:share/fish/vendor_completions.d/$(p).fish)
INSTALLED   = $(COMPLETIONS) $(foreach p,$(PROGRAMS),$(p):bin/$(notdir $(p))) \
              $(foreach p,$(HELPERS),$(p):libexec/$(notdir $(p))) $(MANUALS_IN) \
              $(foreach d,$(DOCUMENTS),$(d):share/doc/inboxfs/$(d))
# Named after where they go; which programs they start depends on PREFIX, so they are made anew each time.
UNITS      := $(BUILD)/systemd/system.service $(BUILD)/systemd/user.service
MTA_UNIT   := $(BUILD)/systemd/inboxfs-mta.service
INSTALLED  += $(foreach u,$(UNITS),$(u):lib/systemd/$(basename $(notdir $(u)))/inboxfs@.service) \
              $(foreach u,$(MTA_UNIT) systemd/inboxfs-mta.path,$(u):lib/systemd/system/$(notdir $(u))) \
              systemd/sysusers.conf:lib/sysusers.d/inboxfs.conf
# A link to inboxfs. mount(8) looks for it in /sbin alone.
MOUNT_HELPER = sbin/mount.inboxfs
# Links that SENDMAIL=yes adds.
AS_SENDMAIL = sbin/sendmail bin/mailq bin/newaliases

.PHONY: $(UNITS) $(MTA_UNIT)
$(UNITS) $(MTA_UNIT): $(BUILD)/%: %.in
	@mkdir -p $(@D)
	@sed 's|@PREFIX@|$(PREFIX)|' $< > $@

install: all $(UNITS) $(MTA_UNIT) ## install below PREFIX (/usr/local), within DESTDIR; SENDMAIL=yes: be sendmail, mailq and newaliases, too
	@for file in $(INSTALLED); do \
	    case $${file#*:} in bin/* | libexec/*) mode=0755 ;; *) mode=0644 ;; esac; \
	    install -D -m $$mode "$${file%%:*}" "$(DESTDIR)$(PREFIX)/$${file#*:}" || exit; \
	done
	@install -d "$(DESTDIR)$(PREFIX)/sbin" && ln -sf ../bin/inboxfs "$(DESTDIR)$(PREFIX)/$(MOUNT_HELPER)"
	@for link in $(if $(SENDMAIL),$(AS_SENDMAIL)); do \
	    install -d "$(DESTDIR)$(PREFIX)/$${link%/*}" && \
	    ln -sf ../bin/inboxfs-sendmail "$(DESTDIR)$(PREFIX)/$$link" || exit; \
	done

uninstall: ## remove what install put there
	@cd "$(DESTDIR)$(PREFIX)" && rm -f $(foreach i,$(INSTALLED),$(lastword $(subst :, ,$(i)))) $(MOUNT_HELPER)
	@cd "$(DESTDIR)$(PREFIX)" && for link in $(AS_SENDMAIL); do \
	    [ "$$(readlink "$$link")" != ../bin/inboxfs-sendmail ] || rm "$$link" || exit; \
	done
	@cd "$(DESTDIR)$(PREFIX)" && { [ ! -d share/doc/inboxfs ] || find share/doc/inboxfs -type d -empty -delete; }

# ---------------------------------------------------------------- to give away

DIST := $(BUILD)/inboxfs-$(VERSION).tar

dist: ## the last commit as BUILD/inboxfs-VERSION.tar.gz, each time the same bytes
	@mkdir -p $(BUILD)
	@git diff --quiet HEAD || echo "dist: what is not committed is not in it" >&2
	@git -c tar.umask=0022 archive --prefix=inboxfs-$(VERSION)/ -o $(DIST) HEAD
	@gzip -9nf $(DIST)
	@echo $(DIST).gz

# From the tarball, so without git, and with nothing of what make was called with. For lintian, bytes of machine code can
# look like a misspelt word.
deb: ## build Debian packages of the last commit into BUILD/deb; lintian has the last word
	@scripts/deps $(MAKE_DEB_PACKAGES)
	@$(MAKE) --no-print-directory dist
	@rm -rf $(BUILD)/deb && mkdir $(BUILD)/deb && tar -xzf $(DIST).gz -C $(BUILD)/deb
	@cd $(BUILD)/deb/inboxfs-$(VERSION) && env -u MAKEFLAGS dpkg-buildpackage -us -uc -b
	@rm -rf $(BUILD)/deb/inboxfs-$(VERSION)
	@lintian --allow-root --suppress-tags spelling-error-in-binary --pedantic --display-info \
	    --fail-on error,warning,info,pedantic $(BUILD)/deb/*.changes

clean: ## remove what was built
	rm -rf $(BUILD)

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
