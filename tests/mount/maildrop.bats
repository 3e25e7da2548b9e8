#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The maildrop of inboxfs-mta: mail of users who cannot enter the mount, or while there is none. Each test makes it in a mount
# namespace of its own. Root owns both the maildrop and the mount.

load support

CAROL=carol@$DOMAIN
MAILDROP=/var/spool/inboxfs/maildrop
FAILED=/var/spool/inboxfs/failed

setup() {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  start_two_inboxes --from="$ALICE"
  create_inbox "$CAROL" >/dev/null
  refresh
  mkdir "$DIR/etc"
  printf 'root: %s\n' "$BOB" >"$DIR/etc/aliases"
}

teardown() {
  stop_all
}

# Runs the shell commands on standard input where there is a maildrop. `user UID COMMAND...` runs a command as another user.
on_a_machine() {
  hide_other_mounts
  cat >"$DIR/machine" <<'END'
set -euo pipefail
mount -t overlay -o "lowerdir=$DIR/etc:/etc" overlay /etc
mount -t tmpfs -o mode=0755 tmpfs /usr/libexec
mount -t tmpfs -o "mode=0755,size=$SPOOL_SIZE" tmpfs /var/spool
install -d -m 0710 -g 12345 /var/spool/inboxfs
install -d -m 3777 -g root "$MAILDROP"
install -d -m 0750 -g 12345 "$FAILED"
install -m 2755 -g 12345 "$BUILD/inboxfs-maildrop" /usr/libexec
install -m 0755 "$BUILD/inboxfs-sendmail" /usr/libexec
PATH=$PATH:/usr/libexec
cd /
user() { # UID COMMAND...
  setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"
}
fails() { # STATUS COMMAND...
  local status=0
  "${@:2}" || status=$?
  [ "$status" = "$1" ] || { echo "status $status of ${*:2}" >&2; exit 1; }
}
files() { # FOLDER
  find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | wc -l
}
END
  cat >>"$DIR/machine"
  env -u INBOXFS_MOUNT DIR="$DIR" BUILD="$BUILD" MOUNT="$MOUNT" ALICE="$ALICE" BOB="$BOB" CAROL="$CAROL" MAILDROP="$MAILDROP" \
    FAILED="$FAILED" SPOOL_SIZE="${SPOOL_SIZE:-800m}" "${AMONG_OWN_MOUNTS[@]}" bash "$DIR/machine" 2>"$DIR/said" ||
    { cat "$DIR/said"; return 1; }
  sync "$MOUNT/outbox"
}

@test "a user who cannot enter the mount leaves mail in the maildrop, and -q sends it" {
  on_a_machine <<'END'
printf 'From: Job <nobody@localhost>\nSubject: one\n\nThe text.\n.\n' | user 1234 inboxfs-sendmail -i root
printf 'To: %s\nBcc: %s\nSubject: two\n\nThe text.\n' "$BOB" "$CAROL" | user 1235 inboxfs-sendmail -t -f "$CAROL"
[ "$(stat -c '%u %g %a' "$MAILDROP"/* | paste -s)" = $'1234 0 640\t1235 0 640' ]
inboxfs-sendmail -bp | grep -c '^20.*Z  *[0-9][0-9]* 20' | grep -qx 2
inboxfs-sendmail -q
[ "$(files "$MAILDROP") $(files "$FAILED")" = '0 0' ]
END
  content "$BOB" one >"$DIR/content"
  holds "$DIR/content" '.plain_text == "The text.\n.\n" and .from_address.address == $a and
    [.to_addresses[].address] == [$b]' --arg a "$ALICE" --arg b "$BOB"
  content "$BOB" two >"$DIR/content"
  holds "$DIR/content" '.from_address.address == $c and .bcc_addresses == []' --arg c "$CAROL"
  has_received "$CAROL" two
}

@test "without a mount, mail of root and for names without an alias waits in the maildrop" {
  on_a_machine <<'END'
umount --lazy "$MOUNT"
printf 'Subject: waits\n\nThe text.\n' | inboxfs-sendmail root
printf 'Subject: www\n\nThe text.\n' | user 33 inboxfs-sendmail www-data
fails 75 inboxfs-sendmail -q
[ "$(files "$MAILDROP")" = 2 ]
cp -a /var/spool/inboxfs/. "$DIR/spool"
END
  contains "$(cat "$DIR/said")" 'no inboxfs is mounted'
  printf 'root: %s\nwww-data: root\n' "$BOB" >"$DIR/etc/aliases"
  on_a_machine <<'END'
cp -a "$DIR/spool/." /var/spool/inboxfs
inboxfs-sendmail -q
END
  has_received "$BOB" waits
  has_received "$BOB" www
}

@test "the mount's sender replaces a From that is not an inbox, with and without the maildrop" {
  on_a_machine <<'END'
printf 'From: Shop <shop@company.example>\nTo: %s\nSubject: user\n\nx\n' "$BOB" | user 1234 inboxfs-sendmail -t
inboxfs-sendmail -q
printf 'From: Shop <shop@company.example>\nTo: %s\nSubject: root\n\nx\n' "$BOB" | inboxfs-sendmail -t
fails 65 inboxfs-sendmail --mount="$MOUNT" -t < <(printf 'From: shop@company.example\nTo: %s\n\nx\n' "$BOB")
END
  for subject in user root; do
    content "$BOB" "$subject" >"$DIR/content"
    holds "$DIR/content" '.from_address.address == $a and .reply_to_addresses[0].address == "shop@company.example"' --arg a "$ALICE"
  done
}

