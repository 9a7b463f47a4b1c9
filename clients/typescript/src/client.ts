import { Link, segment, type Call, type Settings } from "./attempts.js";
import { LeaseLost, NotSettled, NotStored } from "./errors.js";
import { item, message, type Message, type Push, type Schemas, type Stored } from "./message.js";
import { reading, stream } from "./stream.js";
import { work, type Handler, type WorkerOptions } from "./worker.js";

export interface Options { signal?: AbortSignal }
/** batch, partitions: most messages, of most partitions, under one lease; autoAck: they are consumed with the delivery;
 * start: where a group begins that did not exist before. */
export interface ReadOptions extends Options,
    Pick<Schemas["PopQuery"], "batch" | "partitions" | "leaseSeconds" | "autoAck"> {
  group?: string;
  partition?: string;
  start?: "all" | "new" | Date;
}
/** waitMs: how long the server waits for messages, 115 000 at most; once: the request is not repeated. */
export interface PopOptions extends ReadOptions { waitMs?: number; once?: boolean }
/** credit: messages that may be out without an acknowledgment; release: the leases end with the stream; heartbeat:
 * seconds of silence before the server gives a sign of life (15). A stream is broken after three of them. */
export interface StreamOptions extends ReadOptions { credit?: number; release?: boolean; heartbeat?: number }
export type Status = "completed" | "failed" | "retry" | "dlq";
/** delayMs: until the message is delivered again; doubted: an earlier call may have taken effect. */
export interface SettleOptions extends Options { error?: string; delayMs?: number; doubted?: boolean }
type Some = Message | Message[];

/** A client. Methods throw Refused or one of its kinds, Unavailable, or the reason of their signal. */
export class Queend {
  readonly #link: Link;

  constructor(settings: Settings) { this.#link = new Link(settings); }

  /** The URL that requests go to. */
  get server(): string { return this.#link.urls[0]!; }

  /** Stores a message. */
  async push(queue: string, payload: unknown, more: Omit<Push, "queue" | "payload"> & Options = {}): Promise<Stored> {
    return (await this.pushMany([{ ...more, queue, payload }], more))[0]!;
  }

  /** Stores messages with one request. Throws NotStored if some were refused. After a lost answer it is sent again with
   * the same ids: a duplicate of one that was made here is the message itself. */
  async pushMany(pushes: Push[], { signal }: Options = {}): Promise<Stored[]> {
    const items = pushes.map(item);
    const { value, repeated } = await this.#link.send<Schemas["PushResult"][]>({ method: "POST", path: "/api/v1/push",
      body: { items }, signal });
    const stored = items.map(({ queue, partition, transactionId: id }, at): Stored => {
      const answer = value[at]!, { status, error } = answer;
      const isOwn = repeated && !pushes[at]!.id && status.startsWith("duplicate");
      return { queue, partition: answer.partition ?? partition, id, status: isOwn ? "queued" : status, error };
    });
    const failed = value.filter((one) => one.status === "failed");
    if (!failed[0]) return stored;
    const text = `${failed.length} of ${value.length} messages were refused: ${failed[0].error}`;
    throw new NotStored(text, failed[0].code ?? "", stored);
  }

  /** Takes messages under a lease. Returns an empty list if there are none. */
  async pop<T = any>(queue: string, options: PopOptions = {}): Promise<Message<T>[]> {
    const { waitMs = 0, autoAck, once } = options, waiting = waitMs ? { wait: true, timeout: Math.ceil(waitMs) } : {};
    if (!(waitMs >= 0 && waitMs <= 115_000)) throw new RangeError(`waitMs must be from 0 to 115000, not ${waitMs}`);
    const { value } = await this.#link.send<Schemas["PopResult"] | undefined>({
      ...reading("pop/queue", queue, options, waiting), repeat: !autoAck, patienceMs: waitMs, once });
    return value?.messages.map((one) => message<T>(one, { queue, ...value })) ?? [];
  }

  /** Completes messages. Throws LeaseLost if some are delivered again instead; the others are completed. */
  async ack(messages: Some, options?: Options): Promise<void> { await this.settle(messages, "completed", options); }

  /** Has messages delivered again, and counts a failure. Without retries left they become dead letters. */
  async fail(messages: Some, error?: unknown, options?: SettleOptions): Promise<void> {
    await this.settle(messages, "failed", { error: error === undefined ? error : String(error), ...options });
  }

  /** Says what becomes of messages, which are of one group. If an answer was lost, the lease may have ended with an
   * earlier attempt. `completed` is then asked for without the lease: the server confirms what is done. */
  async settle(messages: Some, status: Status, options: SettleOptions = {}): Promise<Schemas["AckResult"][]> {
    const all = [messages].flat(), { error, delayMs, doubted, signal } = options, { consumerGroup } = all[0] ?? {};
    const acks = all.map(({ transactionId, partitionId, leaseId }): Schemas["Ack"] => ({ transactionId, partitionId,
      leaseId: leaseId || undefined, status, error, consumerGroup, delayMs: delayMs && Math.ceil(delayMs) }));
    const ask = (acknowledgments: Schemas["Ack"][]) => this.#link.send<Schemas["AckResult"][]>({ method: "POST",
      path: "/api/v1/ack/batch", body: { consumerGroup, acknowledgments }, signal });
    const { value, repeated } = await ask(acks);
    const ended = value.flatMap((one, at) => isEnded(one) && (repeated || doubted) ? [at] : []);
    const again = ended.length && status === "completed"
      ? (await ask(ended.map((at) => ({ ...acks[at]!, leaseId: undefined })))).value : [];
    for (const [place, at] of ended.entries())
      value[at] = { ...(again[place] ?? { index: at, success: true }), leaseReleased: true };
    const refused = value.filter((one) => !one.success);
    if (!refused.length) return value;
    const text = `${refused.length} of ${value.length} acknowledgments were refused: ${refused[0]!.error}`;
    throw new (refused.every(isEnded) ? LeaseLost : NotSettled)(text, all.filter((_, at) => !value[at]!.success));
  }

  /** Makes the lease of a message, and of all that came with it, end `seconds` from now. Throws LeaseLost. */
  async extend(one: Message, seconds: number, { signal }: Options = {}): Promise<void> {
    const { value } = await this.#link.send<Schemas["Lease"]>({ method: "POST", body: { seconds }, signal,
      path: `/api/v1/lease/${segment(one.leaseId)}/extend` });
    if (!value.success) throw new LeaseLost(String(value.error), [one]);
  }

  /** Gives messages as they are committed, until the loop over them ends. A stream that breaks is opened again. */
  stream<T = any>(queue: string, options: StreamOptions = {}): AsyncGenerator<Message<T>, void> {
    return stream<T>(this.#link, queue, options);
  }

  /** Handles messages until the signal. Returns the number of handlers that were not waited for. */
  worker<T = any>(queue: string, handler: Handler<T>, options: WorkerOptions = {}): Promise<number> {
    return work(this, queue, handler, options);
  }

  /** Asks any other route. Only a GET is sent again after a lost answer. */
  async call<T = any>(method: string, path: string, more: Pick<Call, "query" | "body" | "signal"> = {}): Promise<T> {
    return (await this.#link.send<T>({ method, path, repeat: method === "GET", ...more })).value;
  }
}

const isEnded = ({ error }: Schemas["AckResult"]): boolean => !!error?.startsWith("Invalid or expired lease");
