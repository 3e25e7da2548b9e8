#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The outcome of a message that the service does not simply accept: each row of the contract's table, against a scripted
# server that knows the Core endpoints only.

load support
load scripted

setup() {
  start_scripted_service
  start_mount
}

teardown() {
  stop_all
}

send() { # NAME [SUBJECT]
  message "$BOB" "${2:-$1}" >"$MOUNT/drafts/$1"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/$1"
}

# NAME waits in the outbox and was tried at least so often.
waits() { # NAME
  present "$MOUNT/outbox/$1"
  missing "$MOUNT/sent/$1" "$MOUNT/failed/$1"
}

sent_requests() {
  server_requests send | jq length
}

sent_at_least() { # COUNT
  [ "$(sent_requests)" -ge "$1" ]
}

# ---------------------------------------------------------------- tried again

@test "without a connection a message stays queued, and goes out when the service is there" {
  stop_service
  send away
  expect EAGAIN fsync "$MOUNT/outbox"
  waits away
  start_scripted_service
  echo "retry all" >"$MOUNT/ctl"
  wait_sent away
  equal "$(sent_requests)" 1
}

@test "after 429 and 503 a message stays queued, and is tried again" {
  local status
  for status in 429 503; do
    server_answers send "{\"status\": $status}" "{\"status\": $status}" '"ok"'
    send "s$status"
    wait_sent "s$status"
    holds "$MOUNT/sent/s$status.receipt.json" '.attempts == 3'
  done
}

@test "Retry-After is honoured, in seconds and as a date" {
  server_answers send '{"status": 429, "headers": {"Retry-After": "3"}}' '"ok"'
  local start
  start=$(date +%s%3N)
  send seconds
  wait_sent seconds
  [ $(($(date +%s%3N) - start)) -ge 2900 ]
  server_answers send "{\"status\": 503, \"headers\": {\"Retry-After\": \"$(date -u -d '+4 seconds' '+%a, %d %b %Y %H:%M:%S GMT')\"}}" '"ok"'
  start=$(date +%s%3N)
  send date
  wait_sent date
  [ $(($(date +%s%3N) - start)) -ge 2000 ]
}

@test "a long Retry-After delays a message, and retry NAME tries it at once" {
  server_answers send '{"status": 429, "headers": {"Retry-After": "3600"}}' '"ok"'
  send patient
  wait_until 10 sent_at_least 1
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  waits patient
  wait_until 5 jq -e '.queue.next_attempt != null' "$MOUNT/status.json"
  expect ok write "$MOUNT/ctl" w $'retry patient\n'
  wait_sent patient
}

@test "the waits between attempts grow" {
  server_answers send '{"status": 503}'
  send growing
  wait_until 20 sent_at_least 4
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" '[.[].time] | (.[3] - .[2]) > (.[1] - .[0]) * 1.2'
}

# ---------------------------------------------------------------- something else answers

nothing_waits() {
  [ -z "$(ls "$MOUNT/outbox")" ]
}

@test "while something else answers instead of the service, one message of twenty fails at most" {
  local answer endpoint number=0 i before
  while IFS= read -r answer; do
    number=$((number + 1))
    for endpoint in send email inbox; do
      server_answers "$endpoint" "$answer"
    done
    before=$(sent_requests)
    for i in {1..20}; do
      message "bob$i@x.example" "m$number.$i" >"$MOUNT/drafts/m$number.$i"
      mv "$MOUNT/drafts/m$number.$i" "$MOUNT/outbox/m$number.$i"
    done
    wait_until 10 jq -e '.queue.paused' "$MOUNT/status.json"
    run ! syscall write "$MOUNT/ctl" w $'sync\n'
    for i in 1 2 3; do
      echo "retry all" >"$MOUNT/ctl"
      syscall fsync "$MOUNT/outbox" || true
    done
    [ $(($(sent_requests) - before)) -le 1 ] || fail "$answer: $(($(sent_requests) - before)) requests"
    [ "$(find "$MOUNT/outbox" -name "m$number.*" | wc -l)" -ge 19 ] || fail "$answer: $(ls "$MOUNT/failed")"
    for endpoint in send email inbox; do
      server_answers "$endpoint"
    done
    echo sync >"$MOUNT/ctl"
    echo "retry all" >"$MOUNT/ctl"
    wait_until 20 nothing_waits
    equal "$(find "$MOUNT/sent" "$MOUNT/failed" -name "m$number.*" -not -name '*.receipt.json' | wc -l)" 20
    stop_mount # who has just sent twenty does not begin with one
    start_mount
  done <<'TABLE'
{"status": 502, "raw": "<html>Bad Gateway</html>", "type": "text/html"}
{"status": 404, "raw": "404 page not found", "type": "text/plain"}
{"status": 302, "raw": "", "headers": {"Location": "https://login.example/"}}
{"status": 200, "raw": "<html>Welcome to the hotel</html>", "type": "text/html"}
TABLE
}

