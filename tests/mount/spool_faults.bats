#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A spool with files that a crash, a disk or a user left there: they are set aside and reported, never sent, and never
# stop the other messages.

load support
load scripted

setup() {
  start_scripted_service
}

teardown() {
  stop_all
}

send() { # NAME
  message "$BOB" "$1" "text of $1" >"$MOUNT/drafts/$1"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/$1"
}

daemon_lives() {
  run ! process_is_gone "$MOUNT_PID"
  run ! grep -E 'Sanitizer|runtime error' "$MOUNT_LOG"
}

wait_settled() {
  echo "retry all" >"$MOUNT/ctl"
  wait_until 30 bash -c '[ -z "$(ls "$1")" ]' - "$MOUNT/outbox"
}

# Three messages wait; NUMBER is that of the one in the middle.
queue_three() {
  stop_service
  send first
  send torn
  send last
  stop_mount
  NUMBER=$(spool_rows "SELECT number FROM item WHERE name = 'torn'")
}

@test "a damaged database refuses the mount with a way out; without it, all contents are in failed/" {
  start_mount
  local command
  queue_three
  cp -a "$STATE" "$DIR/state.whole"
  for command in 'head -c 30000 /dev/urandom >"$1"' 'printf "no database, and longer than the header of one is: %080d" 0 >"$1"'; do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    rm -f "$STATE/spool/outbox.sqlite3-wal"
    bash -c "$command" - "$STATE/spool/outbox.sqlite3"
    start_scripted_service
    run -1 timeout 30 "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
    contains "$output" "move that file"
    run ! mountpoint -q "$MOUNT"
    mv "$STATE/spool/outbox.sqlite3" "$DIR/damaged"
    start_mount
    daemon_lives
    wait_settled
    is_sent_times first 0
    is_sent_times torn 0
    equal "$(cat "$MOUNT/failed"/recovered-* | grep -c '^text of')" 3
    holds "$MOUNT/failed/recovered-$NUMBER.receipt.json" '.state == "unknown outcome" and (.error | contains("was lost"))'
    mv "$MOUNT/failed/recovered-$NUMBER" "$MOUNT/outbox/torn"
    wait_sent torn
    is_sent_times torn 1
    stop_mount
    stop_service
  done
}

@test "after an older database was restored, contents it does not know are set aside, and nothing goes out twice" {
  start_mount
  send before
  wait_sent before
  stop_mount
  cp "$STATE/spool/outbox.sqlite3" "$DIR/older"
  start_mount
  stop_service
  send later
  wait_waiting
  stop_mount
  rm -f "$STATE/spool/outbox.sqlite3-wal"
  cp "$DIR/older" "$STATE/spool/outbox.sqlite3"
  start_scripted_service
  start_mount
  daemon_lives
  wait_settled
  present "$MOUNT/sent/before"
  is_sent_times before 0 # since the service started anew
  grep -q 'set aside' "$MOUNT_LOG"
  grep -rq 'text of later' "$STATE/spool/quarantine"
}

@test "content that was truncated or changed in the spool is never sent" {
  start_mount
  local command
  queue_three
  cp -a "$STATE" "$DIR/state.whole"
  # In the headers, in the text; other words, and words behind it.
  for command in 'truncate -s 20 "$1"' 'truncate -s -4 "$1"' 'sed -i "s/text of/TEXT OF/" "$1"' 'echo more >>"$1"'; do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    bash -c "$command" - "$STATE/spool/$NUMBER.data"
    start_scripted_service
    start_mount
    wait_settled
    is_sent_times torn 0 || fail "after: $command"
    is_sent_times first 1
    is_sent_times last 1
    wait_failed torn
    holds "$MOUNT/failed/torn.receipt.json" '.error | length > 10'
    stop_mount
    stop_service
  done
}

@test "an attachment that was truncated or changed in the spool is not uploaded, and its message not sent" {
  local name
  start_mount
  stop_service
  echo 'all of it' >"$MOUNT/attachments/cut.txt"
  echo 'all of mine' >"$MOUNT/attachments/torn.txt"
  echo 'all of this' >"$MOUNT/attachments/whole.txt"
  message "$BOB" "$(printf 'cut\nAttach: cut.txt')" >"$MOUNT/outbox/cut"
  message "$BOB" "$(printf 'torn\nAttach: torn.txt')" >"$MOUNT/outbox/torn"
  message "$BOB" "$(printf 'whole\nAttach: whole.txt')" >"$MOUNT/outbox/whole"
  wait_waiting
  stop_mount
  truncate -s 4 "$(grep -lx 'all of it' "$STATE"/spool/*.data | head -n 1)" # which has two names
  printf '\0\0\0' | dd conv=notrunc status=none of="$(grep -lx 'all of mine' "$STATE"/spool/*.data | head -n 1)"
  start_scripted_service
  start_mount
  wait_settled
  is_sent_times whole 1
  for name in cut torn; do
    is_sent_times "$name" 0
    wait_failed "$name"
    holds "$MOUNT/failed/$name.receipt.json" '.error == "an attachment changed in the spool"'
    holds "$MOUNT/failed/$name.txt.receipt.json" '.error == "the file changed in the spool"'
  done
}

