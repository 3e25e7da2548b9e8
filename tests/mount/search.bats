#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# search/: every name in it is a query, and its folder has links to the emails that match.

load support
load scripted

teardown() {
  stop_all
}

# What a query found: names of emails without date and id, in order.
found() { # QUERY
  local name
  (cd "$MOUNT/search/$1" && for name in *.json; do
    [ ! -L "$name" ] || echo "$name"
  done) | sed 's/^[^_]*_//; s/_[^_]*$//' | LC_ALL=C sort | paste -sd ' '
}

# What the local index does not take in within a second may be missing, and the answer says so.
answer_is_whole() { # QUERY
  holds "$MOUNT/search/$1/.search.json" '.truncated | not' || {
    rmdir "$MOUNT/search/$1"
    return 1
  }
}

finds() { # QUERY EXPECTED
  wait_until 30 answer_is_whole "$1"
  equal "$(found "$1")" "$2"
}

start_with_mail() {
  start_two_inboxes
  send_from_elsewhere "$ALICE" "$BOB" "Invoice for October" "The sum is due in November."
  send_from_elsewhere "$BOB" "$ALICE" "Lunch" "Shall we pay the invoice first?"
  send_from_elsewhere "$BOB" "$ALICE" "Holidays" "Nothing about money."
  refresh
  wait_for_probes
}

# The queries that search/ lists, in order.
listed() {
  find "$MOUNT/search" -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort | paste -sd ' '
}

# Requests made so far.
requests() {
  jq -e .counters.requests "$MOUNT/status.json"
}

@test "a query is a folder of links to the emails of all inboxes that match it" {
  local link
  start_with_mail
  finds invoice "invoice-for-october lunch"
  finds "invoice sum" "invoice-for-october"
  for link in "$MOUNT"/search/invoice/*.json; do
    [ -L "$link" ]
    [[ $(readlink "$link") == ../../inboxes/*@*/"${link##*/}" ]] || fail "leads to $(readlink "$link")"
    cmp "$link" "$MOUNT/search/$(readlink "$link" | sed 's,^\.\./,,')"
    jq -e .id "$link"
  done
  finds "nothing at all like it" ""
}

@test "from: and in: narrow a query, and quotes keep a phrase together" {
  start_with_mail
  finds "invoice from:bob" "lunch"
  finds "invoice in:bob" "invoice-for-october"
  finds "from:alice in:alice" ""
  finds '"due in november"' "invoice-for-october"
  finds '"november in due"' ""
  finds "in:bob" "invoice-for-october"
  finds "in:alice" "holidays lunch welcome-to-your-inbox"
}

@test "operators mean the same for the service's hits and for the local index" {
  start_with_mail
  # Only the service knows bodies.
  finds "invoice -november" "lunch"
  finds "subject:invoice" "invoice-for-october"
  finds "(november)" "invoice-for-october"
  finds "money, -sum" "holidays"
  finds "nothing OR sum in:bob" "invoice-for-october"
  finds "nothing OR sum" "holidays invoice-for-october"
  finds "invoice after:7d" "invoice-for-october lunch"
  finds "invoice before:2020" ""
  finds "after:7d in:bob" "invoice-for-october"
  finds "to:alice -from:bob" "welcome-to-your-inbox"
  stop_service
  finds "after:7d -invoice in:alice" "holidays lunch welcome-to-your-inbox"
  finds "-october in:bob" ""
}

@test "a query that means nothing is refused, with a reason" {
  local query
  start_with_mail
  for query in '*' '-' '~' '""'; do
    expect EINVAL truncate "$MOUNT/search/$query" 0
  done
  holds "$MOUNT/status.json" '.refused | .path == "search/\"\"" and (.error | contains("letter or a digit"))'
  expect EINVAL truncate "$MOUNT/search/invoice is:unread" 0
  grep -q '"path":"search/invoice is:unread".*is: is no operator' "$MOUNT/events.jsonl"
  expect EINVAL truncate "$MOUNT/search/after:yesterday" 0
  finds '"is:unread" OR invoice' "invoice-for-october lunch"
  finds "Re:invoice OR 12:30 OR lunch" "lunch"
}

