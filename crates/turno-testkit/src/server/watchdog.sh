# Keeps one server and its folder, and ends both when the process that asked for them is gone, however it went.
#
# $1 is the server's name, $2 the signal that makes it stop at once. The folder is printed first; then orders come on
# stdin, one a line, and each is answered by one line on stdout. The end of stdin is the end of that process.

# A terminal's signals are for the tests, and an answer that nobody reads any more must not end the watch.
trap '' HUP INT TERM PIPE
umask 077

# Another account may not be able to write where the tests do.
folder=$(mktemp -d "${TMPDIR:-/tmp}/turno-$1-XXXXXX" 2>/dev/null) ||
    folder=$(mktemp -d "/tmp/turno-$1-XXXXXX") || exit 1
cd "$folder" || exit 1
server=

# Runs a command to its end and answers its status.
run() {
    "$@" </dev/null >>log 2>&1
    echo $?
}

# Starts the server, which minds the signals that this shell does not, and answers its process id. The folder is its home.
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

# Ends what the server has started and left behind: Erlang's helpers sit in sessions of their own and go a moment after it,
# if they do. They are known by their home, which is nobody else's.
sweep() {
    while left=$(grep -lzxF "HOME=$folder" /proc/[0-9]*/environ 2>/dev/null); [ -n "$left" ]; do
        for process in $left; do
            process=${process#/proc/}
            kill -s KILL "${process%/environ}" 2>/dev/null
        done
        sleep 0.01
    done
}

# Collects a server that has ended, so that its process id is free.
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
    # Asked again and again: a server that has only just begun may not have heard it the first time.
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
