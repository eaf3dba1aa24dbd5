# Runs one command per line of standard input with the definitions of docs/from-python.md, and prints how it ended.
import os, sys


def command(verb, name):
    if verb == "lock":
        with lock(name) as lease:
            print("inside")
            sys.stdin.readline()
            with psycopg.connect(DATABASE) as db:
                db.execute("update loan set balance = balance - 1 where id = 123")
                db.execute("select turno.lock_guard(%s, %s)", (lease["resource"], lease["token"]))
    elif verb == "pay":
        pay(name, 10)
    elif verb == "work":
        stop = threading.Event()

        def wait_for_the_end():
            if not sys.stdin.readline():
                os._exit(0)     # the test is over
            stop.set()

        def slow(item):
            print("begin", item["payload"]["invoice"])
            time.sleep(item["payload"]["ms"] / 1000)
            send(item)

        threading.Thread(target=wait_for_the_end, daemon=True).start()
        work(name, slow, stop)


while line := sys.stdin.readline():
    try:
        command(*line.split())
        print("done")
    except Exception as error:
        print("error", str(error).replace("\n", " "))
