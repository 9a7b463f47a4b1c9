import assert from "node:assert/strict";
import { test } from "node:test";
import { Forbidden, LeaseLost, NotSettled, NotStored, Queend, Refused, Unauthorized, Unavailable } from "queend-client";
import { ACK, ask, client, data, endLeases, EXTEND, gate, GUARDED, name, POP, pending, PUSH, SMALL, TOKEN, until, URL }
  from "./support.js";

const q = client();

/** Whether a pop waits at the daemon that has room for one. */
const isParked = async (): Promise<boolean> =>
  /^queend_worker_parked\{.*\} [1-9]/m.test(await (await fetch(`${SMALL}/metrics/prometheus`)).text());

test("messages are pushed, popped and acknowledged", async () => {
  const queue = name();
  const stored = await q.push(queue, { n: 1 }, { partition: "a/ü?", id: "first" });
  assert.deepEqual(stored, { queue, partition: "a/ü?", id: "first", status: "queued", error: undefined });
  const many = await q.pushMany([{ queue, payload: "two", partition: "a/ü?" },
    { queue, payload: null, partition: "b" }, { queue, payload: 1, partition: "a/ü?", id: "first" }]);
  assert.deepEqual(many.map((one) => one.status), ["queued", "queued", "duplicate"]);
  assert.match(many[0]!.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.ok(many[0]!.id < many[1]!.id || many[0]!.id.slice(0, 13) === many[1]!.id.slice(0, 13));
  const messages = await q.pop(queue, { partition: "a/ü?", batch: 10 });
  assert.deepEqual(data(messages), [{ n: 1 }, "two"]);
  const [one] = messages;
  assert.deepEqual([one!.queue, one!.partition, one!.key, one!.consumerGroup, one!.deliveryAttempt],
                   [queue, "a/ü?", "first", undefined, 1]);
  await q.ack(messages);
  assert.deepEqual(data(await q.pop(queue, { batch: 10, partitions: 10 })), [null]);
  assert.equal(await pending(q, queue), 1);
  assert.deepEqual(await q.pop(queue), []);
  assert.deepEqual(data(await q.pop(queue, { group: "others", batch: 9, partitions: 9 })).length, 3);
});

test("messages of a queue without order go to its partitions in turn", async () => {
  const queue = name();
  await q.call("POST", "/api/v1/configure", { body: { queue, options: { ordered: false, spreadPartitions: 8 } } });
  const stored = await q.pushMany(Array.from({ length: 24 }, (_, payload) => ({ queue, payload })));
  const places = stored.map((one) => one.partition);
  assert.deepEqual([...new Set(places)].sort(), Array.from({ length: 8 }, (_, n) => `~0${n}`));
  assert.deepEqual(places.slice(8), places.slice(0, 16));
});

test("a message comes later, and a pop waits for it", async () => {
  const queue = name();
  await q.push(queue, 1, { delayMs: 0.5 });
  await q.push(queue, 2, { deliverAt: new Date(Date.now() + 3_600_000), partition: "later" });
  const [one] = await q.pop(queue, { waitMs: 100_000 });
  assert.equal(one!.data, 1);
  assert.deepEqual(await q.pop(queue, { partition: "later" }), []);
  await assert.rejects(q.pop(queue, { waitMs: 115_001 }), RangeError);
});

for (const answers of [false, true]) {
  const lost = answers ? "answer" : "request";

  test(`a push whose ${lost} is lost is stored once`, async () => {
    const queue = name();
    await ask("lose", PUSH, answers, 2);
    const stored = await q.pushMany([{ queue, payload: 1 }, { queue, payload: 2, id: "mine" }]);
    assert.deepEqual(stored.map((one) => one.status), ["queued", answers ? "duplicate" : "queued"]);
    assert.deepEqual(data(await q.pop(queue, { batch: 9 })), [1, 2]);
  });

  test(`an acknowledgment whose ${lost} is lost counts`, async () => {
    const queue = name();
    await q.pushMany([1, 2, 3, 4].map((n) => ({ queue, payload: n, partition: `p${n % 2}` })));
    const messages = await q.pop(queue, { batch: 9, partitions: 2 });
    assert.equal(messages.length, 4);
    await ask("lose", ACK, answers);
    await q.ack(messages);
    assert.equal(await pending(q, queue), 0);
  });

  test(`an acknowledgment whose lease has ended and whose ${lost} is lost is refused`, async () => {
    const queue = name();
    await q.push(queue, 1);
    const messages = await q.pop(queue);
    await endLeases(q, queue);
    await ask("lose", ACK, answers);
    await assert.rejects(q.ack(messages), (error) => error instanceof LeaseLost
      && error.messages[0] === messages[0] && /1 of 1 acknowledgments were refused/.test(error.message));
    assert.deepEqual(data(await q.pop(queue)), [1]);
  });

  test(`a failure whose ${lost} is lost is counted once`, async () => {
    const queue = name();
    await q.call("POST", "/api/v1/configure", { body: { queue, options: { retryLimit: 1 } } });
    await q.push(queue, 1);
    await ask("lose", ACK, answers);
    await q.fail((await q.pop(queue))[0]!, new Error("boom"));
    const [again] = await q.pop(queue);
    assert.equal(again!.deliveryAttempt, 2);
    const [settled] = await q.settle(again!, "failed", { error: "boom" });
    assert.equal(settled!.dlq, true);
  });

  test(`an extension whose ${lost} is lost counts`, async () => {
    const queue = name();
    await q.push(queue, 1);
    const [one] = await q.pop(queue, { leaseSeconds: 1 });
    await ask("lose", EXTEND, answers);
    await q.extend(one!, 600);
    await q.ack(one!);
  });

  test(`a pop that consumes and whose ${lost} is lost is not repeated`, async () => {
    const queue = name();
    await q.push(queue, 1);
    const before = await ask("asked", `${POP}/queue/${queue}`);
    await ask("lose", POP, answers);
    await assert.rejects(q.pop(queue, { autoAck: true }), (error) => error instanceof Unavailable && error.mayBeDone);
    assert.equal(await ask("asked", `${POP}/queue/${queue}`), before + 1);
  });
}

test("a lease that has ended cannot be extended", async () => {
  const queue = name();
  await q.push(queue, 1);
  const [one] = await q.pop(queue);
  await endLeases(q, queue);
  await assert.rejects(q.extend(one!, 60), LeaseLost);
});

test("an acknowledgment of what is not on lease is refused", async () => {
  const queue = name();
  await q.push(queue, 1);
  const [one] = await q.pop(queue, { autoAck: true });
  await assert.rejects(q.fail(one!), NotSettled);
});

test("a full queue refuses a push", async () => {
  const queue = name();
  await q.call("POST", "/api/v1/configure", { body: { queue, options: { maxSize: 1 } } });
  await q.push(queue, 1);
  await assert.rejects(q.push(queue, 2), (error) => error instanceof NotStored && error.code === "queue_full"
    && error.stored[0]!.status === "failed" && error.name === "NotStored");
});

test("a server that is busy is asked again, not sooner than it says", async () => {
  const held = new Queend({ url: SMALL }), queue = name();
  const waits = held.pop(queue, { waitMs: 115_000 });
  await until(isParked, "a pop waits");
  const refused = gate<[Unavailable, number]>();
  const busy = new Queend({ url: SMALL, deadlineMs: 120_000,
                            onRetry: (error, pauseMs) => refused.open([error, pauseMs]) });
  const other = name(), second = busy.pop(other, { waitMs: 50_000 });
  const [error, pauseMs] = await refused.opened;
  assert.equal(error.status, 503);
  assert.ok(error.retryAfterMs >= 1000 && pauseMs > error.retryAfterMs && pauseMs <= error.retryAfterMs + 5000);
  await held.pushMany([{ queue, payload: 1 }, { queue: other, payload: 2 }]);
  assert.deepEqual([data(await waits), data(await second)], [[1], [2]]);
});

test("a server that stays busy is given up at the deadline", async () => {
  const stop = new AbortController(), held = new Queend({ url: SMALL });
  const waits = assert.rejects(held.pop(name(), { waitMs: 115_000, signal: stop.signal }), { name: "AbortError" });
  await until(isParked, "a pop waits");
  const hasty = new Queend({ url: SMALL, deadlineMs: 1 });
  await assert.rejects(hasty.pop(name(), { waitMs: 50 }), (error) => error instanceof Unavailable
    && error.status === 503 && error.retryAfterMs >= 1000 && error.message.length > 10);
  stop.abort();
  await waits;
});

test("what is refused is not sent again", async () => {
  const before = await ask("asked", PUSH);
  await assert.rejects(q.push(name(), 1, { id: "x".repeat(300) }), (error) => error instanceof Refused
    && error.status === 400 && error.name === "Refused" && /transactionId/.test(error.message));
  assert.equal(await ask("asked", PUSH), before + 1);
  await assert.rejects(q.call("GET", "/api/v1/resources/queues/none-of-this-name"), { name: "Refused", status: 404 });
});

test("a token that is refused is told", async () => {
  const at = (token?: Queend | string | (() => string | Promise<string>)): Queend =>
    new Queend({ url: GUARDED, token: token as string });
  await assert.rejects(at().push("mine", 1), (error) => error instanceof Unauthorized && error.status === 401
    && error.message.length > 0);
  await assert.rejects(at("nonsense").push("mine", 1), Unauthorized);
  await assert.rejects(at(TOKEN).push("theirs", 1), (error) => error instanceof Forbidden && error.status === 403
    && /push for "theirs"/.test(error.message));
  await assert.rejects(at("a\nb").push("mine", 1), (error) => error instanceof TypeError
    && !error.message.includes("a\nb"));
  let calls = 0;
  const renewed = at(async () => (calls++, TOKEN));
  assert.equal((await renewed.push("mine", 1)).status, "queued");
  assert.deepEqual(data(await renewed.pop("mine")), [1]);
  assert.equal(calls, 2);
});

test("a signal ends a pop that waits, and none begins after it", async () => {
  const stop = new AbortController(), queue = name();
  const waits = q.pop(queue, { waitMs: 115_000, signal: stop.signal });
  await until(() => ask("asked", `${POP}/queue/${queue}`), "the pop is on its way");
  stop.abort(new Error("enough"));
  await assert.rejects(waits, { message: "enough" });
  await assert.rejects(q.push(queue, 1, { signal: stop.signal }), { message: "enough" });
  await q.push(queue, 2);
  assert.deepEqual(data(await q.pop(queue, { waitMs: 100_000 })), [2]);
});

test("a signal ends the pauses between attempts", async () => {
  const stop = new AbortController();
  const away = new Queend({ url: "http://127.0.0.1:1", deadlineMs: 120_000, onRetry: () => stop.abort() });
  await assert.rejects(away.push(name(), 1, { signal: stop.signal }), { name: "AbortError" });
});

test("many calls may share a signal", async () => {
  const { signal } = new AbortController(), queue = name();
  const stored = await Promise.all(Array.from({ length: 30 }, (_, n) => q.push(queue, n, { signal })));
  assert.ok(stored.every((one) => one.status === "queued"));
});

test("another server is asked when one does not answer", async () => {
  const both = client({ url: ["http://127.0.0.1:1", `${URL}/`] });
  assert.equal(both.server, "http://127.0.0.1:1");
  assert.equal((await both.push(name(), 1)).status, "queued");
  assert.equal(both.server, URL);
  assert.throws(() => new Queend({ url: "nonsense" }), TypeError);
  assert.throws(() => new Queend({ url: [] }), TypeError);
});

test("names that a URL cannot have and payloads that JSON cannot have are refused", async () => {
  await assert.rejects(q.pop(".."), TypeError);
  await assert.rejects(q.push(name(), undefined), TypeError);
  await assert.rejects(q.push(name(), 1n), TypeError);
});

test("payloads of events may be bytes", async () => {
  const queue = name();
  const headers = { "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t",
                    "content-type": "application/octet-stream" };
  const body = new Uint8Array([0, 255]);
  assert.ok((await fetch(`${URL}/api/v1/events/${queue}`, { method: "POST", headers, body })).ok);
  assert.deepEqual(data(await q.pop(queue)), [body]);
});
