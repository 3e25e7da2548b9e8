#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# drafts/ behaves like any folder of an ordinary filesystem, and nothing in it is ever sent.

load support

setup() {
  start_service
  create_inboxes "$ALICE" "$BOB"
  start_mount
  D=$MOUNT/drafts
}

teardown() {
  stop_all
}

@test "files can be written, appended to, truncated and read" {
  echo one >"$D/file"
  echo two >>"$D/file"
  equal "$(cat "$D/file")" $'one\ntwo'
  expect ok truncate "$D/file" 3
  equal "$(cat "$D/file")" one
  expect ok truncate "$D/file" 100000
  equal "$(stat -c %s "$D/file")" 100000
  echo new >"$D/file"
  equal "$(cat "$D/file")" new
  rm "$D/file"
  missing "$D/file"
}

@test "large files, sparse files and random access work" {
  head -c 30000000 /dev/urandom >"$DIR/large"
  cp "$DIR/large" "$D/large"
  cmp "$DIR/large" "$D/large"
  expect ok write-at "$D/sparse" 50000000
  equal "$(stat -c %s "$D/sparse")" 50000001
  dd if=/dev/zero of="$D/large" bs=4096 seek=100 count=1 conv=notrunc status=none
  dd if=/dev/zero of="$DIR/large" bs=4096 seek=100 count=1 conv=notrunc status=none
  cmp "$DIR/large" "$D/large"
  truncate -s 3G "$D/sparse"
  expect EMSGSIZE rename "$D/sparse" "$MOUNT/outbox/sparse"
  expect EFBIG rename "$D/sparse" "$MOUNT/attachments/sparse"
}

@test "all of a file counts as data, and fallocate is not supported" {
  expect ok write-at "$D/sparse" 5000000
  python3 - "$D/sparse" <<'PYTHON'
import os, sys
draft = os.open(sys.argv[1], os.O_RDONLY)
assert os.lseek(draft, 7, os.SEEK_DATA) == 7
assert os.lseek(draft, 7, os.SEEK_HOLE) == 5000001
PYTHON
  cp "$D/sparse" "$D/copy"
  cmp "$D/sparse" "$D/copy"
  expect "fallocate EOPNOTSUPP" fallocate "$D/allocated" 1000000
  python3 -c 'import os, sys; os.posix_fallocate(os.open(sys.argv[1], os.O_RDWR), 0, 1000000)' "$D/allocated"
  equal "$(stat -c %s "$D/allocated")" 1000000
}

@test "a shared mapping writes to the file, and sees the writes of others" {
  echo "hello world" >"$D/mapped"
  expect ok mmap "$D/mapped" HELLO
  equal "$(cat "$D/mapped")" "HELLO world"
  python3 - "$D/mapped" <<'PYTHON'
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    with mmap.mmap(file.fileno(), 0) as view:
        assert view[:5] == b"HELLO"
        view[6:11] = b"WORLD"
PYTHON
  equal "$(cat "$D/mapped")" "HELLO WORLD"
}

@test "mkdir -p, mv, rmdir and rm -r work on folders" {
  mkdir -p "$D/a/b/c"
  echo x >"$D/a/b/c/file"
  mv "$D/a/b" "$D/moved"
  equal "$(cat "$D/moved/c/file")" x
  expect ENOTEMPTY rmdir "$D/moved"
  expect ENOTEMPTY rename "$D/a" "$D/moved"
  expect EINVAL rename "$D/moved" "$D/moved/c/inside"
  rm -r "$D/moved" "$D/a"
  equal "$(ls -A "$D")" ""
}

@test "rename replaces a file, also an open one, and honours its flags" {
  echo old >"$D/target"
  echo new >"$D/source"
  exec 7<"$D/target"
  mv "$D/source" "$D/target"
  equal "$(cat "$D/target")" new
  equal "$(cat <&7)" old
  exec 7<&-
  echo other >"$D/other"
  expect EEXIST rename-noreplace "$D/other" "$D/target"
  expect ok rename-exchange "$D/other" "$D/target"
  equal "$(cat "$D/target")" other
  equal "$(cat "$D/other")" new
}

@test "a removed file can be read and written while it is open" {
  exec 7>"$D/gone"
  exec 8<"$D/gone"
  echo before >&7
  rm "$D/gone"
  echo after >&7
  equal "$(cat <&8)" $'before\nafter'
  exec 7>&- 8<&-
  equal "$(ls -A "$D")" ""
}

