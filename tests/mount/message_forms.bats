#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The two forms of a message, RFC 5322 text and JSON, which the mount tells apart by content. Each arrives as written.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

# Hands in standard input as NAME and waits until it is sent.
send() { # NAME
  cat >"$MOUNT/drafts/$1"
  mv "$MOUNT/drafts/$1" "$MOUNT/outbox/$1"
  wait_sent "$1"
}

# The email of SUBJECT that bob got is as jq's FILTER says.
bob_got() { # SUBJECT FILTER [JQ-ARGUMENT...]
  content "$BOB" "$1" >"$DIR/arrived"
  holds "$DIR/arrived" "${@:2}"
}

# The bytes of the attachment of that file name, in the email of SUBJECT that bob got.
attachment() { # SUBJECT FILE-NAME
  content "$BOB" "$1" >"$DIR/arrived"
  api GET "/email/$(jq -er .id "$DIR/arrived")/attachment/$(
    jq -er --arg name "$2" '.attachments[] | select(.filename == $name).id' "$DIR/arrived")"
}

# ---------------------------------------------------------------- RFC 5322

@test "a message is header lines, a blank line and the body" {
  send plain <<MESSAGE
From: $ALICE
To: $BOB
Subject: plain

First line.

Third line.
MESSAGE
  bob_got plain '.plain_text | rtrimstr("\n") == "First line.\n\nThird line."'
}

@test "names of people, several recipients, Cc and Reply-To arrive" {
  create_inbox "carol@$DOMAIN"
  send people <<MESSAGE
From: Alice A. <$ALICE>
To: "Bob, the builder" <$BOB>, carol@$DOMAIN
Cc: Carol <carol@$DOMAIN>
Reply-To: The Desk <$ALICE>
Subject: people

x
MESSAGE
  bob_got people '.to_addresses[0] == {address: $bob, name: "Bob, the builder"}' --arg bob "$BOB"
  bob_got people '[.to_addresses[].address] | index("carol@\($domain)")' --arg domain "$DOMAIN"
  bob_got people '.cc_addresses == [{address: "carol@\($domain)", name: "Carol"}]' --arg domain "$DOMAIN"
  bob_got people '.reply_to_addresses == [{address: $alice, name: "The Desk"}]' --arg alice "$ALICE"
}

@test "folded headers, any case of header names and CRLF line ends are read" {
  printf 'FROM: %s\r\nto: %s,\r\n %s\r\nsubject: folded\r\n and crlf\r\n\r\nline one\r\nline two\r\n' \
    "$ALICE" "$BOB" "$ALICE" | send folded
  bob_got 'folded and crlf' '.plain_text | gsub("\r"; "") | rtrimstr("\n") == "line one\nline two"'
  bob_got 'folded and crlf' '.to_addresses | length == 2'
}

@test "encoded words in subject and names are decoded" {
  send encoded <<MESSAGE
From: $ALICE
To: =?utf-8?B?QsO2Yg==?= <$BOB>
Subject: =?iso-8859-1?Q?Gr=FC=DFe?= =?utf-8?B?8J+OiQ==?=

x
MESSAGE
  bob_got 'Grüße🎉' '.to_addresses[0].name == "Böb"'
}

# As mutt, Python and Perl write them: in words of base64, each with its own end.
@test "a long subject, a person's name and a file's name arrive from several encoded words" {
  send words <<MESSAGE
From: $ALICE
To: =?UTF-8?B?0JjQstCw0L0=?= =?UTF-8?B?INCf0LXRgtGA0L7Qsg==?= <$BOB>
Subject: =?UTF-8?B?0J/RgNC40LPQu9Cw0YjQtdC90LjQtSDQvdCwINC+0LE=?=
 =?UTF-8?B?0LXQtCDQsiDQv9GP0YLQvdC40YbRgywg8J+OgiA=?=
 =?UTF-8?B?0Lgg0L/RgNC+0LPRg9C70LrRgw==?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=sep

--sep
Content-Type: text/plain

x
--sep
Content-Type: application/pdf
Content-Disposition: attachment; filename="=?UTF-8?B?0L7RgtGH0ZE=?= =?UTF-8?B?0YIucGRm?="

y
--sep--
MESSAGE
  local subject='Приглашение на обед в пятницу, 🎂 и прогулку'
  bob_got "$subject" '.to_addresses[0].name == "Иван Петров"'
  bob_got "$subject" '[.attachments[].filename] == ["отчёт.pdf"]'
}

