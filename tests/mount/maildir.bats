#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Inboxes as Maildirs: their content, the operations that are allowed, and which changes survive a restart.
# maildir_programs.bats runs mail programs.

load support
load scripted
load maildir

teardown() {
  stop_all
}

# ---------------------------------------------------------------- what is there

@test "every inbox is a Maildir too, with its mail in new" {
  start_maildirs one two three
  equal "$(names "$MOUNT/maildir")" "$ALICE $BOB "
  equal "$(names "$BOX")" "cur new tmp "
  # The welcome mail went into the first inbox of the account, alice's.
  equal "$(find "$BOX/new" -type f | wc -l)" 3
  equal "$(find "$BOX/cur" "$BOX/tmp" -mindepth 1)" ""
  equal "$(stat -c '%a %F' "$BOX" "$BOX/cur" "$BOX/new" "$BOX/tmp" | sort -u)" "700 directory"
}

@test "a message has the bytes, size and date of the service's raw message" {
  start_maildirs one two three
  local file subject id
  for subject in one two three; do
    file=$(message_of "$subject")
    id=$(received "$BOB" "$subject" | jq -r '.[0].id')
    api GET "/email/$id/raw" >"$DIR/raw"
    equal "$(stat -c '%s %a' "$file")" "$(stat -c %s "$DIR/raw") 444"
    cmp "$file" "$DIR/raw"
    equal "$(stat -c %Y "$file")" "$(date -d "$(received "$BOB" "$subject" | jq -r '.[0].date')" +%s)"
  done
}

@test "names consist of date, digest and number, in order of arrival" {
  start_maildirs one two three
  local name
  for name in "$BOX"/new/*; do
    [[ ${name##*/} =~ ^[0-9]+\.[0-9a-f]{16}\.inboxfs,U=[1-3]$ ]] || fail "$name"
  done
  send_from_elsewhere "$ALICE" "$BOB" four
  refresh
  equal "$(number_of four)" 4
}

@test "shell loops and cp -r read it" {
  start_maildirs one two three
  local file count=0
  for file in "$MOUNT"/maildir/*/new/*; do
    if grep -q '^From: ' "$file"; then count=$((count + 1)); fi
  done
  equal "$count" "$(find "$MOUNT/maildir" -path '*/new/*' | wc -l)"
  equal "$(grep -rl '^Subject: two' "$MOUNT/maildir")" "$(message_of two)"
  cp -a "$MOUNT/maildir" "$DIR/copy"
  diff -r "$MOUNT/maildir" "$DIR/copy"
  tar -C "$MOUNT" -cf "$DIR/all.tar" maildir
  equal "$(tar -tf "$DIR/all.tar" | grep -c U=)" "$(find "$MOUNT/maildir" -name '*U=*' | wc -l)"
  rsync -a "$MOUNT/maildir/" "$DIR/rsynced/"
  diff -r "$MOUNT/maildir" "$DIR/rsynced"
}

@test "new mail changes the time of new, and not that of cur" {
  start_maildirs one
  local before_new before_cur
  before_new=$(stat -c %.9Y "$BOX/new")
  before_cur=$(stat -c %.9Y "$BOX/cur")
  send_from_elsewhere "$ALICE" "$BOB" later
  refresh
  differ "$(stat -c %.9Y "$BOX/new")" "$before_new"
  message_of later
  differ "$(stat -c %.9Y "$BOX/new")" "$before_new"
  equal "$(stat -c %.9Y "$BOX/cur")" "$before_cur"
}

@test "an inbox created here is a Maildir at once" {
  start_maildirs
  mkdir "$MOUNT/inboxes/carol@$DOMAIN"
  equal "$(names "$MOUNT/maildir/carol@$DOMAIN")" "cur new tmp "
}

@test "a server with only the Core endpoints has no Maildirs" {
  start_scripted_service
  local number
  for number in 1 2 3; do
    server_has_email '{"id": "e'$number'", "inbox_id": "box", "subject": "mail", "date": "2026-01-02T03:04:05Z"}'
  done
  start_mount
  refresh
  wait_until 20 test -e "$MOUNT/inboxes/box"
  missing "$MOUNT/maildir"
  run ! grep -qx maildir <(ls "$MOUNT")
}

@test "with --metadata-only there are no Maildirs" {
  start_service
  create_inbox "$BOB" >/dev/null
  start_mount --metadata-only
  refresh
  missing "$MOUNT/maildir"
  equal "$(find "$MOUNT" -maxdepth 1 -name maildir)" ""
}

# ---------------------------------------------------------------- marking

@test "a rename marks a message, also between new and cur" {
  start_maildirs one two
  local file base
  file=$(message_of one)
  base=${file##*/}
  mv "$file" "$BOX/cur/$base:2,S"
  equal "$(ls "$BOX/cur")" "$base:2,S"
  equal "$(count "$BOX/new")" 1
  mv "$BOX/cur/$base:2,S" "$BOX/cur/$base:2,FRSa"
  equal "$(ls "$BOX/cur")" "$base:2,FRSa"
  cmp "$BOX/cur/$base:2,FRSa" <(raw_of one)
  mv "$BOX/cur/$base:2,FRSa" "$BOX/cur/$base:2,"
  mv "$BOX/cur/$base:2," "$BOX/new/$base"
  equal "$(ls "$BOX/cur")" ""
  equal "$(count "$BOX/new")" 2
}

