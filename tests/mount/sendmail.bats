#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# inboxfs-sendmail, as programs call sendmail. The tests look at what the service received, and at the exit status.

load support
load scripted

CAROL=carol@$DOMAIN

setup() {
  start_service
  create_inboxes "$ALICE" "$BOB" "$CAROL"
  start_mount --from="$ALICE"
  export INBOXFS_MOUNT=$MOUNT
  unset SUDO_UID # of the user who runs the tests
  printf 'admin: %s\nroot: admin\nteam: %s,\n  %s\nloop: loop\nprogram: |rm\n' "$BOB" "$BOB" "$CAROL" >"$DIR/aliases"
}

teardown() {
  stop_all
}

sendmail() { # ARGUMENT... <MESSAGE
  "$BUILD/inboxfs-sendmail" --aliases="$DIR/aliases" "$@"
}

# Waits until the outbox has sent all messages.
settle() {
  sync "$MOUNT/outbox"
}

nothing_was_sent() {
  settle
  equal "$(api GET /email/outbound | jq length)" 0
  equal "$(ls -A "$MOUNT/drafts" "$MOUNT/outbox")" "$MOUNT/drafts:"$'\n\n'"$MOUNT/outbox:"
}

message() { # SUBJECT [HEADER...]
  printf '%s\n' "From: $ALICE" "Subject: $1" "${@:2}" '' 'The text.'
}

# ---------------------------------------------------------------- recipients

@test "a text without headers is sent to the given recipients from the mount's sender" {
  echo 'just a text' | sendmail "$BOB"
  settle
  holds <(content "$BOB" '') '.plain_text == "just a text\n" and .from_address.address == $a' --arg a "$ALICE"
  equal "$(received_count "$CAROL" '')" 0
}

@test "with -t the recipients in the headers get the message, which does not show Bcc" {
  message t "To: Bob <$BOB>" "Bcc: $CAROL" | sendmail -t
  settle
  holds <(content "$BOB" t) '.to_addresses[0] == {address: $b, name: "Bob"} and .bcc_addresses == []' --arg b "$BOB"
  has_received "$CAROL" t
}

@test "a given recipient that no header names becomes Bcc, with -t and without" {
  message one "To: $BOB" | sendmail "$BOB" "$CAROL"
  message two "To: $BOB" | sendmail -t "$CAROL"
  settle
  for subject in one two; do
    has_received "$CAROL" "$subject"
    holds <(content "$BOB" "$subject") '[.to_addresses[].address] == [$b] and .cc_addresses == []' --arg b "$BOB"
  done
}

@test "without -t a header that names an address that is not given is refused" {
  run -65 sendmail "$CAROL" < <(message resent "To: $BOB")
  contains "$output" "$BOB stands in the headers"
  run -65 sendmail "$CAROL" < <(message folded "To: $CAROL" "Cc:" " $BOB")
  run -65 sendmail "$CAROL" < <(message bcc "bcc : $BOB")
  nothing_was_sent
}

@test "a message without any recipient is refused" {
  run -64 sendmail < <(message none "To: $BOB")
  run -65 sendmail -t < <(message none)
  run -65 sendmail -t < <(message none 'To: undisclosed-recipients:;')
  nothing_was_sent
}

@test "a recipient that is not an address is refused and named" {
  run -65 sendmail 'bob at home' < <(message x)
  contains "$output" 'bob at home'
  run -65 sendmail $'bob\x9b31m at\e[31m home\u202e' < <(message x)
  contains "$output" 'bob?31m at?[31m home?'
  run -65 sendmail -t < <(message x "To: $BOB, <>, x y z")
  nothing_was_sent
}

@test "-t refuses a message with Resent- headers" {
  run -65 sendmail -t < <(message x "To: $BOB" "Resent-To: $CAROL")
  contains "$output" 'Resent-To'
  nothing_was_sent
}

# ---------------------------------------------------------------- local names

@test "aliases replace local names in arguments and headers" {
  message args "To: root" | sendmail root
  message list "To: \"Our team\" <team>" "Cc: admin (the admin)" | sendmail -t
  settle
  holds <(content "$BOB" args) '[.to_addresses[].address] == [$b]' --arg b "$BOB"
  holds <(content "$CAROL" list) '[.to_addresses[].address] == [$b, $c]' --arg b "$BOB" --arg c "$CAROL"
}

@test "--root gets the mail of a local name without an alias, which is refused without --root" {
  message some "To: www-data" | sendmail --root="$CAROL" -i www-data
  settle
  has_received "$CAROL" some
  run -67 sendmail www-data < <(message none)
  contains "$output" 'www-data is no email address'
  run -67 sendmail loop < <(message none)
  run -65 sendmail program < <(message none)
  equal "$(api GET /email/outbound | jq length)" 1
}

