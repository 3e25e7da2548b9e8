#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# inboxd's relay: mail for recipients elsewhere goes to another server (tests/mount/smtp_server.py). It is tried again
# after a temporary refusal or none at all, and bounces after a final one.

load support
load other_side

CAROL=carol@x.example
DAN=dan@x.example

teardown() {
  stop_other_side
  stop_all
}

start_smtp() { # [OPTION...]
  start_other_side smtp_server.py "$@"
}

start_relaying() { # [OPTION...]
  start_service --relay="smtp://127.0.0.1:$OTHER_PORT" "$@"
}

# The other server, inboxd and Alice's inbox.
start_all() {
  start_smtp
  start_relaying
  create_inbox "$ALICE" >/dev/null
}

# Sends from Alice: a message of this subject, with the recipients in "To", and the text in BODY.
send() { # SUBJECT RECIPIENT...
  jq -n --arg from "$ALICE" --arg subject "$1" --arg body "${BODY:-Hello.}" '$ARGS.positional | {from_address: $from, subject: $subject,
      plain_text: $body, to_addresses: map({address: ., name: null})}' --args "${@:2}" |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
}

# What the other server took: a line of JSON for each message.
taken() { # SUBJECT
  [ -e "$OTHER/messages" ] || return 0
  jq -c --arg subject "$1" 'select(.text | contains("\nSubject: " + $subject + "\r\n"))' "$OTHER/messages"
}

is_taken() { # SUBJECT COUNT
  equal "$(taken "$1" | wc -l)" "$2"
}

has_status() { # SUBJECT STATUS
  api GET /email/outbound |
    jq -e --arg subject "$1" --arg status "$2" '[.[] | select(.subject == $subject)][0].status == $status'
}

# Attempts so far, by how far they came.
steps() { # STEP
  touch "$OTHER/steps"
  grep -cx "$1" "$OTHER/steps" || true
}

has_steps() { # STEP COUNT
  [ "$(steps "$1")" -ge "$2" ]
}

# Changes what waits: SET is a list of assignments in SQL.
change_waiting() { # SET
  sqlite3 -cmd '.timeout 20000' "$SERVICE/inbox.sqlite3" "UPDATE outgoing SET $1"
}

# How often the recipient was tried in vain.
attempts() { # ADDRESS
  sqlite3 "$SERVICE/inbox.sqlite3" "SELECT attempts FROM outgoing WHERE address = '$1' LIMIT 1"
}

has_attempts() { # ADDRESS COUNT
  [ "$(attempts "$1")" -ge "$2" ]
}

# inboxd takes no connections any more.
is_refused() {
  ! (api GET /inbox)
}

nothing_waits() {
  equal "$(waiting)" 0
}

bounce() { # SUBJECT
  content "$ALICE" "Undelivered: $1" | jq -er .plain_text
}

@test "mail for another server goes out whole and becomes sent; mail for a local inbox stays" {
  start_all
  create_inbox "$BOB" >/dev/null
  BODY=$'Hello.\n.\nEnd.' send both "$BOB" "$CAROL" "$DAN"
  wait_until 20 has_status both sent
  has_received "$BOB" both
  is_taken both 2
  taken both | jq -se --arg alice "$ALICE" --arg domain "$DOMAIN" --arg carol "$CAROL" --arg dan "$DAN" '
    (map(.recipients) | sort) == [[$carol], [$dan]] and all(.[]; .sender == $alice and .greeting == $domain
      and .login == null and (.text | test("\r\n\r\nHello\\.\r\n\\.\r\nEnd\\.")))'
  equal "$(waiting)" 0
}

@test "a long text of dots arrives whole" {
  start_all
  BODY=$(yes . | head -n 60000) send dots "$CAROL"
  wait_until 20 has_status dots sent
  equal "$(taken dots | jq -r .text | tr -d '\r' | grep -cx '\.')" 60000
}

# Forwards an email whose text (printf's) comes by SMTP.
forward() { # SUBJECT TEXT
  local id
  # shellcheck disable=SC2059 # a format
  printf "$2" | "$INBOXD" deliver --data="$SERVICE" -f eve@x.example "$ALICE"
  id=$(api GET /email | jq -r '.[0].id')
  jq -n --arg from "$ALICE" --arg subject "$1" --arg id "$id" --arg to "$CAROL" '{from_address: $from, subject: $subject,
      plain_text: "See below.", existing_email_id: $id, message_type: "forward", to_addresses: [{address: $to}]}' |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
}

