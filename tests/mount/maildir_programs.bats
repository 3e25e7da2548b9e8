#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Mail programs on inboxes as Maildirs: each opens, reads and marks mail without an error.

load support
load maildir

setup() {
  # Each test is named after the program that it is about.
  case $BATS_TEST_DESCRIPTION in
  *neomutt*) needs neomutt ;;
  *mutt*) needs mutt ;;
  *notmuch*) needs notmuch ;;
  mu*) needs mu ;;
  mbsync*) needs mbsync ;;
  esac
  start_maildirs one two three
  HOME=$DIR/home
  export HOME LC_ALL=C.UTF-8
  mkdir -p "$HOME"
}

teardown() {
  stop_all
}

# ---------------------------------------------------------------- mutt and neomutt

# Runs the program on bob's Maildir as at a terminal of 100 columns, with these keys. What it showed is in $DIR/screen.
at_terminal() # PROGRAM KEYS
{
  cat >"$DIR/muttrc" <<END
set folder="$MOUNT/maildir"
set spoolfile="$BOX"
set mbox_type=Maildir
set sort=mailbox-order
set quit=yes delete=yes move=no wait_key=no confirmappend=no
set index_format="%Z %s"
END
  env TERM=xterm COLUMNS=100 LINES=40 timeout 60 script -qefc "stty cols 100 rows 40; $1 -n -F '$DIR/muttrc' -e 'push \"$2\"'" "$DIR/screen" \
    </dev/null >/dev/null 2>&1
}

complains()
{
  grep -aiE 'not permitted|denied|error|cannot|could not|failed|No such|unable' "$DIR/screen"
}

reads_and_marks() # PROGRAM
{
  # Opens the first, goes back, flags it; marks the second as new again; quits.
  at_terminal "$1" '<first-entry><display-message><exit><flag-message><quit>'
  grep -aq 'one' "$DIR/screen"
  grep -aq 'three' "$DIR/screen"
  run ! complains
  equal "$(find "$BOX/cur" -name '*:2,FS' | wc -l)" 1
  equal "$(find "$BOX" -type f -name '*U=*' | wc -l)" 3
  # The next time it is seen and flagged already; another one is deleted.
  at_terminal "$1" '<last-entry><delete-message><quit>'
  run ! complains
  equal "$(find "$BOX" -name '*:2,*T*' | wc -l)" 1
  equal "$(find "$BOX" -type f -name '*U=*' | wc -l)" 3
  # A third time: nothing to do.
  find "$BOX" -type f | sort >"$DIR/before"
  at_terminal "$1" '<first-entry><display-message><exit><exit>'
  run ! complains
  diff "$DIR/before" <(find "$BOX" -type f | sort)
}

@test "neomutt lists, opens, marks, deletes and quits without an error" {
  reads_and_marks neomutt
}

@test "mutt lists, opens, marks, deletes and quits without an error" {
  reads_and_marks mutt
}

@test "neomutt replies: the answer waits in drafts/, and the original is marked as replied" {
  cat >"$DIR/sendmail" <<END
#!/bin/sh
cat >'$MOUNT/drafts/answer'
END
  chmod +x "$DIR/sendmail"
  at_terminal neomutt "<enter-command>set sendmail='$DIR/sendmail' editor=true fast_reply abort_unmodified=no copy=no include=no recall=no edit_headers=no from=$BOB use_from autoedit=no<enter><first-entry><reply><send-message><quit>"
  run ! complains
  grep -q '^Subject: Re: ' "$MOUNT/drafts/answer"
  equal "$(find "$BOX/cur" -name '*:2,*R*' | wc -l)" 1
}

# A sendmail as those of mail programs: what it is given goes out.
hand_in_as_sendmail() {
  cat >"$DIR/sendmail" <<END
#!/bin/sh
cat >'$MOUNT/drafts/answer' && mv '$MOUNT/drafts/answer' '$MOUNT/outbox/answer'
END
  chmod +x "$DIR/sendmail"
}

