// Runs one command per line of standard input with the definitions of docs/from-typescript.md, and prints how it ended.
import { createInterface } from "node:readline";

const reader = createInterface({ input: process.stdin });
reader.once("close", () => process.exit(0)); // the test is over
const input = reader[Symbol.asyncIterator]();

async function command(verb: string, name: string): Promise<void> {
  if (verb === "lock") {
    await withLock(name, {}, async (lease) => {
      console.log("inside");
      await input.next();
      await transaction(async (db) => {
        await db.query("update loan set balance = balance - 1 where id = 123");
        await db.query("select turno.lock_guard($1, $2)", [lease.resource, lease.token]);
      });
    });
  } else if (verb === "pay") {
    await pay(name, 10);
  } else if (verb === "work") {
    const stop = new AbortController();
    input.next().then(() => stop.abort());
    const slow = async (item: Item) => {
      console.log("begin", item.payload.invoice);
      await sleep(item.payload.ms);
      await send(item);
    };
    await work(name, slow, stop.signal);
  }
}

for (;;) {
  const [verb, name] = (await input.next()).value.split(" ");
  try {
    await command(verb, name);
    console.log("done");
  } catch (error) {
    console.log("error", String(error).replaceAll("\n", " "));
  }
}
