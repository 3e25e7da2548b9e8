#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The rules of outbox/ for names and contents: never-sent names, messages that cannot be sent, and queued messages.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

# ---------------------------------------------------------------- never sent

@test "files of never-sent names stay, do not delay a sync, and are handed in when renamed" {
  local name
  for name in .hidden backup~ '#auto#' file.tmp file.part .x.swp y.swp x.{bak,orig,old,rej,sav} 4913; do
    message "$BOB" "never $name" >"$MOUNT/outbox/$name"
  done
  within 5 sync "$MOUNT/outbox"
  for name in .hidden backup~ '#auto#' file.tmp file.part .x.swp y.swp x.{bak,orig,old,rej,sav} 4913; do
    present "$MOUNT/outbox/$name"
    has_received "$BOB" "never $name" 0
  done
  mv "$MOUNT/outbox/backup~" "$MOUNT/outbox/backup"
  went_out backup "never backup~"
}

@test "files of never-sent names survive a restart" {
  message "$BOB" "kept" >"$MOUNT/outbox/kept.part"
  stop_mount
  start_mount
  cmp "$MOUNT/outbox/kept.part" <(message "$BOB" kept)
  mv "$MOUNT/outbox/kept.part" "$MOUNT/outbox/kept"
  went_out kept kept
}

@test "a file of a never-sent name may be written again and removed" {
  echo one >"$MOUNT/outbox/x.tmp"
  echo two >"$MOUNT/outbox/x.tmp"
  echo three >>"$MOUNT/outbox/x.tmp"
  equal "$(cat "$MOUNT/outbox/x.tmp")" "two"$'\n'"three"
  rm "$MOUNT/outbox/x.tmp"
  missing "$MOUNT/outbox/x.tmp"
}

@test "an empty file is not sent, and sync returns EAGAIN without a wait" {
  : >"$MOUNT/outbox/empty"
  touch "$MOUNT/outbox/touched"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  present "$MOUNT/outbox/empty" "$MOUNT/outbox/touched"
  equal "$(find "$MOUNT/sent" "$MOUNT/failed" -type f | wc -l)" 0
}

@test "an empty file is sent after it was filled" {
  touch "$MOUNT/outbox/later"
  message "$BOB" "filled" >"$MOUNT/outbox/later"
  went_out later filled
}

@test "*.receipt.json cannot be created in outbox/: EPERM" {
  expect "open EPERM" write "$MOUNT/outbox/x.receipt.json" wc x
  message "$BOB" receipt >"$MOUNT/drafts/r"
  expect EPERM rename "$MOUNT/drafts/r" "$MOUNT/outbox/r.receipt.json"
  present "$MOUNT/drafts/r"
}

@test "folders and links cannot be created in outbox/: EPERM" {
  expect EPERM mkdir "$MOUNT/outbox/folder"
  expect EPERM symlink /etc/passwd "$MOUNT/outbox/link"
  message "$BOB" link >"$MOUNT/drafts/l"
  expect EPERM link "$MOUNT/drafts/l" "$MOUNT/outbox/l"
  run syscall mkfifo "$MOUNT/outbox/fifo"
  [ "$status" -ne 0 ]
  equal "$(find "$MOUNT/outbox" -mindepth 1)" ""
}

# ---------------------------------------------------------------- bad messages

@test "a bad message that was written goes to failed/ with the reason" {
  printf 'no header here' >"$MOUNT/outbox/bad"
  wait_failed bad
  unlisted "$MOUNT/outbox/bad"
  equal "$(cat "$MOUNT/failed/bad")" "no header here"
  holds "$MOUNT/failed/bad.receipt.json" '.state == "failed" and (.error | length > 5)'
  has_event '.event == "failed" and .path == "failed/bad" and (.error | length > 5)'
}

@test "a written message without recipients goes to failed/" {
  printf 'From: %s\nSubject: nobody\n\nx\n' "$ALICE" >"$MOUNT/outbox/nobody"
  wait_failed nobody
  holds "$MOUNT/failed/nobody.receipt.json" '.error | test("recipient|To"; "i")'
}

# ---------------------------------------------------------------- queued items

@test "a message that is being sent cannot be written, truncated or appended to: EBUSY" {
  freeze_service
  message "$BOB" "queued" >"$MOUNT/outbox/queued"
  wait_until 20 spool_has "state = 'sending'"
  expect "open EBUSY" write "$MOUNT/outbox/queued" w x
  expect EBUSY open "$MOUNT/outbox/queued" wa
  expect EBUSY open "$MOUNT/outbox/queued" wt
  expect EBUSY truncate "$MOUNT/outbox/queued" 0
  equal "$(events '.event == "refused" and .path == "outbox/queued" and (.error | contains("outcome"))' | wc -l)" 4
  cmp "$MOUNT/outbox/queued" <(message "$BOB" queued)
  kill -CONT "$SERVICE_PID"
  went_out queued queued
}

@test "a message that waits for the service can be edited like any file, and is sent once, as edited" {
  pause_sending
  message "$BOB" "queued" >"$MOUNT/outbox/queued"
  wait_waiting
  printf 'And more.\n' >>"$MOUNT/outbox/queued"
  resume_sending
  went_out queued queued $'Hello.\nAnd more.'
}

