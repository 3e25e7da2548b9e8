#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The mount works with servers that know the Core endpoints only, answer in other forms, or misbehave.

load support
load scripted

setup() {
  start_scripted_service
}

teardown() {
  stop_all
}

# The file of the email whose record has this subject.
file_of() { # SUBJECT
  grep -rlF --include='*.json' -- "\"subject\": \"$1\"" "$MOUNT/inboxes" | grep .
}

# ---------------------------------------------------------------- Core only

@test "without GET /inbox, inboxes come from the mail and from mkdir" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "hello", "date": "2026-01-02T03:04:05Z"}'
  start_mount
  refresh
  present "$MOUNT/inboxes/box-1"
  file_of hello
  holds "$MOUNT/status.json" '.online and .capabilities.inbox_list == "absent"'
  mkdir "$MOUNT/inboxes/$ALICE"
  present "$MOUNT/inboxes/$ALICE/inbox.json"
  server_requests upsert >"$DIR/requests"
  holds "$DIR/requests" 'length == 1 and (.[0].json == {id: null, name: "alice", email_address: $alice})' --arg alice "$ALICE"
}

@test "an inbox created here survives a remount, though the server cannot list it" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  stop_mount
  start_mount
  present "$MOUNT/inboxes/$ALICE"
}

@test "mail of an inbox created here appears in its folder, by the id in the answer" {
  server_answers upsert '{"body": {"id": "the-id"}}'
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  server_has_email '{"id": "e1", "inbox_id": "the-id", "subject": "for alice"}'
  refresh
  contains "$(file_of "for alice")" "inboxes/$ALICE/"
}

@test "without GET /inbox settings are not overwritten blindly: EPERM at close" {
  start_mount
  mkdir "$MOUNT/inboxes/$ALICE"
  expect "close EPERM" write "$MOUNT/inboxes/$ALICE/inbox.json" wt '{"allow_cc": false}'
  equal "$(server_requests upsert | jq length)" 1
}

@test "without GET /inbox the sender is left to the service" {
  start_mount
  printf 'From: anyone@elsewhere.example\nTo: %s\nSubject: x\n\nx\n' "$BOB" >"$MOUNT/drafts/x"
  expect ok rename "$MOUNT/drafts/x" "$MOUNT/outbox/x"
  wait_sent x
  server_requests send | jq -e '.[0].json.from_address == "anyone@elsewhere.example"'
}

@test "a server that refuses undocumented query parameters still lists" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "strict"}'
  start_mount
  refresh
  server_requests email | jq -e 'all(.[]; .query | keys - ["inbox_ids", "limit", "valid_only"] == [])'
  server_requests email | jq -e 'all(.[]; (.query.inbox_ids // []) | length <= 1)'
  file_of strict
}

# ---------------------------------------------------------------- other shapes

@test "a list may be a field of an object" {
  server_answers email '{"body": {"total": 1, "emails": [{"id": "e1", "inbox_id": "box-1", "subject": "wrapped"}]}}'
  start_mount
  refresh
  file_of wrapped
}

@test "records without id, date, subject or inbox_id get a file each" {
  server_answers email '{"body": [
    {"id": "e1", "inbox_id": "box-1"},
    {"inbox_id": "box-1", "subject": "no id", "date": "2026-01-02T03:04:05Z"},
    {"inbox_id": "box-1", "subject": "no id either"},
    {"id": "e4", "inbox_id": "box-1", "subject": null, "date": null},
    {"id": "e5", "inbox_id": "box-1", "date": "yesterday", "subject": "odd date"},
    {"id": "e6", "inbox_id": "box-1", "date": "0000-00-00T99:99:99Z"},
    {"id": "", "inbox_id": "box-1", "subject": "empty id"},
    {"inbox_id": "box-1"}
  ]}'
  start_mount
  refresh
  equal "$(find "$MOUNT/inboxes/box-1" -name '*.json' ! -name inbox.json | wc -l)" 8
  find "$MOUNT/inboxes/box-1" -type f -exec jq -e . {} + >/dev/null
  (cd "$MOUNT/inboxes" && find . -type f | sort) >"$DIR/before"
  refresh
  diff "$DIR/before" <(cd "$MOUNT/inboxes" && find . -type f | sort)
}

@test "a record without an inbox is shown" {
  server_has_email '{"id": "e1", "subject": "of nowhere"}'
  server_has_email '{"id": "e2", "inbox_id": null, "subject": "of null"}'
  start_mount
  refresh
  file_of "of nowhere"
  file_of "of null"
}

