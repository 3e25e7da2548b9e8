#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Notifying watchers never hangs, whichever process is killed or stopped, and does not keep the mount busy.
#
# shellcheck disable=SC2034 # shared with watchers.bash

load support
load watchers

setup() {
  WATCHED=$DIR/watched
  WATCHER_PID=
}

teardown() {
  stop_watching
  stop_all
}

# A thousand mails come while the helper stands still: all of them have yet to be announced.
hold_announcements() {
  HELPER=$(helper_pid)
  send_from_elsewhere "$ALICE" "$BOB" many
  copy_last_email 999
  kill -STOP "$HELPER"
  refresh 3>&- &
  REFRESH_PID=$!
  wait_until 20 eval '[ "$(ls "$MOUNT/inboxes/$BOB" | wc -l)" -ge 1000 ]'
  run ! grep -q _many_ "$WATCHED"
}

# If the mount is busy, prints what keeps it so.
unmount() {
  fusermount3 -u "$MOUNT" && return
  find /proc/[0-9]*/fd /proc/[0-9]*/cwd -lname "$MOUNT*" -printf '%p -> %l\n' 2>/dev/null
  pgrep -P "$MOUNT_PID" -l
  return 1
}

@test "a barrier returns after watchers were notified, and leaves the mount free to unmount" {
  local i # to no inbox of the account: its new mail would be told of just then
  start_two_inboxes
  for i in {1..10}; do
    [ -n "$MOUNT_PID" ] || start_mount
    refresh
    watch sent
    message dave@elsewhere.example "round $i" >"$MOUNT/drafts/round-$i"
    mv "$MOUNT/drafts/round-$i" "$MOUNT/outbox/"
    sync "$MOUNT/outbox"
    unmount
    wait_until 10 saw CREATE "round-$i.receipt.json\$"
    stop_watching
    wait_until 10 process_is_gone "$MOUNT_PID"
    MOUNT_PID=
  done
}

@test "a sync returns after watchers were notified, and leaves the mount free to unmount" {
  local i
  start_two_inboxes
  for i in {1..10}; do
    [ -n "$MOUNT_PID" ] || start_mount
    refresh
    watch "inboxes/$BOB"
    send_many 20
    refresh
    unmount
    wait_until 10 saw CREATE _many_ 20
    stop_watching
    wait_until 10 process_is_gone "$MOUNT_PID"
    MOUNT_PID=
  done
}

@test "a killed helper is replaced" {
  local helper
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  helper=$(helper_pid)
  kill -KILL "$helper"
  wait_until 10 process_is_gone "$helper" # before, its pipe still takes what it will not announce
  send_from_elsewhere "$ALICE" "$BOB" again
  within 5 refresh
  wait_until 10 saw CLOSE_WRITE,CLOSE _again_
  [ -n "$(helper_pid)" ]
}

@test "the helper holds only its pipe open, and ends with the daemon" {
  start_two_inboxes
  local helper
  helper=$(helper_pid)
  equal "$(ls "/proc/$helper/fd")" 0
  equal "$(readlink "/proc/$helper/cwd")" /
  stop_mount
  process_is_gone "$helper"
  start_mount
  helper=$(helper_pid)
  kill_mount KILL
  wait_until 10 process_is_gone "$helper"
  # The lock of the state went with the daemon.
  start_mount
}

@test "after a kill of the daemon during a thousand announcements nothing hangs" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  kill -CONT "$HELPER"
  kill_mount KILL
  wait_until 10 process_is_gone "$HELPER"
  wait "$REFRESH_PID" || true
  stop_watching
  start_mount
  within 10 refresh
}

@test "when the daemon is killed while the helper is stopped, the next daemon starts and the helper ends" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  local helper=$HELPER
  within 10 kill_mount KILL
  wait "$REFRESH_PID" || true
  stop_watching
  start_mount
  within 10 refresh
  wait_until 10 process_is_gone "$helper" # nobody lets it go on
  at_once ls "$MOUNT/inboxes/$BOB" >/dev/null
}

@test "SIGTERM during a thousand announcements ends the mount" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  kill -CONT "$HELPER"
  within 10 kill_mount TERM
  process_is_gone "$HELPER"
  wait "$REFRESH_PID" || true
  run ! mountpoint -q "$MOUNT"
}

@test "SIGTERM ends the mount while the helper is stopped" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  within 10 kill_mount TERM
  process_is_gone "$HELPER"
  wait "$REFRESH_PID" || true
  run ! mountpoint -q "$MOUNT"
}

@test "a lazy unmount during a thousand announcements ends the daemon, and creates nothing in the folder below" {
  start_two_inboxes
  refresh
  watch "inboxes/$BOB"
  hold_announcements
  local pid=$MOUNT_PID
  MOUNT_PID=
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  kill -CONT "$HELPER"
  stop_watching
  wait_until 10 process_is_gone "$pid"
  wait "$REFRESH_PID" || true
  wait "$pid"
  equal "$(ls -A "$MOUNT")" ""
}

@test "mv out of sent/, rm and barriers do not hang while mail goes out and is announced" {
  start_two_inboxes
  watch sent failed "inboxes/$BOB"
  local i
  for i in {1..25}; do
    message "$BOB" "crowd $i" >"$MOUNT/outbox/crowd-$i"
  done
  local started=()
  for i in {1..5}; do
    (
      exec 3>&-
      while [ ! -e "$DIR/enough" ]; do
        status=0
        case $i in
        1) timeout 10 mv "$MOUNT/sent/crowd-1" "$MOUNT/outbox/again-1" ;;
        2) timeout 10 rm -f "$MOUNT"/sent/again-1* ;;
        3) timeout 20 sync "$MOUNT/outbox" ;;
        4) timeout 20 sh -c "echo sync >'$MOUNT/ctl'" ;;
        5) timeout 10 ls -l "$MOUNT/sent" "$MOUNT/inboxes/$BOB" ;;
        esac || status=$?
        [ "$status" -ne 124 ] || touch "$DIR/hung"
      done
    ) >/dev/null 2>&1 &
    started+=($!)
  done
  wait_until 30 saw CREATE 'crowd-25.receipt.json$'
  touch "$DIR/enough"
  wait "${started[@]}"
  missing "$DIR/hung"
}
