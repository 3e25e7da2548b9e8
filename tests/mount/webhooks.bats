#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Webhooks announce new mail to the mount. It polls only once a day here, so new mail comes by a webhook.
#
# shellcheck disable=SC2034 # shared with watchers.bash

load support
load background
load watchers

SECRET=a-secret.of+webhooks

setup() {
  WATCHED=$DIR/watched
  WATCHER_PID=
  (umask 077 && echo "$SECRET" >"$DIR/secret")
}

teardown() {
  stop_watching
  stop_all
}

# Starts a mount of two inboxes that takes webhooks at $HOOK and has synced all mail.
start_with_webhooks()
{
  start_two_inboxes --poll-interval=86400 --webhook-listen=127.0.0.1:0 --webhook-secret-file="$DIR/secret"
  HOOK=http://$(sed -n 's/.*webhooks are taken at //p' "$MOUNT_LOG")/any/path
  refresh
  BOB_ID=$(jq -r .id "$MOUNT/inboxes/$BOB/inbox.json")
}

body() # INBOX-ID [SECONDS from now]
{
  printf '{"id": "x", "inbox_id": "%s", "timestamp": "%(%Y-%m-%dT%H:%M:%SZ)T"}' "$1" $((EPOCHSECONDS + ${2:-0}))
}

signature() # BODY [SECRET]
{
  printf %s "$1" | openssl dgst -sha256 -hmac "${2:-$SECRET}" -r | cut -d' ' -f1
}

# Prints the HTTP status of the answer.
post() # BODY SIGNATURE [CURL-ARGUMENT...]
{
  curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' \
    ${2:+-H "X-BotMailRoom-Signature: $2"} --data-binary "$1" "${@:3}" "$HOOK"
}

post_signed() # BODY
{
  post "$1" "$(signature "$1")"
}

@test "a webhook makes new mail appear at once, and inotify reports it" {
  start_with_webhooks
  watch "inboxes/$BOB"
  send_from_elsewhere "$ALICE" "$BOB" told
  hook=$(body "$BOB_ID")
  equal "$(post_signed "$hook")" 204
  wait_until 5 saw CLOSE_WRITE,CLOSE _told_
  holds "$(mounted "$BOB" told)" '.subject == "told"'
  equal "$(grep -c "$SECRET" "$MOUNT_LOG" "$MOUNT/status.json")" "$MOUNT_LOG:0"$'\n'"$MOUNT/status.json:0"
}

@test "webhooks can be configured in the configuration file, and listen at a Unix socket" {
  printf 'webhook-listen = unix:%s\nwebhook-secret-file = %s\n' "$DIR/hook" "$DIR/secret" >"$DIR/config"
  start_two_inboxes --poll-interval=86400 --config="$DIR/config"
  HOOK=http://localhost/
  refresh
  send_from_elsewhere "$ALICE" "$BOB" told
  hook=$(body "$(inbox_id "$BOB")")
  equal "$(post "$hook" "$(signature "$hook")" --unix-socket "$DIR/hook")" 204
  wait_until 5 mounted "$BOB" told
  stop_mount
  [ ! -e "$DIR/hook" ]
}

@test "a webhook socket with a relative path is removed when the mount ends" {
  start_service
  INBOXFS=$(realpath "$INBOXFS")
  mkdir -p "$MOUNT"
  cd "$DIR"
  start_background --api-key-file="$KEY_FILE" --state-dir="$STATE" --webhook-listen=unix:relative \
    --webhook-secret-file=secret "$SERVICE_URL" "$MOUNT"
  [ -S "$DIR/relative" ]
  stop_background
  [ ! -e "$DIR/relative" ]
}