# The answer that went out names the email "one", and arrived in its thread.
is_in_thread() {
  wait_sent answer
  holds "$MOUNT/sent/answer.receipt.json" '.request.message_type == "reply" and .request.existing_email_id == $id and
    .not_carried == null' --arg id "$(received "$BOB" one | jq -r '.[0].id')"
  content "$ALICE" "Re: one" >"$DIR/arrived"
  holds "$DIR/arrived" '.in_reply_to_id == $id' --arg id "$(content "$BOB" one | jq -r .message_id)"
}

answers_in_thread() { # PROGRAM
  hand_in_as_sendmail
  at_terminal "$1" "<enter-command>set sendmail='$DIR/sendmail' editor=true fast_reply abort_unmodified=no copy=no include=no recall=no edit_headers=no from=$BOB use_from autoedit=no<enter><first-entry><reply><send-message><quit>"
  run ! complains
  is_in_thread
}

@test "a reply by neomutt goes out in the thread" {
  answers_in_thread neomutt
}

@test "a reply by mutt goes out in the thread" {
  answers_in_thread mutt
}

# ---------------------------------------------------------------- notmuch

notmuch_configuration() # EXTRA-LINES
{
  cat >"$DIR/notmuchrc" <<END
[database]
$1
[user]
name=Bob
primary_email=$BOB
[new]
tags=unread;inbox
[maildir]
synchronize_flags=true
END
  export NOTMUCH_CONFIG=$DIR/notmuchrc
}

finds_and_tags() {
  notmuch new 2>"$DIR/complaints"
  equal "$(cat "$DIR/complaints")" ""
  equal "$(notmuch count "to:$BOB" subject:one or subject:two or subject:three)" 3
  contains "$(notmuch search subject:two)" two
  contains "$(notmuch show subject:two)" "$(raw_of two | tr -d '\r' | grep '^Subject: ')"
  notmuch tag +flagged -unread -- subject:two
  equal "$(find "$BOX/cur" -name '*:2,FS' | wc -l)" 1
  contains "$(message_of two)" ":2,FS"
  notmuch new 2>"$DIR/complaints"
  equal "$(cat "$DIR/complaints")" ""
  # Mail that comes, and marks set by others, are found.
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  mv "$(message_of one)" "$BOX/cur/$(basename "$(message_of one)"):2,S"
  wait_until 5 clock_is_past "$(stat -c %Y "$BOX/cur")"
  notmuch new 2>"$DIR/complaints"
  equal "$(cat "$DIR/complaints")" ""
  equal "$(notmuch count subject:four)" 1
  equal "$(notmuch count subject:one tag:unread)" 0
  equal "$(notmuch search --output=files subject:one)" "$(message_of one)"
}

@test "a reply by notmuch goes out in the thread" {
  notmuch_configuration "path=$HOME/index"$'\n'"mail_root=$MOUNT/maildir"
  mkdir "$HOME/index"
  notmuch new
  notmuch reply subject:one >"$MOUNT/drafts/answer"
  mv "$MOUNT/drafts/answer" "$MOUNT/outbox/answer"
  is_in_thread
}

@test "notmuch indexes, finds, shows and tags, with its index elsewhere" {
  notmuch_configuration "path=$HOME/index"$'\n'"mail_root=$MOUNT/maildir"
  mkdir "$HOME/index"
  finds_and_tags
  missing "$MOUNT/maildir/.notmuch"
}

@test "notmuch indexes, finds, shows and tags, with its index in the default place" {
  notmuch_configuration "path=$MOUNT/maildir"
  finds_and_tags
  present "$MOUNT/maildir/.notmuch"
}

# ---------------------------------------------------------------- mu

@test "mu indexes and finds" {
  mu init --quiet --maildir="$MOUNT/maildir" --my-address="$BOB"
  mu index --quiet 2>"$DIR/complaints"
  equal "$(cat "$DIR/complaints")" ""
  equal "$(mu find --format=plain --fields=s subject:two)" two
  equal "$(mu find --fields=l subject:two)" "$(message_of two)"
  equal "$(mu find --fields=s flag:new maildir:"/$BOB" | sort | tr '\n' ' ')" "one three two "
  contains "$(mu view "$(mu find --fields=l subject:two)")" body
  mv "$(message_of two)" "$BOX/cur/$(basename "$(message_of two)"):2,S"
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  wait_until 5 clock_is_past "$(stat -c %Y "$BOX/cur")"
  mu index --quiet 2>"$DIR/complaints"
  equal "$(cat "$DIR/complaints")" ""
  equal "$(mu find --fields=s subject:four)" four
  equal "$(mu find --fields=l subject:two flag:seen)" "$(message_of two)"
}

