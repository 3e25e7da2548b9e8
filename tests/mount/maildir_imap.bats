#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# An IMAP server on a Maildir of the mount, and a client of it. The server is dovecot's program for one session. It
# serves on standard input and output, so there is no daemon, port or password.

load support
load maildir

setup() {
  CLIENT_PID=
  needs /usr/lib/dovecot/imap
  # It serves no user 0. In a namespace of its own it is another one.
  AS=
  if [ "$(id -u)" -eq 0 ]; then
    AS="unshare --user --map-user=1000 --map-group=1000"
    $AS true || skip "there are no user namespaces"
  fi
  start_maildirs one two three
  mkdir "$DIR/dovecot"
  # It looks by the clock, too: not before these tests are over.
  cat >"$DIR/dovecot.conf" <<END
base_dir = $DIR/dovecot
mail_location = maildir:$BOX:INDEX=$DIR/dovecot/index
mail_home = $DIR/dovecot
mailbox_idle_check_interval = 1 hour
ssl = no
END
}

teardown() {
  # The server ends with its client.
  [ -z "$CLIENT_PID" ] || pkill -P "$CLIENT_PID" || true
  stop_all
}

# What the server's log says is in $DIR/log.
imap() # COMMAND... (see imap_client.py)
{
  USER=bob timeout 60 /usr/bin/python3 "$REPOSITORY/tests/mount/imap_client.py" \
    "exec $AS /usr/lib/dovecot/imap -c '$DIR/dovecot.conf'" "$@" 2>>"$DIR/log"
}

# The server counts by itself; it knows nothing of the numbers in names.
uid_of() # SUBJECT
{
  imap 'select|INBOX' "uid|search|SUBJECT $1" | sed -n 's/^uid OK //p'
}

has_nothing_to_complain_of()
{
  run ! grep -E 'Error|Warning|Fatal|Panic|Traceback' "$DIR/log"
}

@test "an IMAP client reads the mail and marks it" {
  local uid
  uid=$(uid_of two)
  raw_of two >"$DIR/raw"
  imap 'select|INBOX' "uid|fetch|$uid|(RFC822.SIZE)" "save|$uid|$DIR/body" "uid|store|$uid|+FLAGS|(\\Flagged \\Seen)" >"$DIR/answers"
  has_nothing_to_complain_of
  grep -qx 'select OK 3' "$DIR/answers"
  grep -q "RFC822.SIZE $(stat -c %s "$DIR/raw"))" "$DIR/answers"
  cmp "$DIR/body" "$DIR/raw"
  equal "$(basename "$(message_of two)" | sed 's/.*:2,//')" FS
  # The next session knows it by the same number.
  contains "$(imap 'select|INBOX' "uid|fetch|$uid|(FLAGS BODY.PEEK[HEADER.FIELDS (Subject)])")" "Subject: two"
}

@test "IDLE notifies a client of new mail" {
  imap 'select|INBOX' 'wait|4 EXISTS' 'fetch|4|(BODY.PEEK[HEADER.FIELDS (Subject)])' >"$DIR/answers" 3>&- &
  CLIENT_PID=$!
  wait_until 30 grep -q waiting "$DIR/answers"
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  wait "$CLIENT_PID"
  CLIENT_PID=
  has_nothing_to_complain_of
  grep -q 'wait OK .*4 EXISTS' "$DIR/answers"
  grep -q 'Subject: four' "$DIR/answers"
}

@test "expunging removes an email from the Maildir for good, and not from the inbox" {
  local uid
  uid=$(uid_of two)
  imap 'select|INBOX' "uid|store|$uid|+FLAGS|(\\Deleted)" expunge 'uid|search|ALL' >"$DIR/answers"
  has_nothing_to_complain_of
  grep -qx 'expunge OK [1-3]' "$DIR/answers"
  equal "$(tail -n 1 "$DIR/answers" | wc -w)" 4 # "uid OK" and two numbers
  equal "$(find "$BOX" -name '*U=*' | wc -l)" 2
  present "$(mounted "$BOB" two)"
  stop_mount
  start_mount
  wait_maildirs
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  contains "$(imap 'select|INBOX')" "select OK 3"
  equal "$(number_of four)" 4
  has_nothing_to_complain_of
}

@test "the server refuses impossible commands with a reason, not with an internal error" {
  imap 'select|INBOX' 'append|INBOX|Subject: mine' 'copy|1|INBOX' 'create|Sent' 'rename|INBOX|Old' 'delete|INBOX' >"$DIR/answers"
  has_nothing_to_complain_of
  equal "$(grep -c ' NO ' "$DIR/answers")" 5
  grep -q '^append NO \[OVERQUOTA\]' "$DIR/answers"
  grep -q '^copy NO \[OVERQUOTA\]' "$DIR/answers"
  grep -q '^create NO \[NOPERM\]' "$DIR/answers"
  run ! grep -i 'internal error' "$DIR/answers"
  contains "$(imap 'select|INBOX')" "select OK 3"
  equal "$(find "$BOX" -name '*U=*' | wc -l)" 3
}
