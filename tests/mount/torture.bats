#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A short run of `make torture`: kills at random moments while mail is sent, and a count of what became of it.

load support

@test "killed at random while writers send: nothing lost, doubled, halved or unexplained" {
  "$REPOSITORY/tests/torture/run" --kills 20 --services inboxd,local
}

@test "the same with a service that knows no idempotency keys: at most once, and the rest is told" {
  "$REPOSITORY/tests/torture/run" --kills 15 --services scripted
}