@test "raw UTF-8 in subject, names and body arrives" {
  send raw <<MESSAGE
From: $ALICE
To: Zoë Müller <$BOB>
Subject: 你好, schöne Grüße 🎉

Ünïcödé — ✓
MESSAGE
  bob_got '你好, schöne Grüße 🎉' '.plain_text | rtrimstr("\n") == "Ünïcödé — ✓"'
  bob_got '你好, schöne Grüße 🎉' '.to_addresses[0].name == "Zoë Müller"'
}

@test "a quoted-printable body in another charset is decoded" {
  send charset <<MESSAGE
From: $ALICE
To: $BOB
Subject: charset
MIME-Version: 1.0
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Gr=FC=DFe =3D caf=E9
MESSAGE
  bob_got charset '.plain_text | rtrimstr("\n") == "Grüße = café"'
}

@test "text labelled iso-8859-1 is decoded as windows-1252" {
  send windows <<MESSAGE
From: $ALICE
To: $BOB
Subject: =?iso-8859-1?Q?=93windows=94?=
MIME-Version: 1.0
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

=93caf=E9=94 10 =80
MESSAGE
  bob_got '“windows”' '.plain_text | rtrimstr("\n") == "“café” 10 €"'
}

@test "text and HTML become the two bodies" {
  send both <<MESSAGE
From: $ALICE
To: $BOB
Subject: both bodies
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=sep

--sep
Content-Type: text/plain

plain words
--sep
Content-Type: text/html; charset=utf-8

<p>html <b>words</b></p>
--sep--
MESSAGE
  bob_got 'both bodies' '.plain_text | test("plain words")'
  bob_got 'both bodies' '.html | test("<b>words</b>")'
  bob_got 'both bodies' '.alternative_content == true'
}

@test "attached parts arrive with their bytes, names and types" {
  head -c 20000 /dev/urandom >"$DIR/photo.png"
  {
    printf 'From: %s\nTo: %s\nSubject: parts\nMIME-Version: 1.0\n' "$ALICE" "$BOB"
    printf 'Content-Type: multipart/mixed; boundary="sep"\n\n'
    printf -- '--sep\nContent-Type: text/plain\n\nsee attached\n'
    printf -- '--sep\nContent-Type: image/png; name="photo.png"\nContent-Transfer-Encoding: base64\n'
    printf 'Content-Disposition: attachment; filename="photo.png"\n\n'
    base64 "$DIR/photo.png"
    printf -- '--sep\nContent-Type: text/csv\nContent-Disposition: attachment; filename*=utf-8'"''"'Z%%C3%%A4hlung.csv\n\na,b\n'
    printf -- '--sep--\n'
  } | send parts
  attachment parts photo.png | cmp - "$DIR/photo.png"
  attachment parts 'Zählung.csv' | grep -q '^a,b'
  bob_got parts '.plain_text | rtrimstr("\n") == "see attached"'
  bob_got parts '[.attachments[] | select(.filename == "photo.png").content_type] == ["image/png"]'
}

@test "an attached message arrives byte for byte" {
  printf 'Subject: inner\r\nX-Odd :  spaces  \r\n\r\nmixed\nline ends\r\n\r\nand no last one' >"$DIR/inner.eml"
  {
    printf 'From: %s\r\nTo: %s\r\nSubject: enclosed\r\n' "$ALICE" "$BOB"
    printf 'Content-Type: multipart/mixed; boundary=b\r\n\r\n'
    printf -- '--b\r\n\r\nsee below\r\n'
    printf -- '--b\r\nContent-Type: message/rfc822; name=inner.eml\r\nContent-Transfer-Encoding: 8bits\r\n\r\n'
    cat "$DIR/inner.eml"
    printf -- '\r\n--b--'
  } | send enclosed
  bob_got enclosed '.plain_text == "see below"'
  attachment enclosed inner.eml | cmp - "$DIR/inner.eml"
}

@test "a part that cannot be read whole is refused, and the reason names it" {
  printf 'To: %s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b\nContent-Type: x/y\nno header\n\nx\n--b--\n' \
    "$BOB" >"$MOUNT/drafts/part"
  expect EBADMSG rename "$MOUNT/drafts/part" "$MOUNT/outbox/part"
  has_event '.event == "refused" and (.error | test("^part 2: line 9 is neither a header"))'
}

@test "unknown headers of another mail program are ignored" {
  send program <<MESSAGE
Return-Path: <$ALICE>
Received: from x by y; Fri, 20 Nov 2026 10:00:00 +0000
Date: Fri, 20 Nov 2026 10:00:00 +0000
Message-ID: <abc@x.example>
X-Mailer: something
From: $ALICE
To: $BOB
Subject: from a program

x
MESSAGE
  bob_got 'from a program' '.plain_text | rtrimstr("\n") == "x"'
}

