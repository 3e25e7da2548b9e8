#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Distribution: `make install`, `make uninstall`, `make dist`, the version, and the picture in README.md. Debian
# packages are in tests/programs/packages.bats.

load support

# Not as part of the make that runs the check, which has built everything.
make()
{
    env -u MAKEFLAGS -u MAKELEVEL make -s --no-print-directory -C "$REPOSITORY" BUILD="${BUILD#"$REPOSITORY"/}" "$@"
}

# Every file, folder and link below FOLDER, with its mode, and what is in it.
tree_of() # FOLDER
{
    (cd "$1" && find . -printf '%P %y %m %l\n' | sort && find . -type f -exec sha256sum {} + | sort)
}

# Those of the shells and of systemd, which stay.
make_shared_folders() # PREFIX
{
    mkdir -p "$1"/libexec "$1"/lib/{sysusers.d,systemd/system,systemd/user} "$1"/share/{bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
}

@test "make install installs programs, manuals and documents, and make uninstall removes them" {
    local root=$DIR/root
    mkdir -p "$root"/opt/{bin,sbin,share/man/man5,share/man/man8,share/doc/other}
    echo mine >"$root/opt/bin/mine"
    make_shared_folders "$root/opt"
    tree_of "$root" >"$DIR/before"

    make install DESTDIR="$root" PREFIX=/opt
    present "$root"/opt/bin/{mine,inboxfs,inboxd,inboxfs-sendmail} "$root"/opt/share/man/man5/inboxfs.5 \
        "$root"/opt/share/man/man8/{inboxfs,inboxd,inboxfs-sendmail}.8 "$root"/opt/share/doc/inboxfs/{NEWS,README.md,LICENSE}
    present "$root"/opt/share/{bash-completion/completions,fish/vendor_completions.d}/inboxfs* \
        "$root/opt/share/zsh/site-functions/_inboxfs"
    present "$root/opt/sbin/mount.inboxfs" "$root/opt/lib/sysusers.d/inboxfs.conf"
    local unit
    for unit in "$root"/opt/lib/systemd/{system,user}/inboxfs@.service; do
        grep -q '^ExecStart=/opt/bin/inboxfs -f ' "$unit"
        run ! grep @PREFIX@ "$unit"
    done
    grep -qx 'ExecStart=/opt/bin/inboxfs-sendmail -q' "$root/opt/lib/systemd/system/inboxfs-mta.service"
    present "$root/opt/lib/systemd/system/inboxfs-mta.path"
    equal "$(stat -c %a "$root/opt/libexec/inboxfs-maildrop")" 755
    missing "$root/opt/sbin/sendmail"
    equal "$(readlink "$root/opt/sbin/mount.inboxfs")" ../bin/inboxfs
    cmp "$INBOXFS" "$root/opt/bin/inboxfs"
    "$root/opt/bin/inboxfs" --version
    equal "$(stat -c %a "$root/opt/bin/inboxfs" "$root/opt/share/man/man8/inboxfs.8" | paste -s)" "755"$'\t'"644"

    local manual
    for manual in "$root"/opt/share/man/man*/*; do
        equal "$(head -n 1 "$manual")" "'\\\" t" # for its tables
    done

    # Over itself, nothing is another.
    tree_of "$root" >"$DIR/installed"
    make install DESTDIR="$root" PREFIX=/opt
    tree_of "$root" | diff "$DIR/installed" -

    make uninstall DESTDIR="$root" PREFIX=/opt
    tree_of "$root" | diff "$DIR/before" -
}

@test "sendmail, mailq and newaliases are installed on request, and foreign files are not removed" {
    local root=$DIR/root
    mkdir -p "$root/usr/local/bin" "$root/usr/local/sbin" "$root/usr/local/share/man"/man{5,8} "$root/usr/local/share/doc"
    make_shared_folders "$root/usr/local"
    tree_of "$root" >"$DIR/before"
    make install DESTDIR="$root" SENDMAIL=yes
    "$root/usr/local/sbin/sendmail" --version
    "$root/usr/local/bin/newaliases"
    make uninstall DESTDIR="$root"
    tree_of "$root" | diff "$DIR/before" -

    ln -s other "$root/usr/local/sbin/sendmail"
    echo other >"$root/usr/local/bin/mailq"
    mkdir "$root/usr/local/share/doc/inboxfs"
    echo mine >"$root/usr/local/share/doc/inboxfs/notes"
    make uninstall DESTDIR="$root"
    present "$root/usr/local/share/doc/inboxfs/notes"
    equal "$(readlink "$root/usr/local/sbin/sendmail") $(cat "$root/usr/local/bin/mailq")" "other other"
}

@test "the program, NEWS and the Debian package have one version" {
    local version
    version=$("$INBOXFS" --version)
    equal "$("$INBOXD" --version)" "inboxd ${version#inboxfs }"
    equal "$(head -n 1 "$REPOSITORY/NEWS")" "$version"
    equal "$(sed 's/) .*/)/; q' "$REPOSITORY/debian/changelog")" "inboxfs (${version#inboxfs })"
}

