#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# An inbox with more emails than a listing enters into the cache of the kernel (count_lookup() in tree/inboxes.c).

load support

EMAILS=101000

setup() {
  start_service
  create_inboxes "$ALICE" "$BOB"
  send_from_elsewhere "$ALICE" "$BOB" "number 0"
  copy_last_email $((EMAILS - 1))
  start_mount -d --metadata-only
  refresh
  BOX=$MOUNT/inboxes/$BOB
}

teardown() {
  stop_all
}

lookups() {
  grep -c 'opcode: LOOKUP' "$MOUNT_LOG"
}

@test "every email of a huge inbox is listed, has its attributes, and can be read, and ls -l sends few lookups" {
  local before names name
  before=$(lookups)
  names=$(find "$BOX" -name '2*.json' -printf '%f\n')
  equal "$(wc -l <<<"$names")" "$EMAILS"
  equal "$(sort -u <<<"$names" | wc -l)" "$EMAILS"
  [ $(($(lookups) - before)) -lt 10 ] || fail "listing names looked them up: $(lookups)"

  # Of the names, many are known to the kernel with all else; those of the end are not.
  while read -r name; do
    has_true_size "$BOX/$name"
    jq -e .subject "$BOX/$name" >/dev/null
  done < <(sed -n '1p;50000p;$p' <<<"$names")

  # Now the kernel knows no name, as at first.
  stop_mount
  start_mount -d --metadata-only
  before=$(lookups)
  ls -l "$BOX" >"$DIR/list"
  equal "$(grep -c '^-r--r--r--.* 2.*\.json$' "$DIR/list")" "$EMAILS"
  [ $(($(lookups) - before)) -le 1000 ] || fail "lookups: $(lookups)"
}
