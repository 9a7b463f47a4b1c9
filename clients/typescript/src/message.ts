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
  return { queue, payload, partition, transactionId: id ?? madeId(queue), traceparent,
           deliverAt: deliverAt?.toISOString(), delayMs: delayMs && Math.ceil(delayMs),
           headers } satisfies Schemas["PushItem"];
}

/** Returns the message that an element of an answer describes. answer: says what the element does not. */
export function message<T>(one: Schemas["Message"], answer: Partial<Schemas["PopResult"]> = {}): Message<T> {
  const { queue = "", partition = "", consumerGroup } = answer;
  const made = { queue, partition, consumerGroup, ...one, key: one.originTransactionId ?? one.transactionId };
  if (made.consumerGroup === "__QUEUE_MODE__") made.consumerGroup = undefined;
  if (one.dataEncoding === "base64") made.data = Uint8Array.from(atob(String(one.data)), (sign) => sign.charCodeAt(0));
  return made as Message<T>;
}

let turns = new Map<string, number>();

/**
 * Returns a UUID of version 7: the server finds duplicates of ids that grow with time most cheaply. A queue without
 * order takes the sum of the three parts behind the time as the number of a partition. The last part is made so that
 * the sums of one queue count up: its messages go to the partitions in turn.
 */
function madeId(queue: string): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const drawn = crypto.randomUUID();
  const turn = (turns.get(queue) ?? parseInt(crypto.randomUUID().slice(0, 8), 16)) + 1;
  if (turns.size > 1000) turns = new Map();
  turns.set(queue, turn);
  const [first, second] = [drawn.slice(15, 18), drawn.slice(19, 23) + drawn.slice(24, 28)];
  const last = ((turn - parseInt(first, 16) - parseInt(second, 16)) >>> 0).toString(16).padStart(8, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${first}-${second.slice(0, 4)}-${second.slice(4)}${last}`;
}
