#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Writing a file in outbox/ directly, with the tools that people have: sent at the last close, once, whole, or not at
# all.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
  if [ -d "$DIR/small" ] && mountpoint -q "$DIR/small"; then
    umount "$DIR/small"
  fi
}

# The message NAME went out once and says BODY.
went_out() { # NAME SUBJECT [BODY]
  wait_sent "$1"
  unlisted "$MOUNT/outbox/$1"
  missing "$MOUNT/failed/$1"
  content "$BOB" "$2" >"$DIR/arrived"
  holds "$DIR/arrived" '.plain_text | rtrimstr("\n") == $body' --arg body "${3:-Hello.}"
}

interrupted() { # NAME
  wait_failed "$1"
  holds "$MOUNT/failed/$1.receipt.json" '.error | test("interrupted")'
  unlisted "$MOUNT/outbox/$1"
  missing "$MOUNT/sent/$1"
}

# ---------------------------------------------------------------- shells

@test "bash: cat > outbox/file with a here document" {
  bash -c 'cat > "$1"' - "$MOUNT/outbox/here" <<MESSAGE
From: $ALICE
To: $BOB
Subject: here document

Typed by hand.
MESSAGE
  went_out here "here document" "Typed by hand."
}

@test "bash and dash: several writers in one redirection make one message" {
  local shell
  for shell in bash dash; do
    "$shell" -c '{ echo "From: $1"; echo "To: $2"; echo "Subject: two writers"; echo; /bin/echo one; echo two; date +three; } > "$3"' \
      - "$ALICE" "$BOB" "$MOUNT/outbox/$shell"
    wait_sent "$shell"
    cat "$MOUNT/sent/$shell"
    cmp <(tail -n 3 "$MOUNT/sent/$shell") <(printf 'one\ntwo\nthree\n')
  done
  has_received "$BOB" "two writers" 2
}

@test "bash and dash: printf built in, and a loop behind one redirection" {
  local shell
  for shell in bash dash; do
    "$shell" -c 'printf "From: %s\nTo: %s\nSubject: loop %s\n\n" "$1" "$2" "$0" > "$3"
                 for i in 1 2 3; do :; done' "$shell" "$ALICE" "$BOB" "$MOUNT/outbox/printf-$shell"
    "$shell" -c '{ printf "From: %s\nTo: %s\nSubject: for %s\n\n" "$1" "$2" "$0"
                   for i in 1 2 3; do echo "line $i"; done; } > "$3"' "$shell" "$ALICE" "$BOB" "$MOUNT/outbox/for-$shell"
    wait_sent "printf-$shell"
    wait_sent "for-$shell"
    content "$BOB" "for $shell" | jq -e '.plain_text | rtrimstr("\n") == "line 1\nline 2\nline 3"'
  done
}

@test "exec with a descriptor: sent when it is closed, not before" {
  exec 7>"$MOUNT/outbox/held"
  message "$BOB" "Held" "first" >&7
  cat /dev/null >&7
  echo second >&7
  present "$MOUNT/outbox/held"
  missing "$MOUNT/sent/held" "$MOUNT/failed/held"
  exec 7>&-
  wait_sent held
  content "$BOB" Held | jq -e '.plain_text | rtrimstr("\n") == "first\nsecond"'
}

@test "appending with >> while no one has sent it: one open, one message" {
  {
    printf 'From: %s\nTo: %s\n' "$ALICE" "$BOB"
    printf 'Subject: appended\n\nx\n'
  } >>"$MOUNT/outbox/append"
  went_out append appended x
}

@test "a pipeline: sed | cat > outbox/file" {
  message "$BOB" "PIPE" | sed 's/PIPE/pipeline/' | cat >"$MOUNT/outbox/pipe"
  went_out pipe pipeline
}

@test "tee writes the outbox and a copy" {
  message "$BOB" "tee" | tee "$MOUNT/outbox/tee" >"$DIR/copy"
  went_out tee tee
  cmp "$DIR/copy" "$MOUNT/sent/tee"
}

@test "a background job holds the redirection after the shell went on" {
  mkfifo "$DIR/go"
  bash -c '{ cat "$1"; read -r _ < "$2"; } > "$3" 3>&- &' - \
    <(message "$BOB" "background") "$DIR/go" "$MOUNT/outbox/background"
  wait_until 5 test -e "$MOUNT/outbox/background"
  missing "$MOUNT/sent/background"
  echo >"$DIR/go"
  went_out background background
}

