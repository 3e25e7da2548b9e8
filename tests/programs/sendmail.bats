#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Programs that call /usr/sbin/sendmail, and nothing else, send through a mount: it is put there for them, with /etc,
# /run and the spools of cron and at of their own, where nobody else sees that. So the jobs of this machine do not run.

load ../mount/support

setup() {
  [ "$(id -u)" = 0 ] || skip 'needs root'
  start_two_inboxes --from="$ALICE"
  refresh
}

teardown() {
  stop_all
}

# Runs the shell commands on standard input where inboxfs-sendmail is the system's, and this mount the only one. Whatever
# they start ends with them.
on_a_machine()
(
  local folder
  for folder in etc usr/sbin usr/local/bin; do
    mkdir -p "$DIR/upper/$folder" "$DIR/overlay/$folder"
  done
  cat >"$DIR/machine" <<'END'
set -eu
for folder in etc usr/sbin usr/local/bin; do
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$DIR/upper/$folder,workdir=$DIR/overlay/$folder" "/$folder"
done
findmnt -rno TARGET -t fuse.inboxfs | while read -r mount; do
  mount=$(printf %b "$mount")
  [ "$mount" = "$MOUNT" ] || umount --lazy "$mount" || true # those of tests that run beside this one
done
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=0755 tmpfs /var/spool
mkdir /var/spool/cron
install -d -m 1730 -g crontab /var/spool/cron/crontabs
install -d -m 1770 -o daemon -g daemon /var/spool/cron/atjobs /var/spool/cron/atspool
install -m 0600 -o daemon -g daemon /dev/null /var/spool/cron/atjobs/.SEQ
rm -f /etc/crontab /etc/cron.d/* /etc/cron.*/* /usr/sbin/sendmail
: >/etc/crontab
install -m 0755 "$BUILD/inboxfs-sendmail" /usr/local/bin
ln -s /usr/local/bin/inboxfs-sendmail /usr/sbin/sendmail
echo "root: $BOB" >/etc/aliases

# Runs a program until a message was sent, for 20 seconds at the most.
until_sent() { # COMMAND...
  "$@" &
  for _ in {1..400}; do
    compgen -G "$MOUNT/sent/*.receipt.json" >/dev/null && return
    read -rt 0.05 <><(:) || true
  done
  echo "nothing was sent by $*" >&2
  return 1
}
END
  cat >>"$DIR/machine"
  export DIR MOUNT BUILD BOB
  unset INBOXFS_MOUNT
  exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc bash "$DIR/machine"
)

# The content of the one message whose subject has this in it.
arrived() # PART
{
  local id
  id=$(api GET "/email?inbox_ids=$(inbox_id "$BOB")" |
    jq -er --arg part "$1" '[.[] | select(.subject | contains($part)).id] | select(length == 1)[0]') || return
  api GET "/email/$id" >"$DIR/arrived"
}

@test "cron mails what a job prints, to root by way of the aliases" {
  on_a_machine <<'END'
echo '@reboot root echo a line; echo .; echo Grüße' >/etc/cron.d/job
until_sent cron -f -L 15
END
  arrived 'Cron <root@'
  holds "$DIR/arrived" '.plain_text == "a line\n.\nGrüße\n" and .from_address.address == $a' --arg a "$ALICE"
}

@test "cron mails to MAILTO, from MAILFROM" {
  create_inboxes "carol@$DOMAIN"
  refresh
  on_a_machine <<'END'
printf 'MAILTO=%s\nMAILFROM=carol@inbox.localhost\n@reboot root echo one\n' "$BOB" >/etc/cron.d/job
until_sent cron -f -L 15
END
  arrived 'Cron <root@'
  holds "$DIR/arrived" '.plain_text == "one\n" and .from_address.address == "carol@inbox.localhost"'
}

@test "at mails what a job prints, with allow_root: its daemon calls sendmail in another group" {
  stop_mount
  start_mount --from="$ALICE" -o allow_root
  on_a_machine <<'END'
echo 'echo from at' | at now
until_sent atd -f -l 1000
END
  arrived 'Output from your job'
  holds "$DIR/arrived" '.plain_text == "from at\n" and .from_address.address == $a' --arg a "$ALICE"
}

