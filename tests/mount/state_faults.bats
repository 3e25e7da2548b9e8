#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A state directory that fails: a full disk, one that turns read-only or gives errors, and a spool in which somebody
# or something left what does not belong there. Nothing accepted is lost, nothing is sent twice, the rest goes on.

load support
load scripted

SMALL=$DIR/small
PLAN=$DIR/plan

setup() {
  start_scripted_service
}

teardown() {
  rm -f "$PLAN" "$SMALL/filler"
  local status=0
  stop_all || status=1
  ! mountpoint -q "$SMALL" || umount "$SMALL" || umount -l "$SMALL"
  return $status
}

# ---------------------------------------------------------------- what the tests do

send() { # NAME
  message "$BOB" "$1" "text of $1" >"$MOUNT/drafts/$1"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/$1"
}

# A state on a disk of its own, of a few megabytes.
mount_on_small_disk() {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  mkdir "$SMALL"
  mount -t tmpfs -o size=4m inboxfs-test "$SMALL"
  STATE=$SMALL/state
  start_mount "$@"
}

fill_disk() { # [BYTES to leave free]
  head -c "${1:-0}" /dev/zero >"$SMALL/reserve"
  ! cat /dev/zero >"$SMALL/filler" 2>/dev/null
  rm "$SMALL/reserve"
}

empty_disk() {
  rm "$SMALL/filler"
}

# A daemon whose disk follows a plan (tests/torture/fault_preload.c).
start_mount_on_plan() { # [OPTION...]
  # The allocator's checks at load do not concern a library that allocates nothing.
  LD_PRELOAD=$BUILD/tests/fault_preload.so FAULT_PLAN=$PLAN ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 \
    start_mount "$@"
}

disk_fails() { # CALL NTH COUNT ERRNO
  echo "$*" >"$PLAN.new"
  mv "$PLAN.new" "$PLAN"
}

disk_works() {
  rm -f "$PLAN"
}

# How often the message went out.
sent_count() { # SUBJECT
  curl -sS --fail "$SERVICE_URL/_sent" | jq --arg subject "$1" '[.[] | select(.request.subject == $subject)] | length'
}

is_sent_times() { # SUBJECT COUNT
  [ "$(sent_count "$1")" = "$2" ]
}