# ---------------------------------------------------------------- tools

@test "cp, cp -p, cp -a into the outbox" {
  local i option
  for option in -f -p -a; do
    message "$BOB" "cp $option" >"$DIR/cp$option"
    cp "$option" "$DIR/cp$option" "$MOUNT/outbox/"
    went_out "cp$option" "cp $option"
  done
}

@test "cp of several files" {
  message "$BOB" "several 1" >"$DIR/s1"
  message "$BOB" "several 2" >"$DIR/s2"
  message "$BOB" "several 3" >"$DIR/s3"
  cp "$DIR/s1" "$DIR/s2" "$DIR/s3" "$MOUNT/outbox"
  went_out s1 "several 1"
  went_out s2 "several 2"
  went_out s3 "several 3"
}

@test "dd in small blocks" {
  message "$BOB" "dd" "$(seq 1 2000)" >"$DIR/dd"
  dd if="$DIR/dd" of="$MOUNT/outbox/dd" bs=100 status=none
  went_out dd dd "$(seq 1 2000)"
}

@test "dd conv=fsync" {
  message "$BOB" "dd fsync" >"$DIR/dd"
  dd if="$DIR/dd" of="$MOUNT/outbox/dd" conv=fsync status=none
  went_out dd "dd fsync"
}

@test "install, which touches mode and times after closing" {
  message "$BOB" "install" >"$DIR/install"
  install -m 0644 -p "$DIR/install" "$MOUNT/outbox/install"
  went_out install install
}

@test "rsync" {
  message "$BOB" "rsync" >"$DIR/rsync"
  rsync "$DIR/rsync" "$MOUNT/outbox/"
  went_out rsync rsync
}

@test "rsync -a" {
  message "$BOB" "rsync -a" >"$DIR/rsync-a"
  rsync -a "$DIR/rsync-a" "$MOUNT/outbox/"
  went_out rsync-a "rsync -a"
}

@test "rsync --inplace -a" {
  message "$BOB" "rsync in place" >"$DIR/inplace"
  rsync -a --inplace "$DIR/inplace" "$MOUNT/outbox/"
  went_out inplace "rsync in place"
}

@test "vim -es: writing a new file" {
  cd "$DIR"
  message "$BOB" "vim" >draft.txt
  vim -Nes -u NONE -i NONE -c 'e draft.txt' -c "w $MOUNT/outbox/vim" -c 'qa!' </dev/null
  went_out vim vim
}

@test "vim -es: opening the new file in the outbox, with a swap file" {
  vim -Nes -u NONE -i NONE -c 'set swapfile' \
    -c "call setline(1, ['From: $ALICE', 'To: $BOB', 'Subject: typed in vim', '', 'Hello.'])" \
    -c 'wq' "$MOUNT/outbox/typed" </dev/null
  went_out typed "typed in vim"
  wait_until 5 missing "$MOUNT/outbox/.typed.swp" "$MOUNT/outbox/4913"
}

@test "sed -i and other editors that write beside and rename" {
  message "$BOB" "temporary name" >"$MOUNT/outbox/.new.XYZ"
  mv "$MOUNT/outbox/.new.XYZ" "$MOUNT/outbox/new"
  went_out new "temporary name"
}

# ---------------------------------------------------------------- Python

@test "python: with open(...)" {
  python3 - "$MOUNT/outbox/python" "$(message "$BOB" python)" <<'PYTHON'
import sys
with open(sys.argv[1], "w") as file:
    file.write(sys.argv[2])
PYTHON
  went_out python python
}

@test "python: open without close, ended by the program's end" {
  python3 - "$MOUNT/outbox/unclosed" "$(message "$BOB" unclosed)" <<'PYTHON'
import sys
file = open(sys.argv[1], "w")
file.write(sys.argv[2])
PYTHON
  went_out unclosed unclosed
}

@test "python: ended by os._exit with an error while the file is open interrupts it" {
  run python3 - "$MOUNT/outbox/exit" "$(message "$BOB" exit)" <<'PYTHON'
import os, sys
file = open(sys.argv[1], "w")
file.write(sys.argv[2])
file.flush()
os._exit(1)
PYTHON
  equal "$status" 1
  interrupted exit
}

