#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Writers that do not come to a good end: killed, failed, or out of space. Nothing half is ever sent.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
  if [ -d "$DIR/small" ] && mountpoint -q "$DIR/small"; then
    umount "$DIR/small"
  fi
}

interrupted() { # NAME
  wait_failed "$1"
  holds "$MOUNT/failed/$1.receipt.json" '.error | test("interrupted")'
  unlisted "$MOUNT/outbox/$1"
  missing "$MOUNT/sent/$1"
}

# ---------------------------------------------------------------- writers that die

@test "a writer killed by a signal: failed, interrupted, with what was written" {
  run bash -c 'exec 7> "$1"; printf "%s" "$2" >&7; kill -KILL $$' - "$MOUNT/outbox/killed" "$(message "$BOB" killed)"
  interrupted killed
  cmp "$MOUNT/failed/killed" <(printf '%s' "$(message "$BOB" killed)")
  has_received "$BOB" killed 0
}

@test "a writer ended by SIGTERM, SIGINT, SIGHUP or SIGPIPE in the middle: interrupted" {
  local signal
  for signal in TERM INT HUP PIPE; do
    run dash -c 'exec 7> "$1"; printf "%s" "$2" >&7; kill -'$signal' $$' - "$MOUNT/outbox/$signal" "$(message "$BOB" "$signal")"
    interrupted "$signal"
  done
}

@test "a writer that writes and exits with an error without closing: interrupted" {
  run dash -c 'exec 7> "$1"; echo "$2" >&7; exit 3' - "$MOUNT/outbox/error" "$(message "$BOB" error)"
  equal "$status" 3
  interrupted error
}

@test "an exit with an error of a process that did not write does not matter" {
  run dash -c 'exec 7> "$1"; cat "$2" >&7; exit 3' - "$MOUNT/outbox/innocent" <(message "$BOB" innocent)
  went_out innocent innocent
}

@test "a writer killed before its end of which another holder lives: interrupted all the same" {
  exec 8>"$MOUNT/outbox/both"
  run bash -c 'printf "%s" "$1" >&8; kill -KILL $$' - "$(message "$BOB" both)"
  exec 8>&-
  interrupted both
}

@test "of two writers one exits with an error, the first or the last: interrupted" {
  run dash -c 'exec 7> "$1"; dash -c "echo one >&7; exit 3"; dash -c "echo two >&7"' - "$MOUNT/outbox/first"
  interrupted first
  equal "$(cat "$MOUNT/failed/first")" "one"$'\n'"two"
  run dash -c 'exec 7> "$1"; echo "$2" >&7; dash -c "echo more >&7; exit 3"' - \
    "$MOUNT/outbox/last" "$(message "$BOB" last)"
  interrupted last
  # Who fails without having written does no harm, first or last.
  run dash -c 'exec 7> "$1"; dash -c "exit 3"; echo "$2" >&7; dash -c "exit 3"; :' - \
    "$MOUNT/outbox/neither" "$(message "$BOB" neither)"
  went_out neither neither
}

@test "a writer of another user, who was handed the open file: killed, it is interrupted; else it goes out" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  local as=(setpriv --reuid=65534 --regid=65534 --clear-groups dash -c)
  exec 7>"$MOUNT/outbox/other"
  run "${as[@]}" 'echo "$1" >&7; kill -KILL $$' - "$(message "$BOB" other)"
  exec 7>&-
  interrupted other
  exec 7>"$MOUNT/outbox/error"
  run "${as[@]}" 'echo "$1" >&7; exit 3' - "$(message "$BOB" error)"
  exec 7>&-
  interrupted error
  exec 7>"$MOUNT/outbox/well"
  "${as[@]}" 'echo "$1" >&7' - "$(message "$BOB" well)"
  exec 7>&-
  went_out well well
}

@test "cp killed in the middle: interrupted" {
  mkfifo "$DIR/slow"
  cp "$DIR/slow" "$MOUNT/outbox/slow" 3>&- &
  local pid=$!
  exec 8>"$DIR/slow"
  message "$BOB" slow >&8
  wait_until 5 test -e "$MOUNT/outbox/slow"
  kill -KILL "$pid"
  wait "$pid" || true
  exec 8>&-
  # Nothing written yet is an empty file, and never sent either.
  wait_until 20 test -e "$MOUNT/failed/slow.receipt.json" -o ! -s "$MOUNT/outbox/slow"
  missing "$MOUNT/sent/slow"
  has_received "$BOB" slow 0
}

@test "an interrupted message can be moved back and goes out" {
  run bash -c 'exec 7> "$1"; printf "%s\n" "$2" >&7; kill -KILL $$' - "$MOUNT/outbox/again" "$(message "$BOB" again)"
  interrupted again
  mv "$MOUNT/failed/again" "$MOUNT/outbox/again"
  went_out again again
  missing "$MOUNT/failed/again" "$MOUNT/failed/again.receipt.json"
}

# ---------------------------------------------------------------- a full disk

@test "a full disk: the write fails, and what was half written is never sent" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  stop_mount
  mkdir -p "$DIR/small"
  mount -t tmpfs -o size=3m,mode=700 none "$DIR/small"
  export STATE=$DIR/small/state
  start_mount
  message "$BOB" "queued before" >"$MOUNT/outbox/before"
  wait_sent before
  run bash -c '{ printf "From: %s\nTo: %s\nSubject: full\n\n" "$1" "$2"; head -c 8000000 /dev/zero | tr "\0" x; } > "$3"' - \
    "$ALICE" "$BOB" "$MOUNT/outbox/full"
  local wrote=$status
  syscall fsync "$MOUNT/outbox" || true
  has_received "$BOB" full 0
  missing "$MOUNT/sent/full"
  rm -f "$MOUNT/outbox/full" "$MOUNT/failed/full"
  message "$BOB" "room again" >"$MOUNT/outbox/again"
  wait_sent again
  [ "$wrote" -ne 0 ]
}
