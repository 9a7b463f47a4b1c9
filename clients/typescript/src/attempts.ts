import { BadAnswer, Forbidden, QueendError, Refused, Unauthorized, Unavailable } from "./errors.js";

/** url: one server, or several with the same database, of which the next one is asked when one does not answer; token:
 * a text, or a function that is called for each request; timeoutMs: for an attempt (10 000); deadlineMs: for a call
 * with all its attempts (30 000); onRetry: called before each further attempt. */
export interface Settings {
  url: string | string[];
  token?: string | (() => string | Promise<string>);
  timeoutMs?: number;
  deadlineMs?: number;
  onRetry?: (error: Unavailable, pauseMs: number) => void;
}
/** A request. repeat: it may be sent again although an attempt may have taken effect; once: it is sent only once;
 * patienceMs: what the server may take for the answer beyond the usual time. */
export interface Call {
  method: string;
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  repeat?: boolean;
  once?: boolean;
  patienceMs?: number;
  signal?: AbortSignal;
}
const BUSY = [408, 429, 502, 503, 504];
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/** The way to the servers. url: the one that requests go to. */
export class Link {
  readonly #urls: string[];
  readonly deadlineMs: number;
  url: string;

  constructor(readonly settings: Settings) {
    this.#urls = [settings.url].flat().map((url) => new URL(url).href.replace(/\/+$/, ""));
    if (!this.#urls[0]) throw new TypeError("a client needs a URL");
    this.url = this.#urls[0];
    this.deadlineMs = settings.deadlineMs ?? 30_000;
  }

  /** Sends a call until it is answered. Returns what `read` makes of the answer, and whether an attempt before may have
   * taken effect. */
  async send<T>(call: Call, read: (answer: Response) => Promise<T> = json): Promise<{ value: T; repeated: boolean }> {
    const { patienceMs = 0, signal } = call, limitMs = (this.settings.timeoutMs ?? 10_000) + patienceMs;
    const end = performance.now() + this.deadlineMs + patienceMs;
    for (let failures = 0, mayBeDone = false; ; failures++) {
      signal?.throwIfAborted();
      const url = this.url, headers = await this.#headers(call);
      try {
        return await within(Math.max(1, Math.min(limitMs, end - performance.now())), signal, async (own) => {
          const answer = await fetch(url + call.path + query(call), { method: call.method, headers, redirect: "manual",
            body: call.body === undefined ? null : JSON.stringify(call.body), signal: own });
          if (!answer.ok) throw refusal(answer, await answer.text());
          return { value: await read(answer), repeated: mayBeDone };
        });
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof QueendError && !(error instanceof Unavailable)) throw error;
        const failure = error instanceof Unavailable ? error : unanswered(error as Error);
        mayBeDone ||= failure.mayBeDone;
        if (this.url === url && failure.status !== 429)
          this.url = this.#urls[(this.#urls.indexOf(url) + 1) % this.#urls.length]!;
        const pauseMs = failure.retryAfterMs + backoff(failures, 100, 5000);
        if (call.once || performance.now() + pauseMs >= end || mayBeDone && call.repeat === false)
          throw new Unavailable(failure.message, mayBeDone, failure.retryAfterMs, failure.status, { cause: error });
        this.settings.onRetry?.(failure, pauseMs);
        await pause(pauseMs, signal);
      }
    }
  }

  async #headers({ body, signal }: Call): Promise<Record<string, string>> {
    const { token: source } = this.settings;
    const token = typeof source === "function" ? await orAborted(Promise.resolve(source()), signal) : source;
    if (token && !/^[!-~]+$/.test(token)) throw new TypeError("the token has characters that no header may have");
    return { accept: "application/json", ...(token && { authorization: `Bearer ${token}` }),
             ...(body !== undefined && { "content-type": "application/json" }) };
  }
}

async function json(answer: Response): Promise<any> {
  const text = await answer.text();
  try { return text ? JSON.parse(text) : undefined; }
  catch { throw new BadAnswer(`the answer is no JSON (status ${answer.status}): ${text.slice(0, 200)}`); }
}

function query(call: Call): string {
  const given = Object.entries(call.query ?? {}).filter(([, value]) => value !== undefined);
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}

/** Returns a name as a segment of a path. */
export function segment(name: string): string {
  if (name === "." || name === "..") throw new TypeError(`a URL cannot name ${JSON.stringify(name)}`);
  return encodeURIComponent(name);
}

/** Returns the error of an answer that is no success. */
function refusal({ status, headers }: Response, text: string): QueendError {
  let said: { error?: unknown; code?: unknown } | undefined;
  try { said = JSON.parse(text); } catch { /* a page of a proxy */ }
  const error = String(said?.error ?? `status ${status}: ${text.slice(0, 200)}`);
  if (BUSY.includes(status))
    return new Unavailable(error, status >= 500, Math.max(0, Number(headers.get("retry-after")) || 0) * 1000, status);
  return new ({ 401: Unauthorized, 403: Forbidden }[status] ?? Refused)(error, status, String(said?.code ?? ""));
}

function unanswered(error: Error): Unavailable {
  const { code = "", message = error.message } = (error.cause ?? {}) as { code?: string; message?: string };
  const text = `no answer from the server: ${message || code}`;
  return new Unavailable(text, !UNSENT.includes(code), 0, 0, { cause: error });
}

/** Returns a pause that doubles with each failure, up to `max`, of which up to one half is taken away at random. */
export function backoff(failures: number, initial: number, max: number): number {
  return Math.min(max, initial * 2 ** Math.min(failures, 64)) * (1 - Math.random() / 2);
}

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls a function when the signal is aborted, unless the returned one was called before. All that wait for a signal
 * share one listener: Node warns of more than ten. */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (!signal) return () => {};
  if (signal.aborted) run();
  const runs = listeners.get(signal) ?? new Set();
  if (!listeners.has(signal)) signal.addEventListener("abort", () => runs.forEach((one) => one()));
  listeners.set(signal, runs.add(run));
  return () => runs.delete(run);
}

/** Runs something with a signal that is aborted with another one, or after so many milliseconds. */
export async function within<T>(ms: number, signal: AbortSignal | undefined,
                                run: (own: AbortSignal) => Promise<T>): Promise<T> {
  const own = new AbortController(), forget = onAbort(signal, () => own.abort(signal?.reason));
  const timer = setTimeout(() => own.abort(new Error(`none within ${Math.round(ms)} ms`)), ms);
  try { return await run(own.signal); }
  finally {
    clearTimeout(timer);
    forget();
  }
}

const aborted = (signal: AbortSignal): Promise<never> => new Promise((_, reject) => {
  if (signal.aborted) reject(signal.reason);
  signal.addEventListener("abort", () => reject(signal.reason));
});

/** Waits so long, or until the signal. */
export const pause = (ms: number, signal?: AbortSignal): Promise<void> => within(ms, signal, aborted).catch(() => {});

/** Settles as the promise does, or rejects with the reason of the signal. */
export const orAborted = <T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> =>
  within(2 ** 31 - 1, signal, (own) => Promise.race([promise, aborted(own)]));