# ---------------------------------------------------------------- in the air

@test "a message that is being sent cannot be taken back (EBUSY), and is sent once" {
  server_answers send '{"delay_ms": 3000, "body": {"id": "slow"}}'
  send slow
  wait_until 10 sent_at_least 1
  expect EBUSY unlink "$MOUNT/outbox/slow"
  expect EBUSY rename "$MOUNT/outbox/slow" "$MOUNT/drafts/slow"
  expect EBUSY rename "$MOUNT/outbox/slow" "$MOUNT/outbox/slow.part"
  expect EBUSY open "$MOUNT/outbox/slow" w
  wait_sent slow
  equal "$(sent_requests)" 1
}

@test "an unmount while a message is being sent ends soon, and the message is not sent twice" {
  server_answers send '"stall"' '"ok"'
  send stalled
  wait_until 10 sent_at_least 1
  within 15 stop_mount
  start_mount
  syscall fsync "$MOUNT/outbox" || true
  wait_failed stalled
  holds "$MOUNT/failed/stalled.receipt.json" '.error | test("unknown outcome")'
  equal "$(sent_requests)" 1
}

@test "the daily limit counts across restarts" {
  stop_mount
  start_mount --daily-limit=2
  send one
  send two
  wait_sent one
  wait_sent two
  stop_mount
  start_mount --daily-limit=2
  send three
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  waits three
  holds "$MOUNT/status.json" '.quota.daily_limit == 2 and .quota.sent_today == 2 and .queue.queued == 1'
  stop_mount
  start_mount --daily-limit=none
  wait_sent three
}

# ---------------------------------------------------------------- the key

@test "after 401 the queue stops until the key works again, and the message stays" {
  server_answers send '{"status": 401}'
  server_answers email '{"status": 401}'
  send locked
  wait_until 10 jq -e '.queue.paused' "$MOUNT/status.json"
  within 5 expect EAGAIN fsync "$MOUNT/outbox"
  waits locked
  send behind
  local before
  before=$(sent_requests)
  waits behind
  [ "$before" -le 2 ]
  server_answers email
  server_answers send
  echo "sync" >"$MOUNT/ctl"
  echo "retry all" >"$MOUNT/ctl"
  wait_sent locked
  wait_sent behind
}

@test "a 403 fails a message only if the service still gives lists; else it waits" {
  server_answers send '{"status": 403, "body": {"detail": "not from this inbox"}}'
  send alone
  wait_failed alone
  holds "$MOUNT/failed/alone.receipt.json" '.error | test("not from this inbox")'
  server_answers email '{"status": 403}'
  send both
  wait_until 10 jq -e '.queue.paused' "$MOUNT/status.json"
  waits both
  server_answers email
  server_answers send
  echo sync >"$MOUNT/ctl"
  echo "retry all" >"$MOUNT/ctl"
  wait_sent both
}

# ---------------------------------------------------------------- success

@test "2xx with an id in any field, with none, or with an empty body means sent" {
  local body number=0
  for body in '{"id": "abc"}' '{"email_id": "abc"}' '"ok"' '{"status": "queued"}' '"abc"' 'null' '[]'; do
    number=$((number + 1))
    server_answers send "{\"status\": 200, \"body\": $body}"
    send "json$number"
    wait_sent "json$number"
  done
  server_answers send '{"status": 200, "raw": ""}'
  send empty
  wait_sent empty
  server_answers send '{"status": 202, "raw": ""}'
  send accepted
  wait_sent accepted
  holds "$MOUNT/sent/json1.receipt.json" '.id == "abc"'
  holds "$MOUNT/sent/empty.receipt.json" '.id == null'
}

# ---------------------------------------------------------------- unknown outcome

