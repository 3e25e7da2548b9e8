#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# No end of the daemon (SIGTERM, unmount, kill -9) loses an accepted message or sends it twice.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

# Everything queued goes out, each message once.
all_go_out() { # COUNT
  local i
  echo "retry all" >"$MOUNT/ctl"
  for i in $(seq 1 "$1"); do
    wait_sent "m$i"
    has_received "$BOB" "survivor $i" 1
  done
}

queue_without_service() { # COUNT
  local i
  stop_service
  for i in $(seq 1 "$1"); do
    if [ $((i % 2)) -eq 0 ]; then
      message "$BOB" "survivor $i" "text $i" >"$MOUNT/drafts/m$i"
      mv "$MOUNT/drafts/m$i" "$MOUNT/outbox/m$i"
    else
      message "$BOB" "survivor $i" "text $i" >"$MOUNT/outbox/m$i"
    fi
  done
}

@test "queued messages survive unmounting and go out once" {
  queue_without_service 6
  stop_mount
  start_mount
  equal "$(find "$MOUNT/outbox" -name 'm*' | wc -l)" 6
  start_service
  all_go_out 6
}

@test "queued messages survive SIGTERM and go out once" {
  queue_without_service 4
  kill_mount TERM
  start_mount
  start_service
  all_go_out 4
}

@test "queued messages survive kill -9 right after mv or close, and go out once" {
  # Killed in the midst of a vain attempt, a message has an unknown outcome, unless the service is trusted with keys.
  stop_mount
  start_mount --trust-idempotency
  queue_without_service 6
  kill_mount KILL
  start_mount --trust-idempotency
  equal "$(find "$MOUNT/outbox" -name 'm*' | wc -l)" 6
  grep -q 'text 3' "$MOUNT/outbox/m3"
  start_service
  all_go_out 6
}

@test "repeated kill -9 while sending delivers each message once" {
  # A service that is trusted to honour keys, so that an unknown outcome is repeated.
  local i round
  stop_mount
  start_mount --trust-idempotency
  for round in 1 2 3; do
    for i in $(seq 1 5); do
      message "$BOB" "round $round.$i" >"$MOUNT/drafts/r$round.$i"
      mv "$MOUNT/drafts/r$round.$i" "$MOUNT/outbox/"
    done
    kill_mount KILL
    start_mount --trust-idempotency
  done
  echo "retry all" >"$MOUNT/ctl"
  for round in 1 2 3; do
    for i in $(seq 1 5); do
      wait_sent "r$round.$i"
      has_received "$BOB" "round $round.$i" 1
    done
  done
}

@test "without trust in keys, a message whose mount is killed during sending goes to failed/, and is not sent again" {
  freeze_service
  message "$BOB" "in flight" >"$MOUNT/outbox/flight"
  wait_until 10 spool_has "state = 'sending'"
  local pid=$MOUNT_PID
  kill -KILL "$pid"
  kill -CONT "$SERVICE_PID"
  MOUNT_PID=
  wait_until 10 process_is_gone "$pid"
  wait "$pid" || true
  umount -l "$MOUNT"
  start_mount
  wait_failed flight
  holds "$MOUNT/failed/flight.receipt.json" '.state == "unknown outcome"'
  [ "$(received_count "$BOB" "in flight")" -le 1 ]
}

@test "a file that was being written at kill -9 is interrupted, and its bytes are kept" {
  exec 7>"$MOUNT/outbox/open"
  message "$BOB" "unfinished" >&7
  sync "$MOUNT/outbox/open"
  kill_mount KILL
  exec 7>&- || true
  start_mount
  wait_failed open
  holds "$MOUNT/failed/open.receipt.json" '.error | test("interrupted")'
  cmp "$MOUNT/failed/open" <(message "$BOB" unfinished)
  has_received "$BOB" unfinished 0
}

@test "a file that was being written at SIGTERM is interrupted or kept, never half sent" {
  exec 7>"$MOUNT/outbox/open"
  message "$BOB" "half" >&7
  kill_mount TERM
  exec 7>&- || true
  start_mount
  syscall fsync "$MOUNT/outbox" || true
  has_received "$BOB" half 0
  present "$MOUNT/failed/open"
}

@test "drafts survive kill -9" {
  echo "my words" >"$MOUNT/drafts/words"
  mkdir "$MOUNT/drafts/folder"
  kill_mount KILL
  start_mount
  equal "$(cat "$MOUNT/drafts/words")" "my words"
  [ -d "$MOUNT/drafts/folder" ]
}

@test "what was sent is in sent/ after kill -9, and is not sent again" {
  message "$BOB" "done" >"$MOUNT/outbox/done"
  wait_sent "done"
  kill_mount KILL
  start_mount
  present "$MOUNT/sent/done" "$MOUNT/sent/done.receipt.json"
  sync "$MOUNT/outbox"
  has_received "$BOB" "done" 1
}

@test "offline, mail that was seen before is readable from the cache" {
  send_from_elsewhere "$ALICE" "$BOB" "cached mail"
  refresh
  local file
  file=$(mounted "$BOB" "cached mail")
  cp "$file" "$DIR/before"
  kill_mount KILL
  stop_service
  start_mount
  cmp "$file" "$DIR/before"
  present "$MOUNT/inboxes/$ALICE/inbox.json"
}

@test "offline, messages are accepted, and go out when the service is back" {
  stop_mount
  stop_service
  start_mount
  message "$BOB" "survivor 1" >"$MOUNT/drafts/m1"
  mv "$MOUNT/drafts/m1" "$MOUNT/outbox/"
  start_service
  all_go_out 1
}

@test "a damaged cache is rebuilt, and does not affect the queue" {
  queue_without_service 2
  stop_mount
  find "$STATE/cache" -type f -exec sh -c 'head -c 100 /dev/urandom >"$1"' - {} \;
  start_service
  start_mount
  refresh
  present "$MOUNT/inboxes/$BOB/inbox.json"
  all_go_out 2
}

@test "a removed cache is read again" {
  send_from_elsewhere "$ALICE" "$BOB" "read again"
  refresh
  stop_mount
  rm -rf "$STATE/cache"
  start_mount
  refresh
  mounted "$BOB" "read again"
}

@test "the queue goes on by itself when the service comes back" {
  stop_service
  message "$BOB" "by itself" >"$MOUNT/outbox/x"
  start_service
  wait_until 30 has_received "$BOB" "by itself"
}
