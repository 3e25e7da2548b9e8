#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Faults of HTTP, TLS and time, of the service or of a proxy: for each, the reason that the user gets, while the mount
# answers at once.

load support
load scripted

CAROL=carol@$DOMAIN

teardown() {
  stop_all
}

send() { # NAME [TO]
  message "${2:-$BOB}" "$1" >"$MOUNT/drafts/$1"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/$1"
}

# Where the message ended, with the words: "failed: unknown outcome: ..." or "sent:".
outcome() { # NAME
  local folder
  wait_until 30 bash -c '[ -e "$1/sent/$2.receipt.json" ] || [ -e "$1/failed/$2.receipt.json" ]' - "$MOUNT" "$1"
  for folder in sent failed; do
    if [ -e "$MOUNT/$folder/$1.receipt.json" ]; then
      echo "$folder: $(jq -r '.error // ""' "$MOUNT/$folder/$1.receipt.json")"
    fi
  done
}

# Each line: the answer to a send, as scripted_server.py knows it, then what the outcome has to match. The barrier, the
# events and the status have to say the same.
sends_end_as() { # reads TABLE
  local answer pattern number=0 got folder
  while IFS='|' read -r answer pattern; do
    number=$((number + 1))
    server_answers send "$answer" '"ok"'
    send "m$number"
    got=$(outcome "m$number")
    [[ $got =~ ^$pattern ]] || fail "the answer $answer" $'\n'"ended in $got" $'\n'"should be $pattern"
    equal "$(server_requests send | jq length)" "$number"
    folder=${got%%:*}
    [ "$folder" = sent ] || expect EIO fsync "$MOUNT/outbox"
    sync "$MOUNT/outbox"
    has_event '.event == $event and .path == $event + "/" + $name and ((.error // "") == ($words // ""))' \
      --arg event "$folder" --arg name "m$number" --arg words "${got#*: }"
    holds "$MOUNT/status.json" '.queue.queued == 0 and .queue[$folder] >= 1 and .online' --arg folder "$folder"
  done
}

answers_at_once() { # ROUNDS
  local rounds=$1
  while [ $((rounds -= 1)) -ge 0 ]; do
    at_once ls -l "$MOUNT" "$MOUNT/inboxes" "$MOUNT/outbox" "$MOUNT/sent" "$MOUNT/failed" "$MOUNT/attachments" >/dev/null
    at_once find "$MOUNT/inboxes" -type f -exec cat "$MOUNT/status.json" "$MOUNT/README" {} + >/dev/null
  done
}

# ---------------------------------------------------------------- HTTP