@test "a webhook for an unknown inbox, or for none, makes new inboxes appear" {
  start_with_webhooks
  create_inboxes "carol@$DOMAIN"
  equal "$(post_signed "$(body "$(inbox_id "carol@$DOMAIN")")")" 204
  wait_until 5 test -e "$MOUNT/inboxes/carol@$DOMAIN"
  create_inboxes "dave@$DOMAIN"
  equal "$(post_signed "$(printf '{"timestamp": "%(%Y-%m-%dT%H:%M:%SZ)T"}' "$EPOCHSECONDS")")" 204
  wait_until 5 test -e "$MOUNT/inboxes/dave@$DOMAIN"
}

@test "a webhook without a valid signature and current timestamp is refused, and logged once" {
  start_with_webhooks
  send_from_elsewhere "$ALICE" "$BOB" unseen
  now=$(body "$BOB_ID")
  old=$(body "$BOB_ID" -310)
  future=$(body "$BOB_ID" 310)
  equal "$(post "$now" '')" 401
  equal "$(post "$now" "$(signature "$now" another-secret)")" 401
  equal "$(post "$now " "$(signature "$now")")" 401
  equal "$(post "$now" "sha256=$(signature "$now")")" 401
  equal "$(post_signed "$old")" 401
  equal "$(post_signed "$future")" 401
  equal "$(post_signed '{"inbox_id": "x"}')" 401
  equal "$(post_signed 'no json')" 401
  equal "$(post_signed '')" 401
  equal "$(post "$now" "$(signature "$now")" -X PUT)" 401
  equal "$(curl -sS -o /dev/null -w '%{http_code}' "$HOOK")" 401
  equal "$(grep -c 'refused a webhook: it is not signed with this secret' "$MOUNT_LOG")" 1
  equal "$(grep -c 'refused a webhook' "$MOUNT_LOG")" 1
  # None of these caused a sync; a later webhook does.
  create_inboxes "carol@$DOMAIN"
  equal "$(post_signed "$now")" 204
  wait_until 5 mounted "$BOB" unseen
  missing "$MOUNT/inboxes/carol@$DOMAIN"
  equal "$(post_signed "$old")" 401
  equal "$(grep -c 'refused a webhook: its timestamp is over five minutes away' "$MOUNT_LOG")" 1
}

@test "a repeated webhook causes no second sync" {
  start_with_webhooks
  send_from_elsewhere "$ALICE" "$BOB" told
  hook=$(body "$BOB_ID")
  equal "$(post_signed "$hook")" 204
  wait_until 5 mounted "$BOB" told
  send_from_elsewhere "$ALICE" "$BOB" replayed
  send_from_elsewhere "$BOB" "$ALICE" after
  equal "$(post_signed "$hook")" 204 # causes no sync
  equal "$(post_signed "$(body "$(inbox_id "$ALICE")")")" 204
  wait_until 5 mounted "$ALICE" after
  run ! mounted "$BOB" replayed
}

