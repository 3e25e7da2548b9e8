#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# inboxd, the local service, as a program and by curl: its options, keys, and REST interface.

load support

teardown() {
  stop_service
}

post() { # PATH JSON
  api POST "$1" -H 'Content-Type: application/json' -d "$2"
}

status_of() { # CURL-ARGUMENT...
  curl -sS -o "$DIR/body" -w '%{http_code}' "$@"
}

# ---------------------------------------------------------------- the program

@test "--help and --version print text, and a wrong command line is refused with status 2" {
  run -0 "$INBOXD" --help
  contains "$output" "--listen"
  contains "$output" "--tier"
  run -0 "$INBOXD" --version
  run -2 "$INBOXD" --nonsense
  run -2 "$INBOXD" --listen=127.0.0.1:0
  run -2 "$INBOXD" --listen=127.0.0.1:0 --data="$SERVICE" --tier=gold
  run -2 "$INBOXD" dance --data="$SERVICE"
  local listen
  for listen in bogus localhost mail.example:80 127.0.0.1:65536 unix:; do
    run -2 timeout 10 "$INBOXD" --data="$SERVICE" --listen="$listen"
    contains "$output" "neither ADDRESS:PORT, with a numeric address, nor unix:PATH: $listen"
  done
  run -2 timeout 10 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 --domain=a..b
  contains "$output" "a..b"
  run -2 timeout 10 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 --relay-in-clear
  contains "$output" "--relay-in-clear need --relay"
  run -2 timeout 10 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 --webhook-anywhere
  contains "$output" "--webhook-anywhere needs --webhook-secret-file"
}

@test "an option with one value is refused if it is given twice" {
  local option
  for option in --data="$DIR/other" --domain=a.example --tier=free --relay=smtp://localhost \
    --relay-credentials-file="$DIR/a" --webhook-secret-file="$DIR/a"; do
    run -2 timeout 10 "$INBOXD" --listen=127.0.0.1:0 --data="$SERVICE" "$option" "$option"
    contains "$output" "${option%%=*} is given twice"
  done
  run -2 "$INBOXD" deliver -f a@x -f b@x --data="$SERVICE" -- "$ALICE" </dev/null
  contains "$output" "inboxd: -f is given twice"
  missing "$SERVICE" "$DIR/other"
}

@test "inboxd listens at each given address of each protocol" {
  start_service --listen="unix:$DIR/http" --smtp="unix:$DIR/smtp1" --smtp="unix:$DIR/smtp2" --lmtp="unix:$DIR/lmtp1" \
    --smtp="unix:$DIR/smtp3" --lmtp="unix:$DIR/lmtp2" --listen=127.0.0.1:0
  wait_until 10 grep -qs lmtp2 "$DIR/inboxd.out"
  equal "$(sed 's/127\.0\.0\.1:[0-9]*/PORT/' "$DIR/inboxd.out")" "inboxd: listening on http://PORT
inboxd: listening on unix:$DIR/http
inboxd: listening on http://PORT
inboxd: SMTP on unix:$DIR/smtp1
inboxd: SMTP on unix:$DIR/smtp2
inboxd: LMTP on unix:$DIR/lmtp1
inboxd: SMTP on unix:$DIR/smtp3
inboxd: LMTP on unix:$DIR/lmtp2"
  create_inbox "$ALICE" >/dev/null
  local url
  while read -r url; do
    equal "$(status_of -H "Authorization: Bearer $(<"$KEY_FILE")" "$url/api/v1/inbox")" 200
  done < <(sed -n 's/^inboxd: listening on http/http/p' "$DIR/inboxd.out")
  equal "$(status_of --unix-socket "$DIR/http" -H "Authorization: Bearer $(<"$KEY_FILE")" http://localhost/api/v1/inbox)" 200
  python3 - "$ALICE" "$DIR"/[sl]mtp* <<'END'
import smtplib, socket, sys
for path in sys.argv[2:]:
    client = smtplib.LMTP(path, timeout=30) if "lmtp" in path else smtplib.SMTP(timeout=30)
    if "lmtp" not in path:
        client.sock = socket.socket(socket.AF_UNIX)
        client.sock.connect(path)
        assert client.getreply()[0] == 220
    client.sendmail("a@x", sys.argv[1], f"Subject: {path}\r\n\r\n")
END
  equal "$(api GET /email | jq '[.[] | select(.subject | contains("mtp"))] | length')" 5
  stop_service
  missing "$DIR"/http "$DIR"/smtp{1,2,3} "$DIR"/lmtp{1,2}
}

