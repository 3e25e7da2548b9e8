#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# Whatever damages the files of the cache, the mount starts, shows nothing wrong, and is complete again as soon as the
# service answers.

load support

EMAILS=30

setup() {
  start_two_inboxes
  send_many_from_elsewhere "$ALICE" "$BOB" number "$EMAILS"
  refresh
  BOX=$MOUNT/inboxes/$BOB
  # What is shown now is what must be shown again.
  (cd "$BOX" && sha256sum 2*.json) >"$DIR/sums"
  equal "$(wc -l <"$DIR/sums")" "$EMAILS"
  stop_mount
}

teardown() {
  stop_all
}

cache_files() {
  find "$STATE/cache" -type f
}

# Damages every file of the cache.
damage() # COMMAND...
{
  local file
  cache_files | grep -q .
  while IFS= read -r file; do
    "$@" "$file"
  done < <(cache_files)
}

# Changes bytes all over a file, always the same ones.
flip() # COUNT FILE
{
  perl -e '
    my ($count, $file) = @ARGV;
    open(my $f, "+<:raw", $file) or die;
    my $size = -s $f or exit;
    srand(7);
    for (1 .. $count) {
      my $at = int(rand($size));
      seek($f, $at, 0); read($f, my $byte, 1);
      seek($f, $at, 0); print $f chr(ord($byte) ^ (1 + int(rand(255))));
    }' "$1" "$2"
}

keep_part() # PART-IN-100 FILE
{
  truncate -s "$(($(stat -c %s "$2") * $1 / 100))" "$2"
}

replace_by_folder() # FILE
{
  rm "$1" && mkdir "$1"
}

replace_by_link() # FILE
{
  mv "$1" "$DIR/elsewhere.${1##*/}" && ln -s "$DIR/elsewhere.${1##*/}" "$1"
}

# Every email that is shown is one that was there, as it was.
shows_nothing_wrong() {
  ! (cd "$BOX" 2>/dev/null && find . -name '2*.json' -printf '%f\0' | xargs -0r sha256sum) | grep -vxFf "$DIR/sums" ||
    fail "that is wrong"
}

is_whole() {
  refresh
  (cd "$BOX" && equal "$(find . -name '2*.json' | wc -l)" "$EMAILS" && sha256sum --quiet -c "$DIR/sums")
}

offline_and_then_online() {
  local url=$SERVICE_URL
  stop_service
  SERVICE_URL=$url start_mount
  shows_nothing_wrong
  stop_mount
  start_service
  start_mount
  shows_nothing_wrong
  is_whole
  stop_mount
  # And it stays so.
  start_mount
  shows_nothing_wrong
  is_whole
}

@test "a truncated file shows nothing wrong, and is filled again by a sync" {
  local part
  for part in 99 50 3 0; do
    damage keep_part "$part"
    start_mount
    shows_nothing_wrong
    is_whole
    stop_mount
  done
  damage keep_part 60
  offline_and_then_online
}

@test "a few changed bytes show nothing wrong, and a sync repairs them" {
  damage flip 5
  offline_and_then_online
}

@test "bytes changed all over show nothing wrong, and a sync repairs them" {
  damage flip 500
  offline_and_then_online
}

@test "a file of zeros shows nothing wrong, and is filled again by a sync" {
  zero() { dd if=/dev/zero of="$1" bs="$(stat -c %s "$1")" count=1 conv=notrunc status=none; }
  damage zero
  offline_and_then_online
}

@test "a folder or a link in place of the file is replaced, and filled again by a sync" {
  damage replace_by_folder
  start_mount
  is_whole
  stop_mount
  damage replace_by_link
  start_mount
  shows_nothing_wrong
  is_whole
}

@test "rubbish at the end of the file shows nothing wrong" {
  grow() { head -c 100000 "$BATS_TEST_FILENAME" /dev/urandom | cat >>"$1"; }
  damage grow
  offline_and_then_online
}

# ---------------------------------------------------------------- while it is in use

# Each email is what it was, or cannot be read; prints how many are which.
read_all() {
  (cd "$BOX" && sha256sum 2*.json) >"$DIR/read" 2>"$DIR/words" || true
  ! grep -vxFf "$DIR/sums" "$DIR/read" || fail 'that is wrong' || return
  ! grep -v 'Input/output error$' "$DIR/words" || fail 'that is said' || return
  echo "$(wc -l <"$DIR/read") right, $(wc -l <"$DIR/words") unreadable"
}

@test "damage during use gives errors or the old content, and a sync repairs it" {
  local part
  # More than is kept in memory of the file.
  start_mount
  send_many_from_elsewhere "$ALICE" "$BOB" "long $(head -c 8000 /dev/zero | tr '\0' x)" 200
  refresh
  EMAILS=$((EMAILS + 200))
  (cd "$BOX" && sha256sum 2*.json) >"$DIR/sums"
  equal "$(wc -l <"$DIR/sums")" "$EMAILS"
  stop_mount
  zero_all() { dd if=/dev/zero of="$1" bs=4096 count="$(($(stat -c %s "$1") / 4096 + 1))" conv=notrunc status=none; }
  for part in 0 10 zeros; do
    start_mount
    # A list that was delivered whole need not be delivered again; now it must.
    refresh
    ls "$MOUNT/search/number" >/dev/null
    if [ "$part" = zeros ]; then
      damage zero_all
    else
      damage keep_part "$part"
    fi
    run read_all
    [ "$status" = 0 ] || fail "$output"
    [ "$output" != "$EMAILS right, 0 unreadable" ]
    run tail -n 1 "$BOX/index.jsonl"
    run ls -l "$BOX" "$MOUNT/search/number"
    holds "$MOUNT/status.json" .online
    grep -q "records in the cache cannot be read" "$MOUNT_LOG"
    is_whole
    grep -qF "$(jq -r .id "$(mounted "$BOB" "number 7")")" "$BOX/index.jsonl"
    stop_mount
    start_mount
    is_whole
    stop_mount
  done
}
