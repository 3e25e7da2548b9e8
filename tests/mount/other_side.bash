# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# The other side of what inboxd hands on: a server of ours that does what it is told, in a folder of its own ($OTHER)
# with its plan and with what it took.

OTHER=$DIR/other
OTHER_PID=
OTHER_PORT=0

# Again on the same port after stop_other_side.
start_other_side() # SCRIPT [OPTION...]
{
    mkdir -p "$OTHER"
    rm -f "$OTHER/port"
    python3 "$REPOSITORY/tests/mount/$1" --dir="$OTHER" --port="$OTHER_PORT" "${@:2}" 3>&- {PAUSE}>&- &
    OTHER_PID=$!
    wait_until 20 test -s "$OTHER/port"
    OTHER_PORT=$(cat "$OTHER/port")
}

stop_other_side()
{
    local pid=$OTHER_PID
    OTHER_PID=
    [ -n "$pid" ] || return 0
    kill "$pid"
    wait "$pid" || true
}

# What it is to do next.
plan() # LINE...
{
    mkdir -p "$OTHER"
    printf '%s\n' "$@" >"$OTHER/plan"
}

# How much is still to go out.
waiting()
{
    python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone())' \
        "$SERVICE/inbox.sqlite3" "SELECT count(*) FROM outgoing"
}