@test "an address before a local name without a comma is refused, and not ignored" {
  for to in "$CAROL bob <root>" "<$CAROL> <root>" "root (x) $CAROL" "root (x, $CAROL" \
    "root (x) bob (y)" "\"bob, $CAROL <root>" "admin <root> <root>" "team: $CAROL <root>"; do
        run -65 sendmail -t < <(message none "To: $to")
    contains "$output" 'not an email address'
    run -65 sendmail "$to" < <(message none)
  done
  nothing_was_sent
}

@test "a list of more than a thousand recipients is refused" {
  run -65 sendmail -t < <(message many "To: $(seq -s, -f 'n%.0f@x.example' 1001)")
  contains "$output" 'too many recipients'
  # shellcheck disable=SC2046 # a word each
  run -65 sendmail $(seq -f 'n%.0f@x.example' 1001) < <(message many)
  contains "$output" 'too many recipients'
  nothing_was_sent
}

@test "local names are replaced in lists with semicolons and groups" {
  message semicolon "To: $CAROL; root" | sendmail -t
  message group "To: team: $CAROL, Charlie <root>;" | sendmail -t
  settle
  for subject in semicolon group; do
    holds <(content "$BOB" "$subject") '[.to_addresses[].address] == [$c, $b]' --arg b "$BOB" --arg c "$CAROL"
  done
}

@test "aliases replace names at localhost and at the machine's name" {
  local host
  for host in localhost localhost.localdomain "$HOSTNAME"; do
    message "args $host" | sendmail "root@$host"
    message "To $host" "To: Root <root@$host>" | sendmail -t
    message "Cc $host" "To: $CAROL" "Cc: ROOT@${host^^}" | sendmail -t
    message "other $host" | sendmail --root="$CAROL" "www-data@$host"
    run -67 sendmail "nobody@$host" < <(message none)
    contains "$output" 'nobody is no email address'
  done
  run -65 sendmail -t < <(message none 'To: "a b"@localhost')
  settle
  for host in localhost localhost.localdomain "$HOSTNAME"; do
    holds <(content "$BOB" "args $host") '[.to_addresses[].address] == [$b]' --arg b "$BOB"
    holds <(content "$BOB" "To $host") '[.to_addresses[].address] == [$b]' --arg b "$BOB"
    holds <(content "$BOB" "Cc $host") '[.cc_addresses[].address] == [$b]' --arg b "$BOB"
    has_received "$CAROL" "other $host"
  done
  equal "$(api GET /email/outbound | jq length)" 12
}

# Runs inboxfs-sendmail where the machine is named box, in full box.example.com, and /etc/mailname is mail.example.com.
on_box() { # ARGUMENT... <MESSAGE
  local run
  mkdir -p "$DIR/box"
  printf '127.0.0.1 localhost\n127.0.1.1\tbox.example.com box # another.example.com\n192.0.2.1 other.example.com\n' >"$DIR/box/hosts"
  echo mail.example.com >"$DIR/box/mailname"
  # shellcheck disable=SC2016 # the inner shell expands them
  run='echo box >/proc/sys/kernel/hostname && mount -t overlay -o "lowerdir=$1:/etc" overlay /etc && shift && exec "$@"'
  unshare --uts --mount sh -c "$run" - "$DIR/box" "$BUILD/inboxfs-sendmail" --aliases="$DIR/aliases" "$@"
}

@test "at the machine's full name, aliases replace only root and the names in the alias file" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  local address
  for address in root@box.example.com admin@mail.example.com root@BOX; do
    message "$address" "To: $address" | on_box -t
  done
  message foreign "To: $BOB" "Cc: bob@box.example.com, root@other.example.com, root@another.example.com" |
    on_box --root="$CAROL" -t
  settle
  for address in root@box.example.com admin@mail.example.com root@BOX; do
    holds <(content "$BOB" "$address") '[.to_addresses[].address] == [$b]' --arg b "$BOB"
  done
  holds <(content "$BOB" foreign) '[.cc_addresses[].address] == ["bob@box.example.com", "root@other.example.com",
    "root@another.example.com"]'
  equal "$(received_count "$CAROL" foreign)" 0
}

@test "aliases do not replace an address that is an inbox of the mount" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  printf 'bob: %s\n' "$CAROL" >"$DIR/aliases"
  # shellcheck disable=SC2016 # the inner shell expands them
  message own "To: $BOB" | unshare --uts sh -c 'echo "$1" >/proc/sys/kernel/hostname && "$2" --aliases="$3" -t' - \
    "$DOMAIN" "$BUILD/inboxfs-sendmail" "$DIR/aliases"
  settle
  has_received "$BOB" own
  equal "$(received_count "$CAROL" own)" 0
  printf 'bob: no address\n' >"$DIR/aliases"
  # shellcheck disable=SC2016
  printf 'EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<%s>\r\nDATA\r\nSubject: smtp\r\n\r\nx\r\n.\r\nQUIT\r\n' "$BOB" |
    unshare --uts sh -c 'echo "$1" >/proc/sys/kernel/hostname && "$2" --aliases="$3" -bs' - \
      "$DOMAIN" "$BUILD/inboxfs-sendmail" "$DIR/aliases" >/dev/null
  settle
  has_received "$BOB" smtp
}