# Everything in the mount that needs no disk for writing.
mount_lists_and_reads() {
  ls -lR "$MOUNT" >/dev/null
  jq -e .queue "$MOUNT/status.json" >/dev/null
  cat "$MOUNT/README" "$MOUNT/events.jsonl" >/dev/null
  local file
  for file in "$MOUNT"/{outbox,sent,failed,drafts}/*; do
    [ ! -f "$file" ] || cat "$file" >/dev/null || fail "cannot be read: $file"
  done
}

daemon_lives() {
  run ! process_is_gone "$MOUNT_PID"
  run ! grep -E 'Sanitizer|runtime error' "$MOUNT_LOG"
}

wait_settled() {
  echo "retry all" >"$MOUNT/ctl"
  wait_until 30 bash -c '[ -z "$(ls "$1")" ]' - "$MOUNT/outbox"
}

# ---------------------------------------------------------------- a full disk

@test "a full disk: creating and mv say ENOSPC, the draft stays, all is still there to read" {
  mount_on_small_disk
  send before
  wait_sent before
  message "$BOB" "draft" >"$MOUNT/drafts/draft"
  fill_disk
  run syscall write "$MOUNT/outbox/new" wc "$(message "$BOB" new)"
  contains "$output" ENOSPC
  expect ENOSPC rename "$MOUNT/drafts/draft" "$MOUNT/outbox/draft"
  run mv "$MOUNT/drafts/draft" "$MOUNT/outbox/draft"
  contains "$output" "No space left on device"
  cmp "$MOUNT/drafts/draft" <(message "$BOB" draft)
  mount_lists_and_reads
  present "$MOUNT/sent/before"
  empty_disk
  mv "$MOUNT/drafts/draft" "$MOUNT/outbox/draft"
  wait_sent draft
  is_sent_times draft 1
  is_sent_times new 0
}

@test "the disk fills up in the middle of a message: the writer is told, it is never sent" {
  mount_on_small_disk
  fill_disk 200000
  { message "$BOB" "long" && head -c 2000000 /dev/zero | tr '\0' 'x'; } >"$DIR/long"
  run cp "$DIR/long" "$MOUNT/outbox/long"
  [ "$status" -ne 0 ]
  contains "$output" "No space left on device"
  wait_failed long
  holds "$MOUNT/failed/long.receipt.json" '.state == "interrupted" and (.error | test("No space left"))'
  mount_lists_and_reads
  empty_disk
  wait_until 20 grep -qs '"interrupted"' "$STATE"/spool/*.json
  kill_mount KILL
  start_mount
  present "$MOUNT/failed/long"
  is_sent_times long 0
}

@test "a disk that is full when a message is to be sent: nothing goes out unrecorded, and it goes once there is room" {
  mount_on_small_disk
  stop_service
  send waiting
  fill_disk
  start_scripted_service
  syscall write "$MOUNT/ctl" w $'retry all\n' || true
  expect EAGAIN fsync "$MOUNT/outbox"
  present "$MOUNT/outbox/waiting"
  is_sent_times waiting 0
  mount_lists_and_reads
  empty_disk
  wait_settled
  present "$MOUNT/sent/waiting"
  is_sent_times waiting 1
}

@test "a disk that is full when the answer comes: sent, told, and recorded when there is room" {
  mount_on_small_disk
  control '{"delay_ms": 1500}'
  send flying
  wait_until 10 server_saw send 1
  fill_disk
  wait_sent flying
  holds "$MOUNT/sent/flying.receipt.json" '.state == "sent" and .attempts == 1'
  mount_lists_and_reads
  empty_disk
  wait_until 30 grep -qs '"sent"' "$STATE"/spool/*.json
  kill_mount KILL
  start_mount
  present "$MOUNT/sent/flying"
  missing "$MOUNT/outbox/flying"
  is_sent_times flying 1
}

@test "the same, and killed before there was room: an unknown outcome, never sent a second time" {
  mount_on_small_disk
  control '{"delay_ms": 1500}'
  send flying
  wait_until 10 server_saw send 1
  fill_disk
  wait_sent flying
  kill_mount KILL
  start_mount
  present "$MOUNT/failed/flying"
  holds "$MOUNT/failed/flying.receipt.json" '.error | test("unknown outcome")'
  empty_disk
  stop_mount
  start_mount
  present "$MOUNT/failed/flying"
  is_sent_times flying 1
}

@test "a start on a full disk: it mounts, shows what there is, and sends when there is room" {
  mount_on_small_disk
  stop_service
  send patient
  kill_mount KILL
  fill_disk
  start_scripted_service
  start_mount
  present "$MOUNT/outbox/patient"
  mount_lists_and_reads
  empty_disk
  wait_settled
  is_sent_times patient 1
}

@test "an attachment that no longer fits: the writer is told, messages that name it are refused" {
  mount_on_small_disk
  fill_disk 300000
  run bash -c 'head -c 3000000 /dev/zero >"$1"' - "$MOUNT/attachments/big"
  [ "$status" -ne 0 ]
  wait_failed big
  empty_disk
  printf 'From: %s\nTo: %s\nSubject: x\nAttach: big\n\nx\n' "$ALICE" "$BOB" >"$MOUNT/drafts/x"
  expect ENODATA rename "$MOUNT/drafts/x" "$MOUNT/outbox/x"
  equal "$(server_requests upload | jq length)" 0
}

# ---------------------------------------------------------------- a disk that cannot be written

@test "a state that turned read-only: EROFS, everything stays readable, and goes on afterwards" {
  start_mount_on_plan
  stop_service
  send queued
  message "$BOB" "draft" >"$MOUNT/drafts/draft"
  disk_fails any 1 0 30
  start_scripted_service
  run syscall write "$MOUNT/outbox/new" wc "$(message "$BOB" new)"
  contains "$output" EROFS
  expect EROFS rename "$MOUNT/drafts/draft" "$MOUNT/outbox/draft"
  present "$MOUNT/drafts/draft"
  syscall write "$MOUNT/ctl" w $'retry all\n' || true
  expect EAGAIN fsync "$MOUNT/outbox"
  run ! syscall unlink "$MOUNT/outbox/queued"
  mount_lists_and_reads
  is_sent_times queued 0
  disk_works
  mv "$MOUNT/drafts/draft" "$MOUNT/outbox/draft"
  wait_settled
  is_sent_times queued 1
  is_sent_times draft 1
}

@test "a start on a read-only state is refused with words" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  mount_on_small_disk
  stop_mount
  mount -o remount,ro "$SMALL"
  run -1 timeout 30 "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  contains "$output" "Read-only file system"
  run ! mountpoint -q "$MOUNT"
}

@test "EIO at any call of a hand-in by mv: either accepted and sent once, or refused and still a draft" {
  start_mount_on_plan
  local call nth name
  for call in fsync write rename create unlink; do
    for nth in 1 2 3 4 5 6; do
      name=$call$nth
      message "$BOB" "$name" >"$MOUNT/drafts/$name"
      disk_fails "$call" "$nth" 1 5
      if syscall rename "$MOUNT/drafts/$name" "$MOUNT/outbox/$name"; then
        touch "$DIR/accepted.$name"
      else
        cmp "$MOUNT/drafts/$name" <(message "$BOB" "$name")
      fi
      syscall fsync "$MOUNT/outbox" || true
      disk_works
    done
  done >/dev/null
  wait_settled
  for call in fsync write rename create unlink; do
    for nth in 1 2 3 4 5 6; do
      name=$call$nth
      if [ -e "$DIR/accepted.$name" ]; then
        is_sent_times "$name" 1 || fail "$name: accepted, sent $(sent_count "$name") times"
        present "$MOUNT/sent/$name"
      else
        is_sent_times "$name" 0 || fail "$name: refused, and sent"
      fi
    done
  done
  # The plan did what it was for, and was not everywhere.
  [ -e "$DIR/accepted.fsync6" ]
  missing "$DIR/accepted.create1"
  daemon_lives
}

@test "EIO at any call of a hand-in by cp: sent once, or told and in failed" {
  start_mount_on_plan
  local call nth name
  for call in fsync write rename create unlink; do
    for nth in 1 2 3 4 5 6; do
      name=$call$nth
      message "$BOB" "$name" >"$DIR/$name"
      disk_fails "$call" "$nth" 1 5
      if cp "$DIR/$name" "$MOUNT/outbox/$name" 2>/dev/null; then
        touch "$DIR/accepted.$name"
      fi
      syscall fsync "$MOUNT/outbox" || true
      disk_works
    done
  done >/dev/null
  wait_settled
  for call in fsync write rename create unlink; do
    for nth in 1 2 3 4 5 6; do
      name=$call$nth
      if [ -e "$MOUNT/sent/$name" ]; then
        is_sent_times "$name" 1 || fail "$name: in sent, sent $(sent_count "$name") times"
        present "$DIR/accepted.$name"
      else
        is_sent_times "$name" 0 || fail "$name: not in sent, but sent"
        if [ -e "$DIR/accepted.$name" ]; then
          holds "$MOUNT/failed/$name.receipt.json" '.error | test("Input/output error|durable")'
        fi
      fi
    done
  done
  [ -e "$MOUNT/sent/fsync6" ]
  missing "$DIR/accepted.create1"
  daemon_lives
}

@test "EIO while answers come in: sent once, and a receipt that says so in the end" {
  start_mount_on_plan
  local call
  control '{"delay_ms": 700}'
  for call in fsync write rename create; do
    send "answer-$call"
    wait_until 10 bash -c '[ "$(syscall unlink "$1")" = EBUSY ]' - "$MOUNT/outbox/answer-$call"
    disk_fails "$call" 1 0 5
    wait_sent "answer-$call"
    disk_works
  done
  wait_until 30 bash -c '[ "$(cat "$1"/spool/*.json | jq -s "map(select(.state == \"sent\")) | length")" = 4 ]' - "$STATE"
  kill_mount KILL
  start_mount
  for call in fsync write rename create; do
    present "$MOUNT/sent/answer-$call"
    is_sent_times "answer-$call" 1
  done
}

@test "EIO at any step of cancelling: gone, or still there and sent" {
  start_mount_on_plan
  local call nth name
  stop_service
  for call in fsync rename unlink write; do
    for nth in 1 2 3; do
      name=$call$nth
      send "$name"
      disk_fails "$call" "$nth" 1 5
      if syscall unlink "$MOUNT/outbox/$name"; then
        touch "$DIR/removed.$name"
      fi
      disk_works
    done
  done >/dev/null
  kill_mount KILL
  start_scripted_service
  start_mount
  wait_settled
  for call in fsync rename unlink write; do
    for nth in 1 2 3; do
      name=$call$nth
      if [ -e "$DIR/removed.$name" ]; then
        is_sent_times "$name" 0 || fail "$name: removed, and sent"
      else
        [ -e "$MOUNT/sent/$name" ] || [ -z "$(find "$MOUNT/outbox" "$MOUNT/failed" -name "$name")" ]
      fi
    done
  done
}

# ---------------------------------------------------------------- torn and foreign files

# Three messages wait; the number of the one in the middle is printed.
queue_three() {
  stop_service
  send first
  send torn
  send last
  stop_mount
  grep -l '"torn"' "$STATE"/spool/*.json | sed 's|.*/||; s|\.json$||'
}

