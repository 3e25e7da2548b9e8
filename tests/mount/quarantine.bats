#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# .invalid/ in an inbox has the mail that its rules hold back; mv marks mail valid or invalid.

load support
load scripted

teardown() {
  stop_all
}

# Bob holds back what alice sends.
start_with_rules() {
  start_two_inboxes
  HELD=$MOUNT/inboxes/$BOB/.invalid
  refresh
  jq --arg address "$ALICE" '.blocked_from_addresses = {addresses: [$address], domains: []}' \
    "$MOUNT/inboxes/$BOB/inbox.json" >"$DIR/inbox.json"
  cp "$DIR/inbox.json" "$MOUNT/inboxes/$BOB/inbox.json"
}

# The path in a folder of the record of this subject.
record_in() { # FOLDER SUBJECT
  local file
  for file in "$1"/*.json; do
    if [ -e "$file" ] && jq -e --arg subject "$2" '.subject == $subject' "$file" >/dev/null; then
      echo "$file"
    fi
  done | grep .
}

has_status() { # SUBJECT STATUS
  [ "$(received "$BOB" "$1" | jq -r '.[0].status')" = "$2" ]
}

@test "a rule in inbox.json puts mail into .invalid/, with its status" {
  local file
  start_with_rules
  holds "$MOUNT/inboxes/$BOB/inbox.json" '.blocked_from_addresses.addresses == [$address]' --arg address "$ALICE"
  send_from_elsewhere "$ALICE" "$BOB" "unwanted"
  send_from_elsewhere "$BOB" "$BOB" "wanted"
  refresh
  file=$(record_in "$HELD" unwanted)
  holds "$file" '.status == "blocked_from_address" and .user_mark_status == false'
  equal "$(stat -c %a "$file")" 444
  has_true_size "$file"
  mounted "$BOB" wanted
  run ! mounted "$BOB" unwanted
  run ! grep -q unwanted "$MOUNT/inboxes/$BOB/index.jsonl"
  run ! has_event '.event == "mail" and (.path | contains("unwanted"))'
}

# What the kernel believes, and what it is told when it is made to ask.
attributes_are_true() { # PATH...
  equal "$(stat -c '%n %s %.9Y' "$@")" "$(stat --cached=never -c '%n %s %.9Y' "$@")"
}

@test "mail that comes, changes and goes changes the times of the inbox at once, also in .invalid/" {
  local inbox=$MOUNT/inboxes/$BOB id before subject status
  start_scripted_service
  control '{"inbox_list": 200}'
  start_mount_on_clock
  syscall mkdir "$inbox"
  id=$(curl -sS "$SERVICE_URL/_inboxes" | jq -r '.[0].id')
  for subject in first second; do
    for status in valid blocked_from_address; do
      before=$(stat -c %.9Y "$inbox" "$inbox/.invalid" "$inbox/index.jsonl")
      server_has_email "{\"id\": \"$subject-$status\", \"inbox_id\": \"$id\", \"subject\": \"$subject\", \"status\": \"$status\"}"
      refresh
      [ "$before" != "$(stat -c %.9Y "$inbox" "$inbox/.invalid" "$inbox/index.jsonl")" ]
      attributes_are_true "$inbox" "$inbox/.invalid" "$inbox/index.jsonl" "$inbox/inbox.json"
    done
  done
  equal "$(find "$inbox/.invalid" -name '*.json' | wc -l)" 2
  # All of it goes, once two answers a minute apart have nothing.
  server_answers email '{"body": []}'
  refresh
  equal "$(find "$inbox/.invalid" -name '*.json' | wc -l)" 2
  pass_time 61
  refresh
  equal "$(find "$inbox/.invalid" -name '*.json' | wc -l)" 0
  attributes_are_true "$inbox" "$inbox/.invalid" "$inbox/index.jsonl" "$inbox/inbox.json"
}

has_other_time() { # PATH TIME
  [ "$(stat -c %.9Y "$1")" != "$2" ]
}

@test "new folders of emails change the times of the inbox and its index" {
  local inbox=$MOUNT/inboxes/box-1 before
  start_scripted_service
  control '{"contents": {"mail-with-a-body": {"id": "mail-with-a-body", "plain_text": "Hello", "attachments": []}}}'
  server_has_email '{"id": "mail-with-a-body", "inbox_id": "box-1", "subject": "with content"}'
  server_answers content '"500"'
  start_mount
  refresh
  # The kernel knows the times of before, and nothing else changes from here on.
  wait_until 10 server_saw content 1
  before=$(stat -c %.9Y "$inbox/index.jsonl")
  server_answers content
  refresh
  # Looked up, not listed: a listing brings the times of all that it names.
  wait_until 10 test -d "$inbox/nodate_with-content_mailwith"
  wait_until 5 has_other_time "$inbox/index.jsonl" "$before"
  attributes_are_true "$inbox" "$inbox/index.jsonl"
}

@test ".invalid/ exists also when empty, and a plain ls does not show it" {
  start_two_inboxes
  refresh
  [ -d "$MOUNT/inboxes/$BOB/.invalid" ]
  equal "$(find "$MOUNT/inboxes/$BOB" -maxdepth 1 -name '.?*' -printf '%f\n')" .invalid
  equal "$(find "$MOUNT/inboxes/$BOB/.invalid" -mindepth 1)" ""
  run ls "$MOUNT/inboxes/$BOB"
  [[ $output != *invalid* ]]
}

@test "mv to the inbox marks mail valid, also at the service" {
  local file name
  start_with_rules
  send_from_elsewhere "$ALICE" "$BOB" "unwanted"
  refresh
  ls "$HELD" "$MOUNT/inboxes/$BOB" >/dev/null
  file=$(record_in "$HELD" unwanted)
  name=${file##*/}
  mv "$file" "$MOUNT/inboxes/$BOB/"
  missing "$HELD/$name"
  present "$MOUNT/inboxes/$BOB/$name"
  equal "$(find "$HELD" -mindepth 1)" ""
  equal "$(find "$MOUNT/inboxes/$BOB" -maxdepth 1 -name "$name" | wc -l)" 1
  holds "$MOUNT/inboxes/$BOB/$name" '.user_mark_status and .status == "blocked_from_address"'
  grep -q unwanted "$MOUNT/inboxes/$BOB/index.jsonl"
  received "$BOB" unwanted | jq -e '.[0].user_mark_status'
  wait_until 10 has_event '.event == "mail" and (.path | endswith($name))' --arg name "$name"
  # It stays so.
  refresh
  present "$MOUNT/inboxes/$BOB/$name"
  stop_mount
  start_mount
  present "$MOUNT/inboxes/$BOB/$name"
}