@test "rm of a queued message prevents its sending" {
  pause_sending
  message "$BOB" "cancelled" >"$MOUNT/outbox/cancelled"
  message "$BOB" "going" >"$MOUNT/outbox/going"
  wait_waiting
  rm "$MOUNT/outbox/cancelled"
  missing "$MOUNT/outbox/cancelled"
  resume_sending
  went_out going going
  has_received "$BOB" cancelled 0
  missing "$MOUNT/sent/cancelled" "$MOUNT/failed/cancelled"
}

@test "renaming a queued message to a never-sent name prevents its sending" {
  pause_sending
  message "$BOB" "set aside" >"$MOUNT/outbox/aside"
  wait_waiting
  mv "$MOUNT/outbox/aside" "$MOUNT/outbox/aside.part"
  resume_sending
  sync "$MOUNT/outbox"
  has_received "$BOB" "set aside" 0
  present "$MOUNT/outbox/aside.part"
}

@test "a file that is removed while it is being written is never sent" {
  exec 7>"$MOUNT/outbox/gone"
  message "$BOB" "gone" >&7
  rm "$MOUNT/outbox/gone"
  missing "$MOUNT/outbox/gone"
  echo more >&7 || true
  exec 7>&-
  sync "$MOUNT/outbox"
  has_received "$BOB" gone 0
  missing "$MOUNT/sent/gone" "$MOUNT/failed/gone"
}

@test "a message whose name is in sent/ already gets a number before its extension" {
  message "$BOB" "number one" >"$MOUNT/outbox/same.eml"
  wait_sent same.eml
  message "$BOB" "number two" >"$MOUNT/outbox/same.eml"
  wait_sent same-2.eml
  message "$BOB" "number three" >"$MOUNT/outbox/same.eml"
  wait_sent same-3.eml
  grep -q 'number one' "$MOUNT/sent/same.eml"
  grep -q 'number two' "$MOUNT/sent/same-2.eml"
  grep -q 'number three' "$MOUNT/sent/same-3.eml"
  present "$MOUNT/sent/same-3.eml.receipt.json"
}

# ---------------------------------------------------------------- names

@test "messages may have names with spaces, quotes and UTF-8" {
  local name number=0
  for name in 'two words.eml' "it's \"quoted\"" 'Grüße 你好.eml' '-dash' '%20' 'a\b' '*'; do
    number=$((number + 1))
    message "$BOB" "name $number" >"$MOUNT/outbox/$name"
    wait_sent "$name"
    content "$BOB" "name $number" >/dev/null
  done
}

@test "messages may have names with control characters, written or moved; events stay lines of JSON" {
  local name number=0
  for name in $'new\nline' $'bell\a' $'\e[31mred' $'del\x7f' $'next\u0085line' $'\u202eltr'; do
    number=$((number + 1))
    message "$BOB" "written $number" >"$MOUNT/outbox/$name"
    wait_sent "$name"
    message "$BOB" "moved $number" >"$MOUNT/drafts/$name"
    mv "$MOUNT/drafts/$name" "$MOUNT/outbox/"
    wait_sent "$name-2"
    content "$BOB" "moved $number" >/dev/null
    echo bad >"$MOUNT/outbox/$name"
    wait_failed "$name"
    wait_until 5 has_event '.event == "failed" and .path == "failed/" + $name' --arg name "$name"
  done
  jq -e . "$MOUNT/events.jsonl" >/dev/null
  run ! grep -P '[\x00-\x08\x0b-\x1f\x7f]' "$MOUNT/events.jsonl" "$MOUNT_LOG"
  stop_mount
  start_mount
  present "$MOUNT/sent/"$'new\nline' "$MOUNT/failed/"$'\e[31mred.receipt.json'
}

@test "names that are not UTF-8, and attachments' names with control characters, give EILSEQ" {
  local name
  for name in $'caf\xe9' $'\xff'; do
    expect "open EILSEQ" write "$MOUNT/outbox/$name" wc x
    message "$BOB" "bad name" >"$MOUNT/drafts/$name"
    expect EILSEQ rename "$MOUNT/drafts/$name" "$MOUNT/outbox/$name"
    present "$MOUNT/drafts/$name"
  done
  for name in $'caf\xe9' $'new\nline' $'\e[31m'; do
    expect "open EILSEQ" write "$MOUNT/attachments/$name" wc x
    echo x >"$MOUNT/drafts/$name"
    expect EILSEQ rename "$MOUNT/drafts/$name" "$MOUNT/attachments/$name"
  done
  equal "$(find "$MOUNT/outbox" "$MOUNT/attachments" -mindepth 1)" ""
}

@test "a message with a name of 255 bytes is sent, and gets a shorter name beside its receipt" {
  local long shown
  long=$(printf 'ü%.0s' {1..125})x.eml
  shown=$(printf 'ü%.0s' {1..119}).eml
  message "$BOB" "long name" >"$MOUNT/outbox/$long"
  wait_until 20 test -e "$MOUNT/sent/$shown"
  present "$MOUNT/sent/$shown.receipt.json"
  has_received "$BOB" "long name"
  message "$BOB" "long name too" >"$MOUNT/drafts/$long"
  mv "$MOUNT/drafts/$long" "$MOUNT/outbox/"
  wait_until 20 has_received "$BOB" "long name too"
  expect "open ENAMETOOLONG" write "$MOUNT/outbox/x$long" wc x
  # That of an attachment is what the email shows: it is not changed.
  expect "open ENAMETOOLONG" write "$MOUNT/attachments/$long" wc x
  echo x >"$MOUNT/attachments/$shown"
  wait_until 20 jq -e '.id | type == "string"' "$MOUNT/attachments/$shown.receipt.json"
}
