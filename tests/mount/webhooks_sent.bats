#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# inboxd sends a signed webhook for each valid email, again until it is accepted, and to this machine alone unless
# --webhook-anywhere is given. The receiver is tests/mount/webhook_receiver.py.

load support
load other_side

SECRET='a secret of webhooks'

setup() {
  (umask 077 && echo "$SECRET" >"$DIR/secret")
}

teardown() {
  stop_other_side
  stop_all
}

start_receiver() {
  start_other_side webhook_receiver.py
}

set_webhook() { # URL [SETTING-JSON]
  jq -n --arg id "$(inbox_id "$ALICE")" --arg address "$ALICE" --arg url "$1" --argjson more "${2:-{\}}" \
    '{id: $id, name: "Alice", email_address: $address, webhook_url: $url} + $more' |
    api POST /inbox/upsert -H 'Content-Type: application/json' -d @- >/dev/null
}

# Starts inboxd with Alice's inbox, which has a webhook, and Bob's, which has none.
start_with_webhook() {
  start_service --webhook-secret-file="$DIR/secret"
  create_inboxes "$ALICE" "$BOB"
  set_webhook "http://127.0.0.1:$OTHER_PORT/told"
}

posts() { # SUBJECT
  [ ! -e "$OTHER/posts" ] || jq -c --arg subject "$1" 'select((.body | fromjson).subject == $subject)' "$OTHER/posts"
}

has_posts() { # SUBJECT COUNT
  [ "$(posts "$1" | wc -l)" -ge "$2" ]
}

# Returns 0 if the filter is true for the email's latest_webhook_log.
has_log() { # SUBJECT FILTER
  received "$ALICE" "$1" | jq -e ".[0].latest_webhook_log | $2"
}

@test "each valid email causes one signed POST with its content and a timestamp" {
  start_receiver
  start_with_webhook
  send_from_elsewhere "$BOB" "$ALICE" told "The text."
  send_from_elsewhere "$ALICE" "$BOB" "no webhook there"
  wait_until 20 has_log told '.status_code == 200 and .response_body == null and .id != null and .created_at != null'
  posts told >"$DIR/post"
  equal "$(wc -l <"$DIR/post")" 1
  holds "$DIR/post" '.path == "/told" and .headers["content-type"] == "application/json"'
  command jq -j .body "$DIR/post" >"$DIR/body"
  equal "$(jq -r '.headers["x-botmailroom-signature"]' "$DIR/post")" \
    "$(openssl dgst -sha256 -hmac "$SECRET" -r "$DIR/body" | cut -d' ' -f1)"
  equal "$(jq -S 'del(.timestamp)' "$DIR/body")" "$(content "$ALICE" told | jq -S .)"
  local age=$((EPOCHSECONDS - $(date -d "$(jq -r .timestamp "$DIR/body")" +%s)))
  [ "$age" -ge -1 ] && [ "$age" -le 60 ]
  equal "$(posts "no webhook there")" ""
  equal "$(waiting)" 0
}

@test "mail that an inbox's rules block causes no webhook" {
  start_receiver
  start_with_webhook
  set_webhook "http://127.0.0.1:$OTHER_PORT/told" "{\"blocked_from_addresses\": {\"addresses\": [\"$BOB\"], \"domains\": []}}"
  send_from_elsewhere "$BOB" "$ALICE" blocked
  send_from_elsewhere "$ALICE" "$ALICE" allowed
  wait_until 20 has_posts allowed 1
  equal "$(posts blocked)" ""
  has_log blocked '. == null'
}

@test "mail of 'inboxd deliver' causes a webhook, also after the service was stopped" {
  start_receiver
  start_with_webhook
  printf 'From: Carol <carol@x.example>\nSubject: brought\n\nHello.\n' | "$INBOXD" deliver --data="$SERVICE" "$ALICE"
  wait_until 20 has_log brought '.status_code == 200'
  # Also for mail that is delivered while the service is stopped.
  stop_service
  printf 'From: Carol <carol@x.example>\nSubject: meanwhile\n\nHello.\n' | "$INBOXD" deliver --data="$SERVICE" "$ALICE"
  start_service --webhook-secret-file="$DIR/secret"
  wait_until 20 has_log meanwhile '.status_code == 200'
}

