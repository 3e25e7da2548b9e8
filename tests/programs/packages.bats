#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The Debian packages: built twice, installed in a clean Debian 12, used there, and taken away again.

load ../mount/support

# Made by debootstrap once, and never changed: each test has a copy.
CLEAN=$BUILD/debian
DEBIAN=$DIR/debian

setup_file()
{
    [ "$UID" -eq 0 ] || skip "only root can make a Debian to install packages in"
    env -u MAKEFLAGS make -C "$REPOSITORY" BUILD="${BUILD#"$REPOSITORY"/}" deb >"$BATS_FILE_TMPDIR/deb.log" 2>&1 ||
        fail "make deb:" "$(tail -n 30 "$BATS_FILE_TMPDIR/deb.log")"
    [ -e "$CLEAN/etc/debian_version" ] || {
        rm -rf "$CLEAN.new"
        debootstrap --variant=minbase bookworm "$CLEAN.new" >"$BATS_FILE_TMPDIR/debootstrap.log" ||
            fail "debootstrap:" "$(tail -n 30 "$BATS_FILE_TMPDIR/debootstrap.log")"
        mknod -m 666 "$CLEAN.new/dev/fuse" c 10 229
        ln -s ../proc/self/mounts "$CLEAN.new/etc/mtab" # as an installed Debian has it
        mv "$CLEAN.new" "$CLEAN"
    }
}

version()
{
    "$INBOXFS" --version | cut -d' ' -f2
}

# A clean Debian with a user ann, and the packages in /srv.
start_debian()
{
    cp -a "$CLEAN" "$DEBIAN"
    cp "$BUILD"/deb/inbox{fs,d,fs-mta}_*.deb "$DEBIAN/srv"
    in_debian <<'END'
        useradd --create-home ann
        apt-get -qq update
END
}

# Runs a script there, which comes on standard input, with mounts and processes of its own that end with it.
in_debian()
{
    local script
    script=$(cat)
    # Copies of the mounts of tests beside this one would keep them.
    unshare --mount --pid --fork --kill-child bash -c 'umount --all --lazy --types fuse.inboxfs &&
        mount -t proc proc "$0/proc" && exec chroot "$0" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive bash -euo pipefail -c "$1"' \
        "$DEBIAN" "$script" </dev/null
}

# All files but those that apt, dpkg and their logs keep for themselves.
files_in_debian()
{
    (cd "$DEBIAN" && find . -path ./home/ann -prune -o -path ./var/cache -prune -o -path ./var/log -prune \
        -o -path ./var/lib/apt -prune -o -path ./var/lib/dpkg -prune -o -print | sort)
}

home_of_ann()
{
    (cd "$DEBIAN/home/ann" && find . -printf '%P %y %m %s %T@\n' | sort)
}

@test "a user who is not root builds the same bytes from the tarball" {
    local place=$DIR/other
    mkdir "$place"
    tar -xzf "$BUILD/inboxfs-$(version).tar.gz" -C "$place"
    chown -R nobody "$place"
    chmod a+x "$TMPDIR" "$BATS_RUN_TMPDIR" "${DIR%/*}" "$DIR"
    (cd "$place/inboxfs-$(version)" && setpriv --reuid=nobody --regid=nogroup --clear-groups env -i TZ=Asia/Tokyo \
        PATH=/usr/bin:/bin HOME=/nonexistent TMPDIR="$place" dpkg-buildpackage -us -uc -b >"$DIR/log" 2>&1) ||
        fail "dpkg-buildpackage:" "$(tail -n 30 "$DIR/log")"
    local package
    for package in "$place"/*.deb; do
        cmp "$package" "$BUILD/deb/${package##*/}"
    done
    equal "$(cd "$place" && ls ./*.deb)" "$(cd "$BUILD/deb" && ls ./*.deb)"
}

@test "on a clean Debian it mounts, sends, receives and is installed again; a purge leaves nothing of it" {
    start_debian
    # What they depend on stays where it is.
    in_debian <<'END'
        for package in inboxfs inboxd; do
            apt-get -qq satisfy --no-install-recommends "$(dpkg-deb --field /srv/${package}_*.deb Depends)"
        done
END
    files_in_debian >"$DIR/before"
    in_debian <<'END'
        dpkg -i /srv/inboxfs_*.deb /srv/inboxd_*.deb
        cat >/srv/as_ann <<'SCRIPT'
            set -euo pipefail
            cd
            mkdir mail
            inboxfs local ~/mail
            cd mail
            mkdir inboxes/{alice,bob}@inbox.localhost
            printf 'From: alice@inbox.localhost\nTo: bob@inbox.localhost\nSubject: Figures\n\n42\n' >drafts/hello
            mv drafts/hello outbox/
            sync outbox
            echo sync >ctl
            grep -qx 42 inboxes/bob@inbox.localhost/*figures*/body.txt
            printf 'Subject: Backup\n\nAll done.\n' | inboxfs-sendmail -f alice@inbox.localhost bob@inbox.localhost
SCRIPT
        runuser -u ann -- bash /srv/as_ann
        inboxd --version

        # Another build of the program takes nothing away from a mount.
        dpkg -i /srv/inboxfs_*.deb /srv/inboxd_*.deb
        runuser -u ann -- bash -c 'cd ~/mail && sync outbox && echo sync >ctl && ls inboxes/bob@*/*backup*.json'
        apt-get -qq install --reinstall /srv/inboxfs_*.deb
        runuser -u ann -- fusermount3 -u /home/ann/mail
        runuser -u ann -- bash -c 'inboxfs local ~/mail && ls ~/mail/inboxes/bob@*/*backup*.json'
        runuser -u ann -- fusermount3 -u /home/ann/mail
END
    home_of_ann >"$DIR/ann"

    in_debian <<'END'
        apt-get -qq purge inboxfs inboxd
        rm /srv/as_ann
        if dpkg-query -W | grep inbox; then exit 1; fi
END
    files_in_debian | diff "$DIR/before" -
    [ -d "$DEBIAN/home/ann/.local/share/inboxfs" ]
    home_of_ann | diff "$DIR/ann" -
}