@test "has:attachment finds emails whose content was read, and the folder says that others may match" {
  start_two_inboxes
  printf 'From: %s\nTo: %s\nSubject: %s\nAttach: %s\n\nx\n' "$ALICE" "$BOB" Report report.pdf >"$MOUNT/drafts/report"
  echo pdf >"$MOUNT/attachments/report.pdf"
  mv "$MOUNT/drafts/report" "$MOUNT/outbox/"
  sync "$MOUNT/outbox"
  refresh
  wait_for_probes
  ls "$MOUNT/search/has:attachment in:bob" >/dev/null
  holds "$MOUNT/search/has:attachment in:bob/.search.json" '.found == 0 and .truncated'
  wait_until 20 cat "$MOUNT/inboxes/$BOB/"*_report_*/body.txt
  finds "report has:attachment" report
  finds "-has:attachment report" ""
}

@test "the folder names the query, and whether the service answered" {
  start_with_mail
  wait_until 30 answer_is_whole invoice
  holds "$MOUNT/search/invoice/.search.json" \
    '.query == "invoice" and .found == 2 and .service and (.truncated | not) and (.asked_at | startswith("20"))'
  expect EACCES open "$MOUNT/search/invoice/.search.json" w
  has_true_size "$MOUNT/search/invoice/.search.json"
}

@test "offline, subjects and addresses are found, also by a mount that never reached the service" {
  start_with_mail
  finds october "invoice-for-october"
  stop_mount
  stop_service
  start_mount
  finds october "invoice-for-october"
  finds "from:alice october" "invoice-for-october"
  finds "$BOB" "holidays invoice-for-october lunch"
  holds "$MOUNT/search/october/.search.json" '.service | not'
}

# There is content as soon as it was found out that the service has it.
read_lunch() {
  cat "$MOUNT/inboxes/$ALICE/"*_lunch_*/body.txt
}

@test "a body that was read is found without the service" {
  start_with_mail
  wait_until 20 read_lunch
  stop_service
  finds "pay first" lunch
  finds "due november" ""
  stop_mount
  start_mount
  finds "pay first" lunch
}

@test "mail that came a moment ago is found" {
  start_with_mail
  finds invoice "invoice-for-october lunch"
  send_from_elsewhere "$ALICE" "$BOB" "A brand-new zebra"
  finds zebra "a-brand-new-zebra"
  present "$(mounted "$BOB" "A brand-new zebra")"
}

@test "search/ lists the latest queries, and listing it sends no request" {
  local before i
  start_with_mail
  equal "$(listed)" ""
  finds invoice "invoice-for-october lunch"
  finds lunch lunch
  equal "$(listed)" "invoice lunch"
  before=$(requests)
  ls -laR "$MOUNT/search" >/dev/null
  find "$MOUNT/search" >/dev/null
  stat "$MOUNT/search/never asked" >/dev/null
  equal "$(requests)" "$before"
  equal "$(listed)" "invoice lunch"
  for i in {1..60}; do
    ls "$MOUNT/search/in:nobody $i" >/dev/null
  done
  equal "$(find "$MOUNT/search" -mindepth 1 -maxdepth 1 | wc -l)" 50
  missing_from_list invoice
}

missing_from_list() { # QUERY
  [ -z "$(find "$MOUNT/search" -maxdepth 1 -name "$1")" ] || fail "is listed: $1"
}

@test "walking the whole mount repeats no query and follows no link" {
  local before
  start_with_mail
  finds invoice "invoice-for-october lunch"
  finds lunch lunch
  before=$(requests)
  # Without the folders that fetch what emails hold.
  equal "$(grep -rl "Invoice for October" "$MOUNT" --exclude-dir=inboxes --exclude-dir=maildir | grep -c search/)" 0
  find "$MOUNT" \( -path "$MOUNT/inboxes" -o -path "$MOUNT/maildir" \) -prune -o -type f -newermt 2000-01-01 -print >/dev/null
  equal "$(requests)" "$before"
}

@test "rmdir forgets a query" {
  start_with_mail
  finds invoice "invoice-for-october lunch"
  rmdir "$MOUNT/search/invoice"
  equal "$(listed)" ""
  expect ENOENT rmdir "$MOUNT/search/.never-asked-for"
  finds invoice "invoice-for-october lunch"
}

@test "nothing else can be created or changed in search/" {
  start_with_mail
  finds invoice "invoice-for-october lunch"
  expect EEXIST mkdir "$MOUNT/search/other"
  expect EPERM mkdir "$MOUNT/search/.other"
  expect EISDIR unlink "$MOUNT/search/other"
  expect EPERM unlink "$(find "$MOUNT/search/invoice" -name '*lunch*')"
  run ! touch "$MOUNT/search/invoice/file"
  run ! mv "$MOUNT/search/invoice" "$MOUNT/search/renamed"
  run ! mv "$MOUNT/search/invoice" "$MOUNT/drafts/"
  finds invoice "invoice-for-october lunch"
}