@test "numbers keep the digits that the server sent" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "digits",
    "large": 12345678901234567890123456789, "precise": 1.10, "far": 1e400}'
  start_mount
  refresh
  grep -qF '"large": 12345678901234567890123456789,' "$(file_of digits)"
  grep -qF '"precise": 1.10,' "$(file_of digits)"
  grep -qF '"far": 1e400' "$(file_of digits)"
}

@test "fields of unexpected types are shown, not refused" {
  server_answers email '{"body": [
    {"id": 17, "inbox_id": "box-1", "subject": ["an", "array"], "from_address": "bare@x.example"},
    {"id": "e2", "inbox_id": "box-1", "subject": {"text": "object"}, "to_addresses": "bare"},
    {"id": "e3", "inbox_id": "box-1", "subject": 42, "date": 1767322245, "extra": {"deep": [1, {"x": null}]}}
  ]}'
  start_mount
  refresh
  equal "$(find "$MOUNT/inboxes" -name '*.json' ! -name inbox.json | wc -l)" 3
  jq -se 'any(.[]; .extra.deep[1] == {"x": null})' "$(grep -rl --include='*.json' extra "$MOUNT/inboxes")"
}

@test "unknown fields keep their order, after the known ones" {
  server_has_email '{"zebra": 1, "subject": "ordered", "apple": 2, "id": "e1", "inbox_id": "box-1"}'
  start_mount
  refresh
  equal "$(command jq -c keys_unsorted "$(file_of ordered)")" '["id","subject","zebra","apple","inbox_id"]'
}

@test "dates in every form of ISO 8601 give the same time" {
  server_answers email '{"body": [
    {"id": "d1", "inbox_id": "b", "subject": "d", "date": "2026-03-04T05:06:07Z"},
    {"id": "d2", "inbox_id": "b", "subject": "d", "date": "2026-03-04T05:06:07.123456+00:00"},
    {"id": "d3", "inbox_id": "b", "subject": "d", "date": "2026-03-04T05:06:07"},
    {"id": "d4", "inbox_id": "b", "subject": "d", "date": "2026-03-04T07:06:07+02:00"}
  ]}'
  start_mount
  refresh
  equal "$(find "$MOUNT/inboxes/b" -name '20260304T050607Z_d_*' -printf '%T@\n' | cut -d. -f1 | sort -u)" \
    "$(date -d 2026-03-04T05:06:07Z +%s)"
  equal "$(find "$MOUNT/inboxes/b" -name '20260304T050607Z_d_*' | wc -l)" 4
}

@test "ids with slashes, dots and odd bytes are harmless in names" {
  server_answers email '{"body": [
    {"id": "../../etc", "inbox_id": "box-1", "subject": "a"},
    {"id": "a/b\u0000c", "inbox_id": "box-1", "subject": "b"},
    {"id": "\u001b[31m", "inbox_id": "../..", "subject": "c"},
    {"id": "e4", "inbox_id": "/", "subject": "d"},
    {"id": "e5", "inbox_id": ".", "subject": "e"},
    {"id": "e6", "inbox_id": ".hidden", "subject": "f"}
  ]}'
  start_mount
  refresh
  run -1 grep -aP '[\x01-\x09\x0b-\x1f\x7f]' <(find "$MOUNT/inboxes")
  equal "$(find "$MOUNT/inboxes" -name '.*' ! -path "$MOUNT/inboxes")" ""
  # One that holds a NUL cannot be carried by every JSON library; the others all are there.
  [ "$(find "$MOUNT/inboxes" -mindepth 2 -name '*.json' ! -name inbox.json | wc -l)" -ge 5 ]
}

@test "two inboxes or two emails of one name get two names" {
  server_answers inbox '{"body": [
    {"id": "i1", "email_address": "same@x.example"}, {"id": "i2", "email_address": "same@x.example"}]}'
  server_has_email '{"id": "12345678-a", "inbox_id": "i1", "subject": "s", "date": "2026-01-01T00:00:00Z"}'
  server_has_email '{"id": "12345678-b", "inbox_id": "i1", "subject": "s", "date": "2026-01-01T00:00:00Z"}'
  start_mount
  refresh
  equal "$(find "$MOUNT/inboxes" -mindepth 1 -maxdepth 1 | wc -l)" 2
  equal "$(find "$MOUNT/inboxes" -name '*_s_*' | wc -l)" 2
}