# How a source is compiled: the flags that another compiler may not have.
hardening() # CC
{
    make -n V=1 CC="$1" SANITIZE= BUILD=build/nowhere build/nowhere/obj/inboxd_main.o |
        grep -oE -- '-fstack-clash-protection|-fcf-protection|-D_FORTIFY_SOURCE=.' | paste -sd' '
}

@test "the programs are hardened as far as the compiler can, and build if it cannot" {
    # A processor and a C library for which neither is there.
    printf '%s\n' '#!/bin/sh' 'case $* in *cf-prot*|*SOURCE=3*) exit 1 ;; esac' 'exec gcc "$@"' >"$DIR/other"
    chmod +x "$DIR/other"
    equal "$(hardening "$DIR/other")" "-fstack-clash-protection -D_FORTIFY_SOURCE=2"
    [ "$(uname -m)" = x86_64 ] || skip "another processor"
    equal "$(hardening gcc)" "-fstack-clash-protection -fcf-protection -D_FORTIFY_SOURCE=3"
}

@test "make dist gives the same bytes each time: all committed files, with the time of the commit" {
    [ -e "$REPOSITORY/.git" ] || skip "not a git repository"
    # Not where somebody keeps a tarball.
    local build=build/tests/dist.$$ tarball
    tarball=$REPOSITORY/$build/inboxfs-$("$INBOXFS" --version | cut -d' ' -f2).tar.gz
    make dist BUILD="$build"
    mv "$tarball" "$DIR/first"
    (umask 077 && TZ=Asia/Tokyo make dist BUILD="$build")
    cmp "$DIR/first" "$tarball"
    rm -r "${REPOSITORY:?}/$build"

    tar -tzf "$DIR/first" | grep -v '/$' | sed 's|^[^/]*/||' | sort >"$DIR/names"
    git -C "$REPOSITORY" ls-tree -r --name-only HEAD | sort | diff - "$DIR/names"
    equal "$(tar --utc --full-time -tvzf "$DIR/first" | awk '{ print $4, $5 }' | sort -u)" \
        "$(TZ=UTC git -C "$REPOSITORY" log -1 --date=format-local:'%Y-%m-%d %H:%M:%S' --format=%cd)"
}