@test "flags are sorted by ASCII, whatever they mean" {
  start_maildirs one
  local file base
  file=$(message_of one)
  base=${file##*/}
  expect ok rename "$file" "$BOX/cur/$base:2,zTSRSPFDXa"
  equal "$(ls "$BOX/cur")" "$base:2,DFPRSTXaz"
}

@test "marks survive a remount and kill -9" {
  start_maildirs one two
  local file base
  file=$(message_of one)
  base=${file##*/}
  mv "$file" "$BOX/cur/$base:2,S"
  mv "$BOX/cur/$base:2,S" "$BOX/cur/$base:2,RS"
  kill_mount KILL
  start_mount
  wait_maildirs
  equal "$(ls "$BOX/cur")" "$base:2,RS"
  mv "$BOX/cur/$base:2,RS" "$BOX/cur/$base:2,FRS"
  stop_mount
  start_mount
  wait_maildirs
  equal "$(ls "$BOX/cur")" "$base:2,FRS"
  equal "$(count "$BOX/new")" 1
}

@test "each change updates the times of the folders that it changes" {
  start_maildirs one
  local file base new cur
  file=$(message_of one)
  base=${file##*/}
  new=$(stat -c %.9Y "$BOX/new")
  cur=$(stat -c %.9Y "$BOX/cur")
  mv "$file" "$BOX/cur/$base:2,"
  differ "$(stat -c %.9Y "$BOX/new")" "$new"
  differ "$(stat -c %.9Y "$BOX/cur")" "$cur"
  new=$(stat -c %.9Y "$BOX/new")
  cur=$(stat -c %.9Y "$BOX/cur")
  mv "$BOX/cur/$base:2," "$BOX/cur/$base:2,S"
  equal "$(stat -c %.9Y "$BOX/new")" "$new"
  differ "$(stat -c %.9Y "$BOX/cur")" "$cur"
}

@test "rm marks a message as trashed; a second rm removes it from the Maildir, and not from the inbox" {
  start_maildirs one
  local file
  file=$(message_of one)
  rm -f "$file"
  equal "$(ls "$BOX/new")" "${file##*/}:2,T"
  cmp "$BOX/new/${file##*/}:2,T" <(raw_of one)
  rm -f "$BOX/new/${file##*/}:2,T"
  equal "$(ls "$BOX/new")" ""
  missing "$BOX/new/${file##*/}:2,T" "$file"
  present "$(mounted "$BOB" one)"
  # It was on the disk when rm was done. The number is not given again.
  kill_mount KILL
  start_mount
  refresh
  wait_maildirs
  equal "$(find "$BOX" -name '*U=*')" ""
  send_from_elsewhere "$ALICE" "$BOB" two
  refresh
  equal "$(number_of two)" 2
}

@test "every other rename is refused" {
  start_maildirs one two
  local file base other
  file=$(message_of one)
  base=${file##*/}
  other=$(message_of two)
  echo mine >"$MOUNT/drafts/mine"
  expect EPERM rename "$file" "$other"
  expect EPERM rename "$file" "$BOX/cur/${other##*/}:2,S"
  expect EPERM rename "$file" "$BOX/cur/renamed"
  expect EPERM rename "$file" "$BOX/cur/$base:1,S"
  expect EPERM rename "$file" "$BOX/cur/$base:2,S1"
  expect EPERM rename "$file" "$BOX/cur/x$base:2,S"
  expect EPERM rename "$file" "$BOX/tmp/$base"
  expect EPERM rename "$file" "$BOX/.hidden"
  expect EPERM rename "$file" "$MOUNT/maildir/$ALICE/cur/$base:2,S"
  expect EPERM rename "$file" "$MOUNT/drafts/taken"
  expect EPERM rename "$file" "$MOUNT/outbox/sent-on"
  expect EPERM rename "$MOUNT/drafts/mine" "$BOX/cur/mine"
  expect EPERM rename "$MOUNT/drafts/mine" "$BOX/new/$base"
  expect EPERM rename "$BOX/cur" "$BOX/new"
  expect EPERM rename "$BOX" "$MOUNT/maildir/renamed"
  expect EINVAL rename-exchange "$file" "$other"
  equal "$(count "$BOX/new")" 2
  grep -qx mine "$MOUNT/drafts/mine"
}

@test "delivery into a Maildir is refused" {
  start_maildirs one
  local folder file
  file=$(message_of one)
  for folder in cur new tmp; do
    case $folder in
    tmp) expect EDQUOT open "$BOX/$folder/1700000000.1.host" wc ;;
    *) expect EPERM open "$BOX/$folder/1700000000.1.host" wc ;;
    esac
    expect EPERM mkdir "$BOX/$folder/sub"
    expect EPERM link "$file" "$BOX/$folder/linked"
    expect EPERM symlink "$file" "$BOX/$folder/linked"
    expect EPERM rmdir "$BOX/$folder"
  done
  expect EACCES open "$file" w
  expect EPERM open "$BOX/ordinary" wc
  expect EPERM mkdir "$BOX/.Sent"
  expect EPERM mkdir "$MOUNT/maildir/new-box"
}

# ---------------------------------------------------------------- numbers

@test "numbers and uidvalidity survive the loss of the cache" {
  start_maildirs one two three
  local before
  mv "$(message_of two)" "$BOX/cur/$(basename "$(message_of two)"):2,S"
  before=$(cd "$BOX" && find . -type f | sort && cat .uidvalidity)
  stop_mount
  rm -rf "$STATE/cache"
  start_mount
  refresh
  wait_maildirs
  equal "$(cd "$BOX" && find . -type f | sort && cat .uidvalidity)" "$before"
}

@test "there are no Maildirs while a lost cache is filled again" {
  start_maildirs one two three
  stop_mount
  rm -r "$STATE/cache"
  freeze_service
  start_mount
  missing "$MOUNT/maildir"
  kill -CONT "$SERVICE_PID"
  refresh
  equal "$(find "$BOX/new" -type f | wc -l)" 3
}

@test "a damaged memory leaves no Maildirs until it is removed, and then uidvalidity changes" {
  start_maildirs one two
  local before
  mv "$(message_of two)" "$BOX/cur/$(basename "$(message_of two)"):2,S"
  before=$(head -n1 "$BOX/.uidvalidity")
  stop_mount
  head -c 5000 /dev/urandom >"$STATE/maildir/maildir.sqlite3"
  start_mount
  refresh
  run ! ls "$BOX/new"
  grep -q 'maildir.sqlite3 cannot be used' "$MOUNT_LOG"
  stop_mount
  rm "$STATE/maildir/maildir.sqlite3"
  wait_until 3 clock_is_past "$before"
  start_mount
  wait_maildirs
  [ "$(head -n1 "$BOX/.uidvalidity")" -gt "$before" ]
  equal "$(count "$BOX/new")" 2
}

@test ".uidvalidity can be opened, locked and rewritten unchanged, and not changed" {
  start_maildirs one
  local text
  text=$(cat "$BOX/.uidvalidity")
  equal "$(sed -n 2p <<<"$text")" 1000
  flock "$BOX/.uidvalidity" true
  exec 7<>"$BOX/.uidvalidity"
  printf '%s\n' "$text" >&7
  exec 7>&-
  exec 7<>"$BOX/.uidvalidity"
  if printf '1\n2\n' >&7; then fail "numbers were taken"; fi
  exec 7>&-
  expect EPERM unlink "$BOX/.uidvalidity"
  equal "$(cat "$BOX/.uidvalidity")" "$text"
}

# ---------------------------------------------------------------- programs' own files

@test "programs keep their own files beside the folders" {
  start_maildirs one
  echo state >"$BOX/.mbsyncstate.new"
  mv "$BOX/.mbsyncstate.new" "$BOX/.mbsyncstate"
  echo list >"$BOX/dovecot-uidlist"
  mkdir "$MOUNT/maildir/.notmuch" "$MOUNT/maildir/.notmuch/xapian"
  echo index >"$MOUNT/maildir/.notmuch/xapian/iamglass"
  stop_mount
  start_mount
  wait_maildirs
  equal "$(names "$BOX")" ".mbsyncstate cur dovecot-uidlist new tmp "
  equal "$(cat "$BOX/.mbsyncstate")" state
  equal "$(cat "$MOUNT/maildir/.notmuch/xapian/iamglass")" index
  equal "$(find "$MOUNT/maildir" -maxdepth 1 -name .notmuch -type d)" "$MOUNT/maildir/.notmuch"
  equal "$(count "$MOUNT/maildir/$ALICE")" 3
  rm "$BOX/.mbsyncstate"
  missing "$BOX/.mbsyncstate"
  expect ENOTEMPTY rmdir "$MOUNT/maildir/.notmuch"
  rm -r "$MOUNT/maildir/.notmuch"
  missing "$MOUNT/maildir/.notmuch"
}

@test "the number of a program's own files is bounded" {
  start_maildirs
  local number
  for number in {1..64}; do
    : >"$BOX/.file-$number"
  done
  expect ENOSPC open "$BOX/.one-more" wc
  equal "$(find "$BOX" -name '.file-*' | wc -l)" 64
  rm "$BOX/.file-7"
  : >"$BOX/.one-more"
}

# ---------------------------------------------------------------- killed in the middle

# Marks every message of new in turn, and notes in $DIR/done what returned.
mark_all() {
  local file
  for file in "$BOX"/new/*; do
    if mv "$file" "$BOX/cur/${file##*/}:2,S" 2>/dev/null; then echo "${file##*/}" >>"$DIR/done"; fi
  done
}

has_done() { # COUNT
  [ "$(wc -l <"$DIR/done")" -ge "$1" ]
}

@test "a mark survives a kill of the mount after its rename returned" {
  start_maildirs
  local number round name marker
  send_many_from_elsewhere "$ALICE" "$BOB" "number" 24
  refresh
  equal "$(find "$BOX/new" -type f | wc -l)" 24
  : >"$DIR/done"
  for round in 5 11 17; do
    mark_all 3>&- &
    marker=$!
    wait_until 20 has_done "$round"
    kill_mount KILL
    wait "$marker"
    start_mount
    wait_maildirs
    while read -r name; do
      present "$BOX/cur/$name:2,S"
    done <"$DIR/done"
    # One may have been marked whose rename did not return; none is lost, none is twice.
    equal "$(find "$BOX" -name '*U=*' | sed 's/.*U=//; s/:.*//' | sort -n | tr '\n' ' ')" "$(seq -s ' ' 24) "
  done
}

# ---------------------------------------------------------------- without the service, and with a slow one

requests() # the answers of the service so far
{
  jq .counters.requests "$MOUNT/status.json"
}

has_asked() { # COUNT
  [ "$(requests)" -ge "$1" ]
}

@test "listing a folder fetches nothing, and reading in its order fetches the next ones" {
  start_maildirs
  local before first
  send_many_from_elsewhere "$ALICE" "$BOB" "number" 8
  refresh
  freeze_service
  within 5 find "$BOX/new" -name 'U=x'
  kill -CONT "$SERVICE_PID"
  before=$(requests)
  mapfile -t first < <(find "$BOX/new" -name '*U=*' | head -n 4)
  cat "${first[@]}" >/dev/null
  wait_until 20 has_asked "$((before + 8))"
  stop_service
  equal "$(cat "$BOX"/new/* | grep -c '^Subject: number')" 8
}

@test "offline, a message that was looked at has its size, and one that was read is readable" {
  start_maildirs one two
  find "$BOX" -type f -printf '%s %p\n' | sort >"$DIR/before"
  cat "$BOX"/new/* >"$DIR/read"
  stop_mount
  stop_service
  start_mount
  wait_maildirs
  diff "$DIR/before" <(find "$BOX" -type f -printf '%s %p\n' | sort)
  cmp "$DIR/read" <(cat "$BOX"/new/*)
}

@test "offline, a message that the cache has dropped is listed, and fails with the reason" {
  start_maildirs one two
  local one two
  one=$(message_of one)
  two=$(message_of two)
  stop_mount
  python3 -c 'import sqlite3, sys, zlib
with sqlite3.connect(sys.argv[1]) as database:
    for number, text in database.execute("SELECT number, bytes FROM part_bytes").fetchall():
        if b"\nSubject: one" in zlib.decompress(text):
            database.execute("DELETE FROM parts WHERE number = ?", (number,))' "$STATE/cache/mail.sqlite3"
  stop_service
  start_mount
  wait_maildirs
  present "$one" "$two"
  expect EHOSTUNREACH open "$one" r
  grep -q "^Subject: two" "$two"
}

@test "offline, a message that was never fetched is listed, and fails without harm to others" {
  start_maildirs one
  message_of one
  stop_service
  start_service
  send_from_elsewhere "$ALICE" "$BOB" "never fetched"
  refresh
  freeze_service
  stop_service KILL
  within 10 timeout 20 ls "$BOX/new" >"$DIR/list"
  equal "$(wc -l <"$DIR/list")" 2
  expect EHOSTUNREACH open "$BOX/new/$(grep U=2 "$DIR/list")" r
  raw_size=$(stat -c %s "$BOX/new/$(grep U=1 "$DIR/list")")
  [ "$raw_size" -gt 0 ]
}

@test "a slow service delays the reader of that message and nobody else; Ctrl-C ends it" {
  start_maildirs one
  message_of one
  send_from_elsewhere "$ALICE" "$BOB" "slow one"
  refresh
  freeze_service
  within 5 ls "$BOX/new" >"$DIR/list"
  local name pid
  name=$BOX/new/$(grep U=2 "$DIR/list")
  stat "$name" >/dev/null 2>"$DIR/stat.err" &
  pid=$!
  wait_until 10 grep -q 'request_wait_answer\|fuse' "/proc/$pid/wchan" || true
  within 5 ls -l "$BOX/cur" "$MOUNT/inboxes/$BOB" >/dev/null
  within 5 cat "$MOUNT/status.json" >/dev/null
  within 5 stat "$BOX/new/$(grep U=1 "$DIR/list")" >/dev/null
  kill -INT "$pid" 2>/dev/null || kill -TERM "$pid"
  kill -TERM "$pid" 2>/dev/null || true
  wait_until 5 process_is_gone "$pid"
  kill -CONT "$SERVICE_PID"
  wait_until 20 stat "$name"
}