@test "python: shutil.copy and copy2, which set mode and times after closing" {
  message "$BOB" "copy" >"$DIR/copy"
  message "$BOB" "copy2" >"$DIR/copy2"
  python3 -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[3]); shutil.copy2(sys.argv[2], sys.argv[3])' \
    "$DIR/copy" "$DIR/copy2" "$MOUNT/outbox/"
  went_out copy copy
  went_out copy2 copy2
}

@test "python: pathlib, and a temporary file beside it with os.replace" {
  python3 - "$MOUNT/outbox" "$(message "$BOB" replaced)" <<'PYTHON'
import os, pathlib, sys
box = pathlib.Path(sys.argv[1])
(box / "letter.tmp").write_text(sys.argv[2])
os.replace(box / "letter.tmp", box / "letter")
PYTHON
  went_out letter replaced
}

@test "python: writing out of order, seeking back to the head" {
  python3 - "$MOUNT/outbox/seek" "$ALICE" "$BOB" <<'PYTHON'
import sys
with open(sys.argv[1], "w+b") as file:
    head = f"From: {sys.argv[2]}\nTo: {sys.argv[3]}\nSubject: sought\n\n".encode()
    file.seek(len(head))
    file.write(b"tail")
    file.seek(0)
    file.write(head)
    file.seek(0)
    assert file.read() == head + b"tail"
PYTHON
  went_out seek sought tail
}

# ---------------------------------------------------------------- several at once

@test "several processes at once, each its own message" {
  local i pids=()
  for i in {1..16}; do
    (message "$BOB" "parallel $i" "$(seq "$i" 500)" >"$DIR/p$i" && cp "$DIR/p$i" "$MOUNT/outbox/p$i") 3>&- &
    pids+=($!)
  done
  for i in "${pids[@]}"; do
    wait "$i"
  done
  sync "$MOUNT/outbox"
  for i in {1..16}; do
    has_received "$BOB" "parallel $i"
  done
}

@test "two processes that hold one file open: sent at the last close" {
  exec 7>"$MOUNT/outbox/two"
  exec 8>>"$MOUNT/outbox/two"
  message "$BOB" "two holders" "one" >&7
  exec 7>&-
  missing "$MOUNT/sent/two"
  echo two >&8
  exec 8>&-
  went_out two "two holders" "one"$'\n'"two"
}

@test "a reader that has the file open does not hold it up" {
  exec 7>"$MOUNT/outbox/read"
  exec 8<"$MOUNT/outbox/read"
  message "$BOB" "with a reader" >&7
  grep -q 'with a reader' <&8
  exec 7>&-
  went_out read "with a reader"
  exec 8<&-
}

@test "what is being written can be read back, with its size" {
  exec 7>"$MOUNT/outbox/peek"
  message "$BOB" "peek" >&7
  equal "$(stat -c %s "$MOUNT/outbox/peek")" "$(message "$BOB" peek | wc -c)"
  cmp "$MOUNT/outbox/peek" <(message "$BOB" peek)
  exec 7>&-
  went_out peek peek
}

@test "fsync of a file being written succeeds and does not send it" {
  exec 7>"$MOUNT/outbox/durable"
  message "$BOB" "durable" >&7
  sync "$MOUNT/outbox/durable"
  missing "$MOUNT/sent/durable"
  exec 7>&-
  went_out durable durable
}

# ---------------------------------------------------------------- never sent

@test "never-sent names stay, hold up no sync, and are handed in when renamed" {
  local name
  for name in .hidden backup~ file.tmp file.part .x.swp y.swp 4913; do
    message "$BOB" "never $name" >"$MOUNT/outbox/$name"
  done
  within 5 sync "$MOUNT/outbox"
  for name in .hidden backup~ file.tmp file.part .x.swp y.swp 4913; do
    present "$MOUNT/outbox/$name"
    has_received "$BOB" "never $name" 0
  done
  mv "$MOUNT/outbox/backup~" "$MOUNT/outbox/backup"
  went_out backup "never backup~"
}

@test "never-sent names survive a restart" {
  message "$BOB" "kept" >"$MOUNT/outbox/kept.part"
  stop_mount
  start_mount
  cmp "$MOUNT/outbox/kept.part" <(message "$BOB" kept)
  mv "$MOUNT/outbox/kept.part" "$MOUNT/outbox/kept"
  went_out kept kept
}

