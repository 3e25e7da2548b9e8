#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Mail that comes into inboxd by SMTP, from programs that send it, and by LMTP, and so into the mount. The grammar has
# tests of its own (tests/unit/mail/test_smtp_session.c).

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

@test "what an application sends is found in its recipient's folder, which nobody made" {
  start_catcher
  start_mount --poll-interval=1
  printf 'Subject: Welcome\n\nYour code is 4711.\n' | curl -sS "smtp://127.0.0.1:$SMTP_PORT" --mail-from app@example.com \
    --mail-rcpt customer@example.org -T -
  wait_until 20 has_text customer@example.org "code is 4711"
  holds "$(mounted customer@example.org Welcome)" '.from_address.address == "app@example.com" and .status == "valid"'
  equal "$(ls "$MOUNT/inboxes")" customer@example.org
}

@test "each recipient has it once, and the next message goes into the same inboxes" {
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

@test "bytes of all kinds arrive as they were" {
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

@test "swaks sends, with pipelining and without" {
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
  run -28 swaks "${options[@]}" --auth PLAIN --auth-user u --auth-password p
  run -29 swaks "${options[@]}" --tls
}

@test "what was answered with 250 is there after a kill -9" {
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

@test "SIGTERM lets messages under way come to their end, by SMTP and by LMTP" {
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

@test "by LMTP mail comes into inboxes that exist, and no others" {
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

@test "mail for user+tag comes to the inbox of user, by every door, unless an inbox has the whole address" {
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

@test "where mail cannot be taken, or anybody may bring it, that is said" {
  run -2 "$INBOXD" --listen=127.0.0.1:0 --data="$SERVICE" --smtp=localhost
  contains "$output" "numeric address"
  start_catcher
  run -1 "$INBOXD" --listen=127.0.0.1:0 --data="$DIR/other" --lmtp="127.0.0.1:$SMTP_PORT"
  contains "$output" "cannot listen on 127.0.0.1:$SMTP_PORT: Address already in use"
  stop_service
  start_service --lmtp=0.0.0.0:0
  contains "$(cat "$DIR/inboxd.log")" "anybody may hand in mail"
}
