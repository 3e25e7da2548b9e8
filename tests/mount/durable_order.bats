#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# What a user was told is on the disk by then: whatever happens, a power cut right after a call that succeeded takes nothing
# back. A kill proves nothing of the kind, for the kernel keeps what was written; so the order of the daemon's steps is
# written down (tests/torture/fault_preload.c) and held against what it promised (durable_order.py).

load support
load scripted

LOG=$DIR/steps

setup() {
  start_scripted_service
  : >"$LOG"
  STEP_LOG=$LOG STEP_ROOT=$STATE LD_PRELOAD=$BUILD/tests/fault_preload.so \
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 start_mount
}

teardown() {
  stop_all
}

mark() { # WORDS...
  echo "mark $*" >>"$LOG"
}

draft() { # NAME [HEADER...]
  {
    printf '%s\n' "From: $ALICE" "To: $BOB" "Subject: $1" "${@:2}"
    printf '\nText of %s.\n' "$1"
  } >"$MOUNT/drafts/$1"
}

move_in() { # NAME [HEADER...]
  draft "$@"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/$1"
  mark is accepted "$1"
}

# Something of each kind that the checker looks for has been seen, and all of it in order.
is_durable() { # KIND...
  local kind counts
  counts=$(python3 "$REPOSITORY/tests/mount/durable_order.py" "$LOG") || fail "$counts"
  for kind; do
    [[ " $counts" == *" $kind="* ]] || fail "nothing was $kind: $counts"
  done
}

@test "a message written in place is on the disk when close returns, and when it is told as sent" {
  local name
  for name in one two three; do
    message "$BOB" "$name" "$(seq 20000)" >"$DIR/$name"
    cp "$DIR/$name" "$MOUNT/outbox/$name"
    mark closed "$name"
    wait_sent "$name"
    mark is sent "$name"
  done
  is_durable renamed requested promised
}

@test "a message moved in from drafts/ is on the disk when mv returns" {
  local name
  for name in one two three; do
    move_in "$name"
  done
  for name in one two three; do
    wait_sent "$name"
    mark is sent "$name"
  done
  is_durable renamed requested promised
}

@test "what is refused, and what may have been sent or not, is on the disk when it is told" {
  server_answers send '"400:subject"' '"done-500"' '"ok"'
  move_in refused
  wait_failed refused
  mark is failed refused
  move_in lost
  wait_failed lost
  mark is unknown_outcome lost
  mv "$MOUNT/failed/refused" "$MOUNT/outbox/again"
  mark is accepted again
  wait_sent again
  mark is sent again
  is_durable renamed requested promised
}

@test "what is cancelled is a draft on the disk, and what is removed is gone from it" {
  stop_service
  move_in first # which finds nobody, so that the others wait
  wait_waiting
  move_in cancelled
  move_in removed
  mv "$MOUNT/outbox/cancelled" "$MOUNT/drafts/cancelled"
  mark draft cancelled
  rm "$MOUNT/outbox/removed"
  mark gone removed
  mv "$MOUNT/outbox/first" "$MOUNT/outbox/renamed"
  mark is accepted renamed
  start_scripted_service
  echo 'retry all' >"$MOUNT/ctl"
  wait_sent renamed
  mark is sent renamed
  rm "$MOUNT/sent/renamed"
  mark gone renamed
  is_durable renamed unlinked requested promised
}

@test "an attachment is on the disk when it is told as uploaded, and what messages bind of it too" {
  echo 'first text' >"$MOUNT/attachments/a.txt"
  mark closed a.txt
  wait_until 20 test -e "$MOUNT/attachments/a.txt.receipt.json"
  wait_until 20 jq -e '.state == "uploaded"' "$MOUNT/attachments/a.txt.receipt.json"
  mark is uploaded a.txt
  stop_service
  move_in bound 'Attach: a.txt'
  wait_waiting
  echo 'second text' >"$MOUNT/attachments/a.txt" # the message keeps the first
  mark closed a.txt
  move_in other 'Attach: a.txt'
  mv "$MOUNT/attachments/a.txt" "$MOUNT/attachments/b.txt" # so does the other the second
  mark is accepted b.txt
  rm "$MOUNT/attachments/b.txt"
  mark gone b.txt
  start_scripted_service
  echo 'retry all' >"$MOUNT/ctl"
  wait_sent bound
  mark is sent bound
  wait_sent other
  mark is sent other
  is_durable renamed unlinked requested promised
}
