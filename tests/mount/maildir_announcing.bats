#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# New mail is announced in Maildirs too, to programs that watch `new` by inotify.
#
# shellcheck disable=SC2034 # shared with watchers.bash

load support
load maildir
load watchers

setup() {
  WATCHED=$DIR/watched
  WATCHER_PID=
}

teardown() {
  stop_watching
  stop_all
}

helpers() # how many
{
  pgrep -c -P "$MOUNT_PID" -x inboxfs-watch
}

has_helpers() # COUNT
{
  [ "$(helpers)" = "$1" ]
}

# Nothing of it was fetched before.
@test "a watcher of new is notified of each email, and reads it" {
  start_maildirs one
  watch "maildir/$BOB/new"
  send_from_elsewhere "$ALICE" "$BOB" two
  refresh
  wait_until 20 saw CLOSE_WRITE,CLOSE ',U=2$'
  saw CREATE ',U=2$'
  local file
  file=$(echo "$BOX"/new/*,U=2)
  equal "$(stat -c '%s %a' "$file")" "$(raw_of two | wc -c) 444"
  cmp "$file" <(raw_of two)
  # Each is told of once, and what was there before is not.
  send_from_elsewhere "$ALICE" "$BOB" three
  refresh
  wait_until 20 saw CLOSE_WRITE,CLOSE ',U=3$'
  equal "$(grep -c ^CREATE "$WATCHED")" 2
}

@test "many new emails are all announced, and have their true size at the first read" {
  start_maildirs one
  watch "maildir/$BOB/new" "inboxes/$BOB"
  send_many 50
  refresh
  wait_until 60 saw CLOSE_WRITE,CLOSE ',U=[0-9]*$' 50
  wait_until 60 saw CLOSE_WRITE,CLOSE _many_ 50
  has_true_size "$BOX"/new/*
}

@test "a Maildir that nobody has looked at announces nothing, and costs nothing" {
  start_maildirs
  stop_mount
  start_mount
  refresh
  send_from_elsewhere "$ALICE" "$BOB" two
  refresh
  equal "$(helpers)" 1
  ls "$BOX/new" >/dev/null
  send_from_elsewhere "$ALICE" "$BOB" three
  refresh
  wait_until 20 has_helpers 2
}

@test "an email that was marked before its announcement is not announced" {
  start_maildirs one
  send_from_elsewhere "$ALICE" "$BOB" two
  refresh
  wait_until 20 has_helpers 2
  local helper file
  helper=$(pgrep -n -P "$MOUNT_PID" -x inboxfs-watch)
  kill -STOP "$helper"
  watch "maildir/$BOB/new"
  send_many 2
  refresh
  wait_until 20 eval '[ "$(count "$BOX/new")" = 4 ]'
  file=$(echo "$BOX"/new/*,U=3)
  mv "$file" "$BOX/cur/${file##*/}:2,S"
  kill -CONT "$helper"
  wait_until 20 saw CLOSE_WRITE,CLOSE ',U=4$'
  saw CREATE ',U=3$' 0
  present "$BOX/cur/${file##*/}:2,S"
  missing "$file"
}

@test "pending announcements in a Maildir delay nothing else, nor the end of the mount" {
  start_maildirs one
  send_from_elsewhere "$ALICE" "$BOB" two
  refresh
  wait_until 20 has_helpers 2
  local helper
  helper=$(pgrep -n -P "$MOUNT_PID" -x inboxfs-watch)
  kill -STOP "$helper"
  watch "inboxes/$BOB"
  send_from_elsewhere "$ALICE" "$BOB" three
  refresh
  wait_until 20 saw CLOSE_WRITE,CLOSE _three_
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  wait_until 20 saw CLOSE_WRITE,CLOSE _four_
  stop_watching
  kill_mount TERM
  process_is_gone "$helper"
  run ! mountpoint -q "$MOUNT"
}

@test "the watch helper is replaced after a kill, and ends with a killed daemon" {
  start_maildirs one
  send_from_elsewhere "$ALICE" "$BOB" two
  refresh
  wait_until 20 has_helpers 2
  local helper
  helper=$(pgrep -n -P "$MOUNT_PID" -x inboxfs-watch)
  kill -KILL "$helper"
  watch "maildir/$BOB/new"
  send_from_elsewhere "$ALICE" "$BOB" three
  refresh
  # What is handed over while it dies may be lost.
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  wait_until 20 saw CLOSE_WRITE,CLOSE ',U=4$'
  wait_until 20 has_helpers 2
  helper=$(pgrep -n -P "$MOUNT_PID" -x inboxfs-watch)
  wait_until 20 eval '[ "$(ls "/proc/$helper/fd")" = 0 ]' # it closes the folder after the file
  kill_mount KILL
  wait_until 20 process_is_gone "$helper"
  stop_watching
}