@test "addresses in a list with a local name keep their display names" {
  message names "To: Bob <$BOB>, \"C. \\\"Carol\\\" Müller\" <$CAROL>, root" | sendmail -t
  settle
  holds <(content "$CAROL" names) '.to_addresses[0:2] == [{address: $b, name: "Bob"}, {address: $c, name: $n}]' \
    --arg b "$BOB" --arg c "$CAROL" --arg n 'C. "Carol" Müller'
}

@test "the quoted display name of a local name may contain quotes and commas" {
  message quoted 'To: "The \"team, @home\" itself" <root>' | sendmail -t
  settle
  has_received "$BOB" quoted
}

@test "a missing file of --aliases is an error" {
  run -75 "$BUILD/inboxfs-sendmail" --aliases="$DIR/none" "$BOB" < <(message x)
  nothing_was_sent
}

@test "no error message shows text of the alias file" {
  printf 'user: me\npassword: s3cr3t hunter2\ntoken: s3cr3t\nroot: s3cr3t@%s\n' "$DOMAIN" >"$DIR/aliases"
  for name in password token; do
    run sendmail "$name" < <(message none)
    [ "$status" -ge 64 ]
    contains "$output" "$name"
    [[ $output != *s3cr3t* ]]
  done
  run -65 sendmail "$BOB" < <(message none "To: root")
  contains "$output" 'a local name stands in the headers'
  [[ $output != *s3cr3t* ]]
  nothing_was_sent
}

@test "a user of sudo can send, but not with Attach:, --aliases or a second --mount" {
  printf 'of the owner\n' >"$MOUNT/attachments/secret.txt"
  export SUDO_UID=12345
  run -65 "$BUILD/inboxfs-sendmail" "$BOB" < <(message none 'attach : secret.txt')
  contains "$output" 'Attach:'
  run -64 sendmail root < <(message none)
  contains "$output" '--aliases'
  run -64 "$BUILD/inboxfs-sendmail" --mount="$MOUNT" --moun="$DIR" "$BOB" < <(message none)
  contains "$output" 'given twice'
  nothing_was_sent
  message by-sudo | "$BUILD/inboxfs-sendmail" --mount="$MOUNT" -i "$BOB"
  SUDO_UID=0 sendmail root < <(message by-root 'Attach: secret.txt')
  settle
  has_received "$BOB" by-sudo
  holds <(content "$BOB" by-root) '.attachments[0].filename == "secret.txt"'
}

@test "one given recipient becomes To if no header names recipients; several become Bcc" {
  message one | sendmail "$BOB"
  message alias | sendmail root
  message two | sendmail "$BOB" "$CAROL"
  message cc "Cc: $CAROL" | sendmail "$CAROL" "$BOB"
  settle
  for subject in one alias; do
    holds <(content "$BOB" "$subject") '[.to_addresses[].address] == [$b]' --arg b "$BOB"
  done
  content "$BOB" two >"$DIR/content"
  holds "$DIR/content" '.to_addresses == [] and ([.bcc_addresses[].address] | contains([$c]) | not)' --arg c "$CAROL"
  content "$BOB" cc >"$DIR/content"
  holds "$DIR/content" '.to_addresses == [] and [.cc_addresses[].address] == [$c]' --arg c "$CAROL"
  has_received "$CAROL" two
  has_received "$CAROL" cc
}

@test "a recipient who is named twice or by several aliases gets the message once" {
  message given | sendmail "$BOB" root "${BOB^^}"
  message headers 'To: Team <team>, root' "Cc: $CAROL, $CAROL" | sendmail -t root
  settle
  holds <(api GET /email/outbound) '[.[] | select(.subject == "given")][0] |
    [.to_addresses, .bcc_addresses | map(.address)] == [[$b], []]' --arg b "$BOB"
  holds <(api GET /email/outbound) '[.[] | select(.subject == "headers")][0] |
    [.to_addresses, .cc_addresses, .bcc_addresses | map(.address)] == [[$b, $c], [$c], []]' --arg b "$BOB" --arg c "$CAROL"
}

# ---------------------------------------------------------------- the text

@test "a line of one dot ends the message except with -i or -oi" {
  printf 'Subject: ends\n\none\n.gitignore\n..\n.\ntwo\n' | sendmail "$BOB"
  printf 'Subject: i\n\none\n.\ntwo\n' | sendmail -i "$BOB"
  printf 'Subject: oi\n\none\n.\ntwo\n' | sendmail -oi "$BOB"
  printf 'Subject: o i\n\none\n.\ntwo\n' | sendmail -o i "$BOB"
  settle
  equal "$(content "$BOB" ends | jq .plain_text)" '"one\n.gitignore\n..\n"'
  for subject in i oi 'o i'; do
    equal "$(content "$BOB" "$subject" | jq .plain_text)" '"one\n.\ntwo\n"'
  done
}

