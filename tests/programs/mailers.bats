#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Programs and libraries that write and send mail, each by every way that it knows: their mail is whole in the mount,
# and nobody sees who got it by Bcc.

load ../mount/support

CAROL=carol@$DOMAIN
SENDMAIL=$BUILD/inboxfs-sendmail

setup() {
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=localhost" -addext subjectAltName=DNS:localhost \
    -keyout "$DIR/tls.key" -out "$DIR/tls.pem" 2>/dev/null
  start_service --smtp=127.0.0.1:0 --tls-cert="$DIR/tls.pem" --tls-key="$DIR/tls.key"
  SMTP_PORT=$(sed -n 's/^inboxd: SMTP on .*://p' "$DIR/inboxd.out")
  create_inboxes "$ALICE" "$BOB" "$CAROL"
  start_mount --from="$ALICE"
  refresh
  export INBOXFS_MOUNT=$MOUNT HOME=$DIR
  {
    printf 'Grüße,\n\n.\nFrom here on a line of a dot stands above.\n'
    printf 'long %.0s' {1..400}
    echo
  } >"$DIR/text"
  head -c 20000 /dev/urandom >"$DIR/report.bin"
}

teardown() {
  stop_all
}

is_whole() { # SUBJECT ATTACHMENT-NAME
  local folder
  folder=$(folder "$BOB" "$1")
  equal "$(cat "$folder/body.txt")" "$(cat "$DIR/text")"
  cmp "$folder/attachments/$2" "$DIR/report.bin"
  if grep -i carol "$folder/message.eml" "$folder.json"; then
    fail "Bob sees that Carol got it"
  fi
}

# Carol has it, too, but for the clients that send something else to her.
reaches_carol() { # SUBJECT
  equal "$(cat "$(folder "$CAROL" "$1")/body.txt")" "$(cat "$DIR/text")"
}

arrive() { # SUBJECT...
  local subject
  sync "$MOUNT/outbox"
  refresh
  for subject; do
    is_whole "$subject" Übersicht.bin
    reaches_carol "$subject"
    grep -q 'Grüße <img' "$(folder "$BOB" "$subject")/body.html"
  done
}

# PHP trusts the service's certificate, and checks it.
by_symfony() { # SUBJECT DSN [OPTION of php...]
  php -d "openssl.cafile=$DIR/tls.pem" "${@:3}" "$BATS_TEST_DIRNAME/symfony.php" "$2" "$1" "$DIR/text" "$DIR/report.bin"
}

@test "Symfony Mailer: sendmail -bs, which is its default, sendmail -t, that of php.ini, and SMTP with TLS and a login" {
  by_symfony bs "sendmail://default?command=$SENDMAIL%20-bs"
  by_symfony t "sendmail://default?command=$SENDMAIL%20-t%20-i"
  by_symfony native native://default -d "sendmail_path=$SENDMAIL -t -i"
  by_symfony smtp "smtp://localhost:$SMTP_PORT"
  by_symfony login "smtp://anybody:anything@localhost:$SMTP_PORT"
  arrive bs t native smtp login
}

by_phpmailer() { # SUBJECT HOW [OPTION of php...]
  php -d "openssl.cafile=$DIR/tls.pem" "${@:3}" "$BATS_TEST_DIRNAME/phpmailer.php" "$2" "$1" "$DIR/text" "$DIR/report.bin"
}

@test "PHPMailer: isSendmail, isMail, and isSMTP, with TLS and a login as well" {
  by_phpmailer sendmail "sendmail:$SENDMAIL"
  by_phpmailer mail mail -d "sendmail_path=$SENDMAIL -t -i"
  by_phpmailer smtp "smtp:$SMTP_PORT"
  by_phpmailer login "login:$SMTP_PORT"
  arrive sendmail mail smtp login
}