# The others went out once, what was torn did not, and its bytes are kept.
others_go_out() { # NUMBER
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
  local number length size
  number=$(queue_three)
  cp -a "$STATE" "$DIR/state.whole"
  size=$(stat -c %s "$STATE/spool/$number.json")
  for length in 0 1 $((size / 4)) $((size / 2)) $((size - 3)); do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    truncate -s "$length" "$STATE/spool/$number.json"
    others_go_out "$number"
    stop_service
  done
}

@test "an envelope of other bytes, of a wrong number or an unknown state is set aside, the others go out" {
  start_mount
  local number command
  number=$(queue_three)
  cp -a "$STATE" "$DIR/state.whole"
  for command in 'head -c 3000 /dev/urandom >"$1"' 'echo "[]" >"$1"' 'echo null >"$1"' 'truncate -s 100M "$1"' \
    'sed -i "s/\"number\": *[0-9]*/\"number\": 999999/" "$1"' 'sed -i "s/\"queued\"/\"hovering\"/" "$1"' \
    'sed -i "s/\"torn\"/\"..\/..\/torn\"/" "$1"' \
    'printf "%0100000d" 0 | tr 0 "[" >"$1"'; do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    bash -c "$command" - "$STATE/spool/$number.json"
    others_go_out "$number" || fail "after: $command"
    stop_service
  done
}

