#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# index.jsonl: all records of an inbox in one file.

load support

setup() {
  start_two_inboxes
  INDEX=$MOUNT/inboxes/$BOB/index.jsonl
}

teardown() {
  stop_all
}

# Every line is the record that its file holds, and every file has a line.
index_is_right() {
  local line file
  while IFS= read -r line; do
    file=$(jq -r .file <<<"$line")
    diff <(jq -cS 'del(.file)' <<<"$line") <(jq -cS . "$MOUNT/inboxes/$BOB/$file") || return 1
  done <"$INDEX"
  equal "$(jq -r .file "$INDEX" | LC_ALL=C sort)" \
    "$(find "$MOUNT/inboxes/$BOB" -name '*.json' ! -name inbox.json -printf '%f\n' | LC_ALL=C sort)"
}

@test "index.jsonl is listed, read-only, of its exact size, and as old as the folder" {
  send_from_elsewhere "$ALICE" "$BOB" "Grüße ✓"
  refresh
  find "$MOUNT/inboxes/$BOB" -name index.jsonl | grep .
  equal "$(stat -c %a "$INDEX")" 444
  has_true_size "$INDEX"
  equal "$(stat -c %Y "$INDEX")" "$(stat -c %Y "$MOUNT/inboxes/$BOB")"
  expect EACCES open "$INDEX" w
  expect EPERM unlink "$INDEX"
}

@test "each record is a line of compact JSON with its file's name, in order of date" {
  local i
  for i in 1 2 3 4 5; do
    send_from_elsewhere "$ALICE" "$BOB" "number $i \"quoted\": {x}"
  done
  refresh
  index_is_right
  equal "$(jq -r .date "$INDEX")" "$(jq -r .date "$INDEX" | sort)"
  diff "$INDEX" <(command jq -c . "$INDEX")
}

@test "the index of an empty inbox is empty" {
  has_true_size "$INDEX"
  run jq -c . "$INDEX"
  equal "$status" 0
}

@test "a new email is in the index as soon as it is in the folder" {
  local i
  for i in 1 2 3; do
    cat "$INDEX" >/dev/null
    send_from_elsewhere "$ALICE" "$BOB" "fresh $i"
    refresh
    has_true_size "$INDEX"
    equal "$(grep -c '"fresh [0-9]"' "$INDEX")" "$i"
  done
}

@test "a reader with an open index keeps the old lines, and gets new ones at the end" {
  local before i
  send_from_elsewhere "$ALICE" "$BOB" "one"
  refresh
  before=$(cat "$INDEX")
  exec 7<"$INDEX"
  for i in 2 3 4; do
    send_from_elsewhere "$ALICE" "$BOB" "later $i"
  done
  refresh
  cat <&7 >"$DIR/read"
  exec 7<&-
  equal "$(head -n "$(wc -l <<<"$before")" "$DIR/read")" "$before"
  diff <(LC_ALL=C sort "$DIR/read") <(LC_ALL=C sort "$INDEX")
  index_is_right
}

@test "tail -f shows new mail" {
  send_from_elsewhere "$ALICE" "$BOB" "one"
  refresh
  tail -f -s 0.1 -n 1 "$INDEX" >"$DIR/tailed" 3>&- &
  local tail=$!
  wait_until 10 grep -q one "$DIR/tailed"
  send_from_elsewhere "$ALICE" "$BOB" "two"
  refresh
  wait_until 10 grep -q two "$DIR/tailed"
  send_from_elsewhere "$ALICE" "$BOB" "three"
  refresh
  wait_until 10 grep -q three "$DIR/tailed"
  kill "$tail"
  diff "$DIR/tailed" <(tail -n 3 "$INDEX")
}

@test "the index is complete after a restart" {
  send_from_elsewhere "$ALICE" "$BOB" "kept"
  refresh
  local before
  before=$(cat "$INDEX")
  stop_mount
  start_mount
  equal "$(cat "$INDEX")" "$before"
  has_true_size "$INDEX"
}

@test "the index can be mapped privately, and the mapping equals what read returns" {
  local subject private='prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE'
  expect EINVAL truncate "$MOUNT/search/is:unread" 0 # so that there is an event
  for subject in one two; do
    send_from_elsewhere "$ALICE" "$BOB" "$subject"
    refresh
    python3 -c '
import mmap, sys
for path in sys.argv[1:]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, '"$private"') as view:
        assert view[:] == file.read() != b"", path
' "$INDEX" "${INDEX%/*}/inbox.json" "$MOUNT/events.jsonl" "$(mounted "$BOB" "$subject")"
    python3 -c 'import mmap; file = open("'"$MOUNT/status.json"'", "rb"); mmap.mmap(file.fileno(), 0, '"$private"')'
  done
}