# nmh encloses for Carol what Bob got, in a message of its own.
@test "nmh: by sendmail's arguments, by sendmail -bs, and by SMTP" {
  local way
  echo "Path: $DIR/Mail" >"$DIR/.mh_profile"
  for way in sendmail/pipe sendmail/smtp smtp; do
    printf '%s\n' "mts: $way" "sendmail: $SENDMAIL" "servers: 127.0.0.1" >"$DIR/mts.conf"
    {
      printf '%s\n' "From: Alice <$ALICE>" "To: Bob <$BOB>" "Bcc: $CAROL" "Subject: $way" "Attach: $DIR/report.bin" ''
      cat "$DIR/text"
    } >"$DIR/draft"
    LC_ALL=C.UTF-8 MHMTSCONF=$DIR/mts.conf /usr/bin/mh/send -port "$SMTP_PORT" "$DIR/draft"
  done
  sync "$MOUNT/outbox"
  refresh
  for way in sendmail/pipe sendmail/smtp smtp; do
    is_whole "$way" report.bin
    grep -q 'Blind-Carbon-Copy' "$(folder "$CAROL" "$way")/body.txt"
  done
}

# Alice's inbox has her name, which stands in From of what goes out by the outbox.
make_series() {
  jq '.name = "Alice Ä"' "$MOUNT/inboxes/$ALICE/inbox.json" >"$DIR/inbox.json"
  cp "$DIR/inbox.json" "$MOUNT/inboxes/$ALICE/inbox.json"
  git init -q "$DIR/repository"
  cd "$DIR/repository" || return
  git config user.name 'Alice Ä'
  git config user.email "$ALICE"
  local number
  for number in 0 1 2 3; do
    echo "$number ü" >>file
    git add file
    git commit -qm "add line $number: ü" -m $'A line of a dot:\n.\nFrom here on.'
  done
}

send_series() { # OPTION...
  git send-email --quiet --confirm=never --suppress-cc=self --to="$BOB" --bcc="$CAROL" "$@" -3 </dev/null
}

# The three patches as Bob has them, in the order in which they came: applied, they are what Alice has.
applies() {
  local number files=()
  for number in 1 2 3; do
    files+=("$(folder "$BOB" "[PATCH $number/3] add line $number: ü")/message.eml")
    present "$(folder "$CAROL" "[PATCH $number/3] add line $number: ü").json"
  done
  equal "$(jq -r 'select(.subject | startswith("[PATCH")).subject[7:8]' "$MOUNT/inboxes/$BOB/index.jsonl" | xargs)" "1 2 3"
  if grep -i carol "${files[@]}"; then fail "Bob sees that Carol got it"; fi
  git clone -q "$DIR/repository" "$DIR/bobs"
  cd "$DIR/bobs" || return
  git reset -q --hard HEAD~3
  git -c user.name=Bob -c user.email="$BOB" am -q "${files[@]}"
  equal "$(git log --format='%an %ae %B')" "$(git -C "$DIR/repository" log --format='%an %ae %B')"
  cmp file "$DIR/repository/file"
}

@test "git send-email of a series by sendmail: all arrive in order and apply; that they are a thread, the receipt says, is not carried" {
  make_series
  send_series --sendmail-cmd="$SENDMAIL"
  sync "$MOUNT/outbox"
  refresh
  applies
  equal "$(jq -r 'select(.not_carried) | .not_carried[] | select(startswith("In-Reply-To, References: "))' \
    "$MOUNT"/sent/*.receipt.json | wc -l)" 2
}

@test "git send-email of a series by SMTP with TLS: all arrive in order and apply, as answers to the first" {
  make_series
  send_series --smtp-server=localhost --smtp-server-port="$SMTP_PORT" \
    --smtp-encryption=tls --smtp-ssl-cert-path="$DIR/tls.pem"
  refresh
  applies
  local number first
  first=$(content "$BOB" "[PATCH 1/3] add line 1: ü" | jq -r .message_id)
  for number in 2 3; do
    equal "$(content "$BOB" "[PATCH $number/3] add line $number: ü" | jq -r .in_reply_to_id)" "$first"
    grep -q 'add line 1' "$(folder "$BOB" "[PATCH $number/3] add line $number: ü")"/thread/*
  done
}