@test "an invalid call or message fails at once, and leaves no file in the maildrop" {
  on_a_machine <<'END'
fails 64 user 1234 inboxfs-sendmail </dev/null
fails 64 user 1234 inboxfs-sendmail --aliases=/etc/aliases "$BOB" </dev/null
fails 64 user 1234 inboxfs-sendmail --wait "$BOB" </dev/null
fails 65 user 1234 inboxfs-sendmail -t < <(printf 'Subject: x\n\nx\n')
fails 65 user 1234 inboxfs-sendmail 'no address' < <(printf 'Subject: x\n\nx\n')
fails 65 user 1234 inboxfs-sendmail "$BOB" < <(printf 'Subject: x\nAttach: x\n\nx\n')
fails 65 user 1234 inboxfs-sendmail "$BOB" < <(printf 'Subject: x\nTo: %s\n\nx\n' "$CAROL")
fails 75 user 1234 inboxfs-sendmail --mount=/nowhere "$BOB" < <(printf 'Subject: x\n\nx\n')
fails 64 user 1234 inboxfs-maildrop x </dev/null
fails 65 user 1234 inboxfs-maildrop </dev/null
fails 65 user 1234 inboxfs-maildrop < <(head -c 32000001 /dev/zero)
[ "$(find "$MAILDROP" -mindepth 1 | wc -l)" = 0 ]
END
}

@test "users can add files to the maildrop only by inboxfs-maildrop, and not read or change any" {
  on_a_machine <<'END'
printf 'Subject: x\n\nsecret\n' | user 1234 inboxfs-sendmail root
file=$(echo "$MAILDROP"/*)
for id in 1234 1235; do
  fails 1 user "$id" test -e "$file"
  fails 2 user "$id" ls "$MAILDROP"
  fails 1 user "$id" cat "$file"
  fails 1 user "$id" ln -s /etc/passwd "$MAILDROP/link"
  fails 1 user "$id" ln /etc/hostname "$MAILDROP/link"
  fails 1 user "$id" mkfifo "$MAILDROP/fifo"
  fails 1 user "$id" cp /etc/hostname "$MAILDROP/file"
done
mv "$file" "$FAILED"
for id in 1234 1235; do
  fails 1 user "$id" cat "$FAILED/${file##*/}"
done
# The program's group alone lets nobody read, remove or rename another user's message.
tricked() { setpriv --reuid=1235 --regid=12345 --clear-groups "$@"; }
fails 1 tricked cat "$FAILED/${file##*/}"
fails 1 tricked rm -f "$FAILED/${file##*/}"
fails 1 tricked touch "$FAILED/file"
mv "$FAILED/${file##*/}" "$file"
fails 1 tricked cat "$file"
fails 1 tricked rm -f "$file"
fails 1 tricked mv "$file" "$file.away"
user 1235 inboxfs-sendmail -q # does nothing for a user who does not own the maildrop
[ "$(files "$MAILDROP")" = 1 ]
END
}

@test "links, FIFOs and invalid files in the maildrop are moved to failed, and the messages are sent" {
  on_a_machine <<'END'
echo 'of the owner' >/var/spool/secret
ln -s ../../secret "$MAILDROP/1-link"
ln /var/spool/secret "$MAILDROP/2-hard"
mkfifo "$MAILDROP/3-fifo"
printf 't\0no end' >"$MAILDROP/4-cut"
printf '\0\0\0\0%s\0\0Subject: attach\nAttach: secret.txt\n\nx\n' "$BOB" >"$MAILDROP/5-attach"
: >"$MAILDROP/6-empty"
truncate -s 40M "$MAILDROP/7-large"
printf '\0\0\0\0nobody-here\0\0Subject: unknown\n\nx\n' >"$MAILDROP/8-unknown"
printf '\0\0\0\0%s\0\0Subject: a\0b\n\nx\n' "$BOB" >"$MAILDROP/9-nul"
printf 'Subject: good\n\nx\n' | user 1234 inboxfs-sendmail root
timeout 20 inboxfs-sendmail -q
[ "$(files "$MAILDROP") $(files "$FAILED")" = '0 9' ]
[ "$(cat /var/spool/secret)" = 'of the owner' ]
[ -p "$FAILED/3-fifo" ] && [ -L "$FAILED/1-link" ]
END
  has_received "$BOB" good
  content "$BOB" 'Mail of this machine could not be sent' >"$DIR/content"
  holds "$DIR/content" '.plain_text | contains("9 messages that users of this machine left") and contains($failed)' --arg failed "$FAILED"
  equal "$(api GET /email/outbound | jq length)" 2
  contains "$(cat "$DIR/said")" "is kept as $FAILED/5-attach"
  contains "$(cat "$DIR/said")" 'nobody-here is no email address'
}

