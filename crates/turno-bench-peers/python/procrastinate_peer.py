"""procrastinate. Its guides recommend, for throughput: asynchronous tasks, several jobs at a time in each worker
(`concurrency=30`), several workers in processes of their own, and jobs in batches (`batch_defer_async`).

The measurements are those of the peers in Rust: see src/measure.rs. One line of JSON is the result. A process of Python runs on
one core, so workers are distributed over as many processes as there are cores, as the tasks of a Rust peer are over threads.
A worker fetches one job per statement and completes each with another. Completed jobs are deleted.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import time

import procrastinate
import psycopg

QUEUE = "bench"
LEFT = "select count(*) from procrastinate_jobs where status <> 'succeeded'"
# Concurrent jobs of each worker in the drain.
CONCURRENCY = 30
# Timeout of a measurement, and the poll interval for the completion of the last items.
TIMEOUT_SECONDS = 900
LOOK_SECONDS = 0.002
# Items that are pushed and drained before the measurement, so that connections are open.
WARM_UP_ITEMS = 500
# Number of items in a latency measurement, and the pause between two of them.
LATENCIES = 200
REST_SECONDS = 0.02
# Poll interval of an idle worker.
POLL_SECONDS = 0.5
# Connections of a process besides one for each of its workers.
MORE_CONNECTIONS = 8


class Peer:
    def __init__(self, plan, workers):
        size = workers + MORE_CONNECTIONS
        connector = procrastinate.PsycopgConnector(
            conninfo=plan.store, min_size=2, max_size=size
        )
        self.plan = plan
        self.workers = workers
        self.app = procrastinate.App(connector=connector)
        self.handle = lambda: None
        self.tasks = []

        @self.app.task(name="item", queue=QUEUE)
        async def item(body):
            self.handle()

        self.item = item

    async def push(self, items):
        body = "x" * max(0, self.plan.payload - len('{"body":""}'))
        while items > 0:
            batch = min(items, self.plan.batch)
            await self.item.batch_defer_async(*[{"body": body}] * batch)
            items -= batch

    def start(self):
        latency = self.plan.mode == "latency"
        self.tasks = [
            asyncio.create_task(
                self.app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=CONCURRENCY if self.plan.mode == "drain" else 1,
                    listen_notify=latency,
                    fetch_job_polling_interval=POLL_SECONDS,
                    delete_jobs="successful",
                    install_signal_handlers=False,
                )
            )
            for _ in range(self.workers)
        ]

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def note(self):
        plan = self.plan
        if plan.mode == "push":
            return f"batch_defer, batch {plan.batch}, 1 client"
        if plan.mode == "drain":
            return f"{plan.consumers} workers, concurrency {CONCURRENCY} each, completed jobs are deleted"
        if plan.mode == "single":
            return f"{plan.consumers} workers, completed jobs are deleted"
        return "notify, 1 idle consumer"


class Process:
    """A process of workers, which start and stop on request."""

    def __init__(self, context, plan, workers):
        self.handled = context.Value("Q", lock=False)
        self.pipe, other = context.Pipe()
        arguments = (plan, workers, self.handled, other)
        self.process = context.Process(target=consume, args=arguments, daemon=True)
        self.process.start()
        self.wait()

    def send(self, message):
        self.pipe.send(message)

    def wait(self):
        if not self.pipe.poll(TIMEOUT_SECONDS):
            raise TimeoutError("a process of workers does not answer")
        self.pipe.recv()


def consume(plan, workers, handled, pipe):
    async def run():
        peer = Peer(plan, workers)

        def handle():
            handled.value += 1

        peer.handle = handle
        loop = asyncio.get_running_loop()
        async with peer.app.open_async():
            pipe.send("ready")
            while True:
                message = await loop.run_in_executor(None, pipe.recv)
                if message == "start":
                    peer.start()
                elif message == "stop":
                    await peer.stop()
                    pipe.send("stopped")
                else:
                    return

    asyncio.run(run())


def check(holds, message):
    if not holds:
        raise SystemExit(message)


def left(database):
    return database.execute(LEFT).fetchone()[0]


async def push(peer, database):
    await peer.push(WARM_UP_ITEMS)
    begin = time.perf_counter()
    await peer.push(peer.plan.items)
    seconds = time.perf_counter() - begin
    stored = left(database)
    check(stored == WARM_UP_ITEMS + peer.plan.items, f"{stored} items are stored")
    return rate(peer.plan.items, seconds)


async def drain(peer, database):
    plan = peer.plan
    context = multiprocessing.get_context("spawn")
    count = min(plan.consumers, len(os.sched_getaffinity(0)))
    shares = [(plan.consumers + n) // count for n in range(count)]
    processes = [Process(context, plan, share) for share in shares]
    seconds = 0
    for items in [WARM_UP_ITEMS, plan.items]:
        await peer.push(items)
        seconds = drain_all(processes, database, items)
    for process in processes:
        process.send("end")
        process.process.join()
    return rate(plan.items, seconds)


def drain_all(processes, database, items):
    # Updates statistics, and prevents a checkpoint during the measurement.
    database.execute("vacuum analyze")
    database.execute("checkpoint")
    stored = left(database)
    check(stored == items, f"{items} items were pushed, {stored} are stored")
    before = sum(process.handled.value for process in processes)

    def handled():
        return sum(process.handled.value for process in processes) - before

    begin = time.perf_counter()
    for process in processes:
        process.send("start")
    while handled() < items or left(database) > 0:
        waited = time.perf_counter() - begin
        check(waited < TIMEOUT_SECONDS, f"{handled()} of {items} were handled")
        time.sleep(LOOK_SECONDS)
    seconds = time.perf_counter() - begin
    for process in processes:
        process.send("stop")
        process.wait()
    check(handled() == items, f"{items} items were handled {handled()} times")
    return seconds


async def latency(peer, _):
    handled = asyncio.Queue()
    peer.handle = lambda: handled.put_nowait(time.perf_counter())
    peer.start()
    since_begin, since_return = [], []
    start = time.perf_counter()
    for _ in range(LATENCIES):
        await asyncio.sleep(REST_SECONDS)
        begin = time.perf_counter()
        await peer.push(1)
        returned = time.perf_counter()
        at = await asyncio.wait_for(handled.get(), TIMEOUT_SECONDS)
        since_begin.append(at - begin)
        since_return.append(max(0, at - returned))
    result = rate(LATENCIES, time.perf_counter() - start)
    await peer.stop()
    result["median_ms"] = median_ms(since_begin)
    result["median_after_push_ms"] = median_ms(since_return)
    return result


def rate(items, seconds):
    per_second = round(items / seconds, 3)
    return {"items": items, "seconds": round(seconds, 3), "per_second": per_second}


def median_ms(times):
    return round(sorted(times)[len(times) // 2] * 1000, 3)


async def main():
    # Not that the application is defined in the program that runs, which does not matter here.
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    modes = {"push": push, "drain": drain, "single": drain, "latency": latency}
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--mode", choices=modes, default="drain")
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--consumers", type=int, default=4)
    plan = parser.parse_args()
    peer = Peer(plan, 1)
    with psycopg.connect(plan.store, autocommit=True) as database:
        async with peer.app.open_async():
            await peer.app.schema_manager.apply_schema_async()
            result = await modes[plan.mode](peer, database)
    print(json.dumps({"peer": "procrastinate", "mode": plan.mode, **result, "note": peer.note()}))


if __name__ == "__main__":
    asyncio.run(main())