@test "mv back to .invalid/ marks mail invalid again" {
  local file name
  start_with_rules
  send_from_elsewhere "$ALICE" "$BOB" "unwanted"
  refresh
  file=$(record_in "$HELD" unwanted)
  name=${file##*/}
  mv "$file" "$MOUNT/inboxes/$BOB/"
  mv "$MOUNT/inboxes/$BOB/$name" "$HELD/"
  present "$HELD/$name"
  missing "$MOUNT/inboxes/$BOB/$name"
  holds "$HELD/$name" '.user_mark_status == false'
  run ! grep -q unwanted "$MOUNT/inboxes/$BOB/index.jsonl"
  refresh
  present "$HELD/$name"
}

@test "mail that passed all checks cannot be moved to .invalid/, and the reason is reported" {
  local file
  start_with_rules
  send_from_elsewhere "$BOB" "$BOB" "fine"
  refresh
  file=$(mounted "$BOB" fine)
  expect EPERM rename "$file" "$HELD/${file##*/}"
  present "$file"
  missing "$HELD/${file##*/}"
  has_event '.event == "refused" and (.error | contains("valid all the same"))'
}

@test "a mark made elsewhere shows after the next sync, and watchers see the mail" {
  local file name id
  start_with_rules
  send_from_elsewhere "$ALICE" "$BOB" "unwanted"
  refresh
  file=$(record_in "$HELD" unwanted)
  name=${file##*/}
  id=$(jq -r .id "$file")
  ls -l "$HELD" "$MOUNT/inboxes/$BOB" >/dev/null
  api POST "/email/$id/mark/true" >/dev/null
  refresh
  present "$MOUNT/inboxes/$BOB/$name"
  missing "$HELD/$name"
  equal "$(find "$HELD" -mindepth 1)" ""
  api POST "/email/$id/mark/false" >/dev/null
  refresh
  present "$HELD/$name"
  missing "$MOUNT/inboxes/$BOB/$name"
}

@test "mv, rm and writing change nothing else" {
  local file name
  start_with_rules
  send_from_elsewhere "$ALICE" "$BOB" "unwanted"
  refresh
  file=$(record_in "$HELD" unwanted)
  name=${file##*/}
  expect EPERM rename "$file" "$MOUNT/inboxes/$BOB/other.json"
  expect EPERM rename "$file" "$HELD/other.json"
  expect EPERM rename "$file" "$MOUNT/inboxes/$ALICE/$name"
  expect EPERM rename "$file" "$MOUNT/drafts/$name"
  expect EPERM rename "$MOUNT/inboxes/$BOB/inbox.json" "$HELD/inbox.json"
  expect EPERM rename "$MOUNT/inboxes/$BOB/index.jsonl" "$HELD/index.jsonl"
  expect EPERM unlink "$file"
  expect EPERM rmdir "$HELD"
  expect EPERM mkdir "$HELD/folder"
  expect EACCES open "$file" w
  run ! touch "$HELD/new"
  present "$file"
}

@test "offline, a mark fails, and mail in .invalid/ is readable" {
  local file
  start_with_rules
  send_from_elsewhere "$ALICE" "$BOB" "unwanted"
  refresh
  stop_service
  file=$(record_in "$HELD" unwanted)
  expect EHOSTUNREACH rename "$file" "$MOUNT/inboxes/$BOB/${file##*/}"
  holds "$file" '.subject == "unwanted"'
  stop_mount
  start_mount
  holds "$file" '.subject == "unwanted"'
}

@test "a hanging service fails the mark after a while, and delays nothing else" {
  local file
  start_with_rules
  send_from_elsewhere "$ALICE" "$BOB" "unwanted"
  refresh
  file=$(record_in "$HELD" unwanted)
  freeze_service
  mv "$file" "$MOUNT/inboxes/$BOB/" 2>"$DIR/said" 3>&- &
  local pid=$! result=0
  at_once cat "$MOUNT/status.json" >/dev/null
  at_once ls "$MOUNT/inboxes/$ALICE" >/dev/null
  within 12 wait "$pid" || result=$?
  kill -CONT "$SERVICE_PID"
  equal "$result" 1
  grep -q "No route to host" "$DIR/said"
  # Whatever the service made of it, the next look shows.
  refresh
  [ -e "$file" ] || [ -e "$MOUNT/inboxes/$BOB/${file##*/}" ]
}

@test "a Core server has no .invalid/, and its mail is shown whatever the status" {
  start_scripted_service
  server_has_email '{"id": "id-000001", "inbox_id": "in-1", "subject": "odd", "status": "spf_fail", "date": "2026-11-01T08:00:00Z"}'
  start_mount
  refresh
  local inbox=$MOUNT/inboxes/in-1
  present "$inbox"/*odd*.json
  missing "$inbox/.invalid"
  equal "$(find "$inbox" -name '.?*')" ""
}