@test "CRLF becomes LF, and the From line of a mailbox is dropped" {
  printf 'From alice Thu Jan  1 00:00:00 1970\r\nSubject: crlf\r\nTo: %s\r\n\r\none\r\ntwo' "$BOB" | sendmail -t
  settle
  equal "$(content "$BOB" crlf | jq .plain_text)" '"one\ntwo"'
}

@test "blanks before the colon of a header are ignored, also in the first line" {
  printf 'From : %s\nTo : %s\nSubject\t: blanks\n\nx\n' "$CAROL" "$BOB" | sendmail -t
  printf 'From x@y.example Thu Jan  1 00:00:00 1970\nFrom : %s\nSubject: mbox\n\nx\n' "$CAROL" | sendmail "$BOB"
  settle
  for subject in blanks mbox; do
    holds <(content "$BOB" "$subject") '.from_address.address == $c' --arg c "$CAROL"
  done
}

@test "headers after one with an unusual name are still headers" {
  local name names=(X+c X/c 'X(c)' 'X@c' 'X=c' "X'c" 'X{c}' 'X"c' +X '*X' '$X' '!X' '#X' '%X' '&X' "'X" '^X' '`X' '|X' '~X')
  for name in "${names[@]}"; do
    message "$name" "$name: 1" "To: $BOB" "Bcc: $CAROL" | sendmail -t
  done
  settle
  for name in "${names[@]}"; do
    holds <(content "$BOB" "$name") '.plain_text == "The text.\n" and [.to_addresses[].address] == [$b]' --arg b "$BOB"
    has_received "$CAROL" "$name"
  done
}

@test "a byte order mark before the headers or the text is dropped" {
  printf '\xef\xbb\xbfSubject: mark\nTo: %s\nBcc: %s\n\nThe text.\n' "$BOB" "$CAROL" | sendmail -t
  printf '\xef\xbb\xbfjust a text\n' | sendmail "$BOB"
  settle
  equal "$(content "$BOB" mark | jq .plain_text)" '"The text.\n"'
  has_received "$CAROL" mark
  contains "$(content "$BOB" '' | jq -r .plain_text)" 'just a text'
}

@test "bytes of standard input that the caller has read are not sent" {
  printf 'read before\nSubject: rest\n\nrest\n' >"$DIR/file"
  {
    read -r line
    sendmail "$BOB"
  } <"$DIR/file"
  equal "$line" 'read before'
  settle
  has_received "$BOB" rest
}

@test "headers without a body are sent, and so is an empty input" {
  printf 'Subject: alone' | sendmail "$BOB"
  sendmail "$CAROL" </dev/null
  settle
  has_received "$BOB" alone
  has_received "$CAROL" ''
}

@test "lines after the headers that look like headers or JSON are body text" {
  printf '{"to_addresses": ["%s"]}\n' "$CAROL" | sendmail "$BOB"
  printf 'Subject: body\nnot a header\nBcc: %s\n' "$CAROL" | sendmail "$BOB"
  printf 'Subject: %s\n%s\n' json '{"a":"b"}' | sendmail "$BOB"
  printf 'Subject: %s\n%s\n' path '/bin/job: not found' | sendmail "$BOB"
  settle
  equal "$(content "$BOB" json | jq -r .plain_text)" '{"a":"b"}'
  equal "$(content "$BOB" path | jq -r .plain_text)" '/bin/job: not found'
  contains "$(content "$BOB" '' | jq -r .plain_text)" to_addresses
  contains "$(content "$BOB" body | jq -r .plain_text)" "Bcc: $CAROL"
  equal "$(api GET "/email?inbox_ids=$(inbox_id "$CAROL")" | jq 'map(select(.subject == "" or .subject == "body")) | length')" 0
}

@test "a message with NUL bytes, or that is too long, is refused" {
  run -65 sendmail "$BOB" < <(printf 'Subject: x\n\na\0b\n')
  run -65 sendmail "$BOB" < <(head -c 30000000 /dev/zero | tr '\0' 'a')
  contains "$output" 'over 23000000 bytes'
  nothing_was_sent
}

# ---------------------------------------------------------------- the sender

