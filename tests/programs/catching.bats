#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Programs under test that insist on a login and on TLS, and send to inboxd's --smtp: PHPMailer and Symfony Mailer.

load ../mount/support

setup() {
  needs php openssl
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=localhost" -addext subjectAltName=DNS:localhost \
    -keyout "$DIR/tls.key" -out "$DIR/tls.crt" 2>/dev/null
  chmod 600 "$DIR/tls.key"
  start_service --smtp=127.0.0.1:0 --tls-cert="$DIR/tls.crt" --tls-key="$DIR/tls.key"
  SMTP_PORT=$(sed -n 's/^inboxd: SMTP on 127\.0\.0\.1://p' "$DIR/inboxd.out")
}

teardown() {
  stop_all
}

@test "PHPMailer logs in behind STARTTLS, by each mechanism that it has" {
  cat >"$DIR/send.php" <<'END'
<?php
require 'libphp-phpmailer/autoload.php';
[, $port, $ca] = $argv;
foreach (['', 'LOGIN', 'PLAIN', 'CRAM-MD5'] as $type) {
    $mail = new PHPMailer\PHPMailer\PHPMailer(true);
    $mail->isSMTP();
    $mail->Host = 'localhost';
    $mail->Port = $port;
    $mail->SMTPAuth = true;
    $mail->AuthType = $type;
    $mail->Username = 'somebody';
    $mail->Password = 'secret';
    $mail->SMTPSecure = 'tls';
    $mail->SMTPOptions = ['ssl' => ['cafile' => $ca]];
    $mail->CharSet = 'utf-8';
    $mail->setFrom('app@example.com');
    $mail->addAddress('customer@example.org');
    $mail->Subject = "PHPMailer $type.";
    $mail->Body = ".\nGrüße";
    $mail->send();
}
END
  php "$DIR/send.php" "$SMTP_PORT" "$DIR/tls.crt"
  local type
  for type in '' LOGIN PLAIN CRAM-MD5; do
    contains "$(content customer@example.org "PHPMailer $type." | jq -r .plain_text)" Grüße
  done
}

@test "Symfony Mailer logs in behind STARTTLS" {
  cat >"$DIR/send.php" <<'END'
<?php
require 'Symfony/Component/Mailer/autoload.php';
use Symfony\Component\Mailer\{Mailer, Transport\Smtp\EsmtpTransport};
[, $port, $ca] = $argv;
$transport = (new EsmtpTransport('localhost', $port))->setUsername('somebody')->setPassword('secret');
$transport->getStream()->setStreamOptions(['ssl' => ['cafile' => $ca]]);
(new Mailer($transport))->send((new Symfony\Component\Mime\Email())
    ->from('app@example.com')->to('customer@example.org')->subject('Symfony')->text('Grüße'));
END
  php "$DIR/send.php" "$SMTP_PORT" "$DIR/tls.crt"
  contains "$(content customer@example.org Symfony | jq -r .plain_text)" Grüße
}