@test "inboxd prints its address when it is ready" {
  start_service
  [[ $(cat "$DIR/inboxd.out") =~ ^inboxd:\ listening\ on\ http://127\.0\.0\.1:[0-9]+$ ]]
  curl -sS -o /dev/null "$SERVICE_URL"
}

@test "inboxd prints an IPv6 address in brackets, as in a URL" {
  grep -qs '^0*1 ' /proc/net/if_inet6 || skip "there is no IPv6 here"
  "$INBOXD" --data="$SERVICE" --listen='[::1]:0' --smtp=::1:0 >"$DIR/inboxd.out" 2>"$DIR/inboxd.log" 3>&- &
  SERVICE_PID=$!
  wait_until 10 grep -qs "SMTP on" "$DIR/inboxd.out"
  local url
  url=$(sed -n 's/^inboxd: listening on //p' "$DIR/inboxd.out")
  [[ $url =~ ^http://\[::1\]:[0-9]+$ ]]
  equal "$(status_of -g --noproxy '*' -H "Authorization: Bearer $(cat "$SERVICE/api-key")" "$url/api/v1/inbox")" 200
  grep -qx 'inboxd: SMTP on \[::1\]:[0-9]*' "$DIR/inboxd.out"
  equal "$(cat "$DIR/inboxd.log")" "" # no warning, because no other machine can reach the address
}

@test "a request with an unknown Host is refused with 421 unless --allow-host names it" {
  start_service --allow-host=mail.example --allow-host=post.example
  local host
  for host in mail.example post.example:8025 "$DOMAIN" localhost "127.0.0.1:$SERVICE_PORT"; do
    equal "$(status_of -H "Host: $host" "$SERVICE_URL/api/v1/inbox")" 401
  done
  equal "$(status_of -H "Host: evil.example" "$SERVICE_URL/api/v1/inbox")" 421
  holds "$DIR/body" '.detail | contains("--allow-host")'
  stop_service
  start_service
  equal "$(status_of -H "Host: mail.example" "$SERVICE_URL/api/v1/inbox")" 421
}

@test "inboxd warns if other machines can reach an address" {
  "$INBOXD" --data="$SERVICE" --listen=0.0.0.0:0 >"$DIR/inboxd.out" 2>"$DIR/inboxd.log" 3>&- &
  SERVICE_PID=$!
  wait_until 10 grep -q "listening on" "$DIR/inboxd.out"
  contains "$(cat "$DIR/inboxd.log")" "other machines can reach 0.0.0.0:"
  stop_service
  local address
  rm "$DIR/inboxd.out"
  "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 --smtp=0.0.0.0:0 >"$DIR/inboxd.out" 2>"$DIR/inboxd.log" 3>&- &
  SERVICE_PID=$!
  wait_until 10 grep -qs "SMTP on" "$DIR/inboxd.out"
  address=$(sed -n 's/^inboxd: SMTP on //p' "$DIR/inboxd.out")
  contains "$(cat "$DIR/inboxd.log")" "other machines can reach $address, where anybody may hand in mail"
  stop_service
  for address in 127.0.0.1:0 localhost:0 "unix:$DIR/socket"; do
    rm -f "$DIR/inboxd.out"
    "$INBOXD" --data="$SERVICE" --listen="$address" >"$DIR/inboxd.out" 2>"$DIR/inboxd.log" 3>&- &
    SERVICE_PID=$!
    wait_until 10 grep -qs "listening on" "$DIR/inboxd.out"
    equal "$(cat "$DIR/inboxd.log")" ""
    stop_service
  done
}

@test "the first start makes data and a key that only the owner can read, and later starts keep the key" {
  start_service
  equal "$(stat -c %a "$SERVICE" "$SERVICE/api-key" | tr '\n' ' ')" "700 600 "
  local key
  key=$(cat "$SERVICE/api-key")
  stop_service
  start_service
  equal "$(cat "$SERVICE/api-key")" "$key"
}

@test "only the owner can connect to a Unix socket of inboxd" {
  "$INBOXD" --data="$SERVICE" --listen="unix:$DIR/socket" >"$DIR/inboxd.out" 2>"$DIR/inboxd.log" 3>&- &
  SERVICE_PID=$!
  wait_until 10 grep -q "listening on unix:$DIR/socket" "$DIR/inboxd.out"
  equal "$(stat -c %a "$DIR/socket")" 600
  curl -sS --fail --unix-socket "$DIR/socket" -H "Authorization: Bearer $(cat "$SERVICE/api-key")" \
    http://localhost/api/v1/inbox | jq -e '. == []'
}

@test "a second service on the same data or port is refused" {
  start_service
  run -1 timeout 10 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0
  contains "$output" "another service is running on $SERVICE"
  run -1 timeout 10 "$INBOXD" --data="$DIR/other" --listen="127.0.0.1:$SERVICE_PORT"
  [ -n "$output" ]
  touch "$DIR/file"
  run -1 timeout 10 "$INBOXD" --data="$DIR/file/below" --listen=127.0.0.1:0
  contains "$output" "cannot open the data directory"
}

@test "a folder or symbolic link in place of the database is refused" {
  mkdir -m 700 "$SERVICE"
  mkdir "$SERVICE/inbox.sqlite3"
  run -1 timeout 10 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0
  contains "$output" "cannot open the database in $SERVICE: it is damaged, or none of this service's"
  rmdir "$SERVICE/inbox.sqlite3"
  ln -s "$DIR/elsewhere" "$SERVICE/inbox.sqlite3"
  run -1 timeout 10 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0
  contains "$output" "cannot open the database in $SERVICE: it is damaged, or none of this service's"
  missing "$DIR/elsewhere"
}

@test "inboxd closes the caller's descriptors, and opens /dev/null for closed standard ones" {
  exec 9>"$DIR/lock"
  flock 9
  start_service
  exec 9>&-
  wait_until 10 flock -n "$DIR/lock" true
  stop_service
  "$INBOXD" --data="$SERVICE" --listen="127.0.0.1:$SERVICE_PORT" <&- >&- 2>&- 3>&- {PAUSE}>&- &
  SERVICE_PID=$!
  wait_until 20 api GET /inbox
  equal "$(readlink "/proc/$SERVICE_PID/fd"/{0,1,2})" $'/dev/null\n/dev/null\n/dev/null'
}

@test "SIGINT ends inboxd with status 0, and SIGKILL loses no mail" {
  start_service
  create_inbox "$ALICE"
  stop_service
  start_service
  kill -INT "$SERVICE_PID"
  wait_until 10 process_is_gone "$SERVICE_PID"
  wait "$SERVICE_PID"
  start_service
  create_inbox "$BOB"
  send_from_elsewhere "$ALICE" "$BOB" "durable"
  stop_service KILL
  start_service
  has_received "$BOB" durable
}

@test "SIGTERM and SIGHUP let a request finish, and refuse new connections" {
  local pid number
  for number in 15 1; do
    start_service
    pid=$SERVICE_PID
    grep -qE '^Max core file size +1 +1 ' "/proc/$pid/limits"
    end_within_a_request "$number"
    wait_until 10 process_is_gone "$pid"
    wait "$pid"
    start_service
    inbox_id "$ALICE"
    stop_service
    rm -r "$SERVICE"
  done
}

end_within_a_request() { # SIGNAL
  python3 - "$SERVICE_PID" "$SERVICE_PORT" "$(cat "$KEY_FILE")" "$ALICE" "$1" <<'PYTHON'
import os, socket, sys, time
pid, port, key, address, number = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
body = b'{"id": null, "name": "alice", "email_address": "%s"}' % address.encode()
client = socket.create_connection(("127.0.0.1", port), timeout=10)
client.sendall(b"POST /api/v1/inbox/upsert HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\n"
               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (key.encode(), len(body)))
assert b" 100 " in client.recv(1000)
os.kill(pid, number)
until = time.monotonic() + 5
while True:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionResetError:
        pass # accepted just before the end
    except ConnectionRefusedError:
        break
    assert time.monotonic() < until, "new connections are still taken"
client.sendall(body)
assert b" 200 " in client.recv(10000)
PYTHON
}

@test "keys can be added, listed and revoked" {
  start_service
  local key id
  key=$("$INBOXD" key add --data="$SERVICE" | grep -oE '[A-Za-z0-9_-]{20,}' | tail -n 1)
  equal "$(status_of -H "Authorization: Bearer $key" "$SERVICE_URL/api/v1/inbox")" 200
  run -0 "$INBOXD" key list --data="$SERVICE"
  [[ $output != *"$key"* ]]
  id=$(grep -F "${key:0:8}" <<<"$output" | awk '{ print $1 }')
  run -0 "$INBOXD" key revoke "$id" --data="$SERVICE"
  equal "$(status_of -H "Authorization: Bearer $key" "$SERVICE_URL/api/v1/inbox")" 401
  run -1 "$INBOXD" key revoke no-such-id --data="$SERVICE"
  contains "$output" "no key in force has this id"
  run -1 "$INBOXD" key revoke "$id" --data="$DIR/none"
  contains "$output" "no data of a service"
  # A key that cannot be printed is an error.
  run -1 bash -c '"$1" key add --data="$2" >/dev/full' - "$INBOXD" "$SERVICE"
  contains "$output" "No space left"
}

# ---------------------------------------------------------------- the interface

@test "a request without the right key is answered with 401" {
  start_service
  local path key nearly
  key=$(cat "$KEY_FILE")
  nearly=${key%?}$([ "${key: -1}" = 0 ] && echo 1 || echo 0)
  for path in inbox email email/outbound email/x; do
    equal "$(status_of "$SERVICE_URL/api/v1/$path")" 401
    equal "$(status_of -H 'Authorization: Bearer wrong' "$SERVICE_URL/api/v1/$path")" 401
    equal "$(status_of -H "Authorization: Bearer $nearly" "$SERVICE_URL/api/v1/$path")" 401
    equal "$(status_of -H "Authorization: Basic $(base64 -w0 <"$KEY_FILE")" "$SERVICE_URL/api/v1/$path")" 401
  done
  jq -e '.detail // .error // .message' "$DIR/body"
}

@test "an upsert makes an inbox, and replaces all its settings" {
  start_service
  local id
  id=$(create_inbox "$ALICE")
  api GET /inbox | jq -e --arg id "$id" --arg alice "$ALICE" 'length == 1 and .[0].id == $id and
    .[0].email_address == $alice and .[0].allow_cc == true and (.[0] | has("updated_at"))'
  post /inbox/upsert "{\"id\": \"$id\", \"name\": \"A\", \"email_address\": \"$ALICE\", \"allow_cc\": false}" >"$DIR/reply"
  holds "$DIR/reply" '.id == $id and has("webhook_secret") and has("webhook_signing_secret_id")' --arg id "$id"
  api GET /inbox | jq -e '.[0].allow_cc == false'
  post /inbox/upsert "{\"id\": \"$id\", \"name\": \"A\", \"email_address\": \"$ALICE\"}" >/dev/null
  api GET /inbox | jq -e '.[0].allow_cc == true'
}

@test "only the first inbox gets a welcome email" {
  start_service
  create_inbox "$ALICE"
  create_inbox "$BOB"
  api GET "/email?inbox_ids=$(inbox_id "$ALICE")" | jq -e 'length == 1 and .[0].status == "valid"'
  api GET "/email?inbox_ids=$(inbox_id "$BOB")" | jq -e 'length == 0'
}

@test "a list of emails accepts inbox_ids repeated or as JSON, inbox_id, limit and search_term" {
  start_service
  local alice bob
  alice=$(create_inbox "$ALICE")
  bob=$(create_inbox "$BOB")
  send_many_from_elsewhere "$ALICE" "$BOB" "list" 5
  api GET "/email?inbox_ids=$alice&inbox_ids=$bob" | jq -e 'length == 6'
  api GET "/email" -G --data-urlencode "inbox_ids=[\"$alice\",\"$bob\"]" | jq -e 'length == 6'
  api GET "/email?inbox_id=$bob" | jq -e 'length == 5'
  api GET "/email?inbox_ids=$bob&limit=2" | jq -e 'length == 2'
  api GET "/email?search_term=list%203" | jq -e 'length == 1 and .[0].subject == "list 3"'
}

@test "a list of a hundred thousand emails is not built up in memory" {
  start_service
  local alice bob before after size
  alice=$(create_inbox "$ALICE")
  bob=$(create_inbox "$BOB")
  send_from_elsewhere "$ALICE" "$BOB" "one of many"
  stop_service
  copy_last_email 99999
  start_service
  before=$(awk '/VmHWM/ { print $2 }' "/proc/$SERVICE_PID/status")
  api GET "/email?inbox_ids=$bob&limit=1000000" -o "$DIR/list"
  after=$(awk '/VmHWM/ { print $2 }' "/proc/$SERVICE_PID/status")
  size=$(($(stat -c %s "$DIR/list") / 1024))
  equal "$(grep -o '"id": *"[^"]*"' "$DIR/list" | sort -u | wc -l)" 100000
  # The sanitizers' own memory is not the service's.
  [ $((after - before)) -lt $((size / 2)) ] || nm "$BUILD/inboxd" | grep -q __asan_init || fail "grew by $((after - before)) kB for $size kB"
  # The same for two inboxes, whose emails have to be sorted.
  api GET "/email?inbox_ids=$alice&inbox_ids=$bob&limit=1000000" -o "$DIR/list"
  after=$(awk '/VmHWM/ { print $2 }' "/proc/$SERVICE_PID/status")
  # The sanitizers' own memory is not the service's.
  [ $((after - before)) -lt $((size / 2)) ] || nm "$BUILD/inboxd" | grep -q __asan_init || fail "grew by $((after - before)) kB for $size kB"
}

@test "parallel large messages take at most three times their size in memory" {
  start_service --smtp="unix:$DIR/smtp"
  create_inbox "$ALICE" >/dev/null
  python3 - "$SERVICE_PID" "$DIR/smtp" "$SERVICE_URL" "$KEY_FILE" "$ALICE" >"$DIR/grown" <<'PYTHON'
import http.client, json, socket, sys, threading, urllib.parse
pid, smtp, url, key_file, alice = sys.argv[1:]
COUNT, SIZE = 12, 3_000_000
with open(key_file) as file:
    key = file.read().strip()

def peak():
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

def at_once(action):
    threads = [threading.Thread(target=action, args=(i,)) for i in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

answers = []
all_there = threading.Barrier(COUNT)
def come_in(i):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(smtp)
        file = client.makefile("rb")
        file.readline()
        for command in "HELO x", "MAIL FROM:<eve@x.example>", f"RCPT TO:<{alice}>", "DATA":
            client.sendall(command.encode() + b"\r\n")
            file.readline()
        client.sendall(f"Subject: {i}\r\n\r\n".encode() + b"All of it is text\r\n" * (SIZE // 19))
        all_there.wait(60)
        client.sendall(b".\r\n")
        answers.append(file.readline()[:3])

def post(path, body, content_type):
    client = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    client.request("POST", "/api/v1" + path, body, {"Authorization": "Bearer " + key, "Content-Type": content_type})
    return json.loads(client.getresponse().read())

before = peak()
at_once(come_in)
assert answers == [b"250"] * COUNT, answers
form = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(SIZE) + b"\r\n--B--\r\n"
attachment = post("/email/add-attachment-to-pool", form, "multipart/form-data; boundary=B")["id"]
message = json.dumps({"from_address": alice, "to_addresses": [{"address": alice}], "subject": "out", "plain_text": "",
                      "attachment_ids": [attachment]})
at_once(lambda i: answers.append(post("/email/send", message, "application/json")["id"]))
print(peak() - before, 3 * COUNT * SIZE // 1024)
PYTHON
  local grown max
  read -r grown max <"$DIR/grown"
  # The sanitizers' own memory is not the service's.
  [ "$grown" -lt "$max" ] || nm "$BUILD/inboxd" | grep -q __asan_init || fail "grew by $grown kB, not below $max kB"
}

@test "an unchanged list is answered with 304 to If-None-Match" {
  start_service
  local bob etag
  create_inbox "$ALICE"
  bob=$(create_inbox "$BOB")
  etag=$(api GET "/email?inbox_ids=$bob" -D - -o /dev/null | tr -d '\r' | sed -n 's/^etag: //Ip')
  [ -n "$etag" ]
  equal "$(status_of -H "Authorization: Bearer $(cat "$KEY_FILE")" -H "If-None-Match: $etag" \
    "$SERVICE_URL/api/v1/email?inbox_ids=$bob")" 304
  send_from_elsewhere "$ALICE" "$BOB" "changes it"
  equal "$(status_of -H "Authorization: Bearer $(cat "$KEY_FILE")" -H "If-None-Match: $etag" \
    "$SERVICE_URL/api/v1/email?inbox_ids=$bob")" 200
}

@test "an attachment of the pool arrives unchanged" {
  start_service
  create_inbox "$ALICE"
  create_inbox "$BOB"
  head -c 50000 /dev/urandom >"$DIR/a b.bin"
  local pool id
  pool=$(api POST /email/add-attachment-to-pool -F "file=@$DIR/a b.bin;type=application/x-test" | jq -er .id)
  post /email/send "{\"from_address\": \"$ALICE\", \"subject\": \"att\", \"plain_text\": \"x\",
    \"to_addresses\": [{\"address\": \"$BOB\", \"name\": null}], \"attachment_ids\": [\"$pool\"]}" | jq -e .id
  content "$BOB" att >"$DIR/content"
  holds "$DIR/content" '.attachments | length == 1 and .[0].filename == "a b.bin" and .[0].content_type == "application/x-test"'
  id=$(jq -r .id "$DIR/content")
  api GET "/email/$id/attachment/$(jq -r '.attachments[0].id' "$DIR/content")" | cmp - "$DIR/a b.bin"
  api GET "/email/$id/raw" >"$DIR/raw"
  grep -qi '^Subject: att' "$DIR/raw"
  grep -qi '^Content-Type: multipart/mixed;' "$DIR/raw"
}

@test "requests with the same idempotency key send one message, also after a restart" {
  start_service
  create_inbox "$ALICE"
  create_inbox "$BOB"
  local request="{\"from_address\": \"$ALICE\", \"subject\": \"once\", \"plain_text\": \"x\",
    \"to_addresses\": [{\"address\": \"$BOB\", \"name\": null}], \"idempotency_key\": \"key-1\"}"
  for _ in 1 2 3; do
    post /email/send "$request" | jq -r .id >>"$DIR/ids"
  done
  equal "$(sort -u "$DIR/ids" | wc -l)" 1
  has_received "$BOB" once 1
  stop_service
  start_service
  post /email/send "$request" >/dev/null
  has_received "$BOB" once 1
}

@test "a blocked email is hidden until it is marked valid" {
  start_service
  local bob id
  create_inbox "$ALICE"
  bob=$(create_inbox "$BOB")
  post /inbox/upsert "{\"id\": \"$bob\", \"name\": \"b\", \"email_address\": \"$BOB\",
    \"blocked_from_addresses\": {\"addresses\": [\"$ALICE\"], \"domains\": []}}" >/dev/null
  send_from_elsewhere "$ALICE" "$BOB" "blocked"
  api GET "/email?inbox_ids=$bob" | jq -e 'length == 0'
  id=$(api GET "/email?inbox_ids=$bob&valid_only=false" | jq -er '.[0] | select(.status == "blocked_from_address").id')
  equal "$(status_of -H "Authorization: Bearer $(cat "$KEY_FILE")" "$SERVICE_URL/api/v1/email/$id")" 404
  api POST "/email/$id/mark/true" | jq -e '.user_mark_status == true'
  api GET "/email?inbox_ids=$bob" | jq -e 'length == 1'
  api GET "/email/$id" | jq -e '.subject == "blocked"'
}

@test "too large a file gets 413, and the eleventh email of a free day 429 with Retry-After" {
  start_service --tier=free
  create_inbox "$ALICE"
  create_inbox "$BOB"
  head -c 10000001 /dev/zero >"$DIR/large"
  equal "$(status_of -H "Authorization: Bearer $(cat "$KEY_FILE")" -F "file=@$DIR/large" \
    "$SERVICE_URL/api/v1/email/add-attachment-to-pool")" 413
  send_many_from_elsewhere "$ALICE" "$BOB" "day" 10
  equal "$(status_of -D "$DIR/headers" -H "Authorization: Bearer $(cat "$KEY_FILE")" -H 'Content-Type: application/json' -d \
    "{\"from_address\": \"$ALICE\", \"subject\": \"x\", \"plain_text\": \"x\", \"to_addresses\": [{\"address\": \"$BOB\"}]}" \
    "$SERVICE_URL/api/v1/email/send")" 429
  grep -qi '^retry-after: [0-9]' "$DIR/headers"
}

@test "a paid day has 1,000 emails" {
  start_service --tier=paid
  create_inbox "$ALICE"
  send_many_from_elsewhere "$ALICE" "$ALICE" "day" 1
  sqlite3 -cmd '.timeout 30000' "$SERVICE/inbox.sqlite3" "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 998)
    INSERT INTO outbound (id, inbox, message, date_ms, record)
    SELECT 'copy ' || i, inbox, message, date_ms, record FROM outbound, n"
  send_many_from_elsewhere "$ALICE" "$ALICE" "last" 1
  run ! send_many_from_elsewhere "$ALICE" "$ALICE" "late" 1
  contains "$output" 429
}

@test "an invalid request gets a 4xx with a message, and sends nothing" {
  start_service
  create_inbox "$ALICE"
  local request code
  while read -r code request; do
    equal "$(status_of -H "Authorization: Bearer $(cat "$KEY_FILE")" -H 'Content-Type: application/json' -d "$request" \
      "$SERVICE_URL/api/v1/email/send")" "$code" || fail "$request: $(cat "$DIR/body")"
    jq -e '.detail' "$DIR/body" >/dev/null
  done <<TABLE
422 {}
422 {"from_address": "$ALICE"}
422 {"from_address": 7, "subject": "x", "plain_text": "x", "to_addresses": [{"address": "$BOB"}]}
422 {"from_address": "$ALICE", "subject": "x", "plain_text": "x", "to_addresses": []}
422 {"from_address": "$ALICE", "subject": "x", "plain_text": "x", "to_addresses": [{"name": "x"}]}
422 not json at all
TABLE
  equal "$(status_of -X DELETE -H "Authorization: Bearer $(cat "$KEY_FILE")" "$SERVICE_URL/api/v1/inbox")" 405
  equal "$(status_of -H "Authorization: Bearer $(cat "$KEY_FILE")" "$SERVICE_URL/api/v1/nothing")" 404
  api GET /email/outbound | jq -e 'length == 0'
}

