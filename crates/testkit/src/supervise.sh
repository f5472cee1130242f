# Runs "$2…" with its output in the file $1, and never leaves it behind.
#
# The first line on stdout is the process id of the program. Each line on stdin is the name of a signal to send to it.
# The end of stdin means that the test process is gone, however it died: the program is killed.
# Exits with the status of the program.
log=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- >>"$log" 2>&1 &
program=$!
echo "$program"
exec >/dev/null 2>&1
{
    while read -r signal <&3; do kill -s "$signal" "$program"; done
    kill -s KILL "$program"
} &
ears=$!
exec 3<&-
wait "$program"
status=$?
kill "$ears"
exit "$status"
