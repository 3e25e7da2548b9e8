#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A spool in which a crash, a disk or somebody left what does not belong there: it is set aside and told, never sent,
# and never stops the rest.

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
  NUMBER=$(grep -l '"torn"' "$STATE"/spool/*.json | sed 's|.*/||; s|\.json$||')
}

# The others went out once, what was torn did not, and its bytes are kept.
others_go_out() {
  start_scripted_service
  start_mount
  daemon_lives
  wait_settled
  present "$MOUNT/sent/first" "$MOUNT/sent/last"
  is_sent_times first 1
  is_sent_times last 1
  is_sent_times torn 0
  grep -q 'set aside' "$MOUNT_LOG"
  grep -rq 'text of torn' "$STATE/spool/quarantine"
  stop_mount
}

@test "an envelope cut anywhere is set aside with its message, the others go out" {
  start_mount
  local length size
  queue_three
  cp -a "$STATE" "$DIR/state.whole"
  size=$(sed 's/ *$//' "$STATE/spool/$NUMBER.json" | wc -c) # without the blanks behind it
  for length in 0 1 $((size / 4)) $((size / 2)) $((size - 3)); do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    truncate -s "$length" "$STATE/spool/$NUMBER.json"
    others_go_out
    stop_service
  done
}

@test "an envelope of other bytes, of a wrong number or an unknown state is set aside, the others go out" {
  start_mount
  local command
  queue_three
  cp -a "$STATE" "$DIR/state.whole"
  for command in 'head -c 3000 /dev/urandom >"$1"' 'echo "[]" >"$1"' 'echo null >"$1"' 'truncate -s 100M "$1"' \
    'sed -i "s/\"number\": *[0-9]*/\"number\": 999999/" "$1"' 'sed -i "s/\"queued\"/\"hovering\"/" "$1"' \
    'sed -i "s/\"torn\"/\"..\/..\/torn\"/" "$1"' \
    'printf "%0100000d" 0 | tr 0 "[" >"$1"'; do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    bash -c "$command" - "$STATE/spool/$NUMBER.json"
    others_go_out || fail "after: $command"
    stop_service
  done
}

@test "content without an envelope is set aside, an envelope that is a folder or a link too" {
  start_mount
  local command
  queue_three
  cp -a "$STATE" "$DIR/state.whole"
  for command in 'rm "$1"' 'rm "$1" && mkdir "$1"' 'mv "$1" "$1.moved" && ln -s "${1##*/}.moved" "$1"' \
    'rm "$1" && mkfifo "$1"'; do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    bash -c "$command" - "$STATE/spool/$NUMBER.json"
    others_go_out || fail "after: $command"
    stop_service
  done
}

@test "content that is cut or changed in the spool is never sent half" {
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

@test "an attachment that is cut in the spool is not uploaded, and its message not sent" {
  start_mount
  stop_service
  echo 'all of it' >"$MOUNT/attachments/cut.txt"
  echo 'all of this' >"$MOUNT/attachments/whole.txt"
  message "$BOB" "$(printf 'cut\nAttach: cut.txt')" >"$MOUNT/outbox/cut"
  message "$BOB" "$(printf 'whole\nAttach: whole.txt')" >"$MOUNT/outbox/whole"
  stop_mount
  truncate -s 4 "$(grep -lx 'all of it' "$STATE"/spool/*.data)"
  start_scripted_service
  start_mount
  wait_settled
  is_sent_times cut 0
  is_sent_times whole 1
  wait_failed cut
  holds "$MOUNT/failed/cut.receipt.json" '.error == "the attachment cut.txt was not uploaded"'
  holds "$MOUNT/failed/cut.txt.receipt.json" '.error == "the file changed in the spool"'
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
  run -1 grep -rl 'text of a secret' "$MOUNT"
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
  ln -s / "$spool/78.json"
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

@test "a creation that was cut short leaves nothing behind and is nothing to tell" {
  start_mount
  queue_three
  local spool=$STATE/spool
  : >"$spool/500.data"
  : >"$spool/501.data"
  : >"$spool/501.json"
  : >"$MOUNT_LOG"
  start_scripted_service
  start_mount
  wait_settled
  run ! grep -q 'set aside' "$MOUNT_LOG"
  missing "$spool/500.data" "$spool/501.data" "$spool/501.json"
}

@test "torn files of numbers and of the day's count: said, and numbers are never given twice" {
  start_mount --daily-limit=100
  send before
  wait_sent before
  stop_mount
  local file
  for file in "$STATE"/spool/*; do
    case ${file##*/} in
    *.json | *.data | version | quarantine) ;;
    *) printf 'rubbish' >"$file" ;;
    esac
  done
  start_mount --daily-limit=100
  send after
  wait_sent after
  present "$MOUNT/sent/before" "$MOUNT/sent/after"
  equal "$(find "$MOUNT/sent" -type f ! -name '*.receipt.json' -printf '%i\n' | sort -u | wc -l)" 2
  holds "$MOUNT/status.json" '.quota.sent_today == 2'
}

@test "a spool of a newer version is refused with words, and left as it is" {
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

@test "a spool of an older version is taken over: what was queued goes, the rest is where it was" {
  stop_service
  start_service
  create_inboxes "$ALICE" "$BOB"
  mkdir -p "$STATE"
  cp -r "$REPOSITORY/tests/data/valid/spool-1" "$STATE/spool"
  start_mount
  wait_sent queued.eml
  content "$BOB" "queued by version 1" | jq -e '[.attachments[].filename] == ["a.txt"]'
  has_received "$BOB" "sent by version 1" 0
  present "$MOUNT/sent/sent.eml" "$MOUNT/failed/failed.eml" "$MOUNT/outbox/.held"
  holds "$MOUNT/sent/sent.eml.receipt.json" '.request.subject == "sent by version 1"'
  holds "$MOUNT/failed/failed.eml.receipt.json" '.error | test("not a message")'
  equal "$(cat "$MOUNT/attachments/a.txt")" "a file of version 1"
  contains "$(cat "$MOUNT_LOG")" "upgraded from version 1"
  mv "$MOUNT/outbox/.held" "$MOUNT/outbox/held"
  wait_sent held
  stop_mount
  start_mount
  equal "$(grep -c "upgraded" "$MOUNT_LOG")" 1
}