@test "a connection lost after the request was written is an unknown outcome, and not repeated" {
  server_answers send '"lost"' '"ok"'
  send lost
  wait_failed lost
  holds "$MOUNT/failed/lost.receipt.json" '.error | test("unknown outcome")'
  echo "retry all" >"$MOUNT/ctl"
  syscall fsync "$MOUNT/outbox" || true
  stop_mount
  start_mount
  syscall fsync "$MOUNT/outbox" || true
  present "$MOUNT/failed/lost"
  equal "$(sent_requests)" 1
}

@test "408, 500, 502, 504 and other 5xx are unknown outcomes" {
  local status
  for status in 408 500 502 504 507 520; do
    server_answers send "{\"status\": $status, \"body\": {\"detail\": \"words $status\"}}"
    send "s$status"
    wait_failed "s$status"
    holds "$MOUNT/failed/s$status.receipt.json" '.http_status == $status and (.error | test("unknown outcome"))' \
      --argjson status "$status"
  done
  equal "$(sent_requests)" 6
}

@test "a 2xx with an HTML page is an unknown outcome" {
  server_answers send '{"status": 200, "raw": "<html><body>Welcome to the hotel</body></html>", "type": "text/html"}'
  send html
  wait_failed html
  holds "$MOUNT/failed/html.receipt.json" '.error | test("unknown outcome")'
  equal "$(sent_requests)" 1
}

@test "half an answer is an unknown outcome" {
  server_answers send '"half-body"'
  send half
  wait_failed half
  holds "$MOUNT/failed/half.receipt.json" '.error | test("unknown outcome")'
}

@test "with --trust-idempotency an unknown outcome is repeated with the same key" {
  stop_mount
  start_mount --trust-idempotency
  server_answers send '"lost"' '{"status": 500}' '{"status": 200, "raw": "<html>"}' '"ok"'
  send trusted
  wait_sent trusted
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" '([.[].json.idempotency_key] | length == 4 and (unique | length == 1))'
  holds "$MOUNT/sent/trusted.receipt.json" '.attempts == 4 and .idempotency_key == $key' \
    --arg key "$(jq -r '.[0].json.idempotency_key' "$DIR/requests")"
}

@test "a message of unknown outcome keeps its key when it is moved back to outbox/" {
  server_answers send '{"status": 500}' '"ok"'
  send again
  wait_failed again
  mv "$MOUNT/failed/again" "$MOUNT/outbox/again"
  wait_sent again
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" 'length == 2 and .[0].json.idempotency_key == .[1].json.idempotency_key'
}

# ---------------------------------------------------------------- refused

@test "other 4xx fail the message, with the service's reason in any of its forms" {
  local status=400 answer
  while IFS= read -r answer; do
    server_answers send "{\"status\": $status, $answer}"
    send "w$status"
    wait_failed "w$status"
    holds "$MOUNT/failed/w$status.receipt.json" '.http_status == $status and (.error | test("the words"))' \
      --argjson status "$status"
    status=$((status + 1))
    while [[ $status = 401 || $status = 403 || $status = 407 || $status = 408 ]]; do
      status=$((status + 1))
    done
  done <<'TABLE'
"body": {"detail": "the words to_addresses"}
"body": {"detail": [{"loc": ["body", "to_addresses"], "msg": "the words", "type": "value_error"}]}
"body": {"error": "the words to_addresses"}
"body": {"message": "the words to_addresses"}
"raw": "  the words to_addresses  "
"body": {"error": {"message": "the words to_addresses"}}
TABLE
}

@test "control characters in the service's reason reach neither the receipt nor the events" {
  server_answers send '{"status": 409, "body": {"detail": "\u001b[31mred\u0007 \u009b1m words\u202e"}}'
  send coloured
  wait_failed coloured
  run ! grep -aP '[\x00-\x08\x0b-\x1f\x7f]' "$MOUNT/failed/coloured.receipt.json"
  jq -e '.error | test("[\u0001-\u001f\u007f-\u009f]") | not' "$MOUNT/failed/coloured.receipt.json"
  run ! grep -aP '[\x00-\x08\x0b-\x1f\x7f]' "$MOUNT/events.jsonl"
}

@test "a long reason is cut, and an endless answer is not read to its end" {
  server_answers send "{\"status\": 422, \"raw\": \"to_addresses $(printf 'word %.0s' {1..5000})\"}"
  send endless
  wait_failed endless
  holds "$MOUNT/failed/endless.receipt.json" '.error | length < 3000'
}

