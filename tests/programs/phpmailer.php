<?php
// SPDX-License-Identifier: MIT
//
// Sends one mail by PHPMailer: php phpmailer.php HOW SUBJECT TEXT-FILE ATTACHMENT. Mail to Bob, and to Carol unseen. HOW:
// mail; sendmail:PROGRAM; smtp:PORT; login:PORT, with any user and password, and with TLS, which it insists on.
require '/usr/share/php/libphp-phpmailer/autoload.php';

use PHPMailer\PHPMailer\PHPMailer;

[, $how, $subject, $text, $attachment] = $argv;
[$how, $where] = explode(':', "$how:");
$mail = new PHPMailer(true);
if ($how === 'mail') {
    $mail->isMail();
} elseif ($how === 'sendmail') {
    $mail->isSendmail();
    $mail->Sendmail = $where;
} else {
    $mail->isSMTP();
    $mail->Host = 'localhost';
    $mail->Port = (int) $where;
}
if ($how === 'login') {
    $mail->SMTPAuth = true;
    $mail->Username = 'anybody';
    $mail->Password = 'anything';
    $mail->SMTPSecure = PHPMailer::ENCRYPTION_STARTTLS;
}
$mail->CharSet = PHPMailer::CHARSET_UTF8;
$mail->setFrom('alice@inbox.localhost', 'Alice Ä');
$mail->addAddress('bob@inbox.localhost', 'Bob');
$mail->addBCC('carol@inbox.localhost');
$mail->Subject = $subject;
$mail->isHTML(true);
$mail->Body = '<p>Grüße <img src="cid:logo"></p>';
$mail->AltBody = file_get_contents($text);
$mail->addStringEmbeddedImage("\x89PNG", 'logo', 'logo', PHPMailer::ENCODING_BASE64, 'image/png');
$mail->addAttachment($attachment, 'Übersicht.bin');
$mail->send();