@test "content without an envelope is set aside, an envelope that is a folder or a link too" {
  start_mount
  local number command
  number=$(queue_three)
  cp -a "$STATE" "$DIR/state.whole"
  for command in 'rm "$1"' 'rm "$1" && mkdir "$1"' 'mv "$1" "$1.moved" && ln -s "${1##*/}.moved" "$1"' \
    'rm "$1" && mkfifo "$1"'; do
    rm -rf "$STATE"
    cp -a "$DIR/state.whole" "$STATE"
    bash -c "$command" - "$STATE/spool/$number.json"
    others_go_out "$number" || fail "after: $command"
    stop_service
  done
}

@test "content that is cut or changed in the spool is never sent half" {
  start_mount
  local number
  number=$(queue_three)
  truncate -s 20 "$STATE/spool/$number.data"
  start_scripted_service
  start_mount
  wait_settled
  is_sent_times torn 0
  is_sent_times first 1
  is_sent_times last 1
  wait_failed torn
  holds "$MOUNT/failed/torn.receipt.json" '.error | length > 10'
}

@test "content that is a link out of the spool is not followed" {
  start_mount
  local number
  number=$(queue_three)
  message "$BOB" "secret" "text of a secret" >"$DIR/secret"
  rm "$STATE/spool/$number.data"
  ln -s "$DIR/secret" "$STATE/spool/$number.data"
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
  echo 9 >"$STATE/spool/version"
  find "$STATE/spool" -type f -exec sha256sum {} + | sort >"$DIR/before"
  run -1 timeout 30 "$INBOXFS" -f --api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT"
  contains "$output" "version 9"
  run ! mountpoint -q "$MOUNT"
  diff "$DIR/before" <(find "$STATE/spool" -type f -exec sha256sum {} + | sort)
  echo 1 >"$STATE/spool/version"
  start_mount
  wait_settled
  is_sent_times waiting 1
}
