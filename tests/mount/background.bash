# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Starts inboxfs as a user does: it goes into the background by itself, or fails with a message.
#
# shellcheck disable=SC2154 # status and output are those of bats

# Sets a home directory for the test, so that no default path leads into the user's.
use_own_home()
{
    export HOME=$DIR/home XDG_CONFIG_HOME=$DIR/config XDG_STATE_HOME=$DIR/states XDG_DATA_HOME=$DIR/data
    mkdir -p "$HOME" "$XDG_CONFIG_HOME" "$XDG_STATE_HOME" "$XDG_DATA_HOME" "$MOUNT"
}

# Mounts in the background, as a user would; stop_background unmounts.
start_background() # ARGUMENT...
{
    "$INBOXFS" "$@" >"$DIR/said" 2>&1 3>&- || return
    mountpoint -q "$MOUNT" || fail "nothing is mounted: $(cat "$DIR/said")"
}

# Prints the ids of the daemons of a mount point.
daemons() # [MOUNTPOINT]
{
    pgrep -f -- "inboxfs .*${1:-$MOUNT}" || true
}

has_no_daemon() # [MOUNTPOINT]
{
    [ -z "$(daemons "$@")" ]
}

stop_background()
{
    [ -z "$MOUNT_PID" ] || return 0
    if mountpoint -q "$MOUNT"; then
        wait_until 3 fusermount3 -u "$MOUNT"
    fi
    wait_until 20 has_no_daemon
}

# Checks that inboxfs fails with this status (a regular expression) and message, and that nothing is mounted.
refuses() # STATUS WORDS ARGUMENT...
{
    run timeout 30 "$INBOXFS" "${@:3}"
    [[ $status =~ ^$1$ ]] || fail "ended with $status, should be $1: $output"
    [[ $output =~ $2 ]] || fail "said: $output" $'\n'"should say: $2"
    run ! mountpoint -q "$MOUNT"
}