# Programs that stand for Debian's. Each adds a line to $DIR/calls. A package is installed when it is in $DIR/installed.
make_debian() # UID
{
    mkdir "$DIR/bin"
    local program
    for program in bash cat env grep; do
        ln -s "$(type -P "$program")" "$DIR/bin/$program"
    done
    printf '#!/bin/sh\necho %s\n' "$1" >"$DIR/bin/id"
    cat >"$DIR/bin/dpkg-query" <<'END'
#!/bin/sh
while read -r package; do echo "$package installed"; done <"$DIR/installed"
END
    cat >"$DIR/bin/apt-cache" <<'END'
#!/bin/sh
[ "$2" != nowhere-dev ]
END
    cat >"$DIR/bin/apt-get" <<'END'
#!/bin/sh
echo "$*" >>"$DIR/calls"
[ ! -e "$DIR/broken" ] || exit 100
END
    chmod +x "$DIR"/bin/*
    printf '%s\n' gcc make >"$DIR/installed"
    : >"$DIR/calls"
    export DIR
}

deps() # PACKAGE...
{
    PATH=$DIR/bin "$REPOSITORY/scripts/deps" "$@" </dev/null
}

@test "root gets the missing packages installed; one that this Debian lacks does not stop the others" {
    make_debian 0
    run -0 deps gcc make
    equal "$output$(cat "$DIR/calls")" ""
    run -0 deps gcc scdoc nowhere-dev jq
    contains "$output" "this system has no package nowhere-dev"
    equal "$(tail -n 1 "$DIR/calls")" "install -y -qq --no-install-recommends scdoc jq"
    touch "$DIR/broken"
    run -1 deps scdoc
    contains "$output" "not installed: scdoc"
}

@test "a user who cannot install reads what is missing, and make continues" {
    make_debian 1000
    run -0 deps gcc scdoc jq
    contains "$output" "as root: apt-get install --no-install-recommends scdoc jq"
    contains "$output" "going on with what is there"
    equal "$(cat "$DIR/calls")" ""
    # One who has sudo, and may not use it.
    printf '#!/bin/sh\nexit 1\n' >"$DIR/bin/sudo"
    chmod +x "$DIR/bin/sudo"
    run -0 deps scdoc
    contains "$output" "going on with what is there"
    # One who may.
    printf '#!/bin/sh\nexec "$@"\n' >"$DIR/bin/sudo"
    run -0 deps scdoc
    equal "$(tail -n 1 "$DIR/calls")" "install -y -qq --no-install-recommends scdoc"
}

@test "make deps does not install what only tests need" {
    # As the only packages that are asked for: with `installed` behind its name, each is there.
    printf '#!/bin/sh\nfor name; do echo "$name" >>"$ASKED"; echo "$name installed"; done\n' >"$DIR/dpkg-query"
    chmod +x "$DIR/dpkg-query"
    ASKED=$DIR/run PATH=$DIR:$PATH make deps
    ASKED=$DIR/tests PATH=$DIR:$PATH make test-deps
    grep -qx libfuse3-dev "$DIR/run"
    run ! grep -E 'clang|gdb|vim|dovecot|zsh|bats|cmocka' "$DIR/run"
    equal "$(grep -cxE 'clang|gdb|vim|dovecot-imapd|zsh|bats|libcmocka-dev' "$DIR/tests")" 7
    run ! grep -E -- '-[0-9]+-dev$' "$DIR/tests" # a name that the next Debian has not
}

# The packages' scripts, on a system that runs systemd, whose programs write down how they were called.
script_of_package() # SCRIPT ARGUMENT...
{
    mkdir -p "$DIR/bin"
    printf '#!/bin/sh\necho "${0##*/} $*" >>"%s"\n' "$DIR/calls" | tee "$DIR/bin/deb-systemd-invoke" >"$DIR/bin/adduser"
    chmod +x "$DIR"/bin/*
    : >"$DIR/calls"
    hide_other_mounts
    # shellcheck disable=SC2016 # for the inner shell
    PATH=$DIR/bin:$PATH "${AMONG_OWN_MOUNTS[@]}" sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec sh "$@"' - \
        "$REPOSITORY/debian/inboxfs.$1" "${@:2}"
}

@test "the package's units restart with a new program, also those of users, and stop on removal" {
    [ "$(id -u)" = 0 ] || skip "takes root"
    script_of_package postinst configure 0.1.0
    equal "$(grep -c "^deb-systemd-invoke --[a-z]* restart inboxfs@\*.service" "$DIR/calls")" 2
    grep -q '^deb-systemd-invoke --user daemon-reload' "$DIR/calls"
    script_of_package prerm remove
    equal "$(cat "$DIR/calls")" $'deb-systemd-invoke --system stop inboxfs@*.service\ndeb-systemd-invoke --user stop inboxfs@*.service'
    # A new installation starts nothing, and an upgrade stops nothing beforehand.
    script_of_package postinst configure ''
    run ! grep deb-systemd-invoke "$DIR/calls"
    script_of_package prerm upgrade 0.3.0
    equal "$(cat "$DIR/calls")" ""
}

@test "the picture in README.md is that of a real mount" {
    grep -q '](docs/tree.svg)' "$REPOSITORY/README.md"
    BUILD=$BUILD "$REPOSITORY/scripts/picture" >"$DIR/tree.svg"
    cmp "$DIR/tree.svg" "$REPOSITORY/docs/tree.svg"
}