@test "a webhook that is answered with an error or a redirect is sent again with a new timestamp" {
  start_receiver
  start_with_webhook
  plan "500 Not now" "302 http://127.0.0.1:$OTHER_PORT/elsewhere"
  send_from_elsewhere "$BOB" "$ALICE" again
  wait_until 20 has_log again '.status_code == 500 and .response_body == null'
  wait_until 20 has_log again '.status_code == 200'
  posts again >"$DIR/again"
  equal "$(wc -l <"$DIR/again")" 3
  # The redirect is not followed.
  equal "$(jq -r .path "$DIR/again" | sort -u)" /told
  equal "$(jq -r '.body | fromjson | .timestamp' "$DIR/again" | sort -u | wc -l)" 3
}

@test "a long email is sent without its text, and a webhook that is answered with 413 is given up at once" {
  start_receiver
  start_with_webhook
  plan "413 "
  printf 'From: Carol <carol@x.example>\nSubject: long\nCc: %s\n\n' "$BOB" >"$DIR/long"
  yes 'A line of text.' | head -c 3000000 >>"$DIR/long"
  "$INBOXD" deliver --data="$SERVICE" "$ALICE" <"$DIR/long"
  wait_until 20 has_log long '.status_code == 413'
  equal "$(waiting)" 0
  posts long >"$DIR/post"
  jq -j .body "$DIR/post" >"$DIR/body"
  [ "$(stat -c %s "$DIR/body")" -le 2000000 ]
  holds "$DIR/body" '.plain_text == null and .cc_addresses[0].address == $b and .inbox_id != null' --arg b "$BOB"
  holds <(content "$ALICE" long) '.plain_text | length == 3000000'
}

@test "webhooks do not use the proxy of the environment" {
  start_receiver
  no_proxy="" http_proxy="http://127.0.0.1:$OTHER_PORT" start_service --webhook-secret-file="$DIR/secret"
  create_inboxes "$ALICE" "$BOB"
  set_webhook "http://127.0.0.1:$OTHER_PORT/told"
  send_from_elsewhere "$BOB" "$ALICE" direct
  wait_until 20 has_log direct '.status_code == 200'
  # A proxy would get the whole URL.
  equal "$(posts direct | jq -r .path)" /told
}

@test "any 2xx answer is a success" {
  start_receiver
  start_with_webhook
  plan "204 " "202 Taken"
  send_from_elsewhere "$BOB" "$ALICE" one
  wait_until 20 has_log one '.status_code == 204'
  equal "$(waiting)" 0
  send_from_elsewhere "$BOB" "$ALICE" two
  wait_until 20 has_log two '.status_code == 202'
  equal "$(waiting)" 0
}

@test "a webhook that cannot connect is sent later, also after a restart of the service" {
  start_receiver
  stop_other_side
  start_with_webhook
  send_from_elsewhere "$BOB" "$ALICE" later
  send_from_elsewhere "$BOB" "$ALICE" "later still"
  wait_until 20 has_log later '.status_code == null and .response_body == null and .created_at != null'
  grep -q 'a webhook cannot be sent: .*connect' "$DIR/inboxd.log"
  stop_service
  start_receiver
  start_service --webhook-secret-file="$DIR/secret"
  wait_until 20 has_log later '.status_code == 200'
  wait_until 20 has_log "later still" '.status_code == 200'
  equal "$(posts later | wc -l)" 1
}

@test "a webhook whose connection the receiver closes does not block the next one" {
  start_receiver
  stop_other_side
  start_with_webhook
  echo "bad one" >"$OTHER/poison"
  send_from_elsewhere "$BOB" "$ALICE" "bad one"
  send_from_elsewhere "$BOB" "$ALICE" "good one"
  wait_until 20 has_log "bad one" '.created_at != null'
  start_receiver
  wait_until 30 has_posts "bad one" 2
  wait_until 30 has_log "good one" '.status_code == 200'
  has_log "bad one" '.status_code == null'
}