@test "invalid UTF-8 in an answer reaches neither names nor files" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "good"}'
  start_mount
  refresh
  server_answers email '{"raw_base64": "'"$(printf '[{"id":"e2","inbox_id":"box-1","subject":"caf\xe9 \xff\xfe"}]' | base64 -w0)"'"}'
  syscall write "$MOUNT/ctl" w $'sync\n' || true
  find "$MOUNT/inboxes" | iconv -f utf-8 -t utf-8 >/dev/null
  find "$MOUNT/inboxes" -type f -exec cat {} + | iconv -f utf-8 -t utf-8 >/dev/null
  present "$MOUNT/status.json"
}

@test "an email that the complete list lacks disappears from the folder" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "stays"}'
  server_has_email '{"id": "e2", "inbox_id": "box-1", "subject": "goes"}'
  start_mount_on_clock
  refresh
  file_of goes
  server_answers email '{"body": [{"id": "e1", "inbox_id": "box-1", "subject": "stays"}]}'
  refresh_removal
  file_of stays
  run ! file_of goes
}

@test "more emails than one answer holds all arrive" {
  local i
  for i in {1..130}; do
    printf '{"id": "m%s", "inbox_id": "box-1", "subject": "many %s"}\n' "$i" "$i"
  done | server_has_emails
  start_mount
  refresh
  equal "$(find "$MOUNT/inboxes/box-1" -name '*_many-*' | wc -l)" 130
}

# ---------------------------------------------------------------- faults

@test "HTML, garbage, an empty or half a body instead of a list are an error, and emails stay" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "known"}'
  start_mount
  refresh
  local answer
  for answer in '{"raw": "<html>login</html>", "type": "text/html"}' '{"raw": ""}' '{"raw": "[{\"id\": \"e9\""}' \
    '{"body": "a string"}' '{"body": {"a": [{}], "b": [{}]}}' '"half-body"' '"garbage"' \
    '{"status": 500}' '{"status": 503}' '{"status": 404}' '"reset-before"' '"lost"' \
    '{"raw": "[[[[[[[[[[[[[[[["}' '{"body": 7}' '{"status": 204, "raw": ""}'; do
    server_answers email "$answer"
    run syscall write "$MOUNT/ctl" w $'sync\n'
    [ "$status" -ne 0 ] || fail "taken as a list: $answer"
    file_of known
    holds "$MOUNT/status.json" '.sync.error | type == "string" and length > 5'
  done
  server_answers email
  refresh
  file_of known
  holds "$MOUNT/status.json" '.online and .sync.error == null'
}

@test "elements of a list that are not objects do not hide the records" {
  server_answers email '{"body": [null, 7, "text", [], {"id": "e1", "inbox_id": "box-1", "subject": "among"}]}'
  start_mount
  syscall write "$MOUNT/ctl" w $'sync\n' || true
  present "$MOUNT/status.json"
}

@test "an unreadable record among the newest hides no other" {
  some_emails 0 494 | server_has_emails
  server_has_email '{"id": "twice", "id": "twice", "inbox_id": "box-1", "subject": "broken"}'
  some_emails 495 5 | server_has_emails
  start_mount
  expect "write EIO" write "$MOUNT/ctl" w $'sync\n'
  equal "$(find "$MOUNT/inboxes/box-1" -name '*_*.json' | wc -l)" 499
  holds "$MOUNT/status.json" '.online and (.sync.error | contains("a key twice"))'
  # What comes from here on is news.
  some_emails 500 1 | server_has_emails
  expect "write EIO" write "$MOUNT/ctl" w $'sync\n'
  holds <(tail -n 1 "$MOUNT/events.jsonl") '.event == "mail" and (.path | contains("number-500"))'
}

@test "a redirect does not carry the key elsewhere" {
  start_mount
  local other=$DIR/other
  python3 -c '
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open(sys.argv[1], "a").write(str(self.headers))
        self.send_response(200); self.end_headers(); self.wfile.write(b"[]")
    def log_message(self, *arguments): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()' "$other" >"$DIR/port" 3>&- &
  local pid=$!
  wait_until 5 test -s "$DIR/port"
  server_answers email "{\"status\": 302, \"headers\": {\"Location\": \"http://127.0.0.1:$(cat "$DIR/port")/api/v1/email\"}}"
  syscall write "$MOUNT/ctl" w $'sync\n' || true
  kill "$pid"
  wait "$pid" || true
  if [ -e "$other" ]; then
    run -1 grep -qi test-key "$other"
  fi
}