@test "an enclosed message goes out unchanged, or as a file if no server accepts its lines" {
  start_all
  forward eight 'Subject: für\r\nFrom: rené@x.example\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n.\r\n'
  forward long 'Subject: l\r\n\r\n%05000d\r\n'
  forward binary 'Subject: b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: binary\r\n\r\n\0\1\r\xff\n.\r\n'
  forward signed 'Subject: s\r\nContent-Type: multipart/signed; boundary=S\r\n\r\n--S\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n--S\r\nContent-Type: application/pgp-signature\r\n\r\nx\r\n--S--\r\n'
  wait_until 20 has_status eight sent
  wait_until 20 has_status long sent
  wait_until 20 has_status binary sent
  wait_until 20 has_status signed sent
  python3 - "$OTHER/messages" <<'END'
import email, email.policy, json, re, sys

messages = [json.loads(line)["text"] for line in open(sys.argv[1], encoding="utf-8")]
for text in messages:
    assert "\0" not in text, text
    assert not re.search("\r(?!\n)|(?<!\r)\n", text), text
    assert max(map(len, text.split("\r\n"))) <= 998, text
eight, long, binary, signed = (email.message_from_bytes(text.encode("utf-8", "surrogateescape"),
    policy=email.policy.default).get_payload(1) for text in messages)
assert eight.get_content_type() == "message/rfc822", eight
assert eight.get_payload(0).get_payload(decode=True) == "Grüße\r\n.\r\n".encode(), eight
assert long.get_filename() == "forwarded.eml" and long.get_payload(decode=True).endswith(b"000\r\n"), long
assert binary.get_payload(decode=True).endswith(b"\0\1\r\xff\n.\r\n"), binary
assert signed.get_content_type() == "message/rfc822", signed
assert "\r\n\r\nGrüße\r\n--S\r\n" in messages[3], messages[3]
END
}

@test "a domain beyond ASCII goes out in ASCII, and a local part unchanged" {
  start_all
  plan "rcpt=dörte@xn--bcher-kva.example 1 550 5.6.7 No SMTPUTF8"
  send domain "dörte@bücher.example" "carol@bücher.example" "$DAN"
  wait_until 20 has_status domain failed
  wait_until 20 is_taken domain 2
  equal "$(taken domain | jq -r '.recipients[]' | sort)" $'carol@xn--bcher-kva.example\n'"$DAN"
  contains "$(taken domain | head -n 1 | jq -r .text)" $' carol@xn--bcher-kva.example, '"$DAN"$'\r\n'
  contains "$(bounce domain)" "Final-Recipient: rfc822; dörte@bücher.example"
  contains "$(bounce domain)" "550 5.6.7 No SMTPUTF8"
  send taken "dörte@bücher.example"
  wait_until 20 has_status taken sent
  equal "$(taken taken | jq -r '.recipients[]')" "dörte@xn--bcher-kva.example"
  contains "$(taken taken | jq -r .text)" $'\nTo: dörte@xn--bcher-kva.example\r\n'
}

@test "a Bcc recipient gets the message, and nobody sees the address" {
  start_all
  jq -n --arg from "$ALICE" --arg to "$CAROL" --arg bcc "$DAN" '{from_address: $from, subject: "hidden",
      plain_text: "x", to_addresses: [{address: $to, name: null}], bcc_addresses: [{address: $bcc, name: null}]}' |
    api POST /email/send -H 'Content-Type: application/json' -d @- >/dev/null
  wait_until 20 has_status hidden sent
  equal "$(taken hidden | jq -r '.recipients[0]' | sort)" "$CAROL"$'\n'"$DAN"
  equal "$(jq -r .text "$OTHER/messages" | grep -ci "^bcc:")" 0
  equal "$(taken hidden | jq -r .text | grep -c "$DAN")" 0
}