@test "inboxfs-mta sends for root and for every user, before and after the mount of the user inboxfs is there" {
    start_debian
    in_debian <<'END'
        apt-get -qq install --no-install-recommends /srv/inboxfs_*.deb
END
    files_in_debian >"$DIR/before"
    in_debian <<'END'
        apt-get -qq install --no-install-recommends /srv/inboxfs-mta_*.deb >/srv/said
        grep 'root: ADDRESS in /etc/aliases' /srv/said
        printf 'root: alice@inbox.localhost\n' >/etc/aliases
        printf 'Subject: of-root\n\nAll done.\n' | /usr/sbin/sendmail root
        printf 'To: root@localhost\nSubject: of-ann\n\nAll done.\n' | runuser -u ann -- /usr/sbin/sendmail -t
        if runuser -u ann -- ls /var/spool/inboxfs/maildrop; then exit 1; fi
        [ "$(stat -c '%U %G %a' /var/spool/inboxfs/maildrop/* | sort | paste -s)" = $'ann inboxfs 640\troot inboxfs 640' ]
        # Another build of the package takes nothing away.
        apt-get -qq install --reinstall /srv/inboxfs-mta_*.deb
        [ "$(stat -c '%U %G %a' /usr/libexec/inboxfs-maildrop)" = 'root inboxfs-mta 2755' ]
        [ "$(mailq | wc -l)" = 2 ]
        if runuser -u inboxfs -- inboxfs-sendmail -q; then exit 1; fi

        echo user_allow_other >>/etc/fuse.conf
        install -d -o inboxfs /var/lib/inboxfs
        install -d /run/inboxfs
        install -d -o inboxfs /run/inboxfs/local
        cat >/srv/as_inboxfs <<'SCRIPT'
            set -euo pipefail
            cd /run/inboxfs
            inboxfs --state-dir=/var/lib/inboxfs/state --from=alice@inbox.localhost -o allow_other,umask=007 \
                local:/var/lib/inboxfs/data local
            mkdir local/inboxes/alice@inbox.localhost
            inboxfs-sendmail -q
            sync local/outbox
            echo sync >local/ctl
            grep -q 'All done' local/inboxes/alice@inbox.localhost/*of-root*/body.txt
            grep -q 'All done' local/inboxes/alice@inbox.localhost/*of-ann*/body.txt
            fusermount3 -u local
SCRIPT
        runuser -u inboxfs -- bash /srv/as_inboxfs
        [ -z "$(ls -A /var/spool/inboxfs/maildrop /var/spool/inboxfs/failed | grep -v :)" ]
        rm -r /srv/as_inboxfs /srv/said /etc/aliases /run/inboxfs /var/lib/inboxfs
        printf 'Subject: waits\n\nx\n' | /usr/sbin/sendmail root@inbox.localhost
        apt-get -qq purge inboxfs-mta
        if dpkg-statoverride --list | grep inboxfs; then exit 1; fi
END
    files_in_debian | diff "$DIR/before" -
}

@test "inboxfs-mta is sendmail for programs, and gives way to another mail server" {
    start_debian
    in_debian <<'END'
        apt-get -qq install --no-install-recommends /srv/inboxfs_*.deb /srv/inboxfs-mta_*.deb
        cat >/srv/as_ann <<'SCRIPT'
            set -euo pipefail
            mkdir ~/mail
            inboxfs local ~/mail
            mkdir ~/mail/inboxes/alice@inbox.localhost
            printf 'To: alice@inbox.localhost\nSubject: Backup\n\nAll done.\n' | /usr/sbin/sendmail -t -oi
            printf 'To: alice@inbox.localhost\nSubject: Second\n\nAll done.\n' | /usr/lib/sendmail -t -oi
            sync ~/mail/outbox
            echo sync >~/mail/ctl
            grep -q 'All done' ~/mail/inboxes/alice@inbox.localhost/*{backup,second}*/body.txt
            mailq
            newaliases
            fusermount3 -u ~/mail
SCRIPT
        runuser -u ann -- bash /srv/as_ann

        apt-get -qq install --no-install-recommends msmtp-mta
        if dpkg-query -W -f '${db:Status-Status}' inboxfs-mta | grep -qx installed; then exit 1; fi
        [ ! -e /usr/libexec/inboxfs-maildrop ] && [ -d /var/spool/inboxfs/maildrop ] # mail that waits stays
        /usr/sbin/sendmail --version | grep msmtp
        inboxfs --version

        apt-get -qq install --no-install-recommends /srv/inboxfs-mta_*.deb
        /usr/sbin/sendmail --version | grep inboxfs-sendmail
        [ "$(stat -c '%G %a' /usr/libexec/inboxfs-maildrop)" = 'inboxfs-mta 2755' ]
END
}