@test "fail2ban mails root, as a sender that is a local name" {
  on_a_machine <<'END'
programs=$BUILD/programs
cp -r "$programs/etc/fail2ban" "$DIR/fail2ban"
rm -f "$DIR"/fail2ban/jail.d/*
: >"$DIR/log"
cat >"$DIR/fail2ban/jail.local" <<JAIL
[job]
enabled = true
filter =
backend = polling
logpath = $DIR/log
failregex = ^failure of <HOST>$
action = sendmail[name=job]
JAIL
export PYTHONPATH=$programs/usr/lib/python3/dist-packages
printf '[Definition]\ndbfile = None\nlogtarget = STDERR\n' >"$DIR/fail2ban/fail2ban.local"
until_sent python3 "$programs/usr/bin/fail2ban-server" -c "$DIR/fail2ban" -s "$DIR/socket" -p "$DIR/pid" -xf start
END
  arrived '[Fail2Ban] job: started on'
  holds "$DIR/arrived" '(.plain_text | contains("The jail job has been started")) and .from_address.address == $a and
    .to_addresses[0].address == $b' --arg a "$ALICE" --arg b "$BOB"
}

@test "mdadm mails root, from root at this machine" {
  on_a_machine <<'END'
until_sent "$BUILD/programs/sbin/mdadm" --monitor --oneshot --test --mail=root /dev/md127
END
  arrived 'TestMessage event on /dev/md127'
  holds "$DIR/arrived" '.from_address.address == $a and .to_addresses[0].address == $b' --arg a "$ALICE" --arg b "$BOB"
}

@test "PHP's mail() sends, with headers and with a sender as its fifth argument, and says what is refused" {
  on_a_machine <<'END'
cat >"$DIR/mail.php" <<'PHP'
<?php
$bob = getenv("BOB");
var_dump(mail("Bob <$bob>", "by php", "one\r\n.\r\ntwo\r\n", "From: alice@inbox.localhost\r\nReply-To: bob@inbox.localhost\r\nX-A: b"));
var_dump(mail($bob, "=?UTF-8?B?R3LDvMOfZQ==?=", "Gr\u{fc}\u{df}e", ["Content-Type" => "text/plain; charset=UTF-8"], "-falice@inbox.localhost"));
var_dump(mail("nobody here", "refused", "x"));
PHP
php "$DIR/mail.php" >"$DIR/said" 2>&1
END
  equal "$(grep -o '^bool.*' "$DIR/said" | xargs)" 'bool(true) bool(true) bool(false)'
  sync "$MOUNT/outbox"
  arrived 'by php'
  holds "$DIR/arrived" '(.plain_text | test("^one\n\\.\ntwo\n+$")) and .reply_to_addresses[0].address == $b' --arg b "$BOB"
  arrived Grüße
  holds "$DIR/arrived" '(.plain_text | rtrimstr("\n")) == "Grüße"'
}

@test "jobs of other users leave their mail in the maildrop, and it goes out from there" {
  on_a_machine <<'END'
groupadd --system inboxfs-mta
mkdir -p /usr/local/libexec
install -d -m 0710 -g inboxfs-mta /var/spool/inboxfs
install -d -m 3777 /var/spool/inboxfs/maildrop
install -d -m 0750 -g inboxfs-mta /var/spool/inboxfs/failed
install -m 2755 -g inboxfs-mta "$BUILD/inboxfs-maildrop" /usr/local/libexec
echo "nobody: $BOB" >>/etc/aliases
echo '@reboot nobody id -un' >/etc/cron.d/job
until_left() {
  "$@" &
  for _ in {1..400}; do
    compgen -G '/var/spool/inboxfs/maildrop/2*' >/dev/null && return
    read -rt 0.05 <><(:) || true
  done
  return 1
}
until_left cron -f -L 15
sendmail -q
END
  sync "$MOUNT/outbox"
  arrived 'Cron <nobody@'
  holds "$DIR/arrived" '.plain_text == "nobody\n" and .from_address.address == $a' --arg a "$ALICE"
}