@test "a request with two lengths is refused with 400" {
  start_with_webhooks
  hook=$(body "$BOB_ID")
  equal "$(post "$hook" "$(signature "$hook")" -H "Content-Length: ${#hook}" -H "Content-Length: 1")" 400
  equal "$(post "$hook" "$(signature "$hook")" -H "Content-Length: ${#hook}" -H 'Transfer-Encoding: chunked')" 400
  equal "$(post_signed "$hook")" 204
}

@test "a body over 2 MB is refused with 413, with and without a declared length" {
  start_with_webhooks
  head -c 2000001 /dev/zero | tr '\0' ' ' >"$DIR/big"
  equal "$(post "@$DIR/big" x)" 413
  equal "$(post "@$DIR/big" x -H 'Expect:')" 413 # the answer arrives although the body is still being sent
  equal "$(post "@$DIR/big" x -H 'Transfer-Encoding: chunked' -H 'Expect:')" 413
  head -c 10000000 /dev/zero >"$DIR/big"
  post "@$DIR/big" x -H 'Transfer-Encoding: chunked' -H 'Expect:' || [ $? -gt 1 ] # the connection may be closed
  head -c 2000000 "$DIR/big" >"$DIR/full"
  equal "$(post "@$DIR/full" x)" 401
  big=$(printf '%s%1900000s' "$(body "$BOB_ID")" '')
  printf %s "$big" >"$DIR/signed"
  equal "$(post "@$DIR/signed" "$(signature "$big")")" 204
}

# Counts the threads of the mount without those that answer the kernel.
count_threads() {
  cat "/proc/$MOUNT_PID/task"/*/comm 2>/dev/null | grep -vcx fs-request
}

@test "a flood of webhooks is accepted without more threads while the service hangs" {
  start_with_webhooks
  send_from_elsewhere "$ALICE" "$BOB" flooded
  hook=$(body "$BOB_ID")
  local threads later
  threads=$(count_threads)
  freeze_service
  equal "$(curl -sS --parallel --parallel-max 20 -o /dev/null -w '%{http_code}\n' --data-binary "$hook" \
    -H "X-BotMailRoom-Signature: $(signature "$hook")" "$HOOK?[1-300]" 2>/dev/null | sort | uniq -c | xargs)" '300 204'
  at_once ls "$MOUNT/inboxes/$BOB" >/dev/null
  later=$(count_threads)
  [ "$later" -le $((threads + 3)) ] || fail "$later threads after $threads" # the sync may use three
  kill -CONT "$SERVICE_PID"
  wait_until 10 mounted "$BOB" flooded
}

@test "clients that send slowly or nothing make room for a webhook" {
  start_with_webhooks
  send_from_elsewhere "$ALICE" "$BOB" through
  hook=$(body "$BOB_ID")
  address=${HOOK#http://}
  python3 - "${address%%/*}" >"$DIR/slow" 3>&- <<'END' &
import socket, sys, time
host, port = sys.argv[1].split(":")
sockets = []
for i in range(150):
    s = socket.create_connection((host, int(port)))
    if i % 3 > 0:
        s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nX-BotMailRoom-Signature: x\r\nContent-Length: 100\r\n"[:40 * (i % 3)])
    sockets.append(s)
print("connected", flush=True)
while True:
    for s in sockets:
        try:
            s.sendall(b"X")
        except OSError:
            pass
    time.sleep(0.2)
END
  slow=$!
  wait_until 10 grep -q connected "$DIR/slow"
  status=0
  answered=$(post "$hook" "$(signature "$hook")" --retry 3 --retry-all-errors --max-time 10) || status=$?
  open=$(find "/proc/$MOUNT_PID/fd" -lname 'socket:*' | wc -l)
  kill "$slow"
  wait "$slow" || true
  equal "$status $answered" '0 204'
  [ "$open" -le 80 ] || fail "$open sockets are open"
  wait_until 5 mounted "$BOB" through
}

@test "unusable webhook options prevent the mount with a message" {
  start_service
  use_own_home
  local service=(--api-key-file="$KEY_FILE" --state-dir="$STATE" "$SERVICE_URL" "$MOUNT")
  refuses 2 'need both' --webhook-listen=127.0.0.1:0 "${service[@]}"
  refuses 2 'need both' --webhook-secret-file="$DIR/secret" "${service[@]}"
  refuses 1 "cannot read the secret of webhooks .*none" --webhook-listen=127.0.0.1:0 --webhook-secret-file="$DIR/none" \
    "${service[@]}"
  refuses 1 "127.0.0.1:$SERVICE_PORT: Address already in use" --webhook-listen="127.0.0.1:$SERVICE_PORT" \
    --webhook-secret-file="$DIR/secret" "${service[@]}"
  refuses 1 'not ADDRESS:PORT' --webhook-listen=elsewhere:80 --webhook-secret-file="$DIR/secret" "${service[@]}"
  : >"$DIR/secret"
  refuses 1 'does not hold one line' --webhook-listen=127.0.0.1:0 --webhook-secret-file="$DIR/secret" "${service[@]}"
  echo "$SECRET" >"$DIR/secret"
  chmod 640 "$DIR/secret"
  refuses 1 'open to others' --webhook-listen=127.0.0.1:0 --webhook-secret-file="$DIR/secret" "${service[@]}"
}
