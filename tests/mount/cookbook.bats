#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# The recipes of docs/COOKBOOK.md, each run exactly as printed, on one service and one mount. A recipe leaves nothing that
# would disturb another one.

# shellcheck disable=SC2034 # support.bash uses them

load support
load recipes

DIR=$BATS_FILE_TMPDIR
MOUNT=$DIR/mail
STATE=$DIR/state
SERVICE=$DIR/service
KEY_FILE=$DIR/key
MOUNT_LOG=$DIR/inboxfs.log
INBOX=$MOUNT/inboxes/$ALICE
# Of the one service.
[ ! -e "$DIR/url" ] || SERVICE_URL=$(<"$DIR/url")

setup_file() {
  start_two_inboxes
  refresh
  echo "$SERVICE_URL" >"$DIR/url"
  # A home, as a new user has it: git knows nobody's name there, and guesses none. With the programs that recipes name.
  git config --file "$DIR/.gitconfig" user.useConfigOnly true
  mkdir "$DIR/bin"
  ln -s service "$DIR/.inboxd"
  export HOME=$DIR INBOXFS_BASE_URL=$SERVICE_URL
}

# By a signal: a program that has mounts of its own, started meanwhile, keeps a mount that is only unmounted.
teardown_file() {
  kill_mount TERM
  stop_all
}

# One that goes on until it is ended. timeout(1) makes a process group of its own, and ends it whole.
start_cooking() { # HEADING
  local text
  text=$(recipe "$1")
  run_recipe "$text" 3>&- {PAUSE}>&- &
  COOKING=$!
}

end_cooking() {
  local pid=$COOKING
  COOKING=
  kill "$pid"
  wait "$pid" || true
}

teardown() {
  [ -z "${COOKING:-}" ] || end_cooking
  [ -z "${COOKING_INBOXD:-}" ] || { kill "$COOKING_INBOXD" && wait "$COOKING_INBOXD"; }
  end_local
}

# What is cooking has the file open.
has_open() { # FILE
  local pid
  for pid in $(pgrep -g "$COOKING"); do
    [ -z "$(find "/proc/$pid/fd" -lname "$1")" ] || return 0
  done
  return 1
}

# What is cooking is told by inotify.
is_watching() {
  local pid
  for pid in $(pgrep -g "$COOKING"); do
    ! grep -qs '^inotify wd' "/proc/$pid/fdinfo"/* || return 0
  done
  return 1
}

# A program that a recipe names: its text from standard input.
program() { # NAME
  cat >"$DIR/bin/$1"
  chmod +x "$DIR/bin/$1"
}

# Mail to alice, seen in the mount. More header lines may be given.
arrives() { # SUBJECT TEXT [HEADER...]
  printf '%s\n' "From: Bob <$BOB>" "To: $ALICE" "Subject: $1" "${@:3}" '' "$2" |
    "$INBOXD" deliver --data="$SERVICE" -f "$BOB" "$ALICE"
  refresh
}

settle() {
  sync "$MOUNT/outbox"
}

@test "each recipe has a test" {
  local headings
  headings=$(sed -n 's/^## //p' "$COOKBOOK")
  [ "$(wc -l <<<"$headings")" -ge 20 ]
  equal "$(grep -c '^```sh$' "$COOKBOOK")" "$(wc -l <<<"$headings")"
  equal "$(sed -nE 's/^ .*(cook|start_cooking) "([^"$]*)".*/\2/p' "${BATS_TEST_FILENAME%/*}"/{cookbook,away}.bats | sort -u)" "$(sort <<<"$headings")"
}

@test "send a message" {
  cook "Send a message"
  settle
  has_received "$BOB" Hello 1
}

@test "send, and wait for the id" {
  run -0 cook "Send, and wait for the service's id"
  [[ ${lines[-1]} =~ ^[0-9a-f-]{36}$ ]]
  has_received "$BOB" Backup 1
}

