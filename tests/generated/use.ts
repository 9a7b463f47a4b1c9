// Uses the types that openapi-typescript made, at the URL that is given. Prints what came of it.
import type { components, paths } from "./openapi";

declare const process: { argv: string[] };
type Schemas = components["schemas"];

async function ask<Answer>(method: "GET" | "POST", path: string, body?: object): Promise<Answer> {
  const answer = await fetch(process.argv[2] + path, { method, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return await answer.json() as Answer;
}

const push = (items: Schemas["PushItem"][]): Promise<Schemas["PushResult"][]> =>
  ask("POST", "/api/v1/push", { items } satisfies Schemas["PushMessagesRequest"]);

async function popOne(): Promise<Schemas["Message"]> {
  const popped = await ask<Schemas["PopResult"]>("GET", "/api/v1/pop/queue/orders?batch=10");
  if (popped.messages.length !== 1) throw new Error(`${popped.messages.length} messages`);
  return popped.messages[0];
}

const ackOf = (message: Schemas["Message"]): Schemas["Ack"] =>
  ({ transactionId: message.transactionId, partitionId: message.partitionId, leaseId: message.leaseId,
     status: "completed" });

await ask("POST", "/api/v1/configure",
          { queue: "orders", options: { leaseTime: 30 } } satisfies Schemas["ConfigureQueueRequest"]);
const item = { queue: "orders", payload: { n: 1 }, transactionId: "order-1", partition: "Default" };
const pushed = await push([item, item]);
const first = await popOne();
const acknowledged = await ask<Schemas["AckResult"][]>(
  "POST", "/api/v1/ack/batch", { acknowledgments: [ackOf(first)] } satisfies Schemas["AckMessagesRequest"]);
await push([{ queue: "orders", payload: { n: 2 }, partition: "Default" }]);
const transaction = await ask<Schemas["TransactionResult"]>("POST", "/api/v1/transaction", {
  operations: [{ type: "ack", ...ackOf(await popOne()) },
               { type: "push", items: [{ queue: "bills", payload: { n: 2 }, partition: "Default" }] }],
} satisfies Schemas["RunTransactionRequest"]);
const queue = await ask<Schemas["Queue"]>("GET", "/api/v1/resources/queues/orders");
type Listed = paths["/api/v1/resources/queues"]["get"]["responses"][200]["content"]["application/json"];
const listed = await ask<Listed>("GET", "/api/v1/resources/queues");
console.log(JSON.stringify({
  pushed: pushed.map(one => one.status), popped: [first.data], acknowledged: acknowledged[0].success,
  transaction: transaction.success, leaseTime: queue.options.leaseTime.value, completed: queue.totals.completed,
  queues: listed.queues.map(one => one.name).sort(),
}));
