# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# A service that misbehaves on demand, for mount tests: tests/mount/scripted_server.py, which has the Core endpoints,
# and contents if a test provides them. ENDPOINT is email or inbox (the lists), upsert, upload, send, content, raw or
# attachment.
#
# shellcheck disable=SC2034,SC2154 # shared with support.bash
# shellcheck disable=SC2119,SC2120 # functions whose arguments may be left out

# After stop_service it starts on the same port again, without its former state.
start_scripted_service()
{
    choose_port
    rm -f "$DIR/port"
    python3 "$REPOSITORY/tests/mount/scripted_server.py" --port="$SERVICE_PORT" --port-file="$DIR/port" \
        --log="$DIR/scripted.log" >>"$DIR/scripted.log" 2>&1 3>&- &
    SERVICE_PID=$!
    wait_until 20 test -s "$DIR/port"
    SERVICE_URL=http://127.0.0.1:$SERVICE_PORT
    (umask 077 && echo test-key >"$KEY_FILE")
}

control() # JSON
{
    http POST /_control "$1"
}

# Sets the answers to the next requests to the endpoint; the last one repeats. Without any, the server answers normally.
server_answers() # ENDPOINT [BEHAVIOUR...]
{
    local list
    list=$(jq -cs 'if length > 0 then .[-1] = {always: .[-1]} else . end' <<<"${*:2}")
    control "{\"$1\": $list}"
}

# Prints the requests to the endpoint so far: [{time, path, headers (names in lower case), text, json, query}].
server_requests() # ENDPOINT
{
    http GET /_requests | jq --arg endpoint "$1" '
        {email: "GET /api/v1/email", inbox: "GET /api/v1/inbox", upsert: "POST /api/v1/inbox/upsert",
         upload: "POST /api/v1/email/add-attachment-to-pool", send: "POST /api/v1/email/send",
         content: "GET /api/v1/email/[^/]+", raw: "GET /api/v1/email/[^/]+/raw",
         attachment: "GET /api/v1/email/[^/]+/attachment/[^/]+"} as $endpoints |
        [.[] | select("\(.method) \(.path | split("?")[0])" | test("^\($endpoints[$endpoint])$")) |
            {time, path, headers: (.headers | with_entries(.key |= ascii_downcase)), text: .body,
             json: (.body | try fromjson catch null), query}]'
}

server_saw() # ENDPOINT COUNT
{
    [ "$(server_requests "$1" | jq length)" -ge "$2" ]
}

# Adds a record to the answers of GET /email, unchanged.
server_has_email() # RECORD
{
    http POST /_deliver "$1"
}

# Adds each line of standard input as such a record.
server_has_emails()
{
    curl -sS --fail --data-binary @- "$SERVICE_URL/_deliver_lines"
}

# Prints how often a message of this subject was accepted.
sent_count() # SUBJECT
{
    http GET /_sent | jq --arg subject "$1" '[.[] | select(.request.subject == $subject)] | length'
}

is_sent_times() # SUBJECT COUNT
{
    local count
    count=$(sent_count "$1")
    [ "$count" = "$2" ] || fail "$1: sent $count times, should be $2"
}