@test "modes, times and owners can be set" {
  echo x >"$D/file"
  chmod 640 "$D/file"
  equal "$(stat -c %a "$D/file")" 640
  touch -d '2020-02-03 04:05:06.789 UTC' "$D/file"
  equal "$(stat -c %Y "$D/file")" "$(date -d '2020-02-03 04:05:06 UTC' +%s)"
  equal "$(stat -c %y "$D/file" | cut -c21-23)" 789
  mkdir -m 700 "$D/folder"
  equal "$(stat -c %a "$D/folder")" 700
  (umask 077 && touch "$D/private")
  equal "$(stat -c %a "$D/private")" 600
  if [ "$(id -u)" -eq 0 ]; then
    chown 12345:54321 "$D/file"
    equal "$(stat -c %u:%g "$D/file")" 12345:54321
  fi
}

@test "a folder with the set-group-ID bit passes its group on" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  mkdir "$D/shared"
  chgrp 4321 "$D/shared"
  chmod g+s "$D/shared"
  mkdir "$D/shared/folder"
  touch "$D/shared/folder/file"
  ln -s file "$D/shared/folder/link"
  equal "$(stat -c '%g %a' "$D/shared/folder")" "4321 2755"
  equal "$(stat -c %g "$D/shared/folder/file" "$D/shared/folder/link" | sort -u)" 4321
}

@test "an executable file can be run" {
  printf '#!/bin/sh\necho ran\n' >"$D/program"
  chmod +x "$D/program"
  equal "$("$D/program")" ran
}

@test "symbolic links work, also dangling ones and those that lead outside" {
  echo x >"$D/file"
  ln -s file "$D/link"
  ln -s /nowhere/at/all "$D/dangling"
  ln -s ../../../../etc/passwd "$D/away"
  equal "$(cat "$D/link")" x
  equal "$(readlink "$D/dangling")" /nowhere/at/all
  equal "$(readlink "$D/away")" ../../../../etc/passwd
  rm "$D/link" "$D/dangling" "$D/away"
  present "$D/file"
}

@test "hard links work" {
  echo x >"$D/one"
  ln "$D/one" "$D/two"
  equal "$(stat -c %h "$D/one")" 2
  equal "$(stat -c %i "$D/one")" "$(stat -c %i "$D/two")"
  echo y >>"$D/two"
  equal "$(cat "$D/one")" $'x\ny'
  rm "$D/one"
  equal "$(stat -c %h "$D/two")" 1
}

@test "a symbolic link can be hard-linked" {
  ln -s /nowhere "$D/link"
  expect ok link "$D/link" "$D/second"
  equal "$(readlink "$D/second")" /nowhere
  equal "$(stat -c %h "$D/link")" 2
}

@test "every system call gives the result of an ordinary folder" {
  local seed
  for seed in 1 2 3 4; do
    mkdir "$D/$seed" "$DIR/ordinary$seed"
    python3 "$REPOSITORY/tests/mount/compare_folders.py" "$D/$seed" "$DIR/ordinary$seed" "$seed" 3000
    diff -r --no-dereference "$D/$seed" "$DIR/ordinary$seed"
  done
}

@test "links from outside drafts/ fail with EPERM" {
  echo x >"$D/file"
  expect EPERM symlink file "$MOUNT/link"
  expect EPERM symlink file "$MOUNT/inboxes/link"
  expect EPERM symlink file "$MOUNT/sent/link"
  expect EPERM link "$D/file" "$MOUNT/outbox/file"
  expect EPERM link "$D/file" "$MOUNT/link"
  expect EPERM link "$MOUNT/README" "$D/readme"
}

@test "names may have 255 bytes, newlines and any other bytes" {
  local name
  for name in "$(printf 'x%.0s' {1..255})" $'new\nline' $'caf\xe9' ' ' '-rf' '*'; do
    echo "$name" >"$D/$name"
    equal "$(cat "$D/$name")" "$name"
  done
  equal "$(find "$D" -type f -printf x | wc -c)" 6
  expect "open ENAMETOOLONG" write "$D/$(printf 'x%.0s' {1..256})" wc x
}

