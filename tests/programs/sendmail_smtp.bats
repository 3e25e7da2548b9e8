#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Programs that speak SMTP to `sendmail -bs`: Symfony Mailer (Laravel's too) and nmh.

load ../mount/support

CAROL=carol@$DOMAIN

setup() {
  start_two_inboxes --from="$ALICE"
  create_inbox "$CAROL" >/dev/null
  refresh
  export INBOXFS_MOUNT=$MOUNT
}

teardown() {
  stop_all
}

@test "Symfony Mailer sends by its transport sendmail -bs, Bcc too, and learns of a refusal" {
  needs php
  cat >"$DIR/send.php" <<'END'
<?php
require 'Symfony/Component/Mailer/autoload.php';
use Symfony\Component\Mailer\{Mailer, Transport};
use Symfony\Component\Mime\Email;
[, $sendmail, $from, $to, $bcc] = $argv;
$mailer = new Mailer(Transport::fromDsn('sendmail://default?command=' . rawurlencode("$sendmail -bs -i")));
foreach (['one', 'two'] as $subject) {
    $email = (new Email())->from($from)->to($to)->bcc($bcc)->subject($subject)->text(".\n..\nGrüße\n")->html('<b>Grüße</b>');
    $mailer->send($email->attach('attached', 'a.txt'));
}
try {
    $mailer->send((new Email())->from('nobody@elsewhere.example')->to($to)->subject('three')->text('x'));
    exit(1);
} catch (Symfony\Component\Mailer\Exception\TransportExceptionInterface $e) {
    echo $e->getMessage(), "\n";
}
END
  run -0 php "$DIR/send.php" "$BUILD/inboxfs-sendmail" "$ALICE" "$BOB" "$CAROL"
  contains "$output" '554 5.6.0 refused: '
  sync "$MOUNT/outbox"
  local subject
  for subject in one two; do
    holds <(content "$BOB" "$subject") '.plain_text == ".\n..\nGrüße\n" and .attachments[0].filename == "a.txt" and
      .bcc_addresses == []'
    has_received "$CAROL" "$subject"
  done
  equal "$(api GET /email/outbound | jq length)" 2
}

@test "nmh sends by sendmail/smtp and by sendmail/pipe" {
  needs /usr/bin/mh/send
  export HOME=$DIR/home MH=$DIR/home/profile
  mkdir -p "$HOME/Mail"
  local mts
  for mts in sendmail/smtp sendmail/pipe; do
    printf '%s\n' 'Path: Mail' "send: -mts $mts -sendmail $BUILD/inboxfs-sendmail" >"$MH"
    printf '%s\n' "From: $ALICE" "To: $BOB" "Subject: ${mts#*/}" "Cc: $CAROL" '' . 'Text' >"$HOME/Mail/draft"
    /usr/bin/mh/send "$HOME/Mail/draft"
  done
  sync "$MOUNT/outbox"
  for mts in smtp pipe; do
    contains "$(content "$BOB" "$mts" | jq -r .plain_text)" $'.\nText'
    has_received "$CAROL" "$mts"
  done
}
