# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Runs the recipes of docs/COOKBOOK.md unchanged, with $DIR as the home directory.

COOKBOOK=$REPOSITORY/docs/COOKBOOK.md

# Prints the first code block below the heading.
recipe() # HEADING
{
    awk -v heading="## $1" '$0 == heading { found = 1 } found && /^```$/ { exit } block { print }
        found && /^```sh$/ { block = 1 }' "$COOKBOOK"
}

run_recipe() # TEXT
{
    cd "$DIR" && HOME=$DIR PATH=$DIR/bin:$BUILD:$PATH exec timeout -k 1 30 bash -eu -o pipefail -c "$1"
}

# Runs a recipe. With ADDRESS, replaces Alice's address in it, as a reader would.
cook() # HEADING [ADDRESS]
{
    local text
    text=$(recipe "$1")
    [ -n "$text" ] || fail "no such recipe: $1" || return
    (run_recipe "${text//$ALICE/${2:-$ALICE}}")
}