@test "a never-sent file may be written again and removed" {
  echo one >"$MOUNT/outbox/x.tmp"
  echo two >"$MOUNT/outbox/x.tmp"
  echo three >>"$MOUNT/outbox/x.tmp"
  equal "$(cat "$MOUNT/outbox/x.tmp")" "two"$'\n'"three"
  rm "$MOUNT/outbox/x.tmp"
  missing "$MOUNT/outbox/x.tmp"
}

@test "an empty file is not sent, and holds up no sync" {
  : >"$MOUNT/outbox/empty"
  touch "$MOUNT/outbox/touched"
  within 5 sync "$MOUNT/outbox"
  present "$MOUNT/outbox/empty" "$MOUNT/outbox/touched"
  equal "$(find "$MOUNT/sent" "$MOUNT/failed" -type f | wc -l)" 0
}

@test "an empty file that is filled later is sent then" {
  touch "$MOUNT/outbox/later"
  message "$BOB" "filled" >"$MOUNT/outbox/later"
  went_out later filled
}

@test "*.receipt.json in the outbox: EPERM" {
  expect "open EPERM" write "$MOUNT/outbox/x.receipt.json" wc x
  message "$BOB" receipt >"$MOUNT/drafts/r"
  expect EPERM rename "$MOUNT/drafts/r" "$MOUNT/outbox/r.receipt.json"
  present "$MOUNT/drafts/r"
}

@test "folders and links in the outbox: EPERM" {
  expect EPERM mkdir "$MOUNT/outbox/folder"
  expect EPERM symlink /etc/passwd "$MOUNT/outbox/link"
  message "$BOB" link >"$MOUNT/drafts/l"
  expect EPERM link "$MOUNT/drafts/l" "$MOUNT/outbox/l"
  run syscall mkfifo "$MOUNT/outbox/fifo"
  [ "$status" -ne 0 ]
  equal "$(find "$MOUNT/outbox" -mindepth 1)" ""
}

# ---------------------------------------------------------------- bad messages

@test "a bad message that was written goes to failed with the reason" {
  printf 'no header here' >"$MOUNT/outbox/bad"
  wait_failed bad
  unlisted "$MOUNT/outbox/bad"
  equal "$(cat "$MOUNT/failed/bad")" "no header here"
  holds "$MOUNT/failed/bad.receipt.json" '.state == "failed" and (.error | length > 5)'
  has_event '.event == "failed" and .path == "failed/bad" and (.error | length > 5)'
}

@test "a message to nobody that was written goes to failed" {
  printf 'From: %s\nSubject: nobody\n\nx\n' "$ALICE" >"$MOUNT/outbox/nobody"
  wait_failed nobody
  holds "$MOUNT/failed/nobody.receipt.json" '.error | test("recipient|To"; "i")'
}

# ---------------------------------------------------------------- queued items

@test "a queued message cannot be written, truncated or appended to: EBUSY" {
  stop_service
  message "$BOB" "queued" >"$MOUNT/outbox/queued"
  expect "open EBUSY" write "$MOUNT/outbox/queued" w x
  expect EBUSY open "$MOUNT/outbox/queued" wa
  expect EBUSY open "$MOUNT/outbox/queued" wt
  expect EBUSY truncate "$MOUNT/outbox/queued" 0
  cmp "$MOUNT/outbox/queued" <(message "$BOB" queued)
  start_service
  echo "retry all" >"$MOUNT/ctl"
  went_out queued queued
}

@test "rm of a queued message cancels it" {
  stop_service
  message "$BOB" "cancelled" >"$MOUNT/outbox/cancelled"
  message "$BOB" "going" >"$MOUNT/outbox/going"
  wait_waiting
  rm "$MOUNT/outbox/cancelled"
  missing "$MOUNT/outbox/cancelled"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  went_out going going
  has_received "$BOB" cancelled 0
  missing "$MOUNT/sent/cancelled" "$MOUNT/failed/cancelled"
}

@test "renaming a queued message to a never-sent name cancels it" {
  stop_service
  message "$BOB" "set aside" >"$MOUNT/outbox/aside"
  wait_waiting
  mv "$MOUNT/outbox/aside" "$MOUNT/outbox/aside.part"
  start_service
  echo "retry all" >"$MOUNT/ctl"
  sync "$MOUNT/outbox"
  has_received "$BOB" "set aside" 0
  present "$MOUNT/outbox/aside.part"
}

