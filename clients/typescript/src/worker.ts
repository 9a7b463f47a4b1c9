import { backoff, FOREVER, onAbort, pause, within } from "./attempts.js";
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
/** lost: aborted if the messages go to another consumer; end: when that happens, on the clock of performance.now(). */
interface Lease { lost: AbortController; end: number }
const isLive = (lease: Lease): boolean => performance.now() < lease.end;
const LAST = 5000; // ms: to give messages back after handlers were cut off
const LONGEST = 4096; // characters of an error

/** Handles messages of a queue until the signal. Returns the number of handlers that were not waited for. */
export async function work(client: Queend, queue: string, handler: Handler, options: WorkerOptions): Promise<number> {
  const { concurrency = 1, prefetch = 10, pollMs = 3000, graceMs = 25_000, leaseSeconds = 30, group, start,
          backoffMs, onError = console.error, signal = new AbortController().signal } = options;
  const cut = new AbortController(), end = new AbortController(), timers: ReturnType<typeof setTimeout>[] = [];
  let busy = 0, cuts = 0, failures = 0, answered = false, jobEnded = (): void => {};
  const forget = onAbort(signal, () => {
    timers.push(setTimeout(() => cut.abort(), graceMs), setTimeout(() => end.abort(), graceMs + LAST));
  });
  try {
    while (busy || !signal.aborted) {
      const free = concurrency - busy, sent = performance.now();
      if (free <= 0 || signal.aborted) await new Promise<void>((resolve) => { jobEnded = resolve; });
      else try {
        const messages = await client.pop(queue, { group, start, leaseSeconds, batch: Math.max(free, prefetch),
          partitions: free, waitMs: pollMs, once: true, signal: end.signal });
        failures = 0;
        answered = true;
        if (messages.length) void handleAll(messages, sent);
      } catch (error) {
        if (!answered && !(error instanceof Unavailable)) throw error;
        onError(error);
        const asked = error instanceof Unavailable ? error.retryAfterMs : 0;
        await pause(asked + backoff(failures++, 500, 30_000), signal);
      }
    }
  } finally {
    timers.forEach(clearTimeout);
    forget();
  }
  return cuts;

  /** Handles the messages of one answer, partitions side by side. Keeps their lease until the last one is done. */
  async function handleAll(messages: Message[], sent: number): Promise<void> {
    const lease = { lost: new AbortController(), end: sent + leaseSeconds * 1000 }, closed = new AbortController();
    const forget = onAbort(cut.signal, () => lease.lost.abort());
    const partitions = [...new Set(messages.map((one) => one.partitionId))];
    busy += partitions.length;
    void keep(lease, messages[0]!, closed.signal);
    await Promise.all(partitions.map((id) =>
      handlePartition(messages.filter((one) => one.partitionId === id), lease).catch(onError).finally(() => {
        busy--;
        jobEnded();
      })));
    closed.abort();
    forget();
  }

  /** Handles the messages of a partition one after another, until one has to be delivered again. */
  async function handlePartition(messages: Message[], lease: Lease): Promise<void> {
    for (const [place, one] of messages.entries()) {
      if (!isLive(lease)) return;
      if (signal.aborted) return void await settle(lease, messages.slice(place), "retry");
      const handling = within(FOREVER, cut.signal, () => handler(one, { signal: lease.lost.signal, stopping: signal }));
      const error = await handling.then(() => undefined, (thrown: unknown) => thrown ?? "");
      if (!isLive(lease)) return;
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
    if (!isLive(lease) || end.signal.aborted) return false;
    try {
      const settled = await client.settle(messages, status, { ...more, signal: end.signal });
      return !settled.some((one) => one.leaseReleased);
    } catch (error) {
      onError(error, messages[0]);
      if (!(error instanceof Unavailable)) return false;
      return settle(lease, messages, status, { ...more, doubted: more.doubted || error.mayBeDone });
    }
  }

  /** Extends a lease after each third of its length. Its end is reckoned from the moment at which the latest request
   * was sent, so that it is never later than the server's. */
  async function keep(lease: Lease, one: Message, closed: AbortSignal): Promise<void> {
    const lengthMs = leaseSeconds * 1000;
    for (let pauseMs = lengthMs / 3; !closed.aborted;) {
      await pause(Math.min(pauseMs, lease.end - performance.now()), closed);
      const sent = performance.now();
      if (sent >= lease.end) return lease.lost.abort(new LeaseLost("the lease has ended", [one]));
      try {
        await within(lease.end - sent, closed, (own) => client.extend(one, leaseSeconds, { signal: own }));
        lease.end = sent + lengthMs;
        pauseMs = lengthMs / 3;
      } catch (error) {
        if (!closed.aborted) onError(error);
        if (error instanceof LeaseLost) lease.end = 0;
        pauseMs = 1000;
      }
    }
  }
}
