# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# For tests of maildir/: a mount whose service has raw messages.
#
# shellcheck disable=SC2034,SC2154 # shared with support.bash

BOX=$MOUNT/maildir/$BOB

differ() # ACTUAL OTHER
{
    [ "$1" != "$2" ] || fail "has not changed: $1"
}

# Prints the names in the folder, in one line.
names() # FOLDER
{
    find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort | tr '\n' ' '
}

count() # FOLDER
{
    find "$1" -mindepth 1 -maxdepth 1 | wc -l
}

clock_is_past() # SECONDS
{
    [ "$(date +%s)" -gt "$1" ]
}

# Waits for the Maildirs, which appear when the mount knows that the service has raw messages.
wait_maildirs()
{
    wait_until 20 test -d "$BOX/new"
}

# Starts a mount with two inboxes, and delivers an email of each subject to bob, with U numbers in this order.
start_maildirs() # SUBJECT...
{
    local subject
    start_service
    create_inboxes "$ALICE" "$BOB"
    start_mount
    refresh
    for subject; do
        send_from_elsewhere "$ALICE" "$BOB" "$subject"
        refresh
        wait_maildirs
        ls "$BOX/new" >/dev/null
    done
    wait_maildirs
}

# Prints the path of the message of this subject in bob's Maildir.
message_of() # SUBJECT
{
    grep -rl -- "^Subject: $1"$'\r*$' "$BOX/cur" "$BOX/new" | grep .
}

number_of() # SUBJECT
{
    message_of "$1" | sed 's/.*,U=\([0-9]*\).*/\1/'
}

# Prints the raw message of this subject, from the service.
raw_of() # SUBJECT
{
    api GET "/email/$(received "$BOB" "$1" | jq -er '.[0].id')/raw"
}