@test "-f and -F, else the mount's sender, replace a From that is not an address" {
  printf 'From: root (Cron Daemon)\nSubject: cron\n\nx\n' | sendmail -FCronDaemon -i "$BOB"
  printf 'Subject: f\n\nx\n' | sendmail -f "$CAROL" -F 'The "C" Team' "$BOB"
  printf 'Subject: r\n\nx\n' | sendmail "-r$CAROL" "$BOB"
  printf 'From: "A" <%s>\nSubject: kept\n\nx\n' "$ALICE" | sendmail -f "$CAROL" -F C "$BOB"
  printf 'Subject: local\n\nx\n' | sendmail -f root "$BOB"
  printf 'From: root@%s\nSubject: machine\n\nx\n' "$HOSTNAME" | sendmail -f "root@$HOSTNAME" "$BOB"
  settle
  sender() { content "$BOB" "$1" | jq -r .from_address.address; }
  equal "$(sender cron)" "$ALICE"
  equal "$(sender f)" "$CAROL"
  equal "$(sender r)" "$CAROL"
  equal "$(sender kept)" "$ALICE"
  equal "$(sender local)" "$ALICE"
  equal "$(sender machine)" "$ALICE"
}

@test "a replaced From at the machine's full name becomes Reply-To" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  printf 'From: The Shop <shop@box.example.com>\nTo: %s\nSubject: shop\n\nx\n' "$BOB" | on_box -t
  printf 'From: shop@mail.example.com\nReply-To: %s\nTo: %s\nSubject: own\n\nx\n' "$CAROL" "$BOB" | on_box -t
  printf 'From: Cron <root@box>\nTo: %s\nSubject: local\n\nx\n' "$BOB" | on_box -t
  settle
  for subject in shop own local; do
    equal "$(content "$BOB" "$subject" | jq -r .from_address.address)" "$ALICE"
  done
  holds <(content "$BOB" shop) '.reply_to_addresses == [{address: "shop@box.example.com", name: "The Shop"}]'
  holds <(content "$BOB" own) '[.reply_to_addresses[].address] == [$c]' --arg c "$CAROL"
  holds <(content "$BOB" local) '.reply_to_addresses == []'
}

@test "--rewrite-from replaces any From that is not an inbox, and no other" {
  printf 'From: Shop <shop@company.example>\nTo: %s\nSubject: foreign\n\nx\n' "$BOB" |
    sendmail --rewrite-from -f "www@company.example" -t
  printf 'From: Shop <shop@company.example>\nTo: %s\nSubject: given\n\nx\n' "$BOB" |
    sendmail --rewrite-from -f "$CAROL" -t
  printf 'From: %s\nTo: %s\nSubject: inbox\n\nx\n' "${CAROL^^}" "$BOB" | sendmail --rewrite-from -t
  settle
  holds <(content "$BOB" foreign) '.from_address.address == $a and
    .reply_to_addresses == [{address: "shop@company.example", name: "Shop"}]' --arg a "$ALICE"
  holds <(content "$BOB" given) '.from_address.address == $c' --arg c "$CAROL"
  holds <(content "$BOB" inbox) '.from_address.address == $c and .reply_to_addresses == []' --arg c "$CAROL"
}

@test "line breaks in -f and -F cannot add a header" {
  printf 'Subject: F\n\nx\n' | sendmail -f "$CAROL" -F $'C\nBcc: '"$CAROL" "$BOB"
  printf 'Subject: f\n\nx\n' | sendmail -f $'x@y.example>\nBcc: '"$CAROL" "$BOB"
  printf 'Subject: g\n\nx\n' | sendmail -f "$CAROL"$'\nBcc: '"$CAROL" "$BOB"
  settle
  equal "$(received_count "$CAROL" F)$(received_count "$CAROL" f)$(received_count "$CAROL" g)" 000
}

# ---------------------------------------------------------------- arguments

@test "flags without effect here are ignored with their arguments" {
  message flags "To: $BOB" |
    sendmail -B 8BITMIME -B8BITMIME -h 10 -L tag -m -n -N never -O Timeout=1 -oem -odb -o em -q15m -R hdrs -U -V id -v -X /dev/null \
      -bm -- "$BOB"
  message others "To: $BOB" |
    sendmail -Am -A c -C /dev/null -c -D /dev/null -d -d8 -E -e m -em -G -M x -N success,failure -n -oA/etc/aliases \
      -oMr local -oMa 192.0.2.1 -p smtp:host -Q -Qreason -q -S -s -T -U -V -XV -x -- "$BOB"
  settle
  has_received "$BOB" flags
  has_received "$BOB" others
}

@test "unsupported modes of -b and unknown flags are refused" {
  for flag in -bv -bd -bt -bh -Z --unknown; do
    run -64 sendmail "$flag" "$BOB" < <(message x)
  done
  nothing_was_sent
}

@test "an argument after -- is a recipient even if it begins with a dash" {
  run -65 sendmail -- -t "$BOB" < <(message x "To: $CAROL")
  nothing_was_sent
}

@test "--help, --version, newaliases and -q without a maildrop succeed and send nothing" {
  contains "$(sendmail --help)" 'Usage:'
  contains "$(sendmail --version)" inboxfs-sendmail
  ln -s "$BUILD/inboxfs-sendmail" "$DIR/newaliases"
  "$DIR/newaliases"
  sendmail -bi </dev/null
  sendmail -I </dev/null
  sendmail -q </dev/null
  nothing_was_sent
}

