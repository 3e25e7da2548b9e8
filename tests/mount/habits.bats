#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# What ordinary programs do to outbox/, each judged by what the service received and by the errors that the program got. The
# list in docs/FILESYSTEM.md ("Habits") has an entry for each.

load support

setup() {
  start_two_inboxes
}

teardown() {
  stop_all
}

# How many emails of alice's bob has received, of whatever subject.
all_received() {
  api GET "/email?limit=10000&valid_only=false&inbox_ids=$(inbox_id "$BOB")" |
    jq --arg from "$ALICE" '[.[] | select(.from_address | tostring | contains($from))] | length'
}

# All that was handed in is settled, and the service has received so many emails.
received_in_all() { # COUNT
  wait_until 20 sync "$MOUNT/outbox"
  equal "$(all_received)" "$1"
}

# Whether a message is on the wire.
is_sending() {
  spool_has "state = 'sending'"
}

# ---------------------------------------------------------------- saving by way of a temporary file

# Saves STDIN as NAME: writes a temporary file with an ordinary name beside it, waits, renames it; fails where anything
# does, and leaves no more behind than the program that it stands for would.
save_atomically() { # NAME SECONDS-TO-WAIT
  python3 -c '
import os, sys, tempfile, time
name, wait = sys.argv[1], float(sys.argv[2])
with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(name), delete=False) as file:
    file.write(sys.stdin.read())
time.sleep(wait)
os.replace(file.name, name)
os.stat(name)
os.chmod(name, 0o644)
' "$MOUNT/outbox/$1" "$2"
}

@test "python: tempfile and os.replace send one mail under the last name, however late the rename" {
  local i
  for i in {0..7}; do
    message "$BOB" "atomic $i" | save_atomically "atomic-$i" "0.0$((i * 13))"
  done
  sync "$MOUNT/outbox"
  for i in {0..7}; do
    went_out "atomic-$i" "atomic $i"
    holds "$MOUNT/sent/atomic-$i.receipt.json" '.state == "sent" and .request.subject == $subject' --arg subject "atomic $i"
  done
  equal "$(find "$MOUNT/sent" -name 'tmp*' | wc -l)" 0
  received_in_all 8
}

@test "glib: g_file_set_contents sends one mail for each save, whole, under its name" {
  python3 - "$MOUNT/outbox" "$ALICE" "$BOB" <<'PYTHON'
import ctypes, sys
glib = ctypes.CDLL("libglib-2.0.so.0")
out, alice, bob = sys.argv[1:]
for i in range(20):
    text = f"From: {alice}\nTo: {bob}\nSubject: glib {i}\n\nHello.\n".encode()
    if not glib.g_file_set_contents(f"{out}/glib-{i}".encode(), text, ctypes.c_ssize_t(len(text)), None):
        sys.exit(f"glib-{i} was not saved")
PYTHON
  sync "$MOUNT/outbox"
  local i
  for i in {0..19}; do
    went_out "glib-$i" "glib $i"
  done
  received_in_all 20
}

@test "a message that is being sent cannot be renamed, and goes out once under its name" {
  freeze_service # it takes the request, and does not answer
  message "$BOB" "on the wire" >"$MOUNT/outbox/letter"
  wait_until 20 is_sending
  expect EBUSY rename "$MOUNT/outbox/letter" "$MOUNT/outbox/other"
  expect EBUSY rename "$MOUNT/outbox/letter" "$MOUNT/outbox/letter.bak"
  expect EBUSY open "$MOUNT/outbox/letter" w
  has_event '.event == "refused" and .path == "outbox/letter" and (.error | contains("until its outcome is known"))'
  kill -CONT "$SERVICE_PID"
  went_out letter "on the wire"
  stop_mount
  start_mount
  present "$MOUNT/sent/letter" "$MOUNT/sent/letter.receipt.json"
  received_in_all 1
}