@test "answers to a send that are not a whole success are unknown outcomes, and each message is requested once" {
  start_scripted_service
  start_mount
  sends_end_as <<'TABLE'
{"verbatim": "HTTP/1.1 100 Continue\r\n\r\n"}|failed: unknown outcome
{"verbatim": "HTTP/1.1 200 OK\r\nContent-Le"}|failed: unknown outcome
{"verbatim": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":"}|failed: unknown outcome
{"verbatim": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nrubbish\r\n"}|failed: unknown outcome
{"verbatim": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n"}|failed: unknown outcome
{"verbatim": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"}|failed: unknown outcome
{"verbatim": "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"}|failed: unknown outcome
{"verbatim": "\u0000\u0001\u0002\r\n\r\n"}|failed: unknown outcome
{"verbatim": "HTTP/9.9 200 OK\r\n\r\n{}"}|failed: unknown outcome
{"verbatim": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"}|failed: unknown outcome.*packed
{"raw_base64": "eyJpZCI6ICL/In0="}|failed: unknown outcome
{"raw": "{\"id\": \"x\"} and more"}|failed: unknown outcome
{"status": 200, "raw": "\u0000"}|failed: unknown outcome
TABLE
  answers_at_once 1
}

@test "1xx before the answer, 204, and odd but whole answers mean sent" {
  start_scripted_service
  start_mount
  sends_end_as <<'TABLE'
{"verbatim": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"}|sent:
{"status": 204}|sent:
{"status": 201, "body": {"id": "new"}}|sent:
{"raw": "{\"id\": \"first\", \"id\": \"second\"}"}|sent:
{"verbatim": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nTrailer: x\r\n\r\n"}|sent:
{"verbatim": "HTTP/1.0 200 OK\r\n\r\n{}"}|sent:
TABLE
}

@test "redirects and refusals with an unreadable body fail the message, with a readable reason" {
  start_scripted_service
  start_mount
  local deep
  deep=$(printf '%050000d' 0 | tr 0 '[')
  sends_end_as <<TABLE
{"status": 301, "headers": {"Location": "https://elsewhere.example/"}}|failed: .+
{"status": 307, "headers": {"Location": "/api/v1/email/send"}}|failed: .+
{"status": 304}|failed: .+
{"status": 409, "raw_base64": "eyJkZXRhaWwiOiAi//4iLCB4"}|failed: .+
{"status": 410, "raw": "$deep"}|failed: .+
{"status": 414, "body": {"detail": {"detail": {"detail": 7}}}}|failed: .+
{"status": 415, "raw": "{\"detail\": \"one\", \"detail\": \"two\"}"}|failed: .*(one|two)
{"status": 418, "raw": "", "headers": {"X": "y"}}|failed: .+
TABLE
  jq -e . "$MOUNT"/failed/*.receipt.json >/dev/null
  cat "$MOUNT"/failed/*.receipt.json "$MOUNT/events.jsonl" | iconv -f utf-8 -t utf-8 >/dev/null
}

@test "an answer of 300 MB to any request is not read whole, and does not grow the daemon" {
  start_scripted_service
  start_mount
  local before after
  before=$(awk '/VmHWM/ { print $2 }' "/proc/$MOUNT_PID/status")
  server_answers send '{"spaces": 300}' '"ok"'
  send huge
  contains "$(outcome huge)" "failed: unknown outcome"
  server_answers upload '{"spaces": 300}'
  echo x >"$MOUNT/attachments/x.txt"
  server_answers upsert '{"spaces": 300}'
  run ! syscall mkdir "$MOUNT/inboxes/$ALICE"
  server_answers email '{"spaces": 300}'
  server_answers inbox '{"spaces": 300}'
  syscall write "$MOUNT/ctl" w $'sync\n' || true
  answers_at_once 3
  after=$(awk '/VmHWM/ { print $2 }' "/proc/$MOUNT_PID/status")
  # The sanitizers' own memory is not the daemon's.
  [ $((after - before)) -lt 100000 ] || nm "$INBOXFS" | grep -q __asan_init || fail "grew from $before to $after kB"
}

@test "a list of deeply nested, repeated or broken records leaves known emails readable" {
  start_scripted_service
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "known"}'
  start_mount
  refresh
  local deep answer
  deep=$(printf '%0200000d' 0 | tr 0 '[')
  for answer in "{\"raw\": \"[{\\\"id\\\": \\\"d\\\", \\\"inbox_id\\\": \\\"box-1\\\", \\\"x\\\": $deep\"}" \
    "{\"raw\": \"$deep\"}" '{"raw": "[{\"id\": \"a\", \"id\": \"b\", \"inbox_id\": \"box-1\", \"subject\": \"x\", \"subject\": \"y\"}]"}' \
    '{"verbatim": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n[]"}' '{"status": 304}' '{"status": 302}'; do
    printf '{"email": [{"always": %s}]}' "$answer" >"$DIR/control" # too long for an argument
    curl -sS --fail-with-body -d "@$DIR/control" "$SERVICE_URL/_control"
    syscall write "$MOUNT/ctl" w $'sync\n' || true
    answers_at_once 1
    find "$MOUNT/inboxes" -name '*.json' -exec jq -e . {} + >/dev/null
  done
  server_answers email
  refresh
  grep -rlF '"subject": "known"' "$MOUNT/inboxes"
}

# ---------------------------------------------------------------- time

@test "ls and cat do not wait for a service that falls silent in the header or the body" {
  start_scripted_service
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "quick"}'
  start_mount --poll-interval=1
  refresh
  local silence endpoint count
  for silence in '{"verbatim": "HTTP/1.1 200 OK\r\nContent-Ty", "stall": true}' \
    '{"verbatim": "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[{", "stall": true}' \
    '{"verbatim": "", "stall": true}'; do
    count=$(server_requests email | jq length) # before a list can fall silent, which may be the last for long
    for endpoint in email inbox upload send; do
      server_answers "$endpoint" "$silence"
    done
    # To somebody else each time: mail to one recipient keeps its order, and so waits. One is sent, and the next ask for a
    # list first.
    send "silent$count" "silent$count@x.example"
    echo x >"$MOUNT/attachments/$count.txt"
    wait_until 10 server_saw send 1
    wait_until 10 server_saw email $((count + 1))
    answers_at_once 20
    at_once cp "$MOUNT/README" "$MOUNT/drafts/copy"
    at_once mv "$MOUNT/drafts/copy" "$MOUNT/drafts/moved"
    at_once cp "$MOUNT/README" "$MOUNT/outbox/written$count.part"
  done
  within 10 stop_mount
}

# The kernel locks inboxes/ itself meanwhile: who lists it, or looks for a name in it for the first time, waits too.
@test "while mkdir waits for a silent service, inboxes/ and everything else answer" {
  start_scripted_service
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "quick"}'
  start_mount
  refresh
  ls -lR "$MOUNT" >/dev/null
  server_answers upsert '{"verbatim": "", "stall": true}'
  syscall mkdir "$MOUNT/inboxes/$ALICE" >"$DIR/mkdir" 3>&- &
  local making=$!
  wait_until 10 server_saw upsert 1
  at_once send meanwhile
  local meanwhile=0
  for _ in {1..20}; do
    at_once ls -l "$MOUNT" "$MOUNT/inboxes/box-1" "$MOUNT/outbox" "$MOUNT/sent" >/dev/null
    at_once cat "$MOUNT/status.json" "$MOUNT/inboxes/box-1"/*quick* >/dev/null
    # It waits for 5 s, into which twenty rounds of a busy machine do not fit.
    [ ! -d "/proc/$making" ] || meanwhile=$((meanwhile + 1))
  done
  [ "$meanwhile" -gt 0 ]
  wait "$making" || true
  [[ $(cat "$DIR/mkdir") =~ EHOSTUNREACH|ETIMEDOUT ]] || fail "mkdir: $(cat "$DIR/mkdir")"
}

@test "ten hanging sends do not delay messages to other recipients" {
  local i hang='{"verbatim": "", "stall": true}'
  start_scripted_service
  start_mount
  server_answers send "$hang" "$hang" "$hang" "$hang" "$hang" "$hang" "$hang" "$hang" "$hang" "$hang" '"ok"'
  for i in {1..10}; do
    send "hanging$i" "somebody$i@$DOMAIN"
  done
  wait_until 10 server_saw send 10
  for i in {1..5}; do
    send "other$i" "$CAROL"
  done
  for i in {1..5}; do
    wait_sent "other$i"
  done
  present "$MOUNT/outbox"/hanging{1..10}
}

# ---------------------------------------------------------------- the key

@test "a key that is revoked and restored fails nothing, and everything continues by itself" {
  start_scripted_service
  server_has_email '{"id": "e1", "inbox_id": "box-1", "subject": "kept"}'
  start_mount --poll-interval=1
  refresh
  send before
  wait_sent before
  control '{"key": "another-key"}'
  send during
  echo x >"$MOUNT/attachments/x.txt"
  wait_until 10 jq -e '.queue.paused' "$MOUNT/status.json"
  expect EAGAIN fsync "$MOUNT/outbox"
  expect EACCES mkdir "$MOUNT/inboxes/$ALICE"
  expect "write EACCES" write "$MOUNT/ctl" w $'sync\n'
  answers_at_once 3
  grep -rlF '"subject": "kept"' "$MOUNT/inboxes"
  holds "$MOUNT/status.json" '.error | test("key|401"; "i")'
  equal "$(ls "$MOUNT/failed")" ""
  control '{"key": "test-key"}'
  wait_until 60 test -e "$MOUNT/sent/during.receipt.json"
  wait_until 20 test -e "$MOUNT/attachments/x.txt.receipt.json"
  is_sent_times during 1
  run ! grep -rq test-key "$STATE" "$MOUNT_LOG"
}

# ---------------------------------------------------------------- TLS

# An authority, and certificates: good, expired and for-another by it, selfsigned by itself.
make_certificates() {
  cd "$DIR" || return
  openssl req -x509 "${NEW_KEY[@]}" -days 30 -subj "/CN=Test Authority" -keyout ca.key -out ca.pem
  local name host days
  while read -r name host days; do
    openssl req "${NEW_KEY[@]}" -subj "/CN=$host" -keyout "$name.key" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$days" -out "$name.crt" \
      -extfile <(echo "subjectAltName=DNS:$host")
    cat "$name.crt" "$name.key" >"$name.pem"
  done <<'TABLE'
good localhost 30
expired localhost -1
another elsewhere.example 30
TABLE
  openssl req -x509 "${NEW_KEY[@]}" -days 30 -subj "/CN=localhost" -addext subjectAltName=DNS:localhost \
    -keyout selfsigned.key -out selfsigned.crt
  cat selfsigned.crt selfsigned.key >selfsigned.pem
  cd /
}

start_tls_service() { # CERTIFICATE
  choose_port
  rm -f "$DIR/port"
  python3 "$REPOSITORY/tests/mount/scripted_server.py" --port="$SERVICE_PORT" --port-file="$DIR/port" \
    --certificate="$DIR/$1.pem" >>"$DIR/scripted.log" 2>&1 3>&- {PAUSE}>&- &
  # shellcheck disable=SC2034 # of stop_service
  SERVICE_PID=$!
  wait_until 20 test -s "$DIR/port"
  SERVICE_URL=https://localhost:$SERVICE_PORT
  (umask 077 && echo test-key >"$KEY_FILE")
}

@test "TLS: an expired, foreign or self-signed certificate is refused with a reason, and no key is sent" {
  make_certificates 2>/dev/null
  local name words
  while read -r name words; do
    start_tls_service "$name"
    STATE=$DIR/state-$name
    start_mount --poll-interval=1 --ca-file="$DIR/ca.pem"
    holds "$MOUNT/status.json" '.online == false'
    [[ $(jq -r .error "$MOUNT/status.json") =~ $words ]] || fail "$name: $(jq -r .error "$MOUNT/status.json")"
    message "$BOB" "$name" >"$MOUNT/drafts/$name"
    mv "$MOUNT/drafts/$name" "$MOUNT/outbox/$name"
    expect EAGAIN fsync "$MOUNT/outbox"
    present "$MOUNT/outbox/$name"
    run -1 "$INBOXFS" check --ca-file="$DIR/ca.pem" --api-key-file="$KEY_FILE" "$SERVICE_URL"
    grep -qE "^FAIL reach .*$words" <<<"$output" || fail "$name: $output"
    equal "$(curl -sSk --fail "$SERVICE_URL/_requests")" "[]"
    stop_mount
    stop_service
  done <<'TABLE'
expired [Cc]ertificate.*expired
another (host|name|subject).*(match|localhost)
selfsigned [Cc]ertificate
TABLE
}

@test "trusted authorities come from --ca-file, the configuration or the environment, and replace the system's" {
  make_certificates 2>/dev/null
  start_tls_service good
  local check=("$INBOXFS" check --api-key-file="$KEY_FILE") directory=$DIR/authorities
  mkdir "$directory"
  cp "$DIR/ca.pem" "$directory/$(openssl x509 -in "$DIR/ca.pem" -noout -hash).0"
  echo "ca-file = $DIR/ca.pem" >"$DIR/config"
  chmod 644 "$DIR/config"
  cd "$DIR"
  local way
  for way in "--ca-file=ca.pem" "--ca-file=$directory" "--config=$DIR/config" CURL_CA_BUNDLE="$DIR/ca.pem" \
    SSL_CERT_FILE=ca.pem SSL_CERT_DIR="$directory"; do
    if [[ $way = --* ]]; then
      run -0 "${check[@]}" "$way" "$SERVICE_URL"
    else
      run -0 env "$way" "${check[@]}" "$SERVICE_URL"
    fi
    contains "$output" 'ok   tls       the certificate is valid'
  done
  run -1 "${check[@]}" --ca-file=selfsigned.crt "$SERVICE_URL"
  contains "$output" 'FAIL reach'
  run -1 "${check[@]}" "$SERVICE_URL"
  contains "$output" 'FAIL reach'

  # The path is not of the directory that the daemon leaves.
  start_mount --ca-file=ca.pem
  cd /
  holds "$MOUNT/status.json" '.online'
  message "$BOB" "good" >"$MOUNT/outbox/good"
  wait_until 10 test -e "$MOUNT/sent/good.receipt.json"
}

# A line to the service on which the answer to the first bytes of a connection takes 6 s.
start_slow_line() {
  python3 -c 'import socket, sys, threading, time
def carry(source, sink, pause):
    while data := source.recv(65536):
        time.sleep(pause)
        pause = 0
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    near = listener.accept()[0]
    far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    threading.Thread(target=carry, args=(near, far, 0), daemon=True).start()
    threading.Thread(target=carry, args=(far, near, 6), daemon=True).start()' "$SERVICE_PORT" >"$DIR/line" 3>&- {PAUSE}>&- &
  LINE_PID=$!
  wait_until 20 test -s "$DIR/line"
}

@test "TLS works on a line so slow that the server's certificate takes six seconds" {
  make_certificates 2>/dev/null
  start_tls_service good
  start_slow_line
  SERVICE_URL=https://localhost:$(cat "$DIR/line")
  start_mount --ca-file="$DIR/ca.pem"
  wait_until 10 jq -e .online "$MOUNT/status.json"
  stop_mount
  kill "$LINE_PID"
}

@test "unreadable authorities are an error at the start, with a reason" {
  start_scripted_service
  local url=https://127.0.0.1:$SERVICE_PORT path words
  echo "no certificate" >"$DIR/empty.pem"
  mkfifo "$DIR/fifo"
  mkdir -p "$MOUNT"
  while read -r path words; do
    run -1 "$INBOXFS" --ca-file="$DIR/$path" --api-key-file="$KEY_FILE" --state-dir="$STATE" "$url" "$MOUNT"
    [[ $output =~ $DIR/$path:\ $words.*--ca-file ]] || fail "$path: $output"
    missing "$MOUNT/status.json"
    run -1 env SSL_CERT_FILE="$DIR/$path" "$INBOXFS" check --api-key-file="$KEY_FILE" "$url"
    [[ $output =~ FAIL\ tls.*$DIR/$path:\ $words.*SSL_CERT_FILE ]] || fail "$path: $output"
  done <<'TABLE'
none.pem No such file
empty.pem it has no certificate
fifo it is neither a file nor a directory
TABLE
  # Nobody looks at them for plain HTTP.
  run -0 "$INBOXFS" check --ca-file="$DIR/none.pem" --api-key-file="$KEY_FILE" "$SERVICE_URL"
}

@test "a mix-up of TLS and plain HTTP is reported in words, and nothing is sent" {
  start_scripted_service
  SERVICE_URL=https://127.0.0.1:$SERVICE_PORT
  start_mount
  holds "$MOUNT/status.json" '.online == false and (.error | length > 10)'
  send x
  expect EAGAIN fsync "$MOUNT/outbox"
  present "$MOUNT/outbox/x"
}

# ---------------------------------------------------------------- names

# inboxfs in a mount namespace in which these files, pairs of one in $DIR and one of the machine, stand for the machine's.
# It is looked at through /proc/PID/root.
start_mount_with_files() { # "FILE PATH"... -- [OPTION...] URL
  local own=()
  while [ "$1" != -- ]; do
    own+=("$1")
    shift
  done
  mkdir -p "$MOUNT"
  hide_other_mounts
  # shellcheck disable=SC2016 # for the inner shell
  "${AMONG_OWN_MOUNTS[@]}" bash -c '
    while [ "$1" != -- ]; do mount --bind $1 || exit; shift; done
    shift && exec "$@"' - "${own[@]}" -- \
    "$INBOXFS" -f --api-key-file="$KEY_FILE" --poll-interval=1 "${@:2}" "$MOUNT" >>"$MOUNT_LOG" 2>&1 3>&- {PAUSE}>&- &
  MOUNT_PID=$!
  SEEN=/proc/$MOUNT_PID/root$MOUNT
  wait_until 20 test -e "$SEEN/status.json"
}

stop_mount_with_files() {
  local pid=$MOUNT_PID
  MOUNT_PID=
  kill "$pid"
  wait_until 20 process_is_gone "$pid"
  wait "$pid"
}

@test "a name that could not be resolved is tried again, and the mount is online once it resolves" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  make_certificates 2>/dev/null
  start_tls_service another
  echo "hosts: files" >"$DIR/nsswitch.conf"
  : >"$DIR/hosts"
  start_mount_with_files "$DIR/nsswitch.conf /etc/nsswitch.conf" "$DIR/hosts /etc/hosts" \
    "$DIR/ca.pem /etc/ssl/certs/ca-certificates.crt" -- --state-dir="$STATE" "https://elsewhere.example:$SERVICE_PORT"
  wait_until 20 jq -e '.online == false and (.error | test("elsewhere.example"))' "$SEEN/status.json"
  echo "127.0.0.1 elsewhere.example" >"$DIR/hosts"
  wait_until 30 jq -e .online "$SEEN/status.json"

  : >"$DIR/hosts"
  stop_service # and with it the connections
  wait_until 30 jq -e '.online == false' "$SEEN/status.json"
  start_tls_service another
  message "$BOB" waiting >"$SEEN/outbox/waiting"
  wait_until 100 jq -e '.error | test("resolve.*elsewhere.example")' "$SEEN/status.json"
  echo "127.0.0.1 elsewhere.example" >"$DIR/hosts"
  wait_until 60 test -e "$SEEN/sent/waiting.receipt.json"
  wait_until 60 jq -e .online "$SEEN/status.json"
  stop_mount_with_files
}

# ---------------------------------------------------------------- the way to the service

was_asked_since() { # TIME
  [ "$(jq -r .sync.last "$MOUNT/status.json")" != "$1" ]
}

@test "a change of the machine's IP addresses causes a sync at once" {
  # shellcheck disable=SC2015 # neither does harm
  [ "$(id -u)" -eq 0 ] && unshare --net true || skip "needs a network namespace"
  unshare --net sleep 120 3>&- {PAUSE}>&- &
  local network=$! program last
  for program in inboxd inboxfs; do
    printf '#!/bin/sh\nexec nsenter --net=/proc/%s/ns/net "%s" "$@"\n' "$network" "$BUILD/$program" >"$DIR/$program"
    chmod +x "$DIR/$program"
  done
  # shellcheck disable=SC2034 # for the functions of support.bash
  INBOXD=$DIR/inboxd INBOXFS=$DIR/inboxfs
  wait_until 10 grep -q sleep "/proc/$network/comm" # before that it is in this test's namespace
  nsenter --net="/proc/$network/ns/net" ip link set lo up
  start_service
  start_mount --poll-interval=600
  refresh
  last=$(jq -r .sync.last "$MOUNT/status.json")
  nsenter --net="/proc/$network/ns/net" ip address add 10.1.2.3/32 dev lo
  wait_until 20 was_asked_since "$last"
  kill "$network"
}

@test "a jump of the clock, as after a suspend, causes a sync at once" {
  # A step of a microsecond, by which nobody is misled (ADJ_SETOFFSET of adjtimex(2)).
  local step='import ctypes, struct
exit(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(struct.pack("I76xq", 0x100, 1), 208)) < 0)'
  python3 -c "$step" || skip "needs the right to set the clock"
  local last
  start_scripted_service
  start_mount --poll-interval=600
  refresh
  last=$(jq -r .sync.last "$MOUNT/status.json")
  python3 -c "$step"
  wait_until 20 was_asked_since "$last"
}