@test "after a temporary refusal at any step only the recipients without an answer are tried again" {
  start_all
  local step action
  plan "mail 1 451 4.3.0 Later" "rcpt 1 450 4.2.0 Greylisted" "data 1 451 4.3.0 Later" "dot 1 452 4.3.1 Full"
  for step in mail rcpt data dot; do
    send "later $step" "$CAROL"
  done
  for step in mail rcpt data dot; do
    wait_until 20 has_status "later $step" sent
    is_taken "later $step" 1
  done
  equal "$(cut -d' ' -f2 "$OTHER/plan" | sort -u)" 0
  while read -r step action; do
    plan "$step 1 $action"
    send "$step ${action%% *}" "$CAROL"
    wait_until 20 has_status "$step ${action%% *}" sent
    is_taken "$step ${action%% *}" 1
  done <<'TABLE'
connect 554 5.3.2 No mail here
ehlo drop
rcpt drop
dot drop
TABLE
  equal "$(api GET /email | jq '[.[] | select(.subject | test("Undelivered"))] | length')" 0
}

@test "a bounce has the refusal, however much the server said before" {
  start_all
  plan "ehlo 1 $(printf '250-X-OFFER %0100d|' {1..20})250 8BITMIME" "rcpt 1 550 5.1.1 Nobody here"
  send long "$CAROL"
  wait_until 20 has_status long failed
  bounce long | grep -F "the relay answered: 550 5.1.1 Nobody here"
  plan "rcpt 1 550 5.1.1 $(printf '%01500d' 7)"
  send longer "$CAROL"
  wait_until 20 has_status longer failed
  bounce longer | grep -F "the relay answered: 550 5.1.1 0000"
}

@test "a message whose answer is lost is sent again, with the same Message-ID" {
  start_all
  plan "sent 1 drop"
  send lost "$CAROL"
  wait_until 20 has_status lost sent
  is_taken lost 2
  equal "$(taken lost | jq -r .text | grep -c '^Message-Id: ')" 2
  equal "$(taken lost | jq -r .text | grep '^Message-Id: ' | sort -u | wc -l)" 1
}

@test "a refusal at any step causes one bounce with the server's reason" {
  start_all
  local step
  for step in mail rcpt data dot; do
    plan "$step 1 550-5.7.1 Not|550 5.7.1 from you"
    send "no at $step" "$CAROL"
    wait_until 20 has_status "no at $step" failed
    contains "$(bounce "no at $step")" "$CAROL"
    contains "$(bounce "no at $step")" "the relay answered: 550-5.7.1 Not 550 5.7.1 from you"
    is_taken "no at $step" 0
  done
  local id
  id=$(received "$ALICE" "Undelivered: no at dot" | jq -r '.[0].id')
  api GET "/email/$id/raw" >"$DIR/bounce.eml"
  grep -q "^From: Mail Delivery System <support@$DOMAIN>" "$DIR/bounce.eml"
  grep -q '^Auto-Submitted: auto-replied' "$DIR/bounce.eml"
  api GET "/email/$id" | jq -e '.previous_emails | length == 1 and .[0].subject == "no at dot"'
  equal "$(waiting)" 0
}

@test "if some recipients are refused, the others get the message, and a bounce names the refused ones" {
  start_all
  plan "rcpt=$CAROL * 550 5.1.1 No such user" "rcpt=eve@x.example * 550 5.1.1 Nor her"
  send some "$CAROL" "$DAN" eve@x.example
  wait_until 20 has_status some failed
  wait_until 20 is_taken some 1
  equal "$(taken some | jq -r '.recipients[]')" "$DAN"
  wait_until 20 has_received "$ALICE" "Undelivered: some" 2
  local id texts=
  for id in $(received "$ALICE" "Undelivered: some" | jq -r '.[].id'); do
    texts+=$(api GET "/email/$id" | jq -r .plain_text)
  done
  contains "$texts" $'Final-Recipient: rfc822; carol@x.example\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: x-inboxd; the relay answered: 550 5.1.1 No such user\n'
  contains "$texts" $'Final-Recipient: rfc822; eve@x.example\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: x-inboxd; the relay answered: 550 5.1.1 Nor her\n'
  run ! grep "$DAN" <<<"$texts"
}