@test "wait for a one-time code" {
  arrives 'An old code' 'It is 999999.'
  program sign-up <<END
printf '%s\n' 'From: $BOB' "To: \$1" 'Subject: Your code' '' 'Your code is 271828, for ten minutes.' |
  $INBOXD deliver --data=$SERVICE "\$1" && echo sync >$MOUNT/ctl
END
  run -0 cook "Wait for a one-time code"
  equal "$output" 271828
}

@test "a digest goes out once a day" {
  arrives 'For the digest' 'x'
  # Midnight may pass meanwhile: both are made on the day of the email.
  local day
  day=$(jq -r '.date[:10]' "$(mounted "$ALICE" 'For the digest')")
  cook_digest() (
    # shellcheck disable=SC2317 # the recipe calls it
    date() { echo "$day"; }
    export day
    export -f date
    cook "Send yourself a digest"
  )
  cook_digest
  settle
  cook_digest
  settle
  equal "$(received_count "$ALICE" "Mail of $day")" 1
  contains "$(content "$ALICE" "Mail of $day" | jq -r .plain_text)" "$BOB: For the digest"
}

@test "a report carries an attachment" {
  cook "Send a report with an attachment from cron"
  settle
  holds <(content "$BOB" 'Disk report') '.attachments[0].filename == "disk.txt"'
}

@test "letters from a table go out once each" {
  printf 'Bob,%s\nAlice,%s\n' "$BOB" "$ALICE" >"$DIR/people.csv"
  cook "Merge letters from a table"
  settle
  cook "Merge letters from a table"
  settle
  equal "$(received_count "$BOB" Invitation)" 1
  contains "$(content "$ALICE" Invitation | jq -r .plain_text)" 'Dear Alice'
}

@test "an agent answers new mail" {
  program agent <<<"tr a-z A-Z"
  start_cooking "Let an agent answer"
  wait_until 20 has_open "$MOUNT/events"
  arrives 'A question' 'how are you'
  wait_until 20 has_received "$BOB" 'Re: A question'
  end_cooking
  contains "$(content "$BOB" 'Re: A question' | jq -r .plain_text)" 'HOW ARE YOU'
  settle
  has_received "$BOB" 'Re: A question' 1
}

@test "an agent drafts, and cannot send" {
  arrives 'To be answered' 'A question?'
  program agent <<'END'
#!/bin/sh
cat inboxes/*/*to-be-answered*/body.txt >drafts/answer || exit 1
mail=$(echo inboxes/*/*to-be-answered*[!n])
for file in outbox/now "$mail/reply" "$mail/forward" ctl; do
    if (echo sync >"$file") 2>/dev/null; then echo "$file was written"; fi
done
if mv drafts/answer outbox/ 2>/dev/null; then echo 'the draft was sent'; fi
[ ! -e /proc/1/root/etc ] || echo 'outside is visible'
END
  run -0 cook "Let an agent draft, and not send"
  equal "$output" ''
  equal "$(<"$MOUNT/drafts/answer")" 'A question?'
  equal "$(ls "$MOUNT/outbox")" ''
  rm "$MOUNT/drafts/answer"
}

@test "forward" {
  arrives 'An old contract' 'Signed.' 'Date: Sun, 01 Feb 2026 00:00:00 +0000'
  arrives 'A contract' 'Sign this.'
  cook "Forward what matters"
  settle
  has_received "$BOB" 'Fwd: A contract' 1
}

@test "search, and act on the results" {
  arrives 'Invoice 17' 'Pay 42.'
  wait_until 20 test -n "$(compgen -G "$MOUNT/search/invoice from:bob/*.json")"
  cook "Search, and do something with what is found"
  equal "$(cat "$DIR"/invoices/*_invoice-17_*.txt)" 'Pay 42.'
}

@test "extract all attachments" {
  arrives 'With a file' "$(printf '%s\n' '--b' 'Content-Type: text/plain' '' 'See.' '--b' 'Content-Type: text/csv' \
    'Content-Disposition: attachment; filename="../figures.csv"' '' '1,2' '--b--')" \
    'MIME-Version: 1.0' 'Content-Type: multipart/mixed; boundary=b'
  cook "Extract all attachments"
  equal "$(cat "$DIR"/attachments/*figures.csv)" '1,2'
}

@test "count by sender" {
  arrives 'Counted' 'x'
  run -0 cook "Count mail by sender"
  [[ $output =~ [0-9]+\ $BOB ]]
}

@test "export an inbox as a table" {
  arrives 'One, "two"' 'x'
  cook "Make a table of an inbox"
  grep -q "\"$BOB\",\"One, \"\"two\"\"\"\$" "$DIR/inbox.csv"
}

@test "unsubscribe links are found, also in folded headers" {
  arrives 'List' 'x' 'List-Unsubscribe: <mailto:u@news.example>,' ' <https://news.example/u?id=1>'
  run -0 cook "List links to unsubscribe"
  contains "$output" 'https://news.example/u?id=1'
}

@test "archive in git, twice" {
  local record kept
  arrives 'To be kept' 'x'
  cook "Archive an inbox in git"
  # As if the record had changed since and kept its length.
  record=$(mounted "$ALICE" 'To be kept')
  kept=$DIR/archive/$ALICE/${record##*/}
  sed -i 's/false/FALSE/' "$kept"
  touch -r "$record" "$kept"
  run -1 cmp -s "$record" "$kept"
  cook "Archive an inbox in git"
  cmp "$record" "$kept"
  arrives 'To be kept, too' 'x'
  cook "Archive an inbox in git"
  cook "Archive an inbox in git"
  equal "$(git -C "$DIR/archive" rev-list --count HEAD)" 2
  git -C "$DIR/archive" ls-files | grep -q 'to-be-kept-too_.*/body.txt'
}