# ---------------------------------------------------------------- the outbox

@test "a message that the outbox refuses fails with its reason, and leaves no draft" {
  run -65 sendmail "$BOB" < <(printf 'From: nobody@%s\nSubject: x\n\nx\n' "$DOMAIN")
  contains "$output" 'refused: '
  contains "$output" nobody
  run -65 sendmail -t < <(printf 'Subject: x\nTo: %s\nAttach: nothing.pdf\n\nx\n' "$BOB")
  contains "$output" nothing.pdf
  nothing_was_sent
}

@test "a message is accepted while the service is offline, and mailq lists it until it is sent" {
  local before after name
  stop_service
  before=$(date -u +%Y%m%dT%H%M%SZ)
  message away "To: $BOB" | sendmail -t
  after=$(date -u +%Y%m%dT%H%M%SZ)~
  name=$(ls "$MOUNT/outbox")
  equal "$(printf '%s\n' "$before" "$name" "$after" | sort)" "$before"$'\n'"$name"$'\n'"$after"
  ln -s "$BUILD/inboxfs-sendmail" "$DIR/mailq"
  run -0 "$DIR/mailq"
  contains "$output" .eml
  equal "$(sendmail -bp | wc -l)" 1
  run -74 bash -c '"$1" -bp >/dev/full' - "$BUILD/inboxfs-sendmail"
  start_service
  echo 'retry all' >"$MOUNT/ctl"
  wait_until 30 has_received "$BOB" away
  wait_until 10 eval "[ '$(sendmail -bp)' != '' ] && $BUILD/inboxfs-sendmail -bp | grep -q empty"
}

@test "--wait prints the id that the service gave the message" {
  id=$(message waited "To: $BOB" | sendmail --wait -t)
  equal "$(api GET /email/outbound | jq -r '.[0].id')" "$id"
  has_received "$BOB" waited
}

@test "--wait reports why the service refused the message" {
  stop_mount
  stop_service
  export SERVICE_PORT=0
  start_scripted_service
  server_answers send '{"status": 422, "body": {"detail": "no such luck"}}'
  start_mount --from="$ALICE" --state-dir="$DIR/other"
  run -69 sendmail --wait "$BOB" < <(printf 'Subject: x\n\nx\n')
  contains "$output" 'failed: '
  contains "$output" 'no such luck'
}

@test "--wait fails when the message is removed from the outbox" {
  stop_service
  message withdrawn "To: $BOB" | sendmail --wait -t 2>"$DIR/said" &
  wait_until 10 eval "[ -n \"\$(ls $MOUNT/outbox)\" ]"
  wait_until 10 eval "rm $MOUNT/outbox/*" # fails while a request for the message is under way
  status=0
  wait $! || status=$?
  equal "$status" 69
  contains "$(cat "$DIR/said")" 'taken out of outbox/'
  start_service
}

@test "--wait fails when the mount ends, and reports that the message will be sent later" {
  stop_service
  message later "To: $BOB" | sendmail --wait -t 2>"$DIR/said" &
  local pid=$!
  wait_until 10 eval "[ -n \"\$(ls $MOUNT/outbox)\" ]"
  umount -l "$MOUNT" || fusermount3 -uz "$MOUNT"
  kill -TERM "$MOUNT_PID"
  wait_until 20 process_is_gone "$pid"
  status=0
  wait "$pid" || status=$?
  equal "$status" 69
  contains "$(cat "$DIR/said")" 'the mount is gone; it goes out when it is back'
  MOUNT_PID=
  start_service
  start_mount --from="$ALICE"
  echo 'retry all' >"$MOUNT/ctl"
  wait_until 30 has_received "$BOB" later
}

@test "inboxfs-sendmail sends nothing if it is killed while it reads the message" {
  mkfifo "$DIR/pipe"
  "$BUILD/inboxfs-sendmail" "$BOB" <"$DIR/pipe" &
  exec 7>"$DIR/pipe"
  printf 'Subject: half\n\nhalf a te' >&7
  kill -KILL $!
  wait $! || true
  exec 7>&-
  nothing_was_sent
}

# ---------------------------------------------------------------- finding the mount

@test "the only mount is used without --mount, and several mounts require --mount" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  unset INBOXFS_MOUNT
  hide_other_mounts
  message found "To: $BOB" | "${AMONG_OWN_MOUNTS[@]}" "$BUILD/inboxfs-sendmail" -t
  settle
  has_received "$BOB" found
  mkdir "$DIR/second"
  # shellcheck disable=SC2016 # the inner shell expands them
  run -64 "${AMONG_OWN_MOUNTS[@]}" bash -c 'mount --bind "$1" "$2" && "$3" -t' - "$MOUNT" "$DIR/second" \
    "$BUILD/inboxfs-sendmail" < <(message lost "To: $BOB")
  contains "$output" '--mount=DIR'
  # A mount that another file system hides does not count.
  # shellcheck disable=SC2016
  "${AMONG_OWN_MOUNTS[@]}" bash -c 'mount --bind "$1" "$2" && mount -t tmpfs none "$2" &&
    mkdir "$2/outbox" "$2/drafts" && "$3" -t' - "$MOUNT" "$DIR/second" "$BUILD/inboxfs-sendmail" < <(message visible "To: $BOB")
  settle
  has_received "$BOB" visible
  message named "To: $BOB" | sendmail --mount="$MOUNT" -t
  settle
  has_received "$BOB" named
}