@test "a file that is removed while it is being written is never sent" {
  exec 7>"$MOUNT/outbox/gone"
  message "$BOB" "gone" >&7
  rm "$MOUNT/outbox/gone"
  missing "$MOUNT/outbox/gone"
  echo more >&7 || true
  exec 7>&-
  sync "$MOUNT/outbox"
  has_received "$BOB" gone 0
  missing "$MOUNT/sent/gone" "$MOUNT/failed/gone"
}

@test "a name that is sent already gets a number before its extension" {
  message "$BOB" "number one" >"$MOUNT/outbox/same.eml"
  wait_sent same.eml
  message "$BOB" "number two" >"$MOUNT/outbox/same.eml"
  wait_sent same-2.eml
  message "$BOB" "number three" >"$MOUNT/outbox/same.eml"
  wait_sent same-3.eml
  grep -q 'number one' "$MOUNT/sent/same.eml"
  grep -q 'number two' "$MOUNT/sent/same-2.eml"
  grep -q 'number three' "$MOUNT/sent/same-3.eml"
  present "$MOUNT/sent/same-3.eml.receipt.json"
}

# ---------------------------------------------------------------- names

@test "names with spaces, quotes and UTF-8" {
  local name number=0
  for name in 'two words.eml' "it's \"quoted\"" 'Grüße 你好.eml' '-dash' '%20' 'a\b' '*'; do
    number=$((number + 1))
    message "$BOB" "name $number" >"$MOUNT/outbox/$name"
    wait_sent "$name"
    content "$BOB" "name $number" >/dev/null
  done
}

@test "a name with a newline or another control character is refused before anything is written" {
  local name
  for name in $'new\nline' $'bell\a' $'\e[31m'; do
    run syscall write "$MOUNT/outbox/$name" wc x
    [[ $output = "open EINVAL" || $output = "open EILSEQ" ]] || fail "$output"
    message "$BOB" "control" >"$MOUNT/drafts/$name"
    run syscall rename "$MOUNT/drafts/$name" "$MOUNT/outbox/$name"
    [[ $output = EINVAL || $output = EILSEQ ]] || fail "$output"
    present "$MOUNT/drafts/$name"
  done
  equal "$(find "$MOUNT/outbox" -mindepth 1)" ""
}

@test "a long name is sent, as long as its receipt can have a name too; else ENAMETOOLONG" {
  local name
  name=$(printf 'x%.0s' {1..242})
  message "$BOB" "long name" >"$MOUNT/outbox/$name"
  wait_sent "$name"
  has_received "$BOB" "long name"
  message "$BOB" "longer name" >"$MOUNT/drafts/x$name"
  expect ENAMETOOLONG rename "$MOUNT/drafts/x$name" "$MOUNT/outbox/x$name"
  present "$MOUNT/drafts/x$name"
  expect "open ENAMETOOLONG" write "$MOUNT/outbox/$(printf 'x%.0s' {1..255})" wc x
  expect "open ENAMETOOLONG" write "$MOUNT/outbox/$(printf 'x%.0s' {1..256})" wc x
}

@test "a name that is not UTF-8 is refused or sent, never half" {
  local name=$'caf\xe9'
  if message "$BOB" "latin name" >"$MOUNT/outbox/$name"; then
    wait_until 20 has_received "$BOB" "latin name"
  else
    missing "$MOUNT/outbox/$name"
  fi
}

# ---------------------------------------------------------------- writers that die

@test "a writer killed by a signal: failed, interrupted, with what was written" {
  run bash -c 'exec 7> "$1"; printf "%s" "$2" >&7; kill -KILL $$' - "$MOUNT/outbox/killed" "$(message "$BOB" killed)"
  interrupted killed
  cmp "$MOUNT/failed/killed" <(printf '%s' "$(message "$BOB" killed)")
  has_received "$BOB" killed 0
}

@test "a writer ended by SIGTERM or SIGINT in the middle: interrupted" {
  local signal
  for signal in TERM INT HUP; do
    run dash -c 'exec 7> "$1"; printf "%s" "$2" >&7; kill -'$signal' $$' - "$MOUNT/outbox/$signal" "$(message "$BOB" "$signal")"
    interrupted "$signal"
  done
}

