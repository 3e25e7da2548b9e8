#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Programs send mail to inboxd by SMTP and LMTP, and it appears in the mount. tests/unit/mail/test_smtp_session.c tests
# the grammar.

load support

teardown() {
  stop_all
}

start_catcher() {
  start_service --smtp=127.0.0.1:0
  SMTP_PORT=$(sed -n 's/^inboxd: SMTP on 127\.0\.0\.1://p' "$DIR/inboxd.out")
}

caught() { # ADDRESS SUBJECT
  api GET "/email/$(received "$1" "$2" | jq -er '.[0].id')/raw"
}

# Python with smtplib, connected: `smtp` is the client.
smtplib() { # ARGUMENT... <PROGRAM
  python3 -c 'import os, signal, smtplib, sys
smtp = smtplib.SMTP("127.0.0.1", int(sys.argv[1]), timeout=30)
exec(sys.stdin.read())' "$SMTP_PORT" "$@"
}

has_text() { # ADDRESS TEXT
  grep -qs "$2" "$MOUNT/inboxes/$1"/*/body.txt
}

@test "a message from an application creates the inbox of its recipient" {
  start_catcher
  start_mount --poll-interval=1
  printf 'Subject: Welcome\n\nYour code is 4711.\n' | curl -sS "smtp://127.0.0.1:$SMTP_PORT" --mail-from app@example.com \
    --mail-rcpt customer@example.org -T -
  wait_until 20 has_text customer@example.org "code is 4711"
  holds "$(mounted customer@example.org Welcome)" '.from_address.address == "app@example.com" and .status == "valid"'
  equal "$(ls "$MOUNT/inboxes")" customer@example.org
}

@test "each recipient gets the message once, and the next message goes to the same inboxes" {
  start_catcher
  smtplib <<'END'
everybody = ["ann@example.org", "Bob@example.com", '"a b"@x', "postmaster", "ann@example.org"]
for i in range(2):
    smtp.sendmail("app@x", everybody, f"To: ann@example.org\r\nCc: bob@example.com\r\nSubject: {i}\r\n\r\n")
smtp.sendmail("", ["BOB@EXAMPLE.COM"], "Subject: bounce\r\n\r\n")
END
  equal "$(api GET /inbox | jq -r '.[].email_address' | sort | tr '\n' ' ')" \
    "\"a b\"@x Bob@example.com ann@example.org postmaster@$DOMAIN "
  local address
  for address in '"a b"@x' Bob@example.com ann@example.org "postmaster@$DOMAIN"; do
    equal "$(received_count "$address" 0)" 1
    equal "$(received_count "$address" 1)" 1
  done
  equal "$(received Bob@example.com bounce | jq -r '.[0].from_address.address')" MAILER-DAEMON@EXAMPLE.COM
}

@test "bytes of all kinds arrive unchanged" {
  start_catcher
  smtplib "$DIR" <<'END'
from email.message import EmailMessage
texts = {
    "dots": b".\r\n..\r\n.x\r\n\r\n.\r\n",
    "feeds": b"a\n.\nMAIL FROM:<e@x>\r\n.\rb\r\rc\n",
    "bytes": bytes(range(1, 256)) + b"\0\r\n",
    "long": b"x" * 1000000 + b"\r\n",
}
smtp.ehlo()
for name, text in texts.items():
    message = b"Subject: " + name.encode() + b"\r\n\r\n" + text
    open(f"{sys.argv[2]}/{name}", "wb").write(message)
    smtp.mail("a@x", ["BODY=8BITMIME", f"SIZE={len(message)}"])
    smtp.rcpt("b@y")
    smtp.docmd("DATA")
    # What smtplib sends, it makes lines of before. The dots are doubled, as RFC 5321 wants it.
    smtp.send((b"\r\n" + message).replace(b"\r\n.", b"\r\n..")[2:])
    smtp.send(b".\r\n" if message.endswith(b"\r\n") else b"\r\n.\r\n")
    assert smtp.getreply()[0] == 250
message = EmailMessage()
message["From"], message["To"], message["Subject"] = "jörg@exämple.org", "änne@exämple.org", "grüße"
smtp.send_message(message)
END
  printf '\r\n' >>"$DIR/feeds"
  local name
  for name in dots feeds bytes long; do
    caught b@y "$name" | cmp - "$DIR/$name"
  done
  equal "$(received_count änne@exämple.org grüße)" 1
}

@test "swaks delivers with and without pipelining" {
  needs swaks
  start_catcher
  local options=(--server "127.0.0.1:$SMTP_PORT" --silent 1 --from a@x --to "b@y,c@z" --body $'.\n..\n.dot')
  swaks "${options[@]}" --h-Subject plainly
  swaks "${options[@]}" --h-Subject pipelined --pipeline
  swaks "${options[@]}" --h-Subject old --protocol SMTP
  local subject
  for subject in plainly pipelined old; do
    equal "$(content c@z "$subject" | jq -r '.plain_text | rtrimstr("\n")' | tr -d '\r' | head -n 3)" $'.\n..\n.dot'
  done
  run -29 swaks "${options[@]}" --tls
}

# A certificate of localhost, its own authority, and an inboxd that has it.
start_catcher_with_tls() { # ARGUMENT...
  needs openssl
  openssl req -x509 "${NEW_KEY[@]}" -days 30 -subj "/CN=localhost" -addext subjectAltName=DNS:localhost \
    -keyout "$DIR/tls.key" -out "$DIR/tls.crt" 2>/dev/null
  chmod 600 "$DIR/tls.key"
  start_service --smtp=127.0.0.1:0 --tls-cert="$DIR/tls.crt" --tls-key="$DIR/tls.key" "$@"
  SMTP_PORT=$(sed -n 's/^inboxd: SMTP on 127\.0\.0\.1://p' "$DIR/inboxd.out")
}

@test "a program that insists on user and password logs in with any, and nobody stores them" {
  needs swaks
  start_catcher
  smtplib <<'END'
for mechanism in ["plain", "login", "cram_md5"]:
    smtp.ehlo()
    smtp.user, smtp.password = "somebody", "Not-To-Be-Kept"
    code, _ = smtp.auth(mechanism.upper().replace("_", "-"), getattr(smtp, "auth_" + mechanism))
    assert code == 235
    smtp.sendmail("a@x", "b@y", f"Subject: {mechanism}\r\n\r\n")
    smtp.quit()
    smtp.connect("127.0.0.1", int(sys.argv[1]))
smtp.login("somebody", "Not-To-Be-Kept")
smtp.sendmail("a@x", "b@y", "Subject: login()\r\n\r\n")
END
  printf 'Subject: curl\n\n' | curl -sS "smtp://127.0.0.1:$SMTP_PORT" --user somebody:Not-To-Be-Kept --mail-from a@x \
    --mail-rcpt b@y -T -
  local mechanism subject
  for mechanism in PLAIN LOGIN CRAM-MD5; do
    swaks --server "127.0.0.1:$SMTP_PORT" --silent 1 --from a@x --to b@y --auth "$mechanism" --auth-user somebody \
      --auth-password Not-To-Be-Kept --h-Subject "swaks $mechanism"
  done
  for subject in plain login cram_md5 'login()' curl 'swaks PLAIN' 'swaks LOGIN' 'swaks CRAM-MD5'; do
    equal "$subject: $(received_count b@y "$subject")" "$subject: 1"
  done
  run -1 grep -rsaF -e Not-To-Be-Kept -e "$(printf Not-To-Be-Kept | base64)" "$SERVICE" "$DIR/inboxd.log" "$DIR/inboxd.out"
}

@test "a password is wiped from memory after the login" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  start_catcher_with_tls
  smtplib "$SERVICE_PID" <<'END'
import base64, re, ssl
def memory():
    areas = []
    with open(f"/proc/{sys.argv[2]}/mem", "rb") as memory:
        for line in open(f"/proc/{sys.argv[2]}/maps"):
            begin, end, mode = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            size = int(end, 16) - int(begin, 16)
            if mode.startswith("rw") and "[v" not in line and size < 1 << 28: # larger ones are a sanitizer's
                memory.seek(int(begin, 16))
                areas.append(memory.read(size))
    return b"".join(areas)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
plain, login, token = [b"\0user\0Not-To-Be-Kept"], [b"user", b"Not-To-Be-Kept"], [b"Bearer " + b"-" * 1000 + b"Not-To-Be-Kept"]
for mechanism, responses, has_tls in [("PLAIN", plain, False), ("LOGIN", login, False), ("XOAUTH2", token, True)]:
    if has_tls:
        smtp.starttls(context=context)
    smtp.ehlo()
    smtp.docmd("AUTH", mechanism)
    for response in responses:
        response = base64.b64encode(response)
        code, _ = smtp.docmd(response.decode())
    assert code == 235
    now = memory()
    assert response not in now and response[8:] not in now and response[-20:] not in now
    smtp.mail("to-be-found@x")
    assert b"to-be-found@x" in memory()
    smtp.quit()
    smtp.connect("127.0.0.1", int(sys.argv[1]))
END
}

@test "a program that insists on TLS gets it by STARTTLS, in SMTP and in LMTP" {
  needs swaks
  start_catcher_with_tls --lmtp=127.0.0.1:0
  smtplib "$DIR/tls.crt" "$(sed -n 's/^inboxd: LMTP on 127\.0\.0\.1://p' "$DIR/inboxd.out")" <<'END'
import ssl
trusting = ssl.create_default_context(cafile=sys.argv[2])
message = "Subject: starttls\r\n\r\n" + "x" * 70 + "\r\n" * 100000
smtp = smtplib.SMTP("localhost", int(sys.argv[1]), timeout=30)
smtp.starttls(context=trusting)
assert not smtp.has_extn("starttls")
smtp.login("somebody", "secret")
smtp.sendmail("a@x", "b@y", message)
smtp.sendmail("a@x", "b@y", "Subject: second\r\n\r\n")
smtp.quit()
lmtp = smtplib.LMTP("localhost", int(sys.argv[3]), timeout=30)
lmtp.starttls(context=trusting)
assert not lmtp.has_extn("auth")
assert lmtp.sendmail("a@x", ["b@y", "c@z"], "Subject: by LMTP\r\n\r\n").keys() == {"c@z"}
END
  printf 'Subject: curl\n\n' | curl -sS --ssl-reqd --cacert "$DIR/tls.crt" "smtp://localhost:$SMTP_PORT" --user u:p \
    --mail-from a@x --mail-rcpt b@y -T -
  swaks --server "127.0.0.1:$SMTP_PORT" --silent 1 --from a@x --to b@y --tls --auth --auth-user u --auth-password p \
    --h-Subject swaks
  local subject
  for subject in starttls second 'by LMTP' curl swaks; do
    equal "$subject: $(received_count b@y "$subject")" "$subject: 1"
  done
  run -60 curl -sS --ssl-reqd "smtp://localhost:$SMTP_PORT" --mail-from a@x --mail-rcpt b@y -T /dev/null
  wait_until 10 grep -q 'TLS with a client that brings mail failed: .*unknown ca' "$DIR/inboxd.log"
}

@test "commands sent in the clear after STARTTLS are dropped before the handshake" {
  start_catcher_with_tls
  smtplib <<'END'
import socket, ssl
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def hear(end):
    heard = b""
    while end not in heard:
        piece = client.recv(4096)
        assert piece, heard
        heard += piece
    return heard
hear(b"220 ")
client.sendall(b"EHLO before\r\nMAIL FROM:<before@x>\r\nRSET\r\nSTARTTLS\r\nEHLO injected\r\nMAIL FROM:<injected@x>\r\n"
               b"RCPT TO:<injected@x>\r\nDATA\r\ninjected\r\n.\r\n")
hear(b"220 2.0.0 ")
client = context.wrap_socket(client)
client.sendall(b"RCPT TO:<b@y>\r\n")
assert hear(b"\n").startswith(b"503 "), "the session is not a new one"
client.sendall(b"EHLO me\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\nSubject: good\r\n\r\n.\r\nQUIT\r\n")
assert hear(b"221 ").count(b"250 2.0.0 ") == 1
END
  equal "$(received_count b@y good)" 1
  equal "$(api GET /inbox | jq -c '[.[].email_address]')" '["b@y"]'
}

@test "clients that stall in the handshake delay neither others nor the end" {
  start_catcher_with_tls
  local pid=$SERVICE_PID
  smtplib "$pid" <<'END'
import socket, ssl
stalled = []
for i in range(80): # more than are served at once
    client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    client.sendall(b"EHLO me\r\nSTARTTLS\r\n" + b"\x16\x03\x01\x02\x00"[:i % 6])
    stalled.append(client)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
smtp = smtplib.SMTP("localhost", int(sys.argv[1]), timeout=30)
smtp.starttls(context=context)
smtp.sendmail("a@x", "b@y", "Subject: through\r\n\r\n")
os.kill(int(sys.argv[2]), signal.SIGTERM)
for client in stalled:
    while client.recv(4096):
        pass
END
  wait_until 10 process_is_gone "$pid"
  wait "$pid"
  SERVICE_PID=
  start_service
  equal "$(received_count b@y through)" 1
}

@test "a certificate or key that cannot be used is refused with a reason" {
  start_catcher_with_tls
  stop_service
  local arguments=(--listen=127.0.0.1:0 --data="$SERVICE" --smtp=127.0.0.1:0)
  run -2 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/tls.crt"
  contains "$output" "--tls-cert and --tls-key need each other"
  run -2 "$INBOXD" --listen=127.0.0.1:0 --data="$SERVICE" --tls-cert="$DIR/tls.crt" --tls-key="$DIR/tls.key"
  contains "$output" "need --smtp or --lmtp"
  run -2 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/none" --tls-key="$DIR/tls.key"
  contains "$output" "the certificate $DIR/none: No such file or directory"
  run -2 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/tls.key" --tls-key="$DIR/tls.key"
  contains "$output" "the certificate $DIR/tls.key: no start line"
  run -1 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/tls.crt" --tls-key="$DIR/none"
  contains "$output" "cannot read the key file $DIR/none: No such file or directory"
  run -2 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/tls.crt" --tls-key=<(cat "$DIR/tls.crt")
  contains "$output" "holds no key in PEM that is not encrypted"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 2>/dev/null >"$DIR/other.key"
  chmod 600 "$DIR/other.key"
  run -2 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/tls.crt" --tls-key="$DIR/other.key"
  contains "$output" "the key in $DIR/other.key is not that of the certificate $DIR/tls.crt: key values mismatch"
  openssl ec -aes128 -passout pass:x -in "$DIR/tls.key" 2>/dev/null >"$DIR/other.key"
  run -2 timeout 10 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/tls.crt" --tls-key="$DIR/other.key"
  contains "$output" "holds no key in PEM that is not encrypted"
  chmod 640 "$DIR/tls.key"
  run -1 "$INBOXD" "${arguments[@]}" --tls-cert="$DIR/tls.crt" --tls-key="$DIR/tls.key"
  contains "$output" "chmod 600 $DIR/tls.key"
}

@test "mail that was answered with 250 survives kill -9" {
  local i
  for i in {1..3}; do
    start_catcher
    smtplib "$SERVICE_PID" "$i" <<'END'
smtp.sendmail("a@x", [f"b{sys.argv[3]}@y", "all@y"], f"Subject: {sys.argv[3]}\r\n\r\ntext\r\n")
os.kill(int(sys.argv[2]), signal.SIGKILL)
END
    wait "$SERVICE_PID" || true
    SERVICE_PID=
  done
  start_catcher
  for i in {1..3}; do
    equal "$(received_count "b$i@y" "$i")" 1
    equal "$(received_count all@y "$i")" 1
  done
}

@test "SIGTERM lets running transfers finish, in SMTP and in LMTP" {
  start_service --smtp=127.0.0.1:0 --lmtp="unix:$DIR/lmtp"
  SMTP_PORT=$(sed -n 's/^inboxd: SMTP on 127\.0\.0\.1://p' "$DIR/inboxd.out")
  create_inboxes "$ALICE"
  local pid=$SERVICE_PID
  python3 - "$pid" "$SMTP_PORT" "$DIR/lmtp" "$ALICE" <<'END'
import os, signal, smtplib, sys
pid, port, path, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
clients = [smtplib.SMTP("127.0.0.1", port, timeout=10), smtplib.LMTP(path, timeout=10)]
for client in clients:
    client.ehlo_or_helo_if_needed()
    client.mail("a@x")
    client.rcpt(address)
    assert client.docmd("DATA")[0] == 354
    client.send(b"Subject: under way\r\n")
idle = smtplib.SMTP("127.0.0.1", port, timeout=10)
os.kill(pid, signal.SIGTERM)
try: # until it is told that the service is ending
    while idle.noop()[0] == 250:
        pass
except smtplib.SMTPServerDisconnected:
    pass
for client in clients:
    client.send(f"Message-ID: <{client.__class__.__name__}@x>\r\n\r\nHello.\r\n.\r\n".encode())
    assert client.getreply()[0] == 250
END
  wait_until 10 process_is_gone "$pid"
  wait "$pid"
  SERVICE_PID=
  start_service
  equal "$(received_count "$ALICE" "under way")" 2
}

@test "LMTP delivers into existing inboxes only" {
  start_service --lmtp="unix:$DIR/lmtp"
  create_inboxes "$ALICE" "$BOB"
  start_mount
  equal "$(stat -c %a "$DIR/lmtp")" 600
  python3 - "$DIR/lmtp" "$ALICE" "$BOB" "nobody@$DOMAIN" <<'END'
import smtplib, sys
lmtp = smtplib.LMTP(sys.argv[1], timeout=30)
refused = lmtp.sendmail("a@x", sys.argv[2:], b"Subject: letter\r\n\r\nHello.\r\n")
assert list(refused) == [sys.argv[4]] and refused[sys.argv[4]][0] == 550, refused
END
  refresh
  wait_until 60 has_text "$ALICE" "Hello."
  equal "$(received_count "$BOB" letter)" 1
  equal "$(api GET /inbox | jq length)" 2
  stop_service
  missing "$DIR/lmtp"
}

@test "mail for user+tag goes to the inbox of user, unless an inbox has the whole address" {
  start_service --smtp=127.0.0.1:0 --lmtp="unix:$DIR/lmtp"
  SMTP_PORT=$(sed -n 's/^inboxd: SMTP on 127\.0\.0\.1://p' "$DIR/inboxd.out")
  create_inboxes "$ALICE" "$BOB" "bob+own@$DOMAIN"
  smtplib "alice+smtp@$DOMAIN" "bob+own@$DOMAIN" new+tag@example.org <<'EOF'
smtp.sendmail("a@x", sys.argv[2:], "Subject: by smtp\r\n\r\n")
EOF
  python3 - "$DIR/lmtp" "ALICE+a+b@$DOMAIN" "bob+own@$DOMAIN" "+x@$DOMAIN" "\"alice+x\"@$DOMAIN" "nobody+x@$DOMAIN" <<'EOF'
import smtplib, sys
refused = smtplib.LMTP(sys.argv[1], timeout=30).sendmail("a@x", sys.argv[2:], b"Subject: by lmtp\r\n\r\n")
assert list(refused) == sys.argv[4:], refused
EOF
  printf 'To: alice+1@%s\nSubject: by deliver\nMessage-ID: <1@x>\n\n' "$DOMAIN" >"$DIR/letter"
  "$INBOXD" deliver --data="$SERVICE" -- "alice+1@$DOMAIN" "alice+2@$DOMAIN" "$ALICE" <"$DIR/letter"
  run -67 "$INBOXD" deliver --data="$SERVICE" -- "carol+1@$DOMAIN" <"$DIR/letter"
  jq -n --arg b "$BOB" --arg to "alice+rest@$DOMAIN" \
    '{from_address: $b, to_addresses: [{address: $to, name: null}], subject: "by REST", plain_text: "x"}' |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
  local subject
  for subject in "by smtp" "by lmtp" "by deliver" "by REST"; do
    equal "$subject: $(received_count "$ALICE" "$subject")" "$subject: 1"
  done
  equal "$(received_count "bob+own@$DOMAIN" "by smtp") $(received_count "bob+own@$DOMAIN" "by lmtp")" "1 1"
  equal "$(received_count "$BOB" "by smtp") $(received_count "$BOB" "by lmtp")" "0 0"
  equal "$(received_count new+tag@example.org "by smtp")" 1
}

@test "inboxd refuses an address that it cannot listen on, and warns if anybody may hand in mail" {
  run -2 "$INBOXD" --listen=127.0.0.1:0 --data="$SERVICE" --smtp=localhost
  contains "$output" "numeric address"
  start_catcher
  run -1 "$INBOXD" --listen=127.0.0.1:0 --data="$DIR/other" --lmtp="127.0.0.1:$SMTP_PORT"
  contains "$output" "cannot listen on 127.0.0.1:$SMTP_PORT: Address already in use"
  stop_service
  start_service --lmtp=0.0.0.0:0
  contains "$(cat "$DIR/inboxd.log")" "anybody may hand in mail"
}
