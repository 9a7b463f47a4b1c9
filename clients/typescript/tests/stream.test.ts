import assert from "node:assert/strict";
import { test } from "node:test";
import { Queend, Refused, Unauthorized, Unavailable } from "queend-client";
import { ask, client, data, GUARDED, name, STREAM, until } from "./support.js";

const q = client();

test("messages come as they are committed", async () => {
  const queue = name(), seen: unknown[] = [], odd = { text: "a\u2028b\u0085\r\n: ü", big: "x".repeat(300_000) };
  await q.push(queue, odd, { partition: "p" });
  for await (const message of q.stream(queue, { group: "g" })) {
    assert.deepEqual([message.queue, message.partition, message.consumerGroup], [queue, "p", "g"]);
    seen.push(message.data);
    await q.ack(message);
    if (seen.length === 1) await q.push(queue, 2, { partition: "p" });
    else break;
  }
  assert.deepEqual(seen, [odd, 2]);
  assert.deepEqual(await q.pop(queue, { group: "g" }), []);
});

test("the end of the loop ends the stream and its leases", async () => {
  const queue = name();
  await q.pushMany([1, 2].map((payload) => ({ queue, payload })));
  for await (const message of q.stream(queue, { release: true, leaseSeconds: 600 })) {
    assert.equal(message.data, 1);
    break;
  }
  assert.deepEqual(data(await q.pop(queue, { batch: 2, waitMs: 100_000 })), [1, 2]);
});

for (const answers of [false, true]) {
  test(`a stream whose ${answers ? "answer" : "request"} is lost is opened again`, async () => {
    const queue = name();
    await q.pushMany([0, 1, 2].map((payload) => ({ queue, payload })));
    await ask("lose", STREAM, answers);
    let next = 0;
    for await (const message of q.stream(queue, { leaseSeconds: 1, credit: 1 })) {
      assert.equal(message.data, next++);
      await q.ack(message);
      if (next === 2) await ask("cut");
      if (next === 3) break;
    }
    assert.deepEqual(await q.pop(queue), []);
  });
}

test("a stream survives a restart of the daemon", async () => {
  const queue = name();
  await q.push(queue, 0);
  let next = 0;
  for await (const message of q.stream(queue)) {
    assert.equal(message.data, next++);
    await q.ack(message);
    if (next === 3) break;
    await ask("restart");
    await q.push(queue, next);
  }
});

test("a signal ends a stream", async () => {
  const queue = name(), stop = new AbortController(), stream = q.stream(queue, { signal: stop.signal });
  const next = stream.next();
  await until(() => ask("asked", `${STREAM}/${queue}`), "the stream is asked for");
  await q.push(queue, 1);
  assert.equal((await next).value?.data, 1);
  const waits = stream.next();
  stop.abort();
  await assert.rejects(waits, { name: "AbortError" });
  assert.deepEqual(await stream.next(), { value: undefined, done: true });
});

test("a stream that is refused says why", async () => {
  await assert.rejects(q.stream(name(), { credit: 0 }).next(), (error) => error instanceof Refused
    && error.status === 400 && /credit/.test(error.message));
  await assert.rejects(new Queend({ url: GUARDED }).stream("mine").next(), Unauthorized);
  await assert.rejects(new Queend({ url: "http://127.0.0.1:1", deadlineMs: 300 }).stream("q").next(), Unavailable);
});