@test "a --mount that is not an inboxfs mount fails with status 75" {
  run -75 sendmail --mount="$DIR" "$BOB" < <(message x)
  contains "$output" 'no inboxfs is mounted there'
  run -75 sendmail --mount="$DIR/none" "$BOB" < <(message x)
  mkdir -p "$DIR/plain/outbox" "$DIR/plain/drafts" # folders that a mail program may have
  run -75 sendmail --mount="$DIR/plain" "$BOB" < <(message x)
  contains "$output" 'no inboxfs is mounted there'
  mkdir -p "$MOUNT/drafts/folder/outbox" # on FUSE, but not the root of a mount
  run -75 sendmail --mount="$MOUNT/drafts/folder" "$BOB" < <(message x)
  contains "$output" 'no inboxfs is mounted there'
  equal "$(ls "$MOUNT/drafts/folder/outbox")" ""
}

@test "another user's mount is refused with status 77" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  chmod a+rx "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR/.." "$DIR" 2>/dev/null || true
  cp "$BUILD/inboxfs-sendmail" "$DIR/copy"
  run setpriv --reuid=65534 --regid=65534 --clear-groups "$DIR/copy" --mount="$MOUNT" "$BOB" < <(message x)
  [ "$status" = 77 ] || [ "$status" = 126 ] # this user may not be able to enter the folders above
  # The same without --mount.
  unset INBOXFS_MOUNT
  hide_other_mounts
  run "${AMONG_OWN_MOUNTS[@]}" setpriv --reuid=65534 --regid=65534 --clear-groups "$DIR/copy" "$BOB" < <(message x)
  [ "$status" = 126 ] || {
    equal "$status" 77
    contains "$output" "another user's"
  }
}

@test "a mount that dies before it answers gives status 69, for the message may have been accepted" {
  local daemon
  stop_mount
  INBOXFS_CRASH_AT=handed_in start_mount --from="$ALICE"
  daemon=$MOUNT_PID
  run -69 sendmail "$BOB" < <(message unanswered)
  contains "$output" 'may be accepted'
  wait_until 20 process_is_gone "$daemon"
  MOUNT_PID=
  wait "$daemon" || true
  fusermount3 -uz "$MOUNT"
  start_mount
  settle
  has_received "$BOB" unanswered
}

# The kernel shows the real user ID as the owner of the mount.
start_mount_of_user() { # UID
  printf '#!/bin/sh\nexec setpriv --ruid=%s "%s" "$@"\n' "$1" "$BUILD/inboxfs" >"$DIR/inboxfs"
  chmod +x "$DIR/inboxfs"
  INBOXFS=$DIR/inboxfs start_mount --from="$ALICE" -o allow_other
}

@test "a system account's mount is used without --mount, another user's only with --mount" {
  local user
  [ "$(id -u)" = 0 ] || skip 'needs root'
  export INBOXFS_MOUNT= # as if it were not set
  for user in 999 1000; do
    stop_mount
    start_mount_of_user "$user"
    hide_other_mounts
    run "${AMONG_OWN_MOUNTS[@]}" "$BUILD/inboxfs-sendmail" "$BOB" < <(message "of $user")
    settle
    equal "$(received_count "$BOB" "of $user")" $((user < 1000))
    equal "$status" $((user < 1000 ? 0 : 77))
  done
  contains "$output" "another user's"
  message named | sendmail --mount="$MOUNT" "$BOB"
  settle
  has_received "$BOB" named
}

# ---------------------------------------------------------------- programs

@test "mutt and neomutt send through inboxfs-sendmail, also to Bcc" {
  needs mutt neomutt
  local program
  for program in mutt neomutt; do
    HOME=$DIR "$program" -n -F /dev/null -e "set sendmail='$BUILD/inboxfs-sendmail -oem -oi' copy=no" \
      -e "set from=$ALICE use_from=yes" -s "by $program" -b "$CAROL" "$BOB" <<<'Grüße'
  done
  settle
  for program in mutt neomutt; do
    holds <(content "$BOB" "by $program") '.plain_text == "Grüße\n" and [.to_addresses[].address] == [$b]' --arg b "$BOB"
    has_received "$CAROL" "by $program"
  done
}