@test "a webhook to another machine or to an invalid URL is given up at once and logged" {
  start_service --webhook-secret-file="$DIR/secret"
  create_inboxes "$ALICE" "$BOB"
  local url words
  while read -r url words; do
    set_webhook "$url"
    send_from_elsewhere "$BOB" "$ALICE" "$url"
    wait_until 20 has_log "$url" '.status_code == null and .created_at != null'
    wait_until 20 grep -q "given up: .*$words" "$DIR/inboxd.log"
    equal "$(waiting)" 0
    : >"$DIR/inboxd.log"
  done <<'TABLE'
http://192.0.2.1/ --webhook-anywhere
http://169.254.169.254/latest/meta-data --webhook-anywhere
http://0.0.0.0:1/ --webhook-anywhere
http://[::ffff:192.0.2.1]/ --webhook-anywhere
http://[2001:db8::1]/ --webhook-anywhere
file:///etc/passwd cannot be sent
gopher://127.0.0.1/ cannot be sent
nonsense://127.0.0.1/ cannot be sent
nonsense cannot be sent
127.0.0.1:1/told cannot be sent
mailto:alice@127.0.0.1 cannot be sent
TABLE
}

@test "a receiver that hangs delays neither requests nor the end of the service" {
  start_receiver
  start_with_webhook
  plan hang
  send_from_elsewhere "$BOB" "$ALICE" hanging
  wait_until 20 has_posts hanging 1
  at_once api GET /inbox >/dev/null
  within 5 stop_service
  start_service --webhook-secret-file="$DIR/secret"
  wait_until 20 has_log hanging '.status_code == 200'
}

@test "a webhook is sent although the service is killed at any step" {
  start_receiver
  start_with_webhook
  local point
  for point in outgoing_due outgoing_attempted outgoing_recorded; do
    stop_service
    INBOXFS_CRASH_AT=$point start_service --webhook-secret-file="$DIR/secret"
    send_from_elsewhere "$BOB" "$ALICE" "$point" || true # the service may die before it answers
    wait_until 20 process_is_gone "$SERVICE_PID"
    wait "$SERVICE_PID" || true
    start_service --webhook-secret-file="$DIR/secret"
    wait_until 20 has_log "$point" '.status_code == 200'
    equal "$(waiting)" 0
  done
  equal "$(posts outgoing_due | wc -l)" 1
  equal "$(posts outgoing_attempted | wc -l)" 2
  equal "$(posts outgoing_recorded | wc -l)" 1
}

@test "without a webhook secret no webhook is sent or queued" {
  start_receiver
  start_service
  create_inboxes "$ALICE" "$BOB"
  set_webhook "http://127.0.0.1:$OTHER_PORT/told"
  send_from_elsewhere "$BOB" "$ALICE" silent
  equal "$(waiting)" 0
  stop_service
  start_service --webhook-secret-file="$DIR/secret"
  send_from_elsewhere "$BOB" "$ALICE" loud
  wait_until 20 has_log loud '.status_code == 200'
  equal "$(posts silent)" ""
  run ! grep -qa "$SECRET" "$DIR/inboxd.log" "/proc/$SERVICE_PID/cmdline"
  run ! grep -rqaF "$SECRET" "$SERVICE"
}

@test "a missing secret file, and --webhook-anywhere without a secret, are refused" {
  run -1 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 --webhook-secret-file="$DIR/none"
  contains "$output" "cannot read the webhook secret file"
  run -2 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 --webhook-anywhere
  contains "$output" "--webhook-anywhere needs --webhook-secret-file"
}

@test "a mount that takes webhooks shows new mail of inboxd without a poll" {
  (umask 077 && echo one-word >"$DIR/secret")
  start_service --webhook-secret-file="$DIR/secret"
  create_inboxes "$ALICE" "$BOB"
  start_mount --poll-interval=86400 --webhook-listen=127.0.0.1:0 --webhook-secret-file="$DIR/secret"
  set_webhook "http://$(sed -n 's/.*webhooks are taken at //p' "$MOUNT_LOG")/"
  send_from_elsewhere "$BOB" "$ALICE" "news of inboxd"
  wait_until 20 mounted "$ALICE" "news of inboxd"
}