@test "while a server stalls everything in memory answers at once" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "quick"}'
  start_mount --poll-interval=1
  refresh
  server_answers email '{"delay_ms": 20000}'
  server_answers inbox '{"delay_ms": 20000}'
  server_answers send '{"delay_ms": 20000}'
  message "$BOB" "stalled" >"$MOUNT/drafts/m"
  at_once mv "$MOUNT/drafts/m" "$MOUNT/outbox/m"
  local _
  for _ in {1..10}; do
    at_once ls -l "$MOUNT" "$MOUNT/inboxes/box-1" "$MOUNT/outbox" >/dev/null
    at_once cat "$MOUNT/status.json" "$MOUNT/inboxes/box-1"/*.json >/dev/null
  done
}

@test "a service that stalls at the start does not delay the mount for long" {
  server_answers email '{"delay_ms": 60000}'
  server_answers inbox '{"delay_ms": 60000}'
  within 20 start_mount
}

@test "an unmount ends soon while a request hangs" {
  start_mount --poll-interval=1
  server_answers email '{"delay_ms": 60000}'
  server_answers inbox '{"delay_ms": 60000}'
  wait_until 10 server_saw email 2
  within 10 stop_mount
}

@test "an endless answer takes no memory, can be interrupted, and does not delay the end" {
  start_mount
  server_answers email '{"endless": true}'
  run timeout -s INT 4 "$BUILD/tests/tools/syscall" write "$MOUNT/ctl" w $'sync\n'
  [ "$status" -ne 0 ]
  local limit_kb=200000
  if grep -qaE '__(a|t)san_init' "$INBOXFS"; then
    limit_kb=1500000 # what was freed is kept by the sanitizer
  fi
  [ "$(awk '/VmRSS/ { print $2 }' "/proc/$MOUNT_PID/status")" -lt "$limit_kb" ]
  at_once cat "$MOUNT/status.json" >/dev/null
  within 10 stop_mount
}

@test "a raw message without end is fetched once, in part, as long as nobody reads it" {
  server_answers raw '{"endless": true}'
  control '{"contents": {"e1": {"id": "e1", "plain_text": "x"}, "e2": {"id": "e2", "plain_text": "x"}}}'
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "one"}'
  server_has_email '{"id": "e2", "inbox_id": "box-1", "subject": "two"}'
  start_mount
  refresh # with the probe
  refresh
  refresh
  equal "$(server_requests raw | jq length)" 1
  holds "$MOUNT/status.json" '.capabilities.raw == "present"'
}

# So many records of box-1, from the first number on.
some_emails() { # FIRST COUNT
  jq -nc --argjson first "$1" --argjson count "$2" 'range($first; $first + $count) |
    {id: "mail-\(. + 10000000)-of-many", inbox_id: "box-1", subject: "number \(.)"}'
}

shows_emails() { # COUNT
  [ "$(jq .sync.emails "$MOUNT/status.json")" = "$1" ]
}

@test "contents are found though the oldest or the newest emails have none" {
  local first
  for first in 0 190; do
    control "$(some_emails "$first" 10 | jq -sc '{contents: map({key: .id, value: {id, plain_text: "x"}}) | from_entries}')"
    some_emails 0 200 | server_has_emails
    start_mount
    refresh # with the probe
    holds "$MOUNT/status.json" '.capabilities.content == "present"'
    stop_mount
    stop_service
    start_scripted_service
  done
}

@test "the next poll brings all new mail, however much" {
  some_emails 0 20 | server_has_emails
  start_mount --poll-interval=1
  wait_until 20 shows_emails 20
  # More than 100, 400, 1,600 and 6,400 at once; the next complete look is a quarter of an hour away.
  some_emails 20 7000 | server_has_emails
  wait_until 60 shows_emails 7020
  equal "$(find "$MOUNT/inboxes/box-1" -name '*_*.json' | wc -l)" 7020
  holds "$MOUNT/status.json" '.sync.error == null'
}

@test "of many emails that disappear at once, none can be looked up any more" {
  local names name gone=0
  some_emails 0 30 | server_has_emails
  control "$(some_emails 0 30 | jq -sc '{contents: map({key: .id, value: {id, plain_text: "Hello", attachments: []}}) | from_entries}')"
  start_mount_on_clock
  refresh
  wait_for_folders box-1
  names=("$MOUNT"/inboxes/box-1/*_*.json)
  equal "${#names[@]}" 30
  # The kernel knows each name, and what each file holds.
  cat "${names[@]}" >/dev/null
  stat "${names[@]}" "${names[@]%.json}" >/dev/null
  curl -sS -X POST "$SERVICE_URL/_clear"
  some_emails 29 1 | server_has_emails
  refresh_removal
  for name in "${names[@]}"; do
    if [[ $name == *_number-29_* ]]; then
      present "$name"
    else
      missing "$name" "${name%.json}"
      run ! cat "$name"
      gone=$((gone + 1))
    fi
  done
  equal "$gone" 29
  equal "$(find "$MOUNT/inboxes/box-1" -name '*_*.json' | wc -l)" 1
  equal "$(wc -l <"$MOUNT/inboxes/box-1/index.jsonl")" 1
}

@test "far more records than requested are refused with a reason, and disappear after complete lists" {
  local taken
  # From the start on: what comes later is announced to watchers, each record of it.
  server_answers email '{"endless": "new"}'
  start_mount_on_clock
  expect "write EIO" write "$MOUNT/ctl" w $'sync\n'
  holds "$MOUNT/status.json" '.sync.error | contains("lists more than it was asked for")'
  taken=$(jq .sync.emails "$MOUNT/status.json")
  [ "$taken" -ge 10000 ]
  [ "$taken" -lt 100000 ] || fail "$taken emails"
  server_answers email
  server_has_email '{"id": "kept-for-ever", "inbox_id": "box-1", "subject": "kept"}'
  refresh_removal
  equal "$(jq .sync.emails "$MOUNT/status.json")" 1
  present "$(mounted box-1 kept)"
}

# ---------------------------------------------------------------- mkdir

@test "mkdir turns the service's status into an errno" {
  start_mount
  local line
  while read -r line; do
    # shellcheck disable=SC2086 # two words
    set -- $line
    server_answers upsert "{\"status\": $1, \"body\": {\"detail\": \"words\"}}"
    expect "$2" mkdir "$MOUNT/inboxes/s$1@x.example"
    missing "$MOUNT/inboxes/s$1@x.example"
  done <<'TABLE'
409 EEXIST
401 EACCES
403 EACCES
429 EAGAIN
400 EINVAL
404 EINVAL
422 EINVAL
TABLE
}

@test "mkdir fails with EHOSTUNREACH after 5 s if the service hangs" {
  start_mount
  server_answers upsert '{"delay_ms": 30000}'
  run within 8 expect EHOSTUNREACH mkdir "$MOUNT/inboxes/$ALICE"
  [ "$status" -eq 0 ] || [[ $output == *ETIMEDOUT* ]] || fail "$output"
}

@test "a refused key at the start refuses the mount" {
  server_answers email '{"status": 401}'
  server_answers inbox '{"status": 401}'
  start_mount_without_waiting
  wait_until 20 process_is_gone "$MOUNT_PID"
  run wait "$MOUNT_PID"
  [ "$status" -ne 0 ]
  MOUNT_PID=
  run ! mountpoint -q "$MOUNT"
  grep -qi key "$MOUNT_LOG"
}

@test "a proxy's page at the start does not refuse the mount, which shows its cache and reports the page" {
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "known"}'
  start_mount
  refresh
  local status page
  for status in 403 407; do
    stop_mount
    page="{\"status\": $status, \"raw\": \"<html>blocked</html>\", \"type\": \"text/html\"}"
    server_answers email "$page"
    server_answers inbox "$page"
    start_mount
    file_of known
    grep -q "showing what is known from before: HTTP $status.*HTML page" "$MOUNT_LOG"
    holds "$MOUNT/status.json" '(.online | not) and (.error | test("HTML page"))'
    run -1 "$INBOXFS" check --api-key-file="$KEY_FILE" --state-dir="$DIR/other" "$SERVICE_URL"
    contains "$output" "something on the way answers in the service's place"
  done
  server_answers email
  server_answers inbox
  refresh
  holds "$MOUNT/status.json" .online
}

@test "401, 403, 429 and 500 from GET /inbox do not mean that it does not exist" {
  start_mount
  refresh
  local status
  for status in 403 429 500; do
    server_answers inbox "{\"status\": $status}"
    syscall write "$MOUNT/ctl" w $'sync\n' || true
  done
  server_answers inbox '{"body": [{"id": "i1", "email_address": "late@x.example"}]}'
  stop_mount
  start_mount
  refresh
  present "$MOUNT/inboxes/late@x.example"
}
