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
  unset SUDO_UID # of the user who runs the tests
  echo "root: $BOB" >"$DIR/aliases"
}

teardown() {
  stop_all
}

session() { # ARGUMENT... <COMMANDS
  "$BUILD/inboxfs-sendmail" -bs --aliases="$DIR/aliases" "$@"
}

# Prints a session up to DATA, for a message to Bob.
begin() { # LINE_END
  printf "%s$1" 'EHLO me' "MAIL FROM:<$ALICE>" "RCPT TO:<$BOB>" DATA
}

# Prints the codes of the answers on one line.
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

@test "-bs accepts a message, and a recipient that the headers do not name becomes Bcc" {
  equal "$(printf '%s\r\n' 'EHLO me' "MAIL FROM:<$ALICE> BODY=8BITMIME" "RCPT TO:<$BOB>" "RCPT TO:<$CAROL>" DATA \
    "To: $BOB" 'Subject: by SMTP' '' .. Grüße . QUIT | session | codes)" "220 250 250 250 250 354 250 221 "
  settle
  holds <(content "$BOB" 'by SMTP') '.plain_text == ".\nGrüße\n" and .bcc_addresses == [] and
    .from_address.address == $a' --arg a "$ALICE"
  holds <(content "$CAROL" 'by SMTP') '.bcc_addresses[0].address == $c' --arg c "$CAROL"
}

@test "a session accepts messages before and after a refused one" {
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

@test "a message whose headers name an address without RCPT is refused with 554" {
  contains "$({ begin '\r\n'; printf '%s\r\n' "To: $CAROL" '' x .; } | session)" "554 5.6.0 $CAROL stands in the headers"
  nothing_was_sent
}

@test "RCPT of a local name without an alias is refused, and the other recipients get the message" {
  equal "$(printf '%s\r\n' 'EHLO me' "MAIL FROM:<$ALICE>" 'RCPT TO:<nosuch>' "RCPT TO:<$BOB>" 'RCPT TO:<a,b>' DATA \
    'Subject: rest' '' x . | session | codes)" "220 250 250 550 250 553 354 250 "
  settle
  has_received "$BOB" rest
}

@test "RCPT accepts an inbox of the mount at this machine's name" {
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

@test "a client whose first line ends with LF may end all lines with LF" {
  equal "$({ begin '\n'; printf '%s\n' 'Subject: feeds' '' . QUIT; } | session | codes)" "220 250 250 250 354 250 221 "
  equal "$(printf 'HELO me\nNOOP\r\nNOOP\n' | session | codes)" "220 250 250 250 "
  settle
  has_received "$BOB" feeds
}

@test "LF . LF does not end the message of a client that ends its lines with CR LF" {
  equal "$({ begin '\r\n'; printf '%s\r\n' 'Subject: one' '' \
    $'a\n.\nMAIL FROM:<>\nRCPT TO:<'"$CAROL"$'>\nDATA\n.' b . QUIT; } | session | codes)" "220 250 250 250 354 250 221 "
  settle
  equal "$(api GET /email/outbound | jq length)" 1
  contains "$(content "$BOB" one | jq -r .plain_text)" 'MAIL FROM'
}

@test "a message that the client does not end is not sent" {
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

@test "a message with Attach: is refused while another user's rights are used" {
  local sendmail=("$BUILD/inboxfs-sendmail" -bs "--mount=$MOUNT")
  contains "$({ begin '\r\n'; printf '%s\r\n' 'Attach: secret.txt' '' x .; } | SUDO_UID=12345 "${sendmail[@]}")" \
    "554 5.6.0 Attach: takes files of the mount's owner"
  nothing_was_sent
}

@test "with --wait the answer has the id that the service gave the message" {
  contains "$({ begin '\r\n'; printf '%s\r\n' 'Subject: id' '' x .; } | session --wait)" \
    "250 2.0.0 $(api GET /email/outbound | jq -r '.[0].id')"
}

@test "-bs refuses recipients as arguments" {
  run -64 session "$BOB" </dev/null
  contains "$output" "takes no recipients"
}

@test "swaks sends through -bs with pipelining and without" {
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
