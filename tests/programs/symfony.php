<?php
// SPDX-License-Identifier: MIT
//
// Sends one mail by Symfony Mailer: php symfony.php DSN SUBJECT TEXT-FILE ATTACHMENT. Mail to Bob, and to Carol unseen.
require '/usr/share/php/Symfony/Component/Mailer/autoload.php';

use Symfony\Component\Mailer\Mailer;
use Symfony\Component\Mailer\Transport;
use Symfony\Component\Mime\Address;
use Symfony\Component\Mime\Email;

[, $dsn, $subject, $text, $attachment] = $argv;
$mail = (new Email())
    ->from(new Address('alice@inbox.localhost', 'Alice Ä'))
    ->to(new Address('bob@inbox.localhost', 'Bob'))
    ->bcc('carol@inbox.localhost')
    ->subject($subject)
    ->text(file_get_contents($text))
    ->html('<p>Grüße <img src="cid:logo"></p>')
    ->embed("\x89PNG", 'logo', 'image/png')
    ->attachFromPath($attachment, 'Übersicht.bin');
(new Mailer(Transport::fromDsn($dsn)))->send($mail);