@test "a thread can rename what another thread wrote; after it went out the rename fails with ENOENT" {
  message "$BOB" "threads" | python3 -c '
import os, sys, threading, time
out, sent = sys.argv[1:]
def run(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
run(lambda: open(out + "/draft", "w").write(sys.stdin.read()))
failed = []
def rename():
    try:
        os.rename(out + "/draft", out + "/final")
        os.rename(out + "/final", out + "/last")
    except OSError as error:
        failed.append(error)
run(rename)
while "last" not in os.listdir(sent):
    time.sleep(0.01)
try:
    os.rename(out + "/last", out + "/too-late")
    sys.exit(3)
except FileNotFoundError:
    sys.exit(len(failed))
' "$MOUNT/outbox" "$MOUNT/sent"
  went_out last threads
  equal "$(ls "$MOUNT/sent")" $'last\nlast.receipt.json'
  received_in_all 1
}

@test "two saves under one name send one mail, the last, while the first waits, and two after it went out" {
  message "$BOB" "first save" | save_atomically letter 0.1
  message "$BOB" "second save" | save_atomically letter 0.1
  went_out letter "second save"
  received_in_all 1
  message "$BOB" "third save" | save_atomically letter 0.1
  wait_sent letter-2
  received_in_all 2
  pause_sending
  message "$BOB" "fourth save" | save_atomically waiting 0.1
  wait_waiting
  message "$BOB" "fifth save" | save_atomically waiting 0.1
  resume_sending
  wait_until 20 has_received "$BOB" "fifth save"
  received_in_all 3
}

@test "a message that was refused takes its new name in failed/, and so does its receipt" {
  printf 'no header\n' | save_atomically broken 0.2
  wait_failed broken
  holds "$MOUNT/failed/broken.receipt.json" '.state == "failed" and (.error | length > 5)'
  equal "$(find "$MOUNT/failed" -type f | wc -l)" 2
  expect EIO fsync "$MOUNT/outbox"
  expect ok fsync "$MOUNT/outbox"
}

# ---------------------------------------------------------------- a name that is out

@test "another process gets ENOENT for the name of a message that went out" {
  message "$BOB" out >"$DIR/out"
  cp "$DIR/out" "$MOUNT/outbox/out"
  went_out out out
  missing "$MOUNT/outbox/out"
  expect ENOENT chmod "$MOUNT/outbox/out" 600
  expect ENOENT rename "$MOUNT/outbox/out" "$MOUNT/outbox/other"
  expect ENOENT open "$MOUNT/outbox/out" r
  received_in_all 1
}

@test "the writer of a message that went out gets ENOENT for its name" {
  message "$BOB" mine | python3 -c '
import os, sys, time
out, sent = sys.argv[1:]
open(out + "/mine", "w").write(sys.stdin.read())
os.chmod(out + "/mine", 0o600) # as long as it waits
os.utime(out + "/mine")
os.stat(out + "/mine")
while not os.path.exists(sent + "/mine"):
    time.sleep(0.01)
assert os.listdir(out) == []
for touch in (lambda name: os.chmod(name, 0o600), os.utime, os.stat, open):
    try:
        touch(out + "/mine")
        sys.exit(3)
    except FileNotFoundError:
        pass
' "$MOUNT/outbox" "$MOUNT/sent"
  received_in_all 1
}

@test "Node's fs-extra opens a closed file again to set its times: one mail, status 0" {
  local i
  message "$BOB" "opened again" >"$DIR/again.eml"
  python3 - "$MOUNT/outbox" "$MOUNT/sent" "$DIR/again.eml" <<'PYTHON'
import errno, os, shutil, sys, time
out, sent, message = sys.argv[1:]

def touch(name):
    with open(f"{out}/{name}", "rb+", buffering=0) as file:
        os.utime(file.fileno(), (1_000_000_000, 1_000_000_000))
        os.fchmod(file.fileno(), 0o600)

for i in range(20):
    shutil.copyfile(message, f"{out}/again-{i}")
    touch(f"again-{i}")
for i in range(20):
    deadline = time.monotonic() + 20
    while not os.path.exists(f"{sent}/again-{i}"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
PYTHON
  for i in {0..19}; do
    cmp "$MOUNT/sent/again-$i" "$DIR/again.eml"
  done
  received_in_all 20
  expect EACCES open "$MOUNT/sent/again-19" w
}

@test "a program of an ordinary user that writes twice under one name sends two mails, and gets no error" {
  local without=()
  [ "$(id -u)" -ne 0 ] || without=(setpriv --bounding-set=-dac_override --inh-caps=-dac_override)
  "${without[@]}" python3 - "$MOUNT" "$ALICE" "$BOB" <<'PYTHON'
import os, sys, time
mount, alice, bob = sys.argv[1:]
name = f"{mount}/outbox/x"
for i in 1, 2:
    with open(name, "w") as file:
        file.write(f"From: {alice}\nTo: {bob}\nSubject: {i}\n\nHello.\n")
    os.chmod(name, 0o640)
    while not os.path.exists(f"{mount}/sent/x" + ("" if i == 1 else "-2")):
        time.sleep(0.01)
# What was saved by way of another name, twice, leaves a name that is free at once.
for i in 3, 4:
    with open(name + ".new", "w") as file:
        file.write(f"From: {alice}\nTo: {bob}\nSubject: {i}\n\nHello.\n")
    os.rename(name + ".new", f"{mount}/outbox/y")
    while not os.path.exists(f"{mount}/sent/y" + ("" if i == 3 else "-2")):
        time.sleep(0.01)
with open(f"{mount}/outbox/y", "w") as file:
    file.write(f"From: {alice}\nTo: {bob}\nSubject: 5\n\nHello.\n")
PYTHON
  went_out x 1
  went_out x-2 2
  went_out y-3 5 # the last to leave the name that the two before had, too
  went_out y 3
  went_out y-2 4
  received_in_all 5
}

@test "cp -n, mv -n, rsync, tar and open('x') create a new message under the name of a sent one" {
  local way
  for way in cp mv rsync inplace tar open; do
    message "$BOB" "old" >"$MOUNT/outbox/name"
    sync "$MOUNT/outbox"
    message "$BOB" "$way" >"$DIR/name"
    case $way in
    cp) cp -n "$DIR/name" "$MOUNT/outbox/name" ;;
    mv) cp "$DIR/name" "$DIR/moved" && mv -n "$DIR/moved" "$MOUNT/outbox/name" ;;
    rsync) rsync "$DIR/name" "$MOUNT/outbox/" ;;
    inplace) rsync --inplace "$DIR/name" "$MOUNT/outbox/" ;;
    tar) tar c -C "$DIR" name | tar xk -C "$MOUNT/outbox" ;;
    open) python3 -c 'import sys; open(sys.argv[1], "x").write(open(sys.argv[2]).read())' "$MOUNT/outbox/name" "$DIR/name" ;;
    esac
    sync "$MOUNT/outbox"
    has_received "$BOB" "$way"
  done
  received_in_all 12
}

