#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# What outbox/ does with names and contents: what is never sent, what cannot be sent, and what is queued already.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

# ---------------------------------------------------------------- never sent

@test "never-sent names stay, hold up no sync, and are handed in when renamed" {
  local name
  for name in .hidden backup~ file.tmp file.part .x.swp y.swp 4913; do
    message "$BOB" "never $name" >"$MOUNT/outbox/$name"
  done
  within 5 sync "$MOUNT/outbox"
  for name in .hidden backup~ file.tmp file.part .x.swp y.swp 4913; do
    present "$MOUNT/outbox/$name"
    has_received "$BOB" "never $name" 0
  done
  mv "$MOUNT/outbox/backup~" "$MOUNT/outbox/backup"
  went_out backup "never backup~"
}

@test "never-sent names survive a restart" {
  message "$BOB" "kept" >"$MOUNT/outbox/kept.part"
  stop_mount
  start_mount
  cmp "$MOUNT/outbox/kept.part" <(message "$BOB" kept)
  mv "$MOUNT/outbox/kept.part" "$MOUNT/outbox/kept"
  went_out kept kept
}

@test "a never-sent file may be written again and removed" {
  echo one >"$MOUNT/outbox/x.tmp"
  echo two >"$MOUNT/outbox/x.tmp"
  echo three >>"$MOUNT/outbox/x.tmp"
  equal "$(cat "$MOUNT/outbox/x.tmp")" "two"$'\n'"three"
  rm "$MOUNT/outbox/x.tmp"
  missing "$MOUNT/outbox/x.tmp"
}

@test "an empty file is not sent, and holds up no sync" {
  : >"$MOUNT/outbox/empty"
  touch "$MOUNT/outbox/touched"
  within 5 sync "$MOUNT/outbox"
  present "$MOUNT/outbox/empty" "$MOUNT/outbox/touched"
  equal "$(find "$MOUNT/sent" "$MOUNT/failed" -type f | wc -l)" 0
}

@test "an empty file that is filled later is sent then" {
  touch "$MOUNT/outbox/later"
  message "$BOB" "filled" >"$MOUNT/outbox/later"
  went_out later filled
}

@test "*.receipt.json in the outbox: EPERM" {
  expect "open EPERM" write "$MOUNT/outbox/x.receipt.json" wc x
  message "$BOB" receipt >"$MOUNT/drafts/r"
  expect EPERM rename "$MOUNT/drafts/r" "$MOUNT/outbox/r.receipt.json"
  present "$MOUNT/drafts/r"
}

@test "folders and links in the outbox: EPERM" {
  expect EPERM mkdir "$MOUNT/outbox/folder"
  expect EPERM symlink /etc/passwd "$MOUNT/outbox/link"
  message "$BOB" link >"$MOUNT/drafts/l"
  expect EPERM link "$MOUNT/drafts/l" "$MOUNT/outbox/l"
  run syscall mkfifo "$MOUNT/outbox/fifo"
  [ "$status" -ne 0 ]
  equal "$(find "$MOUNT/outbox" -mindepth 1)" ""
}

# ---------------------------------------------------------------- bad messages

@test "a bad message that was written goes to failed with the reason" {
  printf 'no header here' >"$MOUNT/outbox/bad"
  wait_failed bad
  unlisted "$MOUNT/outbox/bad"
  equal "$(cat "$MOUNT/failed/bad")" "no header here"
  holds "$MOUNT/failed/bad.receipt.json" '.state == "failed" and (.error | length > 5)'
  has_event '.event == "failed" and .path == "failed/bad" and (.error | length > 5)'
}

@test "a message to nobody that was written goes to failed" {
  printf 'From: %s\nSubject: nobody\n\nx\n' "$ALICE" >"$MOUNT/outbox/nobody"
  wait_failed nobody
  holds "$MOUNT/failed/nobody.receipt.json" '.error | test("recipient|To"; "i")'
}

# ---------------------------------------------------------------- queued items

@test "a queued message cannot be written, truncated or appended to: EBUSY" {
  stop_service
  message "$BOB" "queued" >"$MOUNT/outbox/queued"
  expect "open EBUSY" write "$MOUNT/outbox/queued" w x
  expect EBUSY open "$MOUNT/outbox/queued" wa
  expect EBUSY open "$MOUNT/outbox/queued" wt
  expect EBUSY truncate "$MOUNT/outbox/queued" 0
  cmp "$MOUNT/outbox/queued" <(message "$BOB" queued)
  start_service
  echo "retry all" >"$MOUNT/ctl"
  went_out queued queued
}

@test "rm of a queued message cancels it" {
  stop_service
  message "$BOB" "cancelled" >"$MOUNT/outbox/cancelled"
  message "$BOB" "going" >"$MOUNT/outbox/going"
  wait_waiting
  rm "$MOUNT/outbox/cancelled"
  missing "$MOUNT/outbox/cancelled"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  went_out going going
  has_received "$BOB" cancelled 0
  missing "$MOUNT/sent/cancelled" "$MOUNT/failed/cancelled"
}

@test "renaming a queued message to a never-sent name cancels it" {
  stop_service
  message "$BOB" "set aside" >"$MOUNT/outbox/aside"
  wait_waiting
  mv "$MOUNT/outbox/aside" "$MOUNT/outbox/aside.part"
  start_service
  echo "retry all" >"$MOUNT/ctl"
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

@test "a name that is sent already gets a number before its extension" {
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

@test "names with spaces, quotes and UTF-8" {
  local name number=0
  for name in 'two words.eml' "it's \"quoted\"" 'Grüße 你好.eml' '-dash' '%20' 'a\b' '*'; do
    number=$((number + 1))
    message "$BOB" "name $number" >"$MOUNT/outbox/$name"
    wait_sent "$name"
    content "$BOB" "name $number" >/dev/null
  done
}

@test "a name with a newline or another control character is refused before anything is written" {
  local name
  for name in $'new\nline' $'bell\a' $'\e[31m'; do
    run syscall write "$MOUNT/outbox/$name" wc x
    [[ $output = "open EINVAL" || $output = "open EILSEQ" ]] || fail "$output"
    message "$BOB" "control" >"$MOUNT/drafts/$name"
    run syscall rename "$MOUNT/drafts/$name" "$MOUNT/outbox/$name"
    [[ $output = EINVAL || $output = EILSEQ ]] || fail "$output"
    present "$MOUNT/drafts/$name"
  done
  equal "$(find "$MOUNT/outbox" -mindepth 1)" ""
}

@test "a long name is sent, as long as its receipt can have a name too; else ENAMETOOLONG" {
  local name
  name=$(printf 'x%.0s' {1..242})
  message "$BOB" "long name" >"$MOUNT/outbox/$name"
  wait_sent "$name"
  has_received "$BOB" "long name"
  message "$BOB" "longer name" >"$MOUNT/drafts/x$name"
  expect ENAMETOOLONG rename "$MOUNT/drafts/x$name" "$MOUNT/outbox/x$name"
  present "$MOUNT/drafts/x$name"
  expect "open ENAMETOOLONG" write "$MOUNT/outbox/$(printf 'x%.0s' {1..255})" wc x
  expect "open ENAMETOOLONG" write "$MOUNT/outbox/$(printf 'x%.0s' {1..256})" wc x
}

@test "a name that is not UTF-8 is refused or sent, never half" {
  local name=$'caf\xe9'
  if message "$BOB" "latin name" >"$MOUNT/outbox/$name"; then
    wait_until 20 has_received "$BOB" "latin name"
  else
    missing "$MOUNT/outbox/$name"
  fi
}