# ---------------------------------------------------------------- mbsync

mbsync_configuration() # FAR NEAR
{
  cat >"$DIR/mbsyncrc" <<END
MaildirStore mount
Path $MOUNT/maildir/
Inbox $BOX

MaildirStore copy
Path $DIR/copy/
Inbox $DIR/copy/INBOX

Channel bob
Far :$1:
Near :$2:
Create Near
Sync All
Expunge None
SyncState *
END
  mkdir -p "$DIR/copy"
}

syncs() {
  # It waits a second where a folder changed in the same.
  timeout 60 mbsync -c "$DIR/mbsyncrc" bob >"$DIR/synced" 2>&1 || fail "mbsync:" "$(cat "$DIR/synced")"
  run ! grep -iE 'error|warning|cannot' "$DIR/synced"
}

copied() # how the copy's files are called, and their marks
{
  find "$DIR/copy" -path '*/INBOX/*' -type f -name '*U=*' | sort
}

@test "mbsync copies it, and a second run changes nothing" {
  mbsync_configuration mount copy
  syncs
  equal "$(copied | wc -l)" 3
  local subject
  for subject in one two three; do
    # It adds a header of its own to what it copies.
    diff <(raw_of "$subject" | tr -d '\r') \
      <(tr -d '\r' <"$(grep -rl "^Subject: $subject" "$DIR/copy")" | grep -v '^X-TUID: ')
  done
  find "$DIR/copy" -type f -printf '%p %T@ %s\n' | grep -v mbsyncstate | sort >"$DIR/before"
  find "$BOX" -type f | sort >"$DIR/before.mount"
  syncs
  diff "$DIR/before" <(find "$DIR/copy" -type f -printf '%p %T@ %s\n' | grep -v mbsyncstate | sort)
  diff "$DIR/before.mount" <(find "$BOX" -type f | sort)
}

@test "mbsync copies marks both ways, and new mail" {
  mbsync_configuration mount copy
  syncs
  local base copy
  base=$(basename "$(message_of one)")
  mv "$(message_of one)" "$BOX/cur/$base:2,FS"
  copy=$(grep -rl '^Subject: two' "$DIR/copy")
  mv "$copy" "$DIR/copy/INBOX/cur/$(basename "${copy%:2,*}"):2,RS"
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  syncs
  contains "$(grep -rl '^Subject: one' "$DIR/copy")" ":2,FS"
  contains "$(message_of two)" "cur/"
  contains "$(message_of two)" ":2,RS"
  equal "$(copied | wc -l)" 4
  # Over a remount: numbers are the same, so nothing comes twice.
  stop_mount
  start_mount
  wait_maildirs
  syncs
  equal "$(copied | wc -l)" 4
}

@test "mbsync expunges mail that was deleted in the copy, and the next run changes nothing" {
  mbsync_configuration mount copy
  sed -i 's/^Expunge None/Expunge Both/' "$DIR/mbsyncrc"
  syncs
  local copy
  copy=$(grep -rl '^Subject: two' "$DIR/copy")
  mv "$copy" "$DIR/copy/INBOX/cur/$(basename "${copy%:2,*}"):2,ST"
  syncs
  equal "$(copied | wc -l)" 2
  equal "$(find "$BOX" -name '*U=*' | wc -l)" 2
  present "$(mounted "$BOB" two)"
  syncs
  equal "$(grep -v 'sleeping due to recent' "$DIR/synced")" ""
}

@test "mbsync keeps its state beside the folders of the mount, if the mount is its near side" {
  mbsync_configuration copy mount
  mkdir -p "$DIR/copy/INBOX/cur" "$DIR/copy/INBOX/new" "$DIR/copy/INBOX/tmp"
  sed -i 's/^Sync All/Sync Push/' "$DIR/mbsyncrc"
  syncs
  equal "$(copied | wc -l)" 3
  present "$BOX/.mbsyncstate"
  syncs
  equal "$(copied | wc -l)" 3
}
