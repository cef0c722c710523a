# Waits for programs, for benches that this is sourced into.
# shellcheck shell=sh

# Waits for a line of a file, a minute at most; prints the word that follows the pattern in it.
word_after() {
    for _ in $(seq 600); do
        found=$(sed -n "s/.*$1\\([^ ]*\\).*/\\1/p" "$2" | head -n 1)
        [ -z "$found" ] || { echo "$found"; return; }
        sleep 0.1
    done
    echo "no '$1' in $2:" >&2
    cat "$2" >&2
    exit 1
}
