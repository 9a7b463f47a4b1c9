import type { components } from "./api.js";

export type Schemas = components["schemas"];
/** A message to be stored. id: its transactionId, by which the partition recognises a duplicate; made if not given. */
export type Push = Pick<Schemas["PushItem"], "queue" | "partition" | "delayMs" | "traceparent" | "headers">
  & { payload: unknown; id?: string; deliverAt?: Date };
/** What became of a pushed message. */
export type Stored = Pick<Schemas["PushResult"], "status" | "error"> & { queue: string; partition: string; id: string };
/** A delivered message. key: its id, or after a redrive that of the first message, for what must be done once. */
export type Message<T = any> = Omit<Schemas["Message"], "data"> & { data: T; queue: string; partition: string;
                                                                    key: string };

/** Returns the item of a request, with an id. */
export function item({ queue, payload, partition = "Default", id, delayMs, deliverAt, traceparent, headers }: Push) {
  if (payload === undefined) throw new TypeError("a message needs a payload; null is one");
  return { queue, payload, partition, transactionId: id ?? madeId(), traceparent, deliverAt: deliverAt?.toISOString(),
           delayMs: delayMs && Math.ceil(delayMs), headers } satisfies Schemas["PushItem"];
}

/** Returns the message that an element of an answer describes. answer: says what the element does not. */
export function message<T>(one: Schemas["Message"], answer: Partial<Schemas["PopResult"]> = {}): Message<T> {
  const { queue = "", partition = "", consumerGroup } = answer;
  const made = { queue, partition, consumerGroup, ...one, key: one.originTransactionId ?? one.transactionId };
  if (made.consumerGroup === "__QUEUE_MODE__") made.consumerGroup = undefined;
  if (one.dataEncoding === "base64") made.data = Uint8Array.from(atob(String(one.data)), (sign) => sign.charCodeAt(0));
  return made as Message<T>;
}

/** Returns a UUID of version 7: the server finds duplicates of ids that grow with time most cheaply. */
function madeId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}
