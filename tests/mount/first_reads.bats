#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The first open of a text puts its content into the kernel's cache. A change during the open, or after it, must show.

load support

EMAILS=30

setup() {
  start_two_inboxes
  send_many_from_elsewhere "$ALICE" "$BOB" number "$EMAILS"
  refresh
  BOX=$MOUNT/inboxes/$BOB
}

teardown() {
  stop_all
}

mark_all() # VALUE
{
  local id
  for id in $(ids); do
    http POST "/api/v1/email/$id/mark/$1" >/dev/null
  done
}

# Each file says what the service says, and has the size that it is said to have.
all_are_current() {
  has_true_size "$BOX"/2*.json || return
  diff <(jq -cS . "$BOX"/2*.json | sort) \
    <(api GET "/email?limit=1000&inbox_ids=$(inbox_id "$BOB")" | jq -cS '.[]' | sort)
}

ids() {
  api GET "/email?limit=1000&inbox_ids=$(inbox_id "$BOB")" | jq -r '.[].id'
}

@test "a reader after a change gets the new content" {
  cat "$BOX"/2*.json >/dev/null
  mark_all true
  refresh
  equal "$(jq -s 'map(select(.user_mark_status)) | length' "$BOX"/2*.json)" "$EMAILS"
  all_are_current
}

@test "a file that changed before its first open is read with its new content" {
  ls -l "$BOX" >/dev/null # the kernel knows the sizes
  mark_all true
  refresh
  all_are_current
}

@test "many readers that open a file for the first time at once all get the whole of it" {
  local pids=() i pid
  for i in 1 2 3 4 5 6 7 8; do
    (cat "$BOX"/2*.json | sha256sum >"$DIR/sum.$i") &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid"
  done
  equal "$(sort -u "$DIR"/sum.* | wc -l)" 1
  all_are_current
}

@test "files that change during their first open show the change" {
  local value i reader writer
  for value in true false true; do
    stop_mount
    start_mount
    ls -l "$BOX" >/dev/null
    for i in 1 2 3 4; do
      cat "$BOX"/2*.json >/dev/null
    done &
    reader=$!
    mark_all "$value" &
    writer=$!
    for i in 1 2 3 4; do
      refresh
    done
    wait "$reader"
    wait "$writer"
    refresh
    all_are_current
  done
}