@test "names that programs look up in every folder send no request" {
  local name before
  start_with_mail
  before=$(requests)
  for name in .git .hidden .directory Thumbs.db desktop.ini autorun.inf lost+found Makefile body.txt README.md; do
    missing "$MOUNT/search/$name"
  done
  expect ENOENT truncate "$MOUNT/search/lunch/.git" 0
  equal "$(requests)" "$before"
}

@test "hostile queries find what their words say, or nothing" {
  local query
  start_with_mail
  for query in "invoice' OR '1'='1" 'invoice"; DROP TABLE texts; --' "invoice NEAR(x" 'subject:invoice AND' \
    '{subject}:^invoice' 'invoice*) OR (*' $'invoice\n\x01\x7f zzz' 'from:% from:_ invoice' 'invoice \\ %' \
    "$(printf 'x%.0s' {1..255})" "$(printf 'a %.0s' {1..120})" '"' '""' '"invoice' $'\xff\xfe' 'in:../../etc'; do
    ls "$MOUNT/search/$query" >/dev/null 2>&1 || [ ! -e "$MOUNT/search/$query" ]
  done
  ls "$MOUNT/search/$(printf 'x%.0s' {1..255})"
  expect ENAMETOOLONG mkdir "$MOUNT/search/$(printf 'x%.0s' {1..256})"
  finds invoice "invoice-for-october lunch"
}

@test "other spellings of the same letters find the same emails" {
  start_two_inboxes
  send_from_elsewhere "$ALICE" "$BOB" "Ärger mit der STRASSE"
  refresh
  finds ärger "ärger-mit-der-strasse"
  stop_service
  finds "arger strasse" "ärger-mit-der-strasse"
}

@test "a hanging search can be interrupted, and others continue meanwhile" {
  start_with_mail
  finds lunch lunch
  freeze_service
  timeout -s INT 8 ls "$MOUNT/search/invoice" >/dev/null 2>&1 3>&- &
  local pid=$!
  # Nothing else waits for it.
  at_once ls "$MOUNT/inboxes/$BOB" "$MOUNT/search" >/dev/null
  at_once cat "$MOUNT/status.json" >/dev/null
  kill -INT "$pid" 2>/dev/null || true
  within 8 wait "$pid" || true
  kill -CONT "$SERVICE_PID"
  finds invoice "invoice-for-october lunch"
}

@test "a service that does not answer in time leaves the local hits" {
  start_with_mail
  finds october "invoice-for-october"
  freeze_service
  within 20 finds invoice "invoice-for-october"
  kill -CONT "$SERVICE_PID"
  holds "$MOUNT/search/invoice/.search.json" '.service | not'
}

@test "a repeated query shows what has changed" {
  start_with_mail
  finds invoice "invoice-for-october lunch"
  send_from_elsewhere "$ALICE" "$BOB" "Invoice for December"
  wait_until 30 finds invoice "invoice-for-december invoice-for-october lunch"
}

@test "a server that ignores search_term is detected, and the local index answers" {
  start_scripted_service
  local i
  for i in 1 2 3; do
    server_has_email "{\"id\": \"id-$i\", \"inbox_id\": \"in-1\", \"subject\": \"subject number $i\", \"date\": \"2026-11-0${i}T08:00:00Z\"}"
  done
  start_mount
  refresh
  finds "number 2" "subject-number-2"
  finds "number" "subject-number-1 subject-number-2 subject-number-3"
  finds nothing ""
  holds "$MOUNT/search/number/.search.json" '.service | not'
  # It is no Extended server, so it was not even asked.
  equal "$(server_requests email | jq '[.[] | select(.query | tostring | contains("search_term"))] | length')" 0
}

@test "the index survives a kill, and is rebuilt after it was damaged or deleted" {
  local url cache
  start_with_mail
  url=$SERVICE_URL
  finds october "invoice-for-october"
  kill_mount KILL
  stop_service
  SERVICE_URL=$url start_mount
  finds october "invoice-for-october"
  stop_mount
  start_service
  cache=$(find "$STATE" -name mail.sqlite3)
  dd if=/dev/urandom of="$cache" bs=4096 count=20 conv=notrunc status=none
  start_mount
  refresh
  finds october "invoice-for-october"
  stop_mount
  rm "$cache"
  start_mount
  refresh
  finds october "invoice-for-october"
  [ "$(stat -c %a "$cache")" = 600 ]
}