@test "many files in one folder are listed once each" {
  mkdir "$D/many"
  (cd "$D/many" && seq 1 1000 | xargs touch)
  equal "$(find "$D/many" -type f | wc -l)" 1000
  equal "$(find "$D/many" -type f | sort -u | wc -l)" 1000
  rm -r "$D/many"
}

@test "git init, add, commit and log work in drafts/" {
  cd "$D"
  git init -q letters
  cd letters
  git config user.email "$ALICE"
  git config user.name Alice
  local i
  for i in 1 2 3; do
    message "$BOB" "version $i" >letter
    git add letter
    git commit -qm "version $i"
  done
  equal "$(git log --oneline | wc -l)" 3
  git checkout -q HEAD~1
  grep -q 'version 2' letter
  git fsck --strict
  run -0 git status --porcelain
  equal "$output" ""
}

@test "hundreds of files can be open at once, although the daemon was started with a low limit" {
  stop_mount
  ulimit -S -n 64
  start_mount
  ulimit -S -n "$(ulimit -H -n)"
  python3 - "$D" <<'END'
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
files = [open(os.path.join(sys.argv[1], str(number)), 'w+') for number in range(400)]
for number, file in enumerate(files):
    file.write(str(number))
    file.close()
END
  equal "$(cat "$D"/{0,63,64,399} | tr -d '\n')" 06364399
}

@test "sqlite works in drafts/, with locks, journal and durability" {
  sqlite3 "$D/db" 'create table t (x); insert into t values (1), (2), (3);'
  equal "$(sqlite3 "$D/db" 'select sum(x) from t')" 6
  sqlite3 "$D/db" 'pragma integrity_check' | grep -qx ok
}

@test "a compiler works in drafts/" {
  command -v cc >/dev/null || skip "no compiler"
  cd "$D"
  printf '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n' >hello.c
  cc -o hello hello.c
  equal "$(./hello)" compiled
}

@test "tar, rsync -a and cp -a keep what they copy" {
  mkdir -p "$DIR/tree/sub"
  echo x >"$DIR/tree/file"
  ln -s file "$DIR/tree/link"
  ln "$DIR/tree/file" "$DIR/tree/hard"
  chmod 750 "$DIR/tree/sub"
  touch -d '2021-01-01 UTC' "$DIR/tree/file"
  cp -a "$DIR/tree" "$D/copied"
  rsync -aH "$DIR/tree/" "$D/rsynced/"
  tar -C "$DIR" -c tree | tar -C "$D" -x
  local copy
  for copy in copied rsynced tree; do
    diff -r --no-dereference "$DIR/tree" "$D/$copy"
    # Neither rsync nor tar takes fractions of a second along for everything.
    equal "$(cd "$D/$copy" && find . -printf '%P %m %l %n %T@\n' | sed 's/\.[0-9]*$//' | sort)" \
      "$(cd "$DIR/tree" && find . -printf '%P %m %l %n %T@\n' | sed 's/\.[0-9]*$//' | sort)"
  done
}

@test "locks work between processes" {
  : >"$D/lock"
  exec 7>"$D/lock"
  flock -n 7
  run ! flock -n "$D/lock" true
  exec 7>&-
  flock -n "$D/lock" true
}

@test "mv works between drafts/ and other filesystems" {
  echo x >"$DIR/outside"
  mv "$DIR/outside" "$D/inside"
  equal "$(cat "$D/inside")" x
  mv "$D/inside" "$DIR/outside"
  equal "$(cat "$DIR/outside")" x
}

@test "drafts are never sent, and survive a restart" {
  message "$BOB" "not yet" >"$D/letter.eml"
  mkdir "$D/outbox"
  message "$BOB" "nor this" >"$D/outbox/letter.eml"
  stop_mount
  start_mount
  sync "$MOUNT/outbox"
  cmp "$D/letter.eml" <(message "$BOB" "not yet")
  cmp "$D/outbox/letter.eml" <(message "$BOB" "nor this")
  equal "$(find "$MOUNT/sent" "$MOUNT/failed" -type f | wc -l)" 0
  has_received "$BOB" "not yet" 0
}

# ---------------------------------------------------------------- limits of the daemon