@test "a missing subject and empty bodies are allowed" {
  printf 'From: %s\nTo: %s\n\nbody only\n' "$ALICE" "$BOB" | send no-subject
  printf 'From: %s\nTo: %s\nSubject: header only\n\n' "$ALICE" "$BOB" | send no-body
  has_received "$BOB" "header only"
  has_received "$BOB" ""
}

@test "a message cut off within its headers is refused, even if what is left is valid" {
  local cut
  for cut in "$(printf 'From: %s\nTo: %s, carol@inb' "$ALICE" "$BOB")" "$(message "$BOB" "cut off" | head -n 3)"$'\n'; do
    printf '%s' "$cut" >"$MOUNT/drafts/cut"
    expect EBADMSG rename "$MOUNT/drafts/cut" "$MOUNT/outbox/cut"
    equal "$(cat "$MOUNT/drafts/cut"; echo .)" "$cut."
    has_event '.event == "refused" and (.error | test("blank line"))'
  done
  equal "$(api GET "/email?limit=10&inbox_ids=$(inbox_id "$BOB")" | jq '[.[].subject] | map(select(. != "Welcome to your inbox")) | length')" 0
}

@test "headers and body appended by two slow commands are not sent, and both are in failed/" {
  message "$BOB" "in two steps" | head -n 3 >>"$MOUNT/outbox/steps"
  wait_failed steps
  holds "$MOUNT/failed/steps.receipt.json" '.state == "failed" and (.error | test("blank line"))'
  printf '\nThe text.\n' >>"$MOUNT/outbox/steps"
  wait_failed steps-2
  has_received "$BOB" "in two steps" 0
}

@test "a subject cannot smuggle in a header" {
  jq -n --arg to "$BOB" --arg from "$ALICE" \
    '{from_address: $from, subject: "one\nBcc: eve@elsewhere.example", plain_text: "x", to_addresses: [$to]}' \
    >"$MOUNT/drafts/smuggle"
  run syscall rename "$MOUNT/drafts/smuggle" "$MOUNT/outbox/smuggle"
  if [ "$output" = ok ]; then
    wait_until 20 test -e "$MOUNT/sent/smuggle" -o -e "$MOUNT/failed/smuggle"
    api GET "/email?limit=100&inbox_ids=$(inbox_id "$BOB")" >"$DIR/all"
    holds "$DIR/all" '[.[].bcc_addresses[]] | length == 0'
  else
    equal "$output" EBADMSG
  fi
}

@test "a body of a megabyte arrives whole" {
  seq -f 'line %.0f of a long letter' 1 40000 >"$DIR/long"
  { printf 'From: %s\nTo: %s\nSubject: long\n\n' "$ALICE" "$BOB" && cat "$DIR/long"; } | send long
  content "$BOB" long | jq -rj .plain_text | diff -q - "$DIR/long"
}

# ---------------------------------------------------------------- JSON

@test "JSON: the body of a send request is accepted" {
  jq -n --arg from "$ALICE" --arg to "$BOB" '{from_address: $from, subject: "json", plain_text: "Grüße",
    html: "<i>Grüße</i>", alternative_content: true, to_addresses: [{address: $to, name: "Bob"}]}' | send json
  bob_got json '.plain_text == "Grüße"'
  bob_got json '.html == "<i>Grüße</i>"'
  bob_got json '.to_addresses == [{address: $bob, name: "Bob"}]' --arg bob "$BOB"
}

@test "JSON: recipients may be strings" {
  jq -n --arg from "$ALICE" --arg to "Bob B. <$BOB>" --arg cc "$BOB" \
    '{from_address: $from, subject: "strings", plain_text: "x", to_addresses: [$to], cc_addresses: [$cc]}' | send strings
  bob_got strings '.to_addresses == [{address: $bob, name: "Bob B."}]' --arg bob "$BOB"
  bob_got strings '.cc_addresses[0].address == $bob' --arg bob "$BOB"
}

@test "JSON: from_address may be left out if --from is given" {
  stop_mount
  start_mount --from="$ALICE"
  jq -n --arg to "$BOB" '{subject: "left out", plain_text: "x", to_addresses: [$to]}' | send left-out
  bob_got "left out" '.from_address.address == $alice' --arg alice "$ALICE"
}

