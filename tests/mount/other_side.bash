# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# A server that receives what inboxd sends to others (mail to the relay, webhooks). The folder $OTHER has its plan, by
# which it answers, and what it has received.

OTHER=$DIR/other
OTHER_PID=
OTHER_PORT=0

# After stop_other_side it starts on the same port again.
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

# Sets the next answers of the server, one a line.
plan() # LINE...
{
    mkdir -p "$OTHER"
    printf '%s\n' "$@" >"$OTHER/plan"
}

# Prints how many rows of the table `outgoing` are left to send.
waiting()
{
    sqlite3 "$SERVICE/inbox.sqlite3" "SELECT count(*) FROM outgoing"
}