@test "back up and restore" {
  arrives 'Saved' 'x'
  echo 'half a letter' >"$MOUNT/drafts/letter"
  cook "Back up"
  tar -tzf "$DIR/mail-backup.tar.gz" | grep -q '_saved_.*json'
  rm "$MOUNT/drafts/letter"
  cook "Restore"
  equal "$(cat "$MOUNT/drafts/letter")" 'half a letter'
  rm "$MOUNT/drafts/letter"
}

# A user of `local` alone, with a home of this test.
start_local() {
  DIR=$BATS_TEST_TMPDIR
  MOUNT=$DIR/mail
  INBOX=$MOUNT/inboxes/$ALICE
  mkdir "$MOUNT"
  HOME=$DIR "$INBOXFS" local "$MOUNT"
  mkdir "$INBOX"
  refresh
}

end_local() {
  [ -z "${COOKING_LOCAL:-}" ] || wait_until 20 fusermount3 -u "$MOUNT"
}

@test "restore a lost local service from its backup" {
  COOKING_LOCAL=yes
  start_local
  printf 'To: %s\nSubject: kept\n\nHello.\n' "$ALICE" >"$MOUNT/outbox/kept"
  sync "$MOUNT/outbox"
  refresh
  echo 'half a letter' >"$MOUNT/drafts/letter"
  cook "Back up local"
  [ -e "$MOUNT/status.json" ]
  equal "$(stat -c %a "$DIR/local-backup.tar.gz")" 600
  missing "$DIR/local-backup.part"
  wait_until 20 fusermount3 -u "$MOUNT"
  wait_until 20 rm -r "$DIR/.local"
  cook "Restore local"
  equal "$(cat "$MOUNT/drafts/letter" "$INBOX"/*_kept_*/body.txt)" $'half a letter\nHello.'
  present "$MOUNT/sent/kept.receipt.json"
}

@test "back up inboxd while it runs, and continue from the copy" {
  local copies
  arrives 'Kept by inboxd' 'x'
  cook "Back up inboxd"
  copies=("$DIR"/inboxd-*)
  equal "${#copies[@]}" 1
  run -1 cook "Back up inboxd"
  "$INBOXD" --data="${copies[0]}" --listen=127.0.0.1:0 >"$DIR/copy.out" 3>&- {PAUSE}>&- &
  COOKING_INBOXD=$!
  wait_until 20 grep -q listening "$DIR/copy.out"
  SERVICE_URL=$(sed -n 's/.* on //p' "$DIR/copy.out")
  has_received "$ALICE" 'Kept by inboxd' 1
}