@test "a message that the relay answers with 421 or a hang-up does not stop others in the queue" {
  start_all
  local action
  for action in drop "421 4.7.0 Not this one"; do
    plan "rcpt=$CAROL * $action"
    send "poison ${action:0:3}" "$CAROL" "$DAN" eve@x.example
    wait_until 20 is_taken "poison ${action:0:3}" 2
    wait_until 20 has_attempts "$CAROL" 2
    has_status "poison ${action:0:3}" pending
    change_waiting "due_ms = 0"
  done
}

@test "while the relay is away mail waits, and bounces after the attempts of five days" {
  start_smtp
  stop_other_side
  start_relaying
  create_inbox "$ALICE" >/dev/null
  send patient "$CAROL"
  send old "$CAROL" "$DAN"
  has_status patient pending
  wait_until 20 grep -q 'relay cannot be reached' "$DIR/inboxd.log"
  start_smtp
  wait_until 20 has_status patient sent
  wait_until 20 has_status old sent
  stop_other_side
  send old2 "$CAROL" "$DAN"
  wait_until 20 has_attempts "$CAROL" 1 # an attempt under way would postpone the row by an hour
  change_waiting "attempts = 130, due_ms = 0"
  wait_until 30 has_status old2 failed
  wait_until 30 has_received "$ALICE" "Undelivered: old2" 2
  contains "$(api GET "/email/$(received "$ALICE" "Undelivered: old2" | jq -r '.[0].id')" | jq -r .plain_text)" "cannot be reached"
  is_taken old2 0
}

@test "a clock that jumps by a week, or a week off, gives up no mail" {
  start_smtp
  stop_other_side
  start_relaying
  create_inbox "$ALICE" >/dev/null
  send patient "$CAROL"
  wait_until 20 has_attempts "$CAROL" 1
  change_waiting "due_ms = due_ms - 7 * 86400000"
  wait_until 20 has_attempts "$CAROL" 3
  has_status patient pending
  start_smtp
  wait_until 20 has_status patient sent
}

@test "a relay that hangs delays nobody, and its mail goes out after a restart" {
  start_all
  plan "rcpt 1 hang"
  send hanging "$CAROL"
  wait_until 20 has_steps rcpt 1
  at_once api GET /inbox >/dev/null
  has_status hanging pending
  within 5 stop_service
  start_relaying
  wait_until 20 has_status hanging sent
  is_taken hanging 1
}

@test "the end waits for the answer to a message that has been transferred" {
  start_all
  plan "dot 1 wait"
  send slow "$CAROL"
  wait_until 20 has_steps dot 1
  local pid=$SERVICE_PID
  kill "$pid"
  wait_until 20 is_refused
  touch "$OTHER/go"
  SERVICE_PID=
  wait "$pid"
  start_relaying
  has_status slow sent
  is_taken slow 1
}

# Another program writes to the data for so long, and says so.
hold_data() {
  mkfifo "$DIR/hold"
  python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
sys.stdin.read()' "$SERVICE/inbox.sqlite3" "$DIR/held" <"$DIR/hold" 3>&- {PAUSE}>&- &
  HOLDER_PID=$!
  exec {HOLD}>"$DIR/hold"
  wait_until 20 test -e "$DIR/held"
}

let_go_of_data() {
  exec {HOLD}>&-
  wait "$HOLDER_PID"
}

@test "an acceptance that cannot be recorded is tried again, and nothing else goes out before it is" {
  start_all
  plan 'sent 1 wait'
  send first "$CAROL"
  wait_until 20 has_steps sent 1
  send second "$CAROL"
  hold_data
  touch "$OTHER/go"
  wait_until 40 grep -q 'what became of outgoing mail cannot be written down' "$DIR/inboxd.log"
  has_status first pending
  is_taken first 1
  is_taken second 0
  let_go_of_data
  wait_until 40 has_status second sent
  has_status first sent
  is_taken first 1
  is_taken second 1
  equal "$(waiting)" 0
}

