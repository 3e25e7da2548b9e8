#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Messages of all MIME structures (tests/data/mime) are sent through the mount and read in the inbox that gets them.

load support

teardown() {
  stop_all
}

nothing_waits() {
  [ "$(ls "$MOUNT/outbox")" = "" ]
}

@test "every structure that can be sent arrives with its texts, its attachments and its new.txt" {
  start_two_inboxes
  "$BATS_TEST_DIRNAME/corpus.py" drafts "$ALICE" "$BOB" "$MOUNT/drafts"
  local drafts=("$MOUNT/drafts"/*)
  [ "${#drafts[@]}" -ge 60 ] || fail "only ${#drafts[@]} messages"
  mv "$MOUNT/drafts"/* "$MOUNT/outbox/"
  wait_until 60 nothing_waits
  equal "$(ls "$MOUNT/failed")" ""
  refresh
  wait_for_folders "$BOB"
  "$BATS_TEST_DIRNAME/corpus.py" check "$MOUNT/inboxes/$BOB" "${#drafts[@]}"
}