@test "import an mbox, a Maildir and a message, each once and with its date" {
  mkdir -p "$DIR"/old-mail/maildir/{cur,new,tmp}
  old_mail() { # NUMBER
    printf '%s\n' "From: old$1@x.example" "Subject: Old mail $1" "Date: 0$1 Jan 2015 10:00:00 +0000" \
      "Message-ID: <old$1@x.example>" '' 'From here on' "text $1"
  }
  for number in 1 2; do
    printf 'From a@x.example Thu Jan  1 10:00:00 2015\n%s\n\n' "$(old_mail "$number" | sed 's/^From here/>&/')"
  done >"$DIR/old-mail/mbox"
  old_mail 3 >"$DIR/old-mail/maildir/cur/1.2.x:2,S"
  old_mail 4 >"$DIR/old-mail/message.eml"
  cook "Import mail"
  cook "Import mail"
  for number in 1 2 3 4; do
    holds <(content "$ALICE" "Old mail $number") '(.date | startswith($date)) and (.plain_text | contains($text))' \
      --arg date "2015-01-0$number" --arg text "text $number"
  done
  missing "$DIR/import" "$DIR/import.part"
}

@test "two machines share the mail" {
  local text
  text=$(recipe "Two machines on one account")
  run -0 cook "Two machines on one account"
  equal "$(sort <(echo "$output") <(bash -eu -c "${text/machine=0/machine=1}") | grep .)" \
    "$(jq -r .file "$INBOX/index.jsonl" | sort)"
}

@test "a second mount shows the same inboxes" {
  run -0 cook "A second mount of the account"
  contains "$output" "$ALICE"
  wait_until 20 fusermount3 -u "$DIR/second"
}

@test "systemd starts a program for new mail" {
  program systemctl <<<"echo \"\$@\" >>$DIR/systemctl.log"
  program handle-mail <<<':'
  cook "Start a program when mail comes, by systemd"
  contains "$(cat "$DIR/systemctl.log")" '--user enable --now handle-mail.path'
  if command -v systemd-analyze >/dev/null; then
    run systemd-analyze verify --man=no "$DIR"/.config/systemd/user/handle-mail.{path,service}
    [[ $output != *handle-mail* ]] || fail "$output"
  fi
}

@test "new mail shows a desktop notification" {
  program notify-send <<<"printf '%s\n' \"\$@\" >>$DIR/notified"
  start_cooking "Notify the desktop"
  wait_until 20 is_watching
  arrives 'Ding dong' 'x'
  wait_until 20 grep -qx 'Ding dong' "$DIR/notified"
  end_cooking
  grep -qx "$BOB" "$DIR/notified"
}

@test "flag mail in the Maildir" {
  arrives 'To be flagged' 'x'
  wait_until 20 test -d "$MOUNT/maildir/$ALICE/new"
  cook "Flag mail as a mail program does"
  grep -l '^Subject: To be flagged' "$MOUNT/maildir/$ALICE"/cur/*:2,F
}

@test "an inbox for each purpose" {
  cook "An inbox for each purpose"
  compgen -G "$MOUNT/inboxes/shop-*@$DOMAIN/inbox.json"
}

@test "a failed message is reported, and sent again" {
  printf 'From: %s\nTo: %s\nSubject: x\nAttach: none.txt\n\nx\n' "$ALICE" "$BOB" >"$MOUNT/outbox/no-such-file"
  wait_failed no-such-file
  run -0 cook "Say what failed, and why"
  contains "$output" 'none.txt'
  echo x >"$MOUNT/attachments/none.txt"
  cook "Try again what was refused"
  settle
  present "$MOUNT/sent/no-such-file"
}
