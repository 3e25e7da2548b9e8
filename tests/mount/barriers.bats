#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# sync of outbox/ and attachments/ waits until everything that was handed in before has an outcome. It returns an error if
# something failed or has to wait.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

@test "sync of outbox/ returns when everything is sent" {
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

@test "sync right after the last close covers the file" {
  local i
  for i in {1..15}; do
    message "$BOB" "just closed $i" >"$MOUNT/outbox/$i"
    expect ok fsync "$MOUNT/outbox"
    present "$MOUNT/sent/$i"
  done
}

@test "sync right after the last close covers the file after a rename" {
  local i
  for i in {1..15}; do
    message "$BOB" "renamed $i" >"$MOUNT/outbox/.$i"
    expect ok rename "$MOUNT/outbox/.$i" "$MOUNT/outbox/$i"
    expect ok fsync "$MOUNT/outbox"
    present "$MOUNT/sent/$i"
  done
}

@test "sync of an empty outbox/ returns 0 at once" {
  at_once expect ok fsync "$MOUNT/outbox"
  at_once expect ok fsync "$MOUNT/attachments"
}

@test "sync returns EIO if any message failed" {
  message "$BOB" "good" >"$MOUNT/outbox/good"
  echo "bad" >"$MOUNT/outbox/bad"
  expect EIO fsync "$MOUNT/outbox"
  present "$MOUNT/sent/good" "$MOUNT/failed/bad"
}

@test "sync does not report a failure that an earlier sync has reported" {
  echo "bad" >"$MOUNT/outbox/bad"
  expect EIO fsync "$MOUNT/outbox"
  message "$BOB" "good" >"$MOUNT/outbox/good"
  expect ok fsync "$MOUNT/outbox"
}

@test "sync reports an earlier failure to the session that handed the message in, and to no other" {
  setsid --wait bash -c 'echo bad >"$1/outbox/theirs"' - "$MOUNT"
  wait_failed theirs
  expect ok fsync "$MOUNT/outbox"
  echo bad >"$MOUNT/outbox/ours"
  wait_failed ours
  setsid --wait sync "$MOUNT/outbox"
  expect EIO fsync "$MOUNT/outbox"
  expect ok fsync "$MOUNT/outbox"
}

@test "sync(1) reports the failure" {
  echo "bad" >"$MOUNT/outbox/bad"
  run sync "$MOUNT/outbox"
  equal "$status" 1
  contains "$output" "Input/output error"
}

@test "sync returns EAGAIN as soon as a message has to wait for the service" {
  stop_service
  message "$BOB" "later" >"$MOUNT/outbox/later"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  present "$MOUNT/outbox/later"
}

@test "sync returns EAGAIN if a message has to wait for the next day" {
  stop_mount
  start_mount --daily-limit=1
  message "$BOB" "today" >"$MOUNT/outbox/today"
  expect ok fsync "$MOUNT/outbox"
  message "$BOB" "tomorrow" >"$MOUNT/outbox/tomorrow"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  present "$MOUNT/outbox/tomorrow"
}

@test "sync returns EAGAIN after 10 s at the latest" {
  freeze_service
  message "$BOB" "hanging" >"$MOUNT/outbox/hanging"
  within 12 expect EAGAIN fsync "$MOUNT/outbox"
  kill -CONT "$SERVICE_PID"
  wait_sent hanging
  has_received "$BOB" hanging
}

@test "sync does not wait for a file that is still being written" {
  exec 7>"$MOUNT/outbox/open"
  message "$BOB" "open" >&7
  within 5 expect ok fsync "$MOUNT/outbox"
  exec 7>&-
  wait_sent open
}

@test "sync returns EAGAIN for an empty message until it has a text" {
  : >"$MOUNT/outbox/.x.swp"
  expect ok fsync "$MOUNT/outbox"
  : >"$MOUNT/outbox/x"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  message "$BOB" "now with a text" >>"$MOUNT/outbox/x"
  expect ok fsync "$MOUNT/outbox"
  has_received "$BOB" "now with a text"
}

@test "sync can be interrupted" {
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

@test "sync of attachments/ waits until all are uploaded, and returns EAGAIN if the service is away" {
  head -c 500000 /dev/urandom >"$MOUNT/attachments/a.bin"
  expect ok fsync "$MOUNT/attachments"
  holds "$MOUNT/attachments/a.bin.receipt.json" '.id | type == "string"'
  stop_service
  echo later >"$MOUNT/attachments/b.txt"
  within 5 expect EAGAIN fsync "$MOUNT/attachments"
}

@test "sync returns EIO for an interrupted attachment" {
  run bash -c 'exec 7> "$1"; echo part >&7; kill -KILL $$' - "$MOUNT/attachments/cut.txt"
  expect EIO fsync "$MOUNT/attachments"
}

@test "sync of other folders does nothing and succeeds, also when sync of outbox/ gives up" {
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
