#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# sync of outbox/ and attachments/: waits until everything handed in before is settled, and says how it went.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

@test "sync outbox returns when everything is sent" {
  local i
  for i in {1..10}; do
    message "$BOB" "barrier $i" >"$MOUNT/outbox/$i"
  done
  expect ok fsync "$MOUNT/outbox"
  for i in {1..10}; do
    present "$MOUNT/sent/$i"
    has_received "$BOB" "barrier $i"
  done
}

@test "right after the last close it covers what was just written" {
  local i
  for i in {1..15}; do
    message "$BOB" "just closed $i" >"$MOUNT/outbox/$i"
    expect ok fsync "$MOUNT/outbox"
    present "$MOUNT/sent/$i"
  done
}

@test "rename right after the last close covers it, too" {
  local i
  for i in {1..15}; do
    message "$BOB" "renamed $i" >"$MOUNT/outbox/.$i"
    expect ok rename "$MOUNT/outbox/.$i" "$MOUNT/outbox/$i"
    expect ok fsync "$MOUNT/outbox"
    present "$MOUNT/sent/$i"
  done
}

@test "an outbox with nothing in it: 0 at once" {
  at_once expect ok fsync "$MOUNT/outbox"
  at_once expect ok fsync "$MOUNT/attachments"
}

@test "EIO when any of it failed" {
  message "$BOB" "good" >"$MOUNT/outbox/good"
  echo "bad" >"$MOUNT/outbox/bad"
  expect EIO fsync "$MOUNT/outbox"
  present "$MOUNT/sent/good" "$MOUNT/failed/bad"
}

@test "what failed before an earlier sync is not told again" {
  echo "bad" >"$MOUNT/outbox/bad"
  expect EIO fsync "$MOUNT/outbox"
  message "$BOB" "good" >"$MOUNT/outbox/good"
  expect ok fsync "$MOUNT/outbox"
}

@test "what failed before is told to the session that handed it in, and to no other" {
  setsid --wait bash -c 'echo bad >"$1/outbox/theirs"' - "$MOUNT"
  wait_failed theirs
  expect ok fsync "$MOUNT/outbox"
  echo bad >"$MOUNT/outbox/ours"
  wait_failed ours
  setsid --wait sync "$MOUNT/outbox"
  expect EIO fsync "$MOUNT/outbox"
  expect ok fsync "$MOUNT/outbox"
}

@test "sync(1) passes the failure on" {
  echo "bad" >"$MOUNT/outbox/bad"
  run sync "$MOUNT/outbox"
  equal "$status" 1
  contains "$output" "Input/output error"
}

@test "EAGAIN as soon as something has to wait for the service" {
  stop_service
  message "$BOB" "later" >"$MOUNT/outbox/later"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  present "$MOUNT/outbox/later"
}

@test "EAGAIN when something has to wait for the turn of the day" {
  stop_mount
  start_mount --daily-limit=1
  message "$BOB" "today" >"$MOUNT/outbox/today"
  expect ok fsync "$MOUNT/outbox"
  message "$BOB" "tomorrow" >"$MOUNT/outbox/tomorrow"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  present "$MOUNT/outbox/tomorrow"
}

@test "EAGAIN at the latest after 10 s" {
  freeze_service
  message "$BOB" "hanging" >"$MOUNT/outbox/hanging"
  within 12 expect EAGAIN fsync "$MOUNT/outbox"
  kill -CONT "$SERVICE_PID"
  wait_sent hanging
  has_received "$BOB" hanging
}

@test "a file still being written is not waited for" {
  exec 7>"$MOUNT/outbox/open"
  message "$BOB" "open" >&7
  within 5 expect ok fsync "$MOUNT/outbox"
  exec 7>&-
  wait_sent open
}

@test "EAGAIN for an empty message until it has a text" {
  : >"$MOUNT/outbox/.x.swp"
  expect ok fsync "$MOUNT/outbox"
  : >"$MOUNT/outbox/x"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  message "$BOB" "now with a text" >>"$MOUNT/outbox/x"
  expect ok fsync "$MOUNT/outbox"
  has_received "$BOB" "now with a text"
}

@test "waiting can be interrupted" {
  freeze_service
  message "$BOB" "interrupted" >"$MOUNT/outbox/x"
  syscall fsync "$MOUNT/outbox" >/dev/null 3>&- &
  local waiting=$!
  wait_until 5 grep -qE 'fuse|request_wait' "/proc/$waiting/wchan" || true
  kill -INT "$waiting" 2>/dev/null || true
  kill -TERM "$waiting" 2>/dev/null || true
  wait_until 5 process_is_gone "$waiting"
  wait "$waiting" || true
  kill -CONT "$SERVICE_PID"
  wait_sent x
  has_received "$BOB" interrupted
}

@test "sync of attachments waits until all are uploaded, EAGAIN with the service away" {
  head -c 500000 /dev/urandom >"$MOUNT/attachments/a.bin"
  expect ok fsync "$MOUNT/attachments"
  holds "$MOUNT/attachments/a.bin.receipt.json" '.id | type == "string"'
  stop_service
  echo later >"$MOUNT/attachments/b.txt"
  within 5 expect EAGAIN fsync "$MOUNT/attachments"
}

@test "EIO for an interrupted attachment" {
  run bash -c 'exec 7> "$1"; echo part >&7; kill -KILL $$' - "$MOUNT/attachments/cut.txt"
  expect EIO fsync "$MOUNT/attachments"
}

@test "sync of other folders does nothing and succeeds, while sync of outbox has to give up" {
  local folder
  stop_service
  message "$BOB" "waits" >"$MOUNT/outbox/waits"
  echo waits >"$MOUNT/attachments/waits"
  wait_waiting
  for folder in . inboxes "inboxes/$BOB" drafts sent failed; do
    expect ok fsync "$MOUNT/$folder"
  done
  expect EAGAIN fsync "$MOUNT/outbox"
  expect EAGAIN fsync "$MOUNT/attachments"
}
