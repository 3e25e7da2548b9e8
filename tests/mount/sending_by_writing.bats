#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Writing a file in outbox/ directly, with the tools that people have: a message is sent once and
# whole after the last close, or not at all.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
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

@test "a descriptor opened by exec sends when it is closed, and not before" {
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

@test "an append with >> makes one message" {
  {
    printf 'From: %s\nTo: %s\n' "$ALICE" "$BOB"
    printf 'Subject: appended\n\nx\n'
  } >>"$MOUNT/outbox/append"
  went_out append appended x
}

@test "a pipeline writes one message: sed | cat > outbox/file" {
  message "$BOB" "PIPE" | sed 's/PIPE/pipeline/' | cat >"$MOUNT/outbox/pipe"
  went_out pipe pipeline
}

@test "tee writes one message and a copy" {
  message "$BOB" "tee" | tee "$MOUNT/outbox/tee" >"$DIR/copy"
  went_out tee tee
  cmp "$DIR/copy" "$MOUNT/sent/tee"
}

@test "a message is not sent while a background job keeps its file open, even after the shell has ended" {
  mkfifo "$DIR/go"
  bash -c '{ cat "$1"; read -r _ < "$2"; } > "$3" 3>&- &' - \
    <(message "$BOB" "background") "$DIR/go" "$MOUNT/outbox/background"
  wait_until 5 test -e "$MOUNT/outbox/background"
  missing "$MOUNT/sent/background"
  echo >"$DIR/go"
  went_out background background
}

# ---------------------------------------------------------------- tools

@test "cp, cp -p and cp -a send" {
  local i option
  for option in -f -p -a; do
    message "$BOB" "cp $option" >"$DIR/cp$option"
    cp "$option" "$DIR/cp$option" "$MOUNT/outbox/"
    went_out "cp$option" "cp $option"
  done
}

@test "cp of several files sends each" {
  message "$BOB" "several 1" >"$DIR/s1"
  message "$BOB" "several 2" >"$DIR/s2"
  message "$BOB" "several 3" >"$DIR/s3"
  cp "$DIR/s1" "$DIR/s2" "$DIR/s3" "$MOUNT/outbox"
  went_out s1 "several 1"
  went_out s2 "several 2"
  went_out s3 "several 3"
}

@test "dd in small blocks sends one message" {
  message "$BOB" "dd" "$(seq 1 2000)" >"$DIR/dd"
  dd if="$DIR/dd" of="$MOUNT/outbox/dd" bs=100 status=none
  went_out dd dd "$(seq 1 2000)"
}

@test "dd conv=fsync sends one message" {
  message "$BOB" "dd fsync" >"$DIR/dd"
  dd if="$DIR/dd" of="$MOUNT/outbox/dd" conv=fsync status=none
  went_out dd "dd fsync"
}

@test "install, which sets mode and times after closing, sends one message" {
  message "$BOB" "install" >"$DIR/install"
  install -m 0644 -p "$DIR/install" "$MOUNT/outbox/install"
  went_out install install
}

@test "rsync sends one message" {
  message "$BOB" "rsync" >"$DIR/rsync"
  rsync "$DIR/rsync" "$MOUNT/outbox/"
  went_out rsync rsync
}

@test "rsync -a sends one message" {
  message "$BOB" "rsync -a" >"$DIR/rsync-a"
  rsync -a "$DIR/rsync-a" "$MOUNT/outbox/"
  went_out rsync-a "rsync -a"
}

@test "rsync --inplace -a sends one message" {
  message "$BOB" "rsync in place" >"$DIR/inplace"
  rsync -a --inplace "$DIR/inplace" "$MOUNT/outbox/"
  went_out inplace "rsync in place"
}

@test "vim -es sends a new file" {
  cd "$DIR"
  message "$BOB" "vim" >draft.txt
  vim -Nes -u NONE -i NONE -c 'e draft.txt' -c "w $MOUNT/outbox/vim" -c 'qa!' </dev/null
  went_out vim vim
}

@test "vim -es with a swap file sends a new file that it opened in outbox/" {
  vim -Nes -u NONE -i NONE -c 'set swapfile' \
    -c "call setline(1, ['From: $ALICE', 'To: $BOB', 'Subject: typed in vim', '', 'Hello.'])" \
    -c 'wq' "$MOUNT/outbox/typed" </dev/null
  went_out typed "typed in vim"
  wait_until 5 missing "$MOUNT/outbox/.typed.swp" "$MOUNT/outbox/4913"
}

@test "sed -i and other editors that write a second file and rename it send one message" {
  message "$BOB" "temporary name" >"$MOUNT/outbox/.new.XYZ"
  mv "$MOUNT/outbox/.new.XYZ" "$MOUNT/outbox/new"
  went_out new "temporary name"
}

# ---------------------------------------------------------------- Python

@test "python: with open(...) sends one message" {
  python3 - "$MOUNT/outbox/python" "$(message "$BOB" python)" <<'PYTHON'
import sys
with open(sys.argv[1], "w") as file:
    file.write(sys.argv[2])
PYTHON
  went_out python python
}

@test "python: a file that only the program's end closes is sent" {
  python3 - "$MOUNT/outbox/unclosed" "$(message "$BOB" unclosed)" <<'PYTHON'
import sys
file = open(sys.argv[1], "w")
file.write(sys.argv[2])
PYTHON
  went_out unclosed unclosed
}

@test "python: os._exit with an error while the file is open interrupts it" {
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

@test "python: shutil.copy and copy2, which set mode and times after closing, send one message" {
  message "$BOB" "copy" >"$DIR/copy"
  message "$BOB" "copy2" >"$DIR/copy2"
  python3 -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[3]); shutil.copy2(sys.argv[2], sys.argv[3])' \
    "$DIR/copy" "$DIR/copy2" "$MOUNT/outbox/"
  went_out copy copy
  went_out copy2 copy2
}

@test "python: pathlib, and a temporary file with os.replace, send one message" {
  python3 - "$MOUNT/outbox" "$(message "$BOB" replaced)" <<'PYTHON'
import os, pathlib, sys
box = pathlib.Path(sys.argv[1])
(box / "letter.tmp").write_text(sys.argv[2])
os.replace(box / "letter.tmp", box / "letter")
PYTHON
  went_out letter replaced
}

@test "python: writes out of order make one whole message" {
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

@test "python: mapping, splice, sendfile, O_DIRECT, threads, a duplicate and a child each make one whole message" {
  python3 - "$MOUNT/outbox" "$ALICE" "$BOB" "$DIR/source" <<'PYTHON'
import mmap, os, sys, threading
box, alice, bob, source = sys.argv[1:]

def message(subject, body="Hello.\n"):
    return f"From: {alice}\nTo: {bob}\nSubject: {subject}\n\n{body}".encode()

def create(name, flags=0):
    return os.open(f"{box}/{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600)

text = message("mapped")
fd = create("mapped")
os.ftruncate(fd, len(text))
with mmap.mmap(fd, len(text)) as view:
    view[:] = text
os.close(fd)

reading, writing = os.pipe()
os.write(writing, message("spliced"))
os.close(writing)
fd = create("spliced")
os.splice(reading, fd, 4096)
os.close(fd)

with open(source, "wb") as file:
    file.write(message("sendfile"))
with open(source, "rb") as file:
    fd = create("sendfile")
    os.sendfile(fd, file.fileno(), 0, 4096)
    os.close(fd)

text = message("direct", "Hello.\n" * 1000)[:4096]
with mmap.mmap(-1, 4096) as page:
    page[:] = text
    fd = create("direct", os.O_DIRECT)
    os.write(fd, page)
    os.close(fd)

text = message("threads", "Hello.\n" * 10000)
fd = create("threads")
threads = [threading.Thread(target=os.pwrite, args=(fd, text[at:at + 10000], at)) for at in range(0, len(text), 10000)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.close(fd)

fd = create("duplicate")
other = os.dup(fd)
os.write(fd, message("duplicate"))
os.close(fd)
os.write(other, b"The end.\n")
os.close(other)

fd = create("child", os.O_APPEND)
os.write(fd, message("child"))
if os.fork() == 0:
    os.write(fd, b"The end.\n")
    os._exit(0)
os.wait()
os.close(fd)
PYTHON
  sync "$MOUNT/outbox"
  local name
  for name in mapped spliced sendfile; do
    went_out "$name" "$name"
  done
  for name in duplicate child; do
    went_out "$name" "$name" $'Hello.\nThe end.'
  done
  went_out threads threads "$(yes Hello. | head -n 10000)"
  equal "$(stat -c %s "$MOUNT/sent/direct")" 4096
  has_received "$BOB" direct
}

# ---------------------------------------------------------------- several at once

@test "concurrent processes send a message each" {
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

@test "a file that two processes hold open is sent at the last close" {
  exec 7>"$MOUNT/outbox/two"
  exec 8>>"$MOUNT/outbox/two"
  message "$BOB" "two holders" "one" >&7
  exec 7>&-
  missing "$MOUNT/sent/two"
  echo two >&8
  exec 8>&-
  went_out two "two holders" "one"$'\n'"two"
}

@test "a reader of the file does not delay its sending" {
  exec 7>"$MOUNT/outbox/read"
  exec 8<"$MOUNT/outbox/read"
  message "$BOB" "with a reader" >&7
  grep -q 'with a reader' <&8
  exec 7>&-
  went_out read "with a reader"
  exec 8<&-
}

@test "a file that is being written can be read, with its size" {
  exec 7>"$MOUNT/outbox/peek"
  message "$BOB" "peek" >&7
  equal "$(stat -c %s "$MOUNT/outbox/peek")" "$(message "$BOB" peek | wc -c)"
  cmp "$MOUNT/outbox/peek" <(message "$BOB" peek)
  exec 7>&-
  went_out peek peek
}

@test "fsync of a file that is being written succeeds and does not send it" {
  exec 7>"$MOUNT/outbox/durable"
  message "$BOB" "durable" >&7
  sync "$MOUNT/outbox/durable"
  missing "$MOUNT/sent/durable"
  exec 7>&-
  went_out durable durable
}

# ---------------------------------------------------------------- after the close

@test "a file under the name of a sent message is a new message" {
  message "$BOB" "first of two" >"$MOUNT/outbox/same"
  message "$BOB" "second of two" >"$DIR/second"
  wait_sent same
  cp "$DIR/second" "$MOUNT/outbox/same"
  wait_until 20 has_received "$BOB" "second of two"
  has_received "$BOB" "first of two"
}

@test "mtime and mode of a file that is being written can be set" {
  exec 7>"$MOUNT/outbox/times"
  message "$BOB" times >&7
  equal "$(stat -c %a "$MOUNT/outbox/times")" 600
  local age=$(($(date +%s) - $(stat -c %Y "$MOUNT/outbox/times")))
  [ "$age" -ge -1 ]
  [ "$age" -le 5 ]
  exec 7>&-
  went_out times times
}