@test "install, cp -p, cp -a, rsync -a and shutil.copy set times after closing: one mail each, status 0" {
  local way n=0 names=()
  for way in "install -m 0644 -p" "cp -p" "cp -a" "rsync -a" "rsync -a --inplace" \
    "python3 -c 'import shutil, sys; shutil.copy2(*sys.argv[1:])'"; do
    n=$((n + 1))
    message "$BOB" "$way" >"$DIR/way-$n"
    eval "$way" '"$DIR/way-$n"' '"$MOUNT/outbox/way-$n"'
    names+=("way-$n")
  done
  sync "$MOUNT/outbox"
  for n in "${names[@]}"; do
    present "$MOUNT/sent/$n"
  done
  received_in_all "${#names[@]}"
}

# ---------------------------------------------------------------- folders

# A folder of three messages that somebody else owns, with times and modes of its own.
make_folder() {
  mkdir "$DIR/set"
  local i
  for i in 1 2 3; do
    message "$BOB" "of a set, $i" >"$DIR/set/m$i"
  done
  touch -d '2020-01-02' "$DIR/set"/* "$DIR/set"
  chmod 755 "$DIR/set"
  [ "$(id -u)" -ne 0 ] || chown -R 12345:12345 "$DIR/set"
}

@test "rsync -a DIR/, cp -a DIR/. and tar of a folder send each message once, status 0" {
  make_folder
  rsync -a "$DIR/set/" "$MOUNT/outbox/"
  received_in_all 3
  cp -a "$DIR/set/." "$MOUNT/outbox"
  received_in_all 6
  tar c -C "$DIR/set" . | tar x -C "$MOUNT/outbox"
  received_in_all 9
  cp -a "$DIR/set/." "$MOUNT/attachments"
  rsync -a "$DIR/set/" "$MOUNT/drafts/"
  cmp "$DIR/set/m1" "$MOUNT/attachments/m1"
  cmp "$DIR/set/m2" "$MOUNT/drafts/m2"
  equal "$(stat -c %a "$MOUNT/outbox" "$MOUNT/attachments" "$MOUNT/drafts")" 700$'\n'700$'\n'700
}

@test "a folder inside a copied folder is refused with an error, and the messages beside it are sent once" {
  make_folder
  mkdir "$DIR/set/sub"
  message "$BOB" "below" >"$DIR/set/sub/below"
  run rsync -a "$DIR/set/" "$MOUNT/outbox/"
  [ "$status" -ne 0 ]
  received_in_all 3
  run cp -a "$DIR/set/." "$MOUNT/outbox"
  [ "$status" -ne 0 ]
  received_in_all 6
  equal "$(ls -A "$MOUNT/outbox")" ""
}

@test "rsync --delay-updates sends nothing, leaves nothing, and fails" {
  local folder
  make_folder
  for folder in outbox attachments; do
    run rsync -a --delay-updates "$DIR/set/" "$MOUNT/$folder/"
    equal "$status" 23
    contains "$output" "Operation not permitted"
    equal "$(ls -A "$MOUNT/$folder" "$MOUNT/$folder/.~tmp~")" "$MOUNT/$folder:"$'\n\n'"$MOUNT/$folder/.~tmp~:"
  done
  rsync -a "$DIR/set/" "$MOUNT/outbox/"
  received_in_all 3
}

@test "mv of many files succeeds, although the first are sent before it looks at the last" {
  local i
  for i in {1..40}; do
    message "$BOB" "one of many, $i" >"$MOUNT/drafts/many$i"
  done
  mv "$MOUNT/drafts"/many* "$MOUNT/outbox/"
  received_in_all 40
}

@test "rm and mv fail with ENOENT for the process that moved a message in, after it went out" {
  message "$BOB" "moved" >"$MOUNT/drafts/m"
  python3 - "$MOUNT" <<'PYTHON'
import os, sys, time
mount = sys.argv[1]
until = time.monotonic() + 20
os.rename(f"{mount}/drafts/m", f"{mount}/outbox/m")
while not os.path.exists(f"{mount}/sent/m"):
    assert time.monotonic() < until, "not sent"
    time.sleep(0.01)
for undo in (os.unlink, lambda name: os.rename(name, f"{mount}/drafts/m"), lambda name: os.rename(name, name + "2")):
    try:
        undo(f"{mount}/outbox/m")
        sys.exit(3)
    except FileNotFoundError:
        pass
with open(f"{mount}/outbox/m", "w") as file: # the name is free
    file.write(open(f"{mount}/sent/m").read().replace("moved", "written"))
PYTHON
  went_out m-2 written
  received_in_all 2
}

# ---------------------------------------------------------------- editing in place

edit() { # NAME: with each editor that edits in place; prints how each ended
  local editor
  for editor in "sed -i" "sed -i.bak" "perl -i -pe" "perl -i.bak -pe"; do
    $editor 's/Hello/Goodbye/' "$MOUNT/outbox/$1" 2>/dev/null && echo "ok: $editor" || echo "failed: $editor"
  done
}

@test "sed -i and perl -i on a sent message fail, and nothing more is sent" {
  message "$BOB" out >"$MOUNT/outbox/out"
  wait_sent out
  edit out >"$DIR/edited"
  # perl ends with 0 where there is no such file, and says so.
  equal "$(grep -c 'failed: sed' "$DIR/edited")" 2
  equal "$(ls -A "$MOUNT/outbox")" ""
  received_in_all 1
  has_received "$BOB" out
}

@test "sed -i and perl -i on a message that is being sent fail, and it goes out once, unchanged" {
  freeze_service
  message "$BOB" "on its way" >"$MOUNT/outbox/way"
  wait_until 20 is_sending
  edit way >"$DIR/edited"
  equal "$(grep -c failed "$DIR/edited")" 4
  kill -CONT "$SERVICE_PID"
  went_out way "on its way"
  equal "$(ls -A "$MOUNT/outbox")" ""
  received_in_all 1
  content "$BOB" "on its way" >"$DIR/arrived"
  holds "$DIR/arrived" '.plain_text | rtrimstr("\n") == "Hello."'
}

@test "sed -i right after writing sends the old text and fails, or sends the new one; never both" {
  local i edited
  for i in {1..15}; do
    message "$BOB" "round $i" >"$MOUNT/outbox/round-$i"
    edited=Hello
    sed -i s/Hello/Goodbye/ "$MOUNT/outbox/round-$i" 2>/dev/null && edited=Goodbye
    printf '%s\n' "$edited." >>"$DIR/expected"
  done
  received_in_all 15
  equal "$(ls -A "$MOUNT/outbox")" ""
  for i in {1..15}; do
    content "$BOB" "round $i" | jq -r '.plain_text | rtrimstr("\n")'
  done >"$DIR/arrived"
  cmp "$DIR/expected" "$DIR/arrived"
}

@test "an edited text whose message went out meanwhile is sent as a second mail" {
  message "$BOB" "first" >"$MOUNT/outbox/letter"
  python3 - "$MOUNT" <<'PYTHON'
import os, sys, time
mount = sys.argv[1]
text = open(f"{mount}/outbox/letter").read()
until = time.monotonic() + 20
while not os.path.exists(f"{mount}/sent/letter"):
    assert time.monotonic() < until, "not sent"
    time.sleep(0.01)
with open(f"{mount}/outbox/edited", "w") as file:
    file.write(text.replace("first", "second"))
os.replace(f"{mount}/outbox/edited", f"{mount}/outbox/letter")
PYTHON
  went_out letter-2 second
  received_in_all 2
}

@test "sed -i and perl -i on a waiting message send only the edited text" {
  local editor n=0
  for editor in "sed -i" "sed -i.bak" "perl -i -pe" "perl -i.bak -pe"; do
    pause_sending
    message "$BOB" "$editor" >"$MOUNT/outbox/waiting"
    wait_waiting
    $editor 's/Hello/Goodbye/' "$MOUNT/outbox/waiting"
    resume_sending
    wait_until 20 has_received "$BOB" "$editor"
    received_in_all $((++n))
    content "$BOB" "$editor" >"$DIR/arrived"
    holds "$DIR/arrived" '.plain_text | rtrimstr("\n") == "Goodbye."'
    rm -f "$MOUNT/outbox/waiting.bak"
    equal "$(ls -A "$MOUNT/outbox")" ""
  done
}

@test "an editor that saves a waiting message unchanged by a temporary file sends one mail" {
  local temporary n=0
  for temporary in saved .saved saved.tmp; do
    pause_sending
    message "$BOB" "by $temporary" >"$MOUNT/outbox/waiting"
    wait_waiting
    python3 -c '
import os, sys
out, temporary = sys.argv[1:]
with open(out + "/waiting") as file:
    text = file.read()
with open(out + "/" + temporary, "w") as file:
    file.write(text)
os.replace(out + "/" + temporary, out + "/waiting")
os.chmod(out + "/waiting", 0o600)
' "$MOUNT/outbox" "$temporary"
    equal "$(cat "$MOUNT/outbox/waiting")" "$(message "$BOB" "by $temporary")"
    resume_sending
    wait_until 20 has_received "$BOB" "by $temporary"
    received_in_all $((++n))
    equal "$(ls -A "$MOUNT/outbox")" ""
  done
}

@test "an empty or open file does not replace a waiting message" {
  pause_sending
  message "$BOB" "not lost" >"$MOUNT/outbox/waiting"
  wait_waiting
  python3 -c '
import errno, os, sys
out = sys.argv[1]
open(out + "/waiting").read()
open(out + "/.empty", "w").close()
still_open = open(out + "/open.tmp", "w")
still_open.write("To: ")
still_open.flush()
for name, expected in ((".empty", errno.EBADMSG), ("open.tmp", errno.EBUSY)):
    try:
        os.rename(out + "/" + name, out + "/waiting")
    except OSError as error:
        assert error.errno == expected, (name, error)
    else:
        raise AssertionError(name)
os.unlink(out + "/open.tmp")
' "$MOUNT/outbox"
  rm "$MOUNT/outbox/.empty"
  resume_sending
  wait_until 20 has_received "$BOB" "not lost"
  received_in_all 1
}

# ---------------------------------------------------------------- in several goes

@test "headers and body written by two >> make one whole mail" {
  local i
  # shellcheck disable=SC2129 # three opens, as of three programs
  for i in {1..5}; do
    printf 'From: %s\nTo: %s\n' "$ALICE" "$BOB" >>"$MOUNT/outbox/goes$i"
    printf 'Subject: goes %s\n\n' "$i" >>"$MOUNT/outbox/goes$i"
    printf 'Hello.\n' >>"$MOUNT/outbox/goes$i"
  done
  message "$BOB" "whole" >"$MOUNT/outbox/whole"
  printf 'And more.\n' >>"$MOUNT/outbox/whole"
  sync "$MOUNT/outbox"
  for i in {1..5}; do
    went_out "goes$i" "goes $i"
  done
  went_out whole whole $'Hello.\nAnd more.'
  received_in_all 6
}

@test "a message can be removed for two seconds after its last close" {
  message "$BOB" slipped >"$MOUNT/outbox/slipped"
  rm "$MOUNT/outbox/slipped"
  message "$BOB" other >"$MOUNT/outbox/other"
  went_out other other
  received_in_all 1
}

# ---------------------------------------------------------------- editors that die

has_text_in_swap_file() {
  grep -aqs 'The end of it' "$MOUNT/outbox/.typed.swp"
}

@test "the swap file of a killed vim stays, restores the text, and never becomes a message" {
  mkfifo "$DIR/keys"
  # With a screen, for without one vim preserves no swap file while text is typed.
  script -qfc "vim -N -u NONE -i NONE --cmd 'set swapfile updatecount=1' $MOUNT/outbox/typed" /dev/null \
    <"$DIR/keys" >"$DIR/screen" 2>&1 3>&- &
  local script=$!
  exec 7>"$DIR/keys"
  printf 'iFrom: %s\rTo: %s\rSubject: typed\r\rThe end of it.\033' "$ALICE" "$BOB" >&7
  wait_until 20 has_text_in_swap_file
  kill -KILL "$(pgrep -P "$script" -f '^vim ' || pgrep -P "$(pgrep -P "$script")" -f '^vim ')"
  exec 7>&-
  wait "$script" || true
  within 5 sync "$MOUNT/outbox"
  equal "$(ls -A "$MOUNT/outbox")" .typed.swp
  equal "$(ls -A "$MOUNT/failed")" ""
  expect EBADMSG rename "$MOUNT/outbox/.typed.swp" "$MOUNT/outbox/typed"
  stop_mount
  start_mount
  vim -Nes -u NONE -i NONE -r "$MOUNT/outbox/typed" -c "w $DIR/recovered" -c 'qa!' </dev/null || true
  grep -qx 'The end of it.' "$DIR/recovered"
  rm "$MOUNT/outbox/.typed.swp"
  received_in_all 0
}