@test "content that is a link out of the spool is not followed" {
  start_mount
  queue_three
  message "$BOB" "secret" "text of a secret" >"$DIR/secret"
  rm "$STATE/spool/$NUMBER.data"
  ln -s "$DIR/secret" "$STATE/spool/$NUMBER.data"
  start_scripted_service
  start_mount
  wait_settled
  daemon_lives
  is_sent_times secret 0
  is_sent_times first 1
  is_sent_times last 1
  equal "$(grep -rls 'text of a secret' "$MOUNT")" ""
}

@test "foreign files in the spool are set aside, and never shown or sent" {
  start_mount
  queue_three
  local spool=$STATE/spool
  message "$BOB" "foreign" >"$spool/message.eml"
  message "$BOB" "foreign" >"$spool/00000000000000000007.data"
  message "$BOB" "foreign" >"$spool/-1.data"
  message "$BOB" "foreign" >"$spool/99999999999999999999999.data"
  mkdir -p "$spool/folder/inside" "$spool/77.data"
  ln -s / "$spool/78.link"
  mkfifo "$spool/79.data"
  : >"$spool/leftover.new"
  start_scripted_service
  start_mount
  daemon_lives
  wait_settled
  is_sent_times foreign 0
  is_sent_times first 1
  equal "$(ls "$MOUNT/outbox")" ""
  equal "$(find "$MOUNT/sent" -type f | wc -l)" 6
  present "$spool/quarantine/message.eml" "$spool/quarantine/folder/inside"
  missing "$spool/leftover.new"
  # Once is enough.
  stop_mount
  : >"$MOUNT_LOG"
  start_mount
  run ! grep -q 'set aside' "$MOUNT_LOG"
}

@test "remains of an interrupted write are removed, and nothing is reported" {
  start_mount
  queue_three
  local spool=$STATE/spool
  : >"$spool/1.data"
  echo 'a copy' >"$spool/$NUMBER.data.new"
  : >"$MOUNT_LOG"
  start_scripted_service
  start_mount
  wait_settled
  run ! grep -q 'set aside' "$MOUNT_LOG"
  missing "$spool/1.data" "$spool/$NUMBER.data.new"
}

@test "a spool of a newer version is refused with a reason, and not changed" {
  start_mount
  stop_service
  send waiting
  stop_mount
  start_scripted_service
  cp "$STATE/spool/version" "$DIR/version"
  echo 9 >"$STATE/spool/version"
  find "$STATE/spool" -type f -exec sha256sum {} + | sort >"$DIR/before"
  run -1 timeout 30 "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  contains "$output" "version 9"
  run ! mountpoint -q "$MOUNT"
  diff "$DIR/before" <(find "$STATE/spool" -type f -exec sha256sum {} + | sort)
  cp "$DIR/version" "$STATE/spool/version"
  start_mount
  wait_settled
  is_sent_times waiting 1
}

@test "a spool of version 0.2 is taken over once: queued messages go out, and all others keep their place" {
  stop_service
  start_service
  create_inboxes "$ALICE" "$BOB"
  mkdir -p "$STATE"
  cp -r "$REPOSITORY/tests/data/valid/spool-2" "$STATE/spool"
  start_mount
  wait_sent queued
  content "$BOB" "queued by 0.2" >"$DIR/arrived"
  holds "$DIR/arrived" '[.attachments[].filename] == ["a.txt"]'
  equal "$(api GET "/email/$(jq -er .id "$DIR/arrived")/attachment/$(jq -er '.attachments[0].id' "$DIR/arrived")")" "a file of version 0.2"
  has_received "$BOB" "sent by 0.2" 0
  present "$MOUNT/sent/sent" "$MOUNT/failed/failed" "$MOUNT/outbox/.held"
  holds "$MOUNT/sent/sent.receipt.json" '.request.subject == "sent by 0.2"'
  has_true_size "$MOUNT/sent/sent.receipt.json"
  holds "$MOUNT/failed/failed.receipt.json" '.state == "failed"'
  equal "$(cat "$MOUNT/attachments/a.txt")" "changed later"
  contains "$(cat "$MOUNT_LOG")" "version 0.2"
  mv "$MOUNT/outbox/.held" "$MOUNT/outbox/held"
  wait_sent held
  stop_mount
  equal "$(find "$STATE/spool" -name '*.json' -o -name numbers -o -name sent-today)" ""
  start_mount
  equal "$(grep -c "taken over" "$MOUNT_LOG")" 1
  present "$MOUNT/sent/queued" "$MOUNT/sent/sent"
}

@test "a spool of version 0.1 is refused, and the reason says what to do" {
  mkdir -p "$STATE/spool" "$MOUNT"
  echo 1 >"$STATE/spool/version"
  run -1 timeout 30 "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  contains "$output" "inboxfs 0.2"
}
