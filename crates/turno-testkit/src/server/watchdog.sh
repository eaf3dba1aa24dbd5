# Runs one server in a folder, and ends both when the process that started it has ended, in any way.
#
# $1 is the server's name, $2 the signal that stops it at once. The folder is printed first. Then commands are read from stdin,
# one per line, and each has one line of response on stdout. The end of stdin is the end of that process.

# A terminal's signals are for the tests, and a response to a closed pipe must not end this shell.
trap '' HUP INT TERM PIPE
umask 077

# Another account may not be able to write to the tests' folder.
folder=$(mktemp -d "${TMPDIR:-/tmp}/turno-$1-XXXXXX" 2>/dev/null) ||
    folder=$(mktemp -d "/tmp/turno-$1-XXXXXX") || exit 1
cd "$folder" || exit 1
server=

# Runs a command to its end and prints its status.
run() {
    "$@" </dev/null >>log 2>&1
    echo $?
}

# Starts the server, which handles the signals that this shell ignores, and prints its process id. The folder is its home.
start() {
    (
        trap - HUP INT TERM PIPE
        HOME=$folder
        export HOME
        exec "$@"
    ) </dev/null >>log 2>&1 &
    server=$!
    echo "$server"
}

# Ends processes that the server has left behind: Erlang's helpers have their own sessions and end a moment after it, if at
# all. They are recognized by their home, which no other process has.
sweep() {
    while left=$(grep -lzxF "HOME=$folder" /proc/[0-9]*/environ 2>/dev/null); [ -n "$left" ]; do
        for process in $left; do
            process=${process#/proc/}
            kill -s KILL "${process%/environ}" 2>/dev/null
        done
        sleep 0.01
    done
}

# Reaps a server that has ended, so that its process id is free.
reap() {
    wait "$server" 2>/dev/null
    server=
    sweep
    echo done
}

echo "$folder"
while IFS= read -r order; do
    eval "$order"
done

if [ -n "$server" ]; then
    # A test may have frozen it.
    kill -s CONT "$server" 2>/dev/null
    # Repeated: a server that has just started may not have handled the first signal.
    tries=0
    while kill -s "$2" "$server" 2>/dev/null; do
        [ "$tries" -lt 100 ] || kill -s KILL "$server" 2>/dev/null
        tries=$((tries + 1))
        sleep 0.05
    done
fi
sweep
cd /
rm -rf "$folder"
