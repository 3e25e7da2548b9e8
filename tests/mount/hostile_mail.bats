#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Mail written to do harm: whatever its subject contains, names and contents of files are harmless.

load support
load scripted

setup() {
  start_scripted_service
  start_mount
}

teardown() {
  stop_all
}

deliver() { # SUBJECT NUMBER
  jq -n --arg subject "$1" --arg id "id-$2" \
    '{id: $id, inbox_id: "box", subject: $subject, date: "2026-01-02T03:04:05Z", from_address: {address: "a@x.example"}}' |
    curl -sS --fail --data-binary @- "$SERVICE_URL/_deliver"
}

@test "hostile subjects give harmless file names" {
  local subject number=0 file
  for subject in '../../etc/passwd' '/etc/passwd' '.hidden' '..' '.' '-rf' $'line\nbreak\rreturn' $'\e[31mred\e[0m\a' \
    $'\u202egnp.exe' $'\u2066isolate\u2069' $'\u200f' $'\ufeff' '$(reboot)' '`id`; rm -rf ~' '*' '~' ' ' '' '"' "'" \
    '💥💥💥' 'CON' $'tab\there' $'\x7f\x01' $'\u0085' $'a\u2028b' 'inbox.json' '%2e%2e%2f' '\..\x'; do
    number=$((number + 1))
    deliver "$subject" "$number"
  done
  refresh
  find "$MOUNT/inboxes/box" -name '*.json' -print0 >"$DIR/names"
  equal "$(tr -cd '\0' <"$DIR/names" | wc -c)" $((number + 1))
  # No control characters and no direction marks; each name one below the folder, and not hidden.
  run -1 grep -zP '[\x01-\x1f\x7f\x{80}-\x{9f}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}\x{feff}]' "$DIR/names"
  while IFS= read -r -d '' file; do
    [[ ${file##*/} != .* ]]
    [[ ${file##*/} != -* ]]
    [[ ${file##*/} != *[[:space:]\$\`\"\'\*\;\~\\]* ]] || fail "$file"
  done <"$DIR/names"
}

@test "cat of a hostile email sends no control character to the terminal, and is the same JSON" {
  local subject=$'\e]0;title\a\e[2J\u009b31m\u202eevil \u2067x\u2028y'
  deliver "$subject" 1
  refresh
  cat "$MOUNT/inboxes/box"/2*.json >"$DIR/seen"
  run -1 grep -aP '[\x00-\x09\x0b-\x1f\x7f]' "$DIR/seen"
  run -1 grep -P '[\x{80}-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}]' "$DIR/seen"
  holds "$DIR/seen" '.subject == $subject' --arg subject "$subject"
}

@test "subjects of 10 kB and of many Unicode letters give names within bounds" {
  deliver "$(printf 'long %.0s' {1..2000})" 1
  deliver "$(printf '漢字%.0s' {1..5000})" 2
  deliver "$(printf 'e\xcc\x81%.0s' {1..500})" 3
  refresh
  local file slug
  for file in "$MOUNT/inboxes/box"/2*.json; do
    slug=$(basename "$file" .json | cut -d_ -f2)
    [ "$(printf %s "$slug" | wc -c)" -le 60 ] || fail "$slug"
    printf %s "$slug" | iconv -f utf-8 -t utf-8 >/dev/null
    [ "$(jq -r .subject "$file" | wc -c)" -ge 1000 ]
  done
  equal "$(find "$MOUNT/inboxes/box" -name '2*' | wc -l)" 3
}

@test "lone surrogates and overlong escapes in JSON are harmless" {
  curl -sS --fail --data-binary '{"id": "s1", "inbox_id": "box", "subject": "lone \ud800 surrogate"}' "$SERVICE_URL/_deliver"
  curl -sS --fail --data-binary '{"id": "s2", "inbox_id": "box", "subject": "fine"}' "$SERVICE_URL/_deliver"
  syscall write "$MOUNT/ctl" w $'sync\n' || true
  find "$MOUNT/inboxes" | iconv -f utf-8 -t utf-8 >/dev/null
  find "$MOUNT/inboxes" -type f -exec cat {} + | iconv -f utf-8 -t utf-8 >/dev/null
  present "$MOUNT/status.json"
}

@test "a record with a hundred thousand recipients is shown" {
  python3 -c '
import json
print(json.dumps({"id": "crowd", "inbox_id": "box", "subject": "crowd",
                  "to_addresses": [{"address": "a%d@x.example" % n, "name": None} for n in range(50000)]}))' |
    curl -sS --fail --data-binary @- "$SERVICE_URL/_deliver"
  refresh
  equal "$(jq '.to_addresses | length' "$MOUNT/inboxes/box"/*crowd*)" 50000
}

@test "a record beyond every bound does not hide the others" {
  deliver "small" 1
  python3 -c '
import json
print(json.dumps({"id": "huge", "inbox_id": "box", "subject": "x" * 6000000}))' |
    curl -sS --fail --data-binary @- "$SERVICE_URL/_deliver"
  deliver "small too" 2
  syscall write "$MOUNT/ctl" w $'sync\n' || true
  equal "$(find "$MOUNT/inboxes/box" -name '*_small*' | wc -l)" 2
}

@test "deep nesting does not end the daemon" {
  deliver "beside" 1
  python3 -c 'print("{\"id\": \"deep\", \"inbox_id\": \"box\", \"x\": " + "[" * 100000 + "]" * 100000 + "}")' |
    curl -sS --fail --data-binary @- "$SERVICE_URL/_deliver"
  syscall write "$MOUNT/ctl" w $'sync\n' || true
  present "$MOUNT/status.json"
}

@test "mail creates no symbolic links, executable files or special files" {
  deliver '#!/bin/sh' 1
  refresh
  equal "$(find "$MOUNT/inboxes" ! -type f ! -type d)" ""
  equal "$(find "$MOUNT/inboxes" -type f -perm /111)" ""
}