# ---------------------------------------------------------------- what a server does not know

@test "from_address is a string, and an object after a refusal that names it, for all later messages" {
  control '{"object_from": true}'
  send first
  wait_sent first
  send second
  wait_sent second
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" '.[0].json.from_address == $alice' --arg alice "$ALICE"
  holds "$DIR/requests" '.[1].json.from_address.address == $alice' --arg alice "$ALICE"
  holds "$DIR/requests" 'length == 3 and .[2].json.from_address.address == $alice' --arg alice "$ALICE"
}

@test "a refused key field is left out, and the service is not trusted, whatever the option says" {
  stop_mount
  start_mount --trust-idempotency
  server_answers send '{"status": 400, "body": {"detail": "unknown field idempotency_key"}}' '"ok"'
  send keyless
  wait_sent keyless
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" '(.[0].json | has("idempotency_key")) and (.[1].json | has("idempotency_key") | not)'
  server_answers send '{"status": 500}'
  send untrusted
  wait_failed untrusted
  holds "$MOUNT/failed/untrusted.receipt.json" '.error | test("unknown outcome")'
}

@test "a 400 or 422 that names no field is final" {
  server_answers send '{"status": 422, "body": {"detail": "invalid"}}'
  send vague
  wait_failed vague
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" 'length == 1 and (.[0].json | has("idempotency_key"))'
}

@test "a request has only the fields that were given" {
  send plain
  wait_sent plain
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" '.[0].json | keys == ["from_address", "idempotency_key", "plain_text", "subject", "to_addresses"]'
  holds "$DIR/requests" '.[0].json.to_addresses == [{address: $bob, name: null}]' --arg bob "$BOB"
  holds "$DIR/requests" '.[0].headers["content-type"] | startswith("application/json")'
  holds "$DIR/requests" '.[0].headers.authorization == "Bearer test-key"'
}

# ---------------------------------------------------------------- uploads

@test "an upload is one part named file, with name and type" {
  printf '%%PDF-1.4\nx\n' >"$MOUNT/attachments/Übersicht.pdf"
  sync "$MOUNT/attachments"
  server_requests upload >"$DIR/requests"
  holds "$DIR/requests" 'length == 1 and (.[0].headers["content-type"] | startswith("multipart/form-data"))'
  holds "$DIR/requests" '.[0].text | test("name=\"file\"") and test("filename=\"Übersicht.pdf\"") and test("application/pdf")'
  holds "$DIR/requests" '.[0].text | test("filename\\*") | not'
}

@test "the id of an upload is read in any of its forms" {
  local body number=0
  for body in '{"id": "p1"}' '{"attachment_id": "p1"}' '"p1"'; do
    number=$((number + 1))
    server_answers upload "{\"status\": 200, \"body\": $body}"
    echo x >"$MOUNT/attachments/$number.txt"
    sync "$MOUNT/attachments"
    holds "$MOUNT/attachments/$number.txt.receipt.json" '.id == "p1"'
  done
  printf 'From: %s\nTo: %s\nSubject: x\nAttach: 1.txt\n\nx\n' "$ALICE" "$BOB" >"$MOUNT/outbox/m"
  wait_sent m
  server_requests send >"$DIR/requests"
  holds "$DIR/requests" '.[0].json.attachment_ids == ["p1"]'
}

@test "a refused upload goes to failed/ with a reason, and fails the message that names it" {
  server_answers upload '{"status": 413, "body": {"detail": "too large for us"}}'
  echo x >"$MOUNT/attachments/x.txt"
  printf 'From: %s\nTo: %s\nSubject: x\nAttach: x.txt\n\nx\n' "$ALICE" "$BOB" >"$MOUNT/outbox/m"
  wait_failed x.txt
  holds "$MOUNT/failed/x.txt.receipt.json" '.kind == "attachment" and (.error | test("too large for us"))'
  wait_failed m
  holds "$MOUNT/failed/m.receipt.json" '.error | length > 5'
  equal "$(sent_requests)" 0
}

@test "an upload is tried again after 429, 503 and a lost connection" {
  server_answers upload '{"status": 429}' '{"status": 503}' '"lost"' '{"body": {"id": "third"}}'
  echo x >"$MOUNT/attachments/x.txt"
  wait_until 30 jq -e '.id == "third"' "$MOUNT/attachments/x.txt.receipt.json"
}