@test "after a kill at each step all mail goes out, with the right status" {
  start_all
  local point
  for point in outgoing_due outgoing_attempted outgoing_recorded; do
    stop_service
    INBOXFS_CRASH_AT=$point start_relaying
    send "$point" "$CAROL" || true # it may die before it answers
    wait_until 20 process_is_gone "$SERVICE_PID"
    wait "$SERVICE_PID" || true
    start_relaying
    wait_until 20 has_status "$point" sent
    equal "$(waiting)" 0
  done
  is_taken outgoing_due 1
  is_taken outgoing_attempted 2 # the yes was not written down
  is_taken outgoing_recorded 1
  # A bounce is there with the end of the row, once.
  for point in outgoing_attempted outgoing_recorded; do
    stop_service
    plan "rcpt 2 550 No"
    INBOXFS_CRASH_AT=$point start_relaying
    send "no $point" "$CAROL" || true
    wait_until 20 process_is_gone "$SERVICE_PID"
    wait "$SERVICE_PID" || true
    start_relaying
    wait_until 20 has_status "no $point" failed
    has_received "$ALICE" "Undelivered: no $point"
  done
}

@test "a user and password are read from a file, and appear nowhere else" {
  start_smtp
  (umask 077 && echo 'ann:pass:word' >"$DIR/credentials")
  start_relaying --relay-credentials-file="$DIR/credentials"
  create_inbox "$ALICE" >/dev/null
  send login "$CAROL"
  wait_until 20 has_status login sent
  taken login | jq -e '.login == ["ann", "pass:word"]'
  # Wrong ones are nobody's fault who sent mail.
  plan "auth * 535 5.7.8 Wrong"
  send wrong "$CAROL"
  wait_until 20 grep -q '535 5.7.8 Wrong' "$DIR/inboxd.log"
  has_status wrong pending
  run ! grep -qa 'pass:word' "$DIR/inboxd.log" "/proc/$SERVICE_PID/cmdline"
  run ! grep -rqa 'pass:word' "$SERVICE"
}

@test "an impossible relay, or bad credentials, are refused with a reason" {
  mkdir "$SERVICE"
  echo 'ann:password' >"$DIR/open"
  chmod 644 "$DIR/open"
  (umask 077 && echo 'ann' >"$DIR/half")
  local words options
  while IFS='|' read -r words options; do
    # shellcheck disable=SC2086 # words
    run -2 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 $options
    contains "$output" "$words"
    run ! grep -F ann: <<<"$output"
  done <<TABLE
smtp://HOST|--relay=mail.example
smtp://HOST|--relay=http://mail.example
smtp://HOST|--relay=smtp://ann:password@mail.example
smtp://HOST|--relay=smtp://mail.example/path
smtp://HOST|--relay=smtp://mail.example?x
USER:PASSWORD|--relay=smtp://mail.example --relay-credentials-file=$DIR/half
need --relay|--relay-credentials-file=$DIR/half
TABLE
  run -1 "$INBOXD" --data="$SERVICE" --listen=127.0.0.1:0 --relay=smtp://mail.example \
    --relay-credentials-file="$DIR/open"
  contains "$output" "chmod 600"
}

@test "an address of the own domain without an inbox bounces at once, and the relay gets the others" {
  start_all
  plan "connect 1 hang"
  send mixed "nobody@$DOMAIN" "$CAROL"
  has_received "$ALICE" "Undelivered: mixed"
  has_status mixed failed
  contains "$(bounce mixed)" "nobody@$DOMAIN"
  run ! grep "$CAROL" <<<"$(bounce mixed)"
  stop_service
  start_relaying
  wait_until 20 is_taken mixed 1
  wait_until 20 nothing_waits
  has_status mixed failed
}

@test "without a relay mail for others bounces, and does not go out when there is one later" {
  start_smtp
  start_service
  create_inbox "$ALICE" >/dev/null
  send before "$CAROL"
  has_status before failed
  contains "$(bounce before)" "$CAROL"
  equal "$(waiting)" 0
  stop_service
  start_relaying
  send after "$CAROL"
  wait_until 20 has_status after sent
  has_status before failed
  is_taken before 0
}