@test "s-nail sends attachments, Bcc and a message with -t through inboxfs-sendmail" {
  needs s-nail
  local nail=(s-nail -:/ -S mta="$BUILD/inboxfs-sendmail" -S from="Alice <$ALICE>")
  printf 'a,b\n' >"$DIR/figures.csv"
  "${nail[@]}" -s "by s-nail" -c "Carol <$CAROL>" -a "$DIR/figures.csv" "Bob <$BOB>" <<<'Grüße'
  "${nail[@]}" -S mta-arguments='-oem -oi' -s blind -b "$CAROL" "$BOB" <<<$'one\n.\ntwo'
  printf 'To: %s\nBcc: %s\nSubject: template\n\nText.\n' "$BOB" "$CAROL" | "${nail[@]}" -t
  settle
  holds <(content "$BOB" "by s-nail") '(.plain_text | rtrimstr("\n")) == "Grüße" and .cc_addresses[0].address == $c and
    .attachments[0].filename == "figures.csv"' --arg c "$CAROL"
  equal "$(content "$BOB" blind | jq .plain_text)" '"one\n.\ntwo\n"'
  for subject in blind template; do
    holds <(content "$BOB" "$subject") '[.to_addresses[].address] == [$b] and .cc_addresses == [] and
      .bcc_addresses == []' --arg b "$BOB"
    has_received "$CAROL" "$subject"
  done
}

@test "git send-email sends patches with non-ASCII names, Cc trailers and Bcc through inboxfs-sendmail" {
  export HOME=$DIR GIT_CONFIG_NOSYSTEM=1
  git init -q "$DIR/work"
  cd "$DIR/work"
  git config user.name 'Älice'
  git config user.email "$ALICE"
  git config sendemail.smtpserver "$BUILD/inboxfs-sendmail"
  git config sendemail.confirm never
  git commit -q --allow-empty -m root
  for patch in one two; do
    echo "Grüße $patch" >"$patch"
    git add "$patch"
    git commit -qm "$patch"$'\n\n'"Cc: Carol Müller <$CAROL>"
  done
  git send-email --quiet --to="$BOB" --suppress-cc=self -2 >/dev/null
  git send-email --quiet --to="$BOB" --suppress-cc=all --bcc="$CAROL" --subject-prefix=BLIND -1 >/dev/null
  settle
  holds <(content "$BOB" '[PATCH 2/2] two') '(.plain_text | contains("+Grüße two")) and
    .cc_addresses == [{address: $c, name: "Carol Müller"}]' --arg c "$CAROL"
  content "$BOB" '[PATCH 1/2] one' >"$DIR/first"
  holds "$DIR/first" '.from_address.address == $a' --arg a "$ALICE"
  holds <(content "$BOB" '[BLIND] two') '.cc_addresses == [] and .bcc_addresses == []'
  has_received "$CAROL" '[BLIND] two'
}

@test "a From at this machine's name that is an inbox is kept" {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  # shellcheck disable=SC2016 # the inner shell expands them
  printf 'From: %s\nTo: %s\nSubject: own\n\nout\n' "$BOB" "$CAROL" |
    unshare --uts sh -c 'echo "$1" >/proc/sys/kernel/hostname && "$2" -t' - "$DOMAIN" "$BUILD/inboxfs-sendmail"
  settle
  equal "$(content "$CAROL" own | jq -r .from_address.address)" "$BOB"
}

@test "messages sent as cron, at, mdadm, PHP and python do are received" {
  printf 'From: root (Cron Daemon)\nTo: root\nSubject: cron\nAuto-Submitted: auto-generated\n\nout\n' |
    sendmail -i -FCronDaemon -B8BITMIME -oem root
  printf 'Subject: at\nTo: root\n\nout\n' | sendmail -i root
  printf 'From: mdadm monitoring <root@%s>\nTo: root\nSubject: mdadm\n\nout\n' "$HOSTNAME" | sendmail -t
  run -65 sendmail -t < <(printf 'From: root@another.example\nTo: root\nSubject: foreign\n\nout\n')
  contains "$output" "root@another.example is not one of your inboxes"
  printf 'To: %s\r\nSubject: php\r\nX-PHP-Originating-Script: 0:x.php\r\n\r\nout\r\n' "$BOB" | sendmail -t -i
  python3 - "$BUILD/inboxfs-sendmail" "$BOB" <<'EOF'
import email.message, subprocess, sys
message = email.message.EmailMessage()
message["To"] = sys.argv[2]
message["Subject"] = "python"
message.set_content("out")
subprocess.run([sys.argv[1], "-t", "-oi"], input=message.as_bytes(), check=True)
EOF
  settle
  for subject in cron at mdadm php python; do
    equal "$subject $(content "$BOB" "$subject" | jq -r .plain_text)" "$subject out"
  done
}

@test "inboxfs-sendmail links none of the libraries that load slowly" {
  run -0 ldd "$BUILD/inboxfs-sendmail"
  contains "$output" libjansson
  equal "$(grep -cE 'gmime|xml2|curl|ssl|sqlite|microhttpd|fuse' <<<"$output")" 0
}
