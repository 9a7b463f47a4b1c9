import assert from "node:assert/strict";
import { test } from "node:test";
import { Dead, Later, LeaseLost, Queend, Unauthorized, type Context, type WorkerOptions } from "queend-client";
import { ACK, ask, client, data, endLeases, EXTEND, gate, GUARDED, name, pending, POP, until } from "./support.js";

const q = client();

/** Starts a worker. Returns a function that stops it and returns what it comes to. */
function start(queue: string, handler: (data: any, context: Context, attempt: number) => unknown,
               options: WorkerOptions = {}): () => Promise<number> {
  const stop = new AbortController();
  const ended = q.worker(queue, (message, context) => handler(message.data, context, message.deliveryAttempt),
                         { leaseSeconds: 600, pollMs: 500, onError: () => {}, signal: stop.signal, ...options });
  return () => (stop.abort(), ended);
}

const push = (queue: string, count: number, partitions = 1): Promise<unknown> =>
  q.pushMany(Array.from({ length: count }, (_, n) => ({ queue, payload: n, partition: `p${n % partitions}` })));

test("messages of a partition are handled in order, those of several side by side", async () => {
  const queue = name(), seen: number[] = [], all = gate();
  await push(queue, 60, 20);
  let now = 0;
  const stop = start(queue, async (n: number) => {
    if (++now === 20) all.open();
    await all.opened;
    seen.push(n);
  }, { concurrency: 20, prefetch: 60 });
  await until(() => seen.length === 60, "all are handled");
  await until(async () => await pending(q, queue) === 0, "all are completed");
  assert.equal(await stop(), 0);
  for (let part = 0; part < 20; part++)
    assert.deepEqual(seen.filter((n) => n % 20 === part), [part, part + 20, part + 40]);
});

test("what handlers throw decides about their message", async () => {
  const queue = name(), seen: unknown[] = [], errors: unknown[] = [];
  await q.call("POST", "/api/v1/configure", { body: { queue, options: { retryLimit: 1 } } });
  await q.pushMany(["fails", "later", "dead", "works"].map((payload) => ({ queue, payload, partition: payload })));
  const stop = start(queue, (word: string, _, attempt) => {
    seen.push(`${word} ${attempt}`);
    if (word === "fails") throw new Error("boom\0");
    if (word === "dead") throw new Dead("no such order");
    if (word === "later" && seen.filter((one) => String(one).startsWith(word)).length < 3) throw new Later(1);
  }, { concurrency: 4, backoffMs: 1, onError: (error) => errors.push(error) });
  await until(async () => await pending(q, queue) === 0, "all are done");
  await stop();
  assert.deepEqual(seen.map((one) => String(one).replace(/later .*/, "later")).sort(),
                   ["dead 1", "fails 1", "fails 2", "later", "later", "later", "works 1"]);
  const { messages } = await q.call("GET", "/api/v1/dlq", { query: { queue } });
  const told = messages.map((one: any) => [one.data, one.errorMessage.split("\n")[0]]).sort();
  assert.deepEqual(told, [["dead", "no such order"], ["fails", "Error: boom\\0"]]);
  assert.deepEqual(errors.map(String), ["Error: boom\0", "Error: boom\0"]);
});

test("a lease is extended while its handler runs", async () => {
  const queue = name(), done = gate(), before = await ask("asked", EXTEND);
  await push(queue, 2);
  const seen: number[] = [];
  const stop = start(queue, async (n: number) => { seen.push(n); await done.opened; }, { leaseSeconds: 1 });
  await until(async () => await ask("asked", EXTEND) >= before + 5, "the lease was extended for more than its length");
  assert.deepEqual(await q.pop(queue), []);
  done.open();
  await until(async () => await pending(q, queue) === 0, "both are completed");
  assert.equal(await stop(), 0);
  assert.deepEqual(seen, [0, 1]);
});

test("a handler is told that its lease is lost", async () => {
  const queue = name(), lost = gate<unknown>();
  await push(queue, 1);
  let begun = 0;
  const stop = start(queue, async (_, { signal }) => {
    if (begun++) return;
    await endLeases(q, queue);
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    lost.open(signal.reason);
  }, { leaseSeconds: 3 });
  assert.ok(await lost.opened instanceof LeaseLost);
  await until(async () => await pending(q, queue) === 0, "the message is handled again");
  assert.equal(await stop(), 0);
  assert.equal(begun, 2);
});

test("a stop lets handlers end and gives back what was not begun", async () => {
  const queue = name(), begun = gate(), done = gate<void>(), seen: number[] = [];
  await push(queue, 10);
  const stop = start(queue, async (n: number, { stopping }) => {
    seen.push(n);
    begun.open();
    await done.opened;
    assert.ok(stopping.aborted);
  });
  await begun.opened;
  const ended = stop();
  done.open();
  assert.equal(await ended, 0);
  assert.deepEqual(seen, [0]);
  assert.deepEqual(data(await q.pop(queue, { batch: 10 })), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test("a handler that does not end is cut off, and its message is given back", async () => {
  const queue = name(), begun = gate<AbortSignal>();
  await push(queue, 2);
  const stop = start(queue, (_, { signal }) => (begun.open(signal), new Promise(() => {})), { graceMs: 1 });
  const signal = await begun.opened;
  assert.equal(await stop(), 1);
  assert.ok(signal.aborted);
  assert.deepEqual(data(await q.pop(queue, { batch: 2 })), [0, 1]);
});

test("an idle worker stops, and no request of it waits any more", async () => {
  const queue = name(), stop = start(queue, () => {});
  await until(() => ask("asked", `${POP}/queue/${queue}`), "the worker waits for messages");
  assert.equal(await stop(), 0);
  await push(queue, 1);
  assert.deepEqual(data(await q.pop(queue)), [0]);
});

test("a network that breaks does not end a worker, and nothing is handled twice", async () => {
  const queue = name(), seen: number[] = [], begun = gate(), done = gate();
  await push(queue, 3);
  const stop = start(queue, async (n: number) => {
    seen.push(n);
    if (n) return;
    begun.open();
    await done.opened;
  });
  await begun.opened;
  await ask("cut");
  await ask("lose", ACK, true);
  done.open();
  await until(async () => await pending(q, queue) === 0, "all are completed");
  assert.equal(await stop(), 0);
  assert.deepEqual(seen, [0, 1, 2]);
});

test("a worker survives a restart of the daemon", async () => {
  const queue = name(), seen: number[] = [];
  await push(queue, 1);
  const stop = start(queue, (n: number) => seen.push(n));
  await until(() => seen.length === 1, "the first is handled");
  await ask("restart");
  await q.push(queue, 7);
  await until(() => seen.length === 2, "the second is handled");
  assert.equal(await stop(), 0);
  assert.deepEqual(seen, [0, 7]);
});

test("a worker whose first request is refused ends", async () => {
  await assert.rejects(new Queend({ url: GUARDED }).worker("mine", () => {}), Unauthorized);
  await assert.rejects(q.worker(name(), () => {}, { pollMs: 200_000 }), RangeError);
  assert.equal(await q.worker(name(), () => {}, { signal: AbortSignal.abort() }), 0);
});
