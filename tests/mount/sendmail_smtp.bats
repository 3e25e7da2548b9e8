#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# `inboxfs-sendmail -bs`: SMTP on standard input and output. The grammar has tests of its own
# (tests/unit/mail/test_smtp_session.c).

load support

CAROL=carol@$DOMAIN

setup() {
  start_two_inboxes --from="$ALICE"
  create_inbox "$CAROL" >/dev/null
  refresh
  export INBOXFS_MOUNT=$MOUNT
  unset SUDO_UID # of who runs the tests
  echo "root: $BOB" >"$DIR/aliases"
}

teardown() {
  stop_all
}

session() { # ARGUMENT... <COMMANDS
  "$BUILD/inboxfs-sendmail" -bs --aliases="$DIR/aliases" "$@"
}

# A session as far as the text of a message to Bob, with a line end of the test's.
begin() { # LINE_END
  printf "%s$1" 'EHLO me' "MAIL FROM:<$ALICE>" "RCPT TO:<$BOB>" DATA
}

# The codes of the answers that are read, on one line.
codes() {
  sed -n 's/^\([0-9]*\) .*/\1/p' | tr '\n' ' '
}

settle() {
  sync "$MOUNT/outbox"
}

nothing_was_sent() {
  settle
  equal "$(api GET /email/outbound | jq length)" 0
  equal "$(ls -A "$MOUNT/drafts" "$MOUNT/outbox")" "$MOUNT/drafts:"$'\n\n'"$MOUNT/outbox:"
}

@test "-bs takes a message from its client, and whom the headers do not name becomes Bcc" {
  equal "$(printf '%s\r\n' 'EHLO me' "MAIL FROM:<$ALICE> BODY=8BITMIME" "RCPT TO:<$BOB>" "RCPT TO:<$CAROL>" DATA \
    "To: $BOB" 'Subject: by SMTP' '' .. Grüße . QUIT | session | codes)" "220 250 250 250 250 354 250 221 "
  settle
  holds <(content "$BOB" 'by SMTP') '.plain_text == ".\nGrüße\n" and .bcc_addresses == [] and
    .from_address.address == $a' --arg a "$ALICE"
  holds <(content "$CAROL" 'by SMTP') '.bcc_addresses[0].address == $c' --arg c "$CAROL"
}

@test "a session takes several messages, and one that is refused does no harm to the others" {
  local answers
  answers=$(printf '%s\r\n' 'HELO me' \
    "MAIL FROM:<$ALICE>" 'RCPT TO:<root>' DATA 'Subject: first' '' . \
    "MAIL FROM:<$ALICE>" "RCPT TO:<$BOB>" DATA 'From: nobody@elsewhere.example' 'Subject: refused' '' . \
    'MAIL FROM:<>' "RCPT TO:<$CAROL>" DATA 'Subject: second' '' . | session -i)
  equal "$(grep -c '^250 2.0.0 Accepted' <<<"$answers")" 2
  contains "$answers" '554 5.6.0 refused: '
  contains "$answers" nobody@elsewhere.example
  settle
  has_received "$BOB" first
  has_received "$CAROL" second
  equal "$(api GET /email/outbound | jq length)" 2
}

@test "headers that name somebody whom no RCPT names are refused by 554" {
  contains "$({ begin '\r\n'; printf '%s\r\n' "To: $CAROL" '' x .; } | session)" "554 5.6.0 $CAROL stands in the headers"
  nothing_was_sent
}

@test "a local name without an address is refused at RCPT, and the other recipients get the message" {
  equal "$(printf '%s\r\n' 'EHLO me' "MAIL FROM:<$ALICE>" 'RCPT TO:<nosuch>' "RCPT TO:<$BOB>" 'RCPT TO:<a,b>' DATA \
    'Subject: rest' '' x . | session | codes)" "220 250 250 550 250 553 354 250 "
  settle
  has_received "$BOB" rest
}

@test "RCPT finds an inbox of the mount that has this machine's name" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  create_inbox "root@$DOMAIN" >/dev/null
  refresh
  : >"$DIR/aliases"
  equal "$(printf '%s\r\n' 'EHLO me' "MAIL FROM:<$ALICE>" "RCPT TO:<root@$DOMAIN>" DATA 'Subject: root' '' x . |
    unshare --uts sh -c 'echo "$1" >/proc/sys/kernel/hostname && "$2" --aliases="$3" -bs' - "$DOMAIN" \
      "$BUILD/inboxfs-sendmail" "$DIR/aliases" | codes)" "220 250 250 250 354 250 "
  settle
  has_received "root@$DOMAIN" root
}

@test "a client may end its lines with LF, and then in all of its session" {
  equal "$({ begin '\n'; printf '%s\n' 'Subject: feeds' '' . QUIT; } | session | codes)" "220 250 250 250 354 250 221 "
  equal "$(printf 'HELO me\nNOOP\r\nNOOP\n' | session | codes)" "220 250 250 250 "
  settle
  has_received "$BOB" feeds
}

@test "from a client that ends its lines with CR LF, no text of a message ends it" {
  equal "$({ begin '\r\n'; printf '%s\r\n' 'Subject: one' '' \
    $'a\n.\nMAIL FROM:<>\nRCPT TO:<'"$CAROL"$'>\nDATA\n.' b . QUIT; } | session | codes)" "220 250 250 250 354 250 221 "
  settle
  equal "$(api GET /email/outbound | jq length)" 1
  contains "$(content "$BOB" one | jq -r .plain_text)" 'MAIL FROM'
}

@test "of half a message nothing is sent" {
  equal "$({ begin '\r\n'; printf 'Subject: half\r\n\r\nx'; } | session | codes)" "220 250 250 250 354 "
  nothing_was_sent
}

@test "RCPT is refused for now with the reason while the named mount is gone" {
  stop_mount
  local answers
  answers=$({ begin '\r\n'; printf '%s\r\n' 'Subject: x' '' x .; } | session)
  contains "$answers" "451 4.3.0 $MOUNT: no inboxfs is mounted there"
  contains "$(codes <<<"$answers")" "220 250 250 451 503 "
}

@test "who sends with another user's rights takes no file of that user by SMTP" {
  local sendmail=("$BUILD/inboxfs-sendmail" -bs "--mount=$MOUNT")
  contains "$({ begin '\r\n'; printf '%s\r\n' 'Attach: secret.txt' '' x .; } | SUDO_UID=12345 "${sendmail[@]}")" \
    "554 5.6.0 Attach: takes files of the mount's owner"
  nothing_was_sent
}

@test "with --wait the answer comes when the service has the message, with its id" {
  contains "$({ begin '\r\n'; printf '%s\r\n' 'Subject: id' '' x .; } | session --wait)" \
    "250 2.0.0 $(api GET /email/outbound | jq -r '.[0].id')"
}

@test "-bs takes no recipients as arguments" {
  run -64 session "$BOB" </dev/null
  contains "$output" "takes no recipients"
}

@test "swaks sends by a pipe to -bs, with pipelining and without" {
  needs swaks
  local options=(--pipe "$BUILD/inboxfs-sendmail -bs" --silent 1 --from "$ALICE" --to "$BOB,$CAROL"
    --h-To "$BOB" --body $'.\n..\n.dot')
  swaks "${options[@]}" --h-Subject plainly
  swaks "${options[@]}" --h-Subject pipelined --pipeline
  settle
  local subject
  for subject in plainly pipelined; do
    equal "$(content "$CAROL" "$subject" | jq -r .plain_text | head -n 3)" $'.\n..\n.dot'
  done
}