@test "a writer that writes and exits with an error without closing: interrupted" {
  run dash -c 'exec 7> "$1"; echo "$2" >&7; exit 3' - "$MOUNT/outbox/error" "$(message "$BOB" error)"
  equal "$status" 3
  interrupted error
}

@test "an exit with an error of a process that did not write does not matter" {
  run dash -c 'exec 7> "$1"; cat "$2" >&7; exit 3' - "$MOUNT/outbox/innocent" <(message "$BOB" innocent)
  went_out innocent innocent
}

@test "a writer killed before its end of which another holder lives: interrupted all the same" {
  exec 8>"$MOUNT/outbox/both"
  run bash -c 'printf "%s" "$1" >&8; kill -KILL $$' - "$(message "$BOB" both)"
  exec 8>&-
  interrupted both
}

@test "cp killed in the middle: interrupted" {
  mkfifo "$DIR/slow"
  cp "$DIR/slow" "$MOUNT/outbox/slow" 3>&- &
  local pid=$!
  exec 8>"$DIR/slow"
  message "$BOB" slow >&8
  wait_until 5 test -e "$MOUNT/outbox/slow"
  kill -KILL "$pid"
  wait "$pid" || true
  exec 8>&-
  # Nothing written yet is an empty file, and never sent either.
  wait_until 20 test -e "$MOUNT/failed/slow.receipt.json" -o ! -s "$MOUNT/outbox/slow"
  missing "$MOUNT/sent/slow"
  has_received "$BOB" slow 0
}

@test "an interrupted message can be moved back and goes out" {
  run bash -c 'exec 7> "$1"; printf "%s\n" "$2" >&7; kill -KILL $$' - "$MOUNT/outbox/again" "$(message "$BOB" again)"
  interrupted again
  mv "$MOUNT/failed/again" "$MOUNT/outbox/again"
  went_out again again
  missing "$MOUNT/failed/again" "$MOUNT/failed/again.receipt.json"
}

# ---------------------------------------------------------------- a full disk

@test "a full disk: the write fails, and what was half written is never sent" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  stop_mount
  mkdir -p "$DIR/small"
  mount -t tmpfs -o size=3m,mode=700 none "$DIR/small"
  export STATE=$DIR/small/state
  start_mount
  message "$BOB" "queued before" >"$MOUNT/outbox/before"
  wait_sent before
  run bash -c '{ printf "From: %s\nTo: %s\nSubject: full\n\n" "$1" "$2"; head -c 8000000 /dev/zero | tr "\0" x; } > "$3"' - \
    "$ALICE" "$BOB" "$MOUNT/outbox/full"
  local wrote=$status
  syscall fsync "$MOUNT/outbox" || true
  has_received "$BOB" full 0
  missing "$MOUNT/sent/full"
  rm -f "$MOUNT/outbox/full" "$MOUNT/failed/full"
  message "$BOB" "room again" >"$MOUNT/outbox/again"
  wait_sent again
  [ "$wrote" -ne 0 ]
}

# ---------------------------------------------------------------- after the close

@test "the name that just went out can still be looked up and touched, and is not listed" {
  message "$BOB" "ghost" >"$MOUNT/outbox/ghost"
  wait_sent ghost
  equal "$(ls "$MOUNT/outbox")" ""
  expect ok chmod "$MOUNT/outbox/ghost" 644
  expect ok touch "$MOUNT/outbox/ghost"
  stat "$MOUNT/outbox/ghost" >/dev/null
}

@test "a new message under the name that just went out is a new message" {
  message "$BOB" "first of two" >"$MOUNT/outbox/same"
  message "$BOB" "second of two" >"$DIR/second"
  wait_sent same
  cp "$DIR/second" "$MOUNT/outbox/same"
  wait_until 20 has_received "$BOB" "second of two"
  has_received "$BOB" "first of two"
}

@test "mtime and mode of what is being written behave" {
  exec 7>"$MOUNT/outbox/times"
  message "$BOB" times >&7
  equal "$(stat -c %a "$MOUNT/outbox/times")" 600
  local age=$(($(date +%s) - $(stat -c %Y "$MOUNT/outbox/times")))
  [ "$age" -ge -1 ]
  [ "$age" -le 5 ]
  exec 7>&-
  went_out times times
}
