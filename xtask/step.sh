#!/bin/sh
# Runs one step of make, and prints one line of it with its duration. What the command prints follows, but for cargo's lines a
# crate: of those it prints how many there were, every 20 seconds.
#   xtask/step.sh TITLE COMMAND ARGUMENTS...
set -u
title=$1
shift
interval=20
begin=$(date +%s)
printf '%s ...' "$title"
{
    "$@" 2>&1 </dev/null
    echo "exit status $?"
} | {
    crates=0
    status=1
    is_alone=1
    next=$((begin + interval))
    line() {
        [ $is_alone = 0 ] || echo
        is_alone=0
        printf '%s\n' "$1"
    }
    while IFS= read -r text; do
        case $text in
        'exit status '*) status=${text#exit status } ;;
        *' Compiling '* | *' Checking '*)
            crates=$((crates + 1))
            now=$(date +%s)
            if [ "$now" -ge $next ]; then
                line "  $crates crates, $((now - begin)) s"
                next=$((now + interval))
            fi
            ;;
        *' Downloading '* | *' Downloaded '* | *' Updating '* | *' Locking '* | *' Adding '* | *' Blocking '* | *' Finished '*) ;;
        *) line "$text" ;;
        esac
    done
    seconds="$(($(date +%s) - begin)) s"
    [ "$status" = 0 ] || seconds="failed after $seconds"
    if [ $is_alone = 1 ]; then echo " $seconds"; else echo "$title: $seconds"; fi
    exit "$status"
}