@test "JSON: from_address may be an object" {
  jq -n --arg from "$ALICE" --arg to "$BOB" '{from_address: {address: $from, name: "A"}, subject: "object",
    plain_text: "x", to_addresses: [$to]}' >"$MOUNT/drafts/object"
  run syscall rename "$MOUNT/drafts/object" "$MOUNT/outbox/object"
  if [ "$output" = ok ]; then
    wait_sent object
    bob_got object '.from_address.address == $alice' --arg alice "$ALICE"
  else
    equal "$output" EBADMSG
  fi
}

@test "JSON: attachments are given by name" {
  echo "the plan" >"$MOUNT/attachments/plan.txt"
  jq -n --arg from "$ALICE" --arg to "$BOB" '{from_address: $from, subject: "with plan", plain_text: "x",
    to_addresses: [$to], attachments: ["plan.txt"]}' | send plan
  equal "$(attachment "with plan" plan.txt)" "the plan"
}

@test "JSON: attachment_ids of the pool are accepted" {
  local id
  echo pooled >"$DIR/pool.txt"
  id=$(api POST /email/add-attachment-to-pool -F "file=@$DIR/pool.txt" | jq -r .id)
  jq -n --arg from "$ALICE" --arg to "$BOB" --arg id "$id" '{from_address: $from, subject: "by id", plain_text: "x",
    to_addresses: [$to], attachment_ids: [$id]}' | send by-id
  equal "$(attachment "by id" pool.txt)" pooled
}

@test "JSON: a reply refers to the email it answers" {
  send_from_elsewhere "$BOB" "$ALICE" "question"
  local id
  id=$(received "$ALICE" question | jq -r '.[0].id')
  jq -n --arg from "$ALICE" --arg to "$BOB" --arg id "$id" '{from_address: $from, subject: "Re: question",
    plain_text: "answer", to_addresses: [$to], existing_email_id: $id, message_type: "reply"}' | send reply
  bob_got "Re: question" '.plain_text == "answer"'
  bob_got "Re: question" '.in_reply_to_id != null or (.previous_emails | length) > 0'
}

@test "JSON after a byte order mark or blanks, or on many lines, is recognised" {
  local message
  message=$(jq -n --arg from "$ALICE" --arg to "$BOB" \
    '{from_address: $from, subject: "blanks", plain_text: "x", to_addresses: [$to]}')
  printf '\n\n  \t%s\n\n' "$message" | send blanks
  has_received "$BOB" blanks
}

@test "JSON: the reason of a refusal names the field" {
  local number=0 filter words
  while IFS='|' read -r filter words; do
    number=$((number + 1))
    jq -n --arg from "$ALICE" --arg to "$BOB" \
      "{from_address: \$from, subject: \"x\", plain_text: \"x\", to_addresses: [\$to]} | $filter" \
      >"$MOUNT/drafts/wrong-$number"
    expect EBADMSG rename "$MOUNT/drafts/wrong-$number" "$MOUNT/outbox/wrong-$number"
    has_event '.event == "refused" and .path == $path and (.error | contains($words))' \
      --arg path "drafts/wrong-$number" --arg words "$words" || fail "$filter:" "$(tail -n 1 "$MOUNT/events.jsonl")"
  done <<'TABLE'
.subject = 7|subject
.plain_text = ["x"]|plain_text
.to_addresses = "bob"|to_addresses
.to_addresses = [{"name": "Bob"}]|to_addresses
.to_addresses = ["bob at home"]|to_addresses
.cc_addresses = {}|cc_addresses
.html = false|html
.attachment_ids = "x"|attachment_ids
.attachments = [1]|attachments
.sender = "x"|sender
TABLE
}

@test "JSON: an array or a bare string is not a message" {
  local text
  for text in '[]' '"hello"' '[{"to_addresses": []}]' 'null' '42'; do
    echo "$text" >"$MOUNT/drafts/value"
    expect EBADMSG rename "$MOUNT/drafts/value" "$MOUNT/outbox/value"
  done
}

@test "JSON: deep nesting and repeated fields do no harm" {
  printf '%0.s[' {1..100000} >"$MOUNT/drafts/deep"
  expect EBADMSG rename "$MOUNT/drafts/deep" "$MOUNT/outbox/deep"
  { printf '{"a":%.0s' {1..20000}; } >"$MOUNT/drafts/nested"
  expect EBADMSG rename "$MOUNT/drafts/nested" "$MOUNT/outbox/nested"
  present "$MOUNT/status.json"
}

@test "every request carries an idempotency key of the program" {
  message "$BOB" "keyed" | send keyed
  holds "$MOUNT/sent/keyed.receipt.json" '.idempotency_key | type == "string" and length >= 16'
}
