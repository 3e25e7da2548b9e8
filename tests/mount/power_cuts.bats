#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
#
# A short run of `tests/torture/power_cuts.py`: what becomes of the mail when the power is cut at any step of some sessions.

load support

@test "wherever the power is cut, nothing is lost, doubled, halved or unexplained" {
  "$REPOSITORY/tests/torture/power_cuts.py" --sessions 4 --every 4 --seed 1
}