@test "with a relay, SMTP creates no inbox for an address elsewhere, so its mail still goes out" {
  start_smtp
  start_relaying --smtp="unix:$DIR/smtp"
  create_inbox "$ALICE" >/dev/null
  python3 - "$DIR/smtp" "$CAROL" "$ALICE" "new@$DOMAIN" <<'END'
import smtplib, sys
smtp = smtplib.SMTP()
smtp.sock = smtplib.socket.socket(smtplib.socket.AF_UNIX)
smtp.sock.connect(sys.argv[1])
assert smtp.getreply()[0] == 220
refused = smtp.sendmail("eve@x.example", sys.argv[2:], "Subject: by SMTP\r\n\r\n")
assert list(refused) == [sys.argv[2]] and refused[sys.argv[2]][0] == 550, refused
END
  equal "$(api GET /inbox | jq -r '.[].email_address' | sort | tr '\n' ' ')" "$ALICE new@$DOMAIN "
  has_received "$ALICE" "by SMTP"
  send out "$CAROL"
  wait_until 20 has_status out sent
  is_taken out 1
}

# ---------------------------------------------------------------- TLS

# Certificates for mail.example: good by the test's authority, which inboxd then trusts alone, and selfsigned. There,
# mail.example is this machine, and has a name as another one has.
prepare_tls() {
  INBOXD=$(realpath "$INBOXD")
  cd "$DIR" || return
  openssl req -x509 "${NEW_KEY[@]}" -days 30 -subj "/CN=Test Authority" -keyout ca.key -out ca.pem
  openssl req "${NEW_KEY[@]}" -subj "/CN=mail.example" -keyout good.key -out good.csr
  openssl x509 -req -in good.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -out good.crt \
    -extfile <(echo "subjectAltName=DNS:mail.example")
  openssl req -x509 "${NEW_KEY[@]}" -days 30 -subj "/CN=mail.example" \
    -addext subjectAltName=DNS:mail.example -keyout selfsigned.key -out selfsigned.crt
  cat good.crt good.key >good.pem
  cat selfsigned.crt selfsigned.key >selfsigned.pem
  echo "127.0.0.1 mail.example" >hosts
  cat >inboxd-in-namespace <<SCRIPT
#!/bin/sh
# The mounts of other tests would last as long as their copies in here.
exec unshare --mount sh -c 'umount --all --lazy --types fuse.inboxfs &&
  mount --bind "$DIR/ca.pem" /etc/ssl/certs/ca-certificates.crt &&
  mount --bind "$DIR/hosts" /etc/hosts && exec "$INBOXD" "\$@"' - "\$@"
SCRIPT
  chmod +x inboxd-in-namespace
  INBOXD=$DIR/inboxd-in-namespace
  cd /
}

@test "a relay on another machine needs TLS and a certificate of its name, unless an option says otherwise" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  prepare_tls 2>/dev/null
  (umask 077 && echo 'ann:password' >"$DIR/credentials")
  local relay certificate scheme words
  while read -r certificate scheme words; do
    start_smtp ${certificate:+--certificate="$DIR/$certificate.pem"} ${scheme:+$([ "$scheme" = smtp ] || echo --smtps)}
    relay=$scheme://mail.example:$OTHER_PORT
    : >"$DIR/inboxd.log"
    start_service --relay="$relay" --relay-credentials-file="$DIR/credentials"
    [ -s "$DIR/made" ] || create_inbox "$ALICE" >"$DIR/made"
    send "$scheme $certificate" "$CAROL"
    if [ "$words" = sent ]; then
      wait_until 20 has_status "$scheme $certificate" sent
      taken "$scheme $certificate" | jq -e '.tls and .login == ["ann", "password"]'
    else
      wait_until 20 grep -qiE "$words" "$DIR/inboxd.log"
      has_status "$scheme $certificate" pending
    fi
    stop_service
    stop_other_side
  done <<'TABLE'
selfsigned smtp certificate
selfsigned smtps certificate
good smtp sent
good smtps sent
TABLE
}

@test "without TLS nothing is sent to another machine, except with --relay-in-clear" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  prepare_tls 2>/dev/null
  (umask 077 && echo 'ann:password' >"$DIR/credentials")
  start_smtp
  start_service --relay="smtp://mail.example:$OTHER_PORT" --relay-credentials-file="$DIR/credentials"
  create_inbox "$ALICE" >/dev/null
  send clear "$CAROL"
  wait_until 20 grep -qi 'starttls' "$DIR/inboxd.log"
  has_status clear pending
  equal "$(steps auth)$(steps mail)" 00
  stop_service
  start_service --relay="smtp://mail.example:$OTHER_PORT" --relay-in-clear
  wait_until 20 has_status clear sent
}