@test "a message that a crash left in the maildrop is sent once" {
  on_a_machine <<'END'
printf 'Subject: once\n\nx\n' | user 1234 inboxfs-sendmail root
cp -a "$MAILDROP" /var/spool/before
inboxfs-sendmail -q
cp -a /var/spool/before/. "$MAILDROP"
inboxfs-sendmail -q
sync "$MOUNT/outbox"
cp -a /var/spool/before/. "$MAILDROP"
echo half >"$MOUNT/drafts/.$(basename /var/spool/before/*).eml"
inboxfs-sendmail -q
[ "$(files "$MAILDROP")" = 0 ]
END
  equal "$(api GET /email/outbound | jq length)" 1
}

@test "a -q waits until another -q is through, so that no message is sent twice" {
  on_a_machine <<'END'
printf 'Subject: once\n\nThe text.\n' | user 1234 inboxfs-sendmail root
exec {other}<"$MAILDROP"
flock "$other"
inboxfs-sendmail -q {other}<&- &
until grep -q "^.*-> FLOCK .* $! " /proc/locks; do kill -0 $!; done
[ "$(files "$MAILDROP")" = 1 ]
flock -u "$other"
wait $!
[ "$(files "$MAILDROP")" = 0 ]
END
  has_received "$BOB" once
}

@test "the incomplete file of a killed writer is not sent, and is removed after an hour" {
  on_a_machine <<'END'
mkfifo /var/spool/pipe
setpriv --reuid=1234 --regid=1234 --clear-groups inboxfs-maildrop </var/spool/pipe &
writer=$! # a process substitution is another
exec 7>/var/spool/pipe
printf '\0\0\0\0%s\0\0Subject: half\n\nhalf' "$BOB" >&7
until compgen -G "$MAILDROP/.2*" >/dev/null; do read -rt 0.05 <><(:) || true; done
kill -KILL "$writer"
wait "$writer" || true
inboxfs-sendmail -q
[ "$(files "$MAILDROP")" = 1 ]
touch -d '61 minutes ago' "$MAILDROP"/.2*
inboxfs-sendmail -q
[ "$(files "$MAILDROP")" = 0 ]
END
  equal "$(api GET /email/outbound | jq length)" 0
}

@test "the maildrop refuses mail over a user's limits or on a full disk" {
  on_a_machine <<'END'
for i in {1..999}; do : >"$MAILDROP/file-$i"; done
chown 1234 "$MAILDROP"/file-*
printf 'Subject: last\n\nx\n' | user 1234 inboxfs-sendmail root
fails 75 user 1234 inboxfs-sendmail root < <(printf 'Subject: more\n\nx\n')
printf 'Subject: other\n\nx\n' | user 1235 inboxfs-sendmail root
rm "$MAILDROP"/file-*
truncate -s 470M "$MAILDROP/large"
chown 1235 "$MAILDROP/large"
fails 75 user 1235 inboxfs-sendmail root < <(printf 'Subject: more\n\nx\n')
mkfifo /var/spool/unread
exec 8<>/var/spool/unread 9>/var/spool/unread 8<&-
fails 75 user 1235 inboxfs-maildrop 2>&9 < <(printf 'not read')
exec 9>&-
mv "$MAILDROP/large" "$FAILED"
fails 75 user 1235 inboxfs-sendmail root < <(printf 'Subject: more\n\nx\n')
printf 'Subject: fits\n\nx\n' | user 1234 inboxfs-sendmail root
[ "$(find "$MAILDROP" -name '.2*' | wc -l)" = 0 ]
END
  contains "$(cat "$DIR/said")" "too much mail of this user waits in $MAILDROP or $FAILED"
  SPOOL_SIZE=100m on_a_machine <<'END'
fails 75 user 1234 inboxfs-sendmail root < <(printf 'Subject: full\n\nx\n')
END
  contains "$(cat "$DIR/said")" 'is full'
}

@test "inboxfs-maildrop exits with 75 and leaves no file if the folder cannot be synced" {
  echo 'fsync 2 1 5' >"$DIR/plan" # see tests/torture/fault_preload.c; a setgid program would not load it
  on_a_machine <<'END'
install "$BUILD/inboxfs-maildrop" /var/spool/maildrop
export FAULT_PLAN=$DIR/plan ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
fails 75 env LD_PRELOAD="$BUILD/tests/fault_preload.so" /var/spool/maildrop < <(printf '\0\0\0\0%s\0\0Subject: x\n\nx\n' "$BOB")
[ "$(find "$MAILDROP" -mindepth 1 | wc -l)" = 0 ]
END
  contains "$(cat "$DIR/said")" 'cannot make the message durable: Input/output error'
}

@test "-bs leaves a user's message in the maildrop" {
  on_a_machine <<'END'
printf 'EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<%s>\r\nDATA\r\nSubject: smtp\r\n\r\nx\r\n.\r\nQUIT\r\n' "$BOB" |
  user 1234 inboxfs-sendmail -bs >/var/spool/answers
grep -c '^250' /var/spool/answers >&2
inboxfs-sendmail -q
END
  has_received "$BOB" smtp
}
