import { backoff, onAbort, orAborted, pause, within } from "./attempts.js";
import type { Options, Queend, ReadOptions, SettleOptions, Status } from "./client.js";
import { Dead, Later, LeaseLost, Unavailable } from "./errors.js";
import type { Message } from "./message.js";

/** signal: aborted if the message goes to another consumer, or if the worker does not wait for the handler any more;
 * stopping: aborted when the worker is to stop. */
export interface Context { signal: AbortSignal; stopping: AbortSignal }
export type Handler<T = any> = (message: Message<T>, context: Context) => unknown;
/** signal: stops the worker; concurrency: most partitions that are handled side by side (1); prefetch: most messages of
 * one request (10); pollMs: how long a request waits for messages, and so how long an idle worker takes to stop (3000);
 * graceMs: for handlers under way at the stop (25 000); leaseSeconds: extended meanwhile (30); backoffMs: pause after
 * the first failure of a message, doubled with each, instead of the queue's; onError: told what goes wrong. */
export interface WorkerOptions extends Options, Pick<ReadOptions, "group" | "leaseSeconds" | "start"> {
  concurrency?: number;
  prefetch?: number;
  pollMs?: number;
  graceMs?: number;
  backoffMs?: number;
  onError?: (error: unknown, message?: Message) => void;
}
const LAST = 5000; // ms: to give messages back after handlers were cut off
const LONGEST = 4096; // characters of an error

/** Handles messages of a queue until the signal. Returns the number of handlers that were not waited for. */
export async function work(client: Queend, queue: string, handler: Handler, options: WorkerOptions): Promise<number> {
  const { concurrency = 1, prefetch = 10, pollMs = 3000, graceMs = 25_000, leaseSeconds = 30, signal, group, start,
          backoffMs, onError = console.error } = options;
  const stop = new AbortController(), cut = new AbortController(), end = new AbortController();
  const timers: ReturnType<typeof setTimeout>[] = [], jobs = new Set<Promise<void>>();
  const stopped = (): void => {
    stop.abort();
    timers.push(setTimeout(() => cut.abort(), graceMs), setTimeout(() => end.abort(), graceMs + LAST));
  };
  let cuts = 0, room = (): void => {};
  const forget = onAbort(signal, stopped);
  try {
    for (let failures = 0, answered = false; !stop.signal.aborted;) {
      const free = concurrency - jobs.size, sent = performance.now();
      if (free <= 0) {
        await new Promise<void>((resolve) => { room = resolve; });
        continue;
      }
      try {
        const messages = await client.pop(queue, { group, start, leaseSeconds, batch: Math.max(free, prefetch),
          partitions: free, waitMs: pollMs, once: true, signal: end.signal });
        failures = 0;
        answered = true;
        if (messages.length) begin(messages, sent);
      } catch (error) {
        if (!answered && !(error instanceof Unavailable)) throw error;
        onError(error);
        const asked = error instanceof Unavailable ? error.retryAfterMs : 0;
        await pause(asked + backoff(failures++, 500, 30_000), stop.signal);
      }
    }
    await Promise.all(jobs);
  } finally {
    timers.forEach(clearTimeout);
    forget();
  }
  return cuts;

  /** Begins a job for each partition of what one request brought. Their lease is kept until the last of them ends. */
  function begin(messages: Message[], sent: number): void {
    const lease = new Lease(client, messages[0]!, leaseSeconds, sent, onError);
    const forget = onAbort(cut.signal, () => lease.cut());
    const partitions = new Set(messages.map((one) => one.partitionId));
    let left = partitions.size;
    for (const id of partitions) {
      const job = handleAll(messages.filter((one) => one.partitionId === id), lease).catch(onError).finally(() => {
        jobs.delete(job);
        room();
        if (--left) return;
        lease.close();
        forget();
      });
      jobs.add(job);
    }
  }

  /** Handles the messages of a partition one after another, until one has to be delivered again. */
  async function handleAll(messages: Message[], lease: Lease): Promise<void> {
    for (const [place, one] of messages.entries()) {
      if (!lease.live) return;
      if (stop.signal.aborted) return void await settle(lease, messages.slice(place), "retry");
      const handling = (async () => handler(one, { signal: lease.signal, stopping: stop.signal }))();
      const error = await orAborted(handling, cut.signal).then(() => undefined, (thrown: unknown) => thrown ?? "");
      if (!lease.live) return;
      if (cut.signal.aborted) cuts++;
      if (!await (cut.signal.aborted ? settle(lease, [one], "retry") : conclude(lease, one, error))) return;
    }
  }

  function conclude(lease: Lease, one: Message, error: unknown): Promise<boolean> {
    if (error === undefined) return settle(lease, [one], "completed");
    if (error instanceof Later) return settle(lease, [one], "retry", { delayMs: error.delayMs });
    if (error instanceof Dead) return settle(lease, [one], "dlq", { error: error.message || "dead" });
    onError(error, one);
    const text = String(error instanceof Error && error.stack || error).replaceAll("\0", "\\0").slice(0, LONGEST);
    return settle(lease, [one], "failed", { error: text,
      delayMs: backoffMs && backoff(one.deliveryAttempt - 1, backoffMs, 2 ** 31) });
  }

  /** Says what becomes of messages, again and again while their lease lasts. Returns whether the lease goes on. */
  async function settle(lease: Lease, messages: Message[], status: Status, more: SettleOptions = {}): Promise<boolean> {
    for (let doubted = false; lease.live && !end.signal.aborted;) {
      try {
        const settled = await client.settle(messages, status, { ...more, doubted, signal: end.signal });
        return !settled.some((one) => one.leaseReleased);
      } catch (error) {
        onError(error, messages[0]);
        if (!(error instanceof Unavailable)) return false;
        doubted ||= error.mayBeDone;
      }
    }
    return false;
  }
}

/** Extends the lease of a message, and of all that came with it, after each third of its length. Its end is reckoned
 * from the moment at which the latest request was sent, so that it is never later than the server's. */
class Lease {
  readonly #lost = new AbortController();
  readonly #closed = new AbortController();
  readonly signal = this.#lost.signal;
  #end: number;

  constructor(client: Queend, one: Message, seconds: number, sent: number, onError: (error: unknown) => void) {
    this.#end = sent + seconds * 1000;
    void this.#keep(client, one, seconds, onError);
  }

  get live(): boolean { return performance.now() < this.#end; }

  cut(): void { this.#lost.abort(); }
  close(): void { this.#closed.abort(); }

  async #keep(client: Queend, one: Message, seconds: number, onError: (error: unknown) => void): Promise<void> {
    const closed = this.#closed.signal;
    for (let failed = false; ;) {
      await pause(failed ? Math.min(1000, this.#end - performance.now()) : seconds * 1000 / 3, closed);
      const sent = performance.now();
      if (closed.aborted) return;
      if (!this.live) break;
      try {
        await within(this.#end - sent, closed, (signal) => client.extend(one, seconds, { signal }));
        this.#end = sent + seconds * 1000;
        failed = false;
      } catch (error) {
        if (closed.aborted) return;
        onError(error);
        if (error instanceof LeaseLost) break;
        failed = true;
      }
    }
    this.#end = 0;
    this.#lost.abort(new LeaseLost("the lease has ended", [one]));
  }
}