@test "a file beyond the limit on the size of files fails with EFBIG, and the mount continues" {
  prlimit --pid "$MOUNT_PID" --fsize=100000
  echo short >"$D/short"
  ! head -c 200000 /dev/zero >"$D/long" 2>"$DIR/said" || fail "it was written"
  contains "$(cat "$DIR/said")" "File too large"
  expect EFBIG truncate "$D/short" 200000
  equal "$(cat "$D/short")" short
  ! head -c 200000 /dev/zero >"$MOUNT/attachments/long" 2>/dev/null || fail "it was written"
  message "$BOB" "goes out" >"$MOUNT/outbox/m"
  wait_sent m
}

# From now on the daemon has room for so many.
allow_descriptors() { # NUMBER, or NUMBER: for the soft limit alone
  prlimit --pid "$MOUNT_PID" --nofile="$1"
}

descriptors() {
  find "/proc/$MOUNT_PID/fd" -mindepth 1 | wc -l
}

has_no_removed_file_open() {
  ! find "/proc/$MOUNT_PID/fd" -lname '* (deleted)' | grep .
}

@test "too many drafts give EMFILE, and harm nothing else" {
  allow_descriptors 256:
  mkdir "$D/many"
  run bash -c 'cd "$1" && seq 1 300 | xargs touch' - "$D/many"
  [ "$status" -ne 0 ]
  contains "$output" "Too many open files"
  run ! mkdir "$D/many/folder-"{1..5}
  # Names that were refused do not exist. ls -f looks none up.
  ls -f "$D/many" >"$DIR/names"
  [ "$(wc -l <"$DIR/names")" -lt 290 ]
  run ! grep -qx -e 300 -e folder-5 "$DIR/names"
  message "$BOB" "sent all the same" >"$MOUNT/outbox/message"
  sync "$MOUNT/outbox"
  [ -e "$MOUNT/sent/message" ]
  allow_descriptors 1024:
  rm -r "$D/many"
  wait_until 5 has_no_removed_file_open
}

@test "messages moved in from drafts/ leave no descriptor open, and removed ones no file on the disk" {
  local i before
  before=$(descriptors)
  for i in {1..300}; do
    message "$BOB" "number $i" >"$D/$i.eml"
  done
  mv "$D"/*.eml "$MOUNT/outbox/"
  wait_until 60 sync "$MOUNT/outbox"
  equal "$(find "$MOUNT/sent" -name '*.eml' | wc -l)" 300
  # Looked up while they were drafts, and remembered by the kernel: that must not keep them.
  [ "$(descriptors)" -lt $((before + 50)) ]
  rm "$MOUNT/sent/"*
  wait_until 5 has_no_removed_file_open
}

@test "too many open files give EMFILE, and harm nothing else" {
  allow_descriptors 64
  echo text >"$D/file"
  run python3 -c '
import errno, os, sys
held = []
try:
    while len(held) < 100:
        held.append(os.open(sys.argv[1], os.O_RDONLY))
except OSError as error:
    print(errno.errorcode[error.errno])' "$D/file"
  equal "$output" EMFILE
  equal "$(cat "$D/file")" text
}

@test "a sync reports too many open files, and the next sync succeeds" {
  # Started without the service, it has no connection that could be used again, nor the descriptor of one.
  stop_mount
  stop_service
  start_mount
  start_service
  echo text >"$D/file"
  allow_descriptors 64
  run python3 -c '
import errno, os, sys
ctl = os.open(sys.argv[2], os.O_WRONLY)
held = []
try:
    while len(held) < 100:
        held.append(os.open(sys.argv[1], os.O_RDONLY))
except OSError as error:
    print(errno.errorcode[error.errno])
try:
    os.write(ctl, b"sync\n")
except OSError as error:
    print(errno.errorcode[error.errno])
for fd in held:
    os.close(fd)
' "$D/file" "$MOUNT/ctl"
  equal "$output" $'EMFILE\nEMFILE'
  jq -re '.error, .sync.error' "$MOUNT/status.json" | grep -q 'no file descriptor'
  wait_until 10 refresh
}

@test "a link in drafts/ cannot lead the daemon out of drafts/" {
  ln -s /etc "$D/etc"
  ln -s / "$D/root"
  # The kernel follows them for the user; the daemon never does.
  equal "$(readlink "$D/etc")" /etc
  expect ELOOP rename "$D/etc" "$MOUNT/outbox/etc"
  expect ELOOP rename "$D/root" "$MOUNT/attachments/root"
}

@test "statfs reports the disk of the state directory" {
  [ "$(stat -f -c %b "$MOUNT")" -gt 0 ]
  df "$MOUNT" >/dev/null
}
