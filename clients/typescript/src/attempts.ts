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

/** The way to the servers. urls: of these the first is asked. */
export class Link {
  readonly urls: string[];

  constructor(readonly settings: Settings) {
    this.urls = [settings.url].flat().map((url) => new URL(url).href.replace(/\/+$/, ""));
    if (!this.urls.length) throw new TypeError("a client needs a URL");
  }

  /** Sends a call until it is answered. Returns what `read` makes of the answer, and whether an attempt before may have
   * taken effect. */
  async send<T>(call: Call, read: (answer: Response) => Promise<T> = json): Promise<{ value: T; repeated: boolean }> {
    const { patienceMs = 0, signal } = call, { timeoutMs = 10_000, deadlineMs = 30_000 } = this.settings;
    const end = performance.now() + deadlineMs + patienceMs, body = JSON.stringify(call.body);
    for (let failures = 0, mayBeDone = false; ; failures++) {
      signal?.throwIfAborted();
      const server = this.urls[0]!, url = new URL(server + call.path), headers = await this.#headers(call);
      for (const [name, value] of Object.entries(call.query ?? {}))
        if (value !== undefined) url.searchParams.set(name, String(value));
      try {
        const leftMs = Math.max(1, end - performance.now());
        return await within(Math.min(timeoutMs + patienceMs, leftMs), signal, async (own) => {
          const answer = await fetch(url, { method: call.method, headers, body, redirect: "manual", signal: own });
          if (!answer.ok) throw refusal(answer, await answer.text());
          return { value: await read(answer), repeated: mayBeDone };
        });
      } catch (error) {
        signal?.throwIfAborted();
        const failure = error instanceof QueendError ? error : unanswered(error as Error);
        if (!(failure instanceof Unavailable)) throw failure;
        mayBeDone = failure.mayBeDone ||= mayBeDone;
        if (this.urls[0] === server && failure.status !== 429) this.urls.push(this.urls.shift()!);
        const pauseMs = failure.retryAfterMs + backoff(failures, 100, 5000);
        if (call.once || performance.now() + pauseMs >= end || mayBeDone && call.repeat === false) throw failure;
        this.settings.onRetry?.(failure, pauseMs);
        await pause(pauseMs, signal);
      }
    }
  }

  async #headers({ body, signal }: Call): Promise<Record<string, string>> {
    const { token: source } = this.settings;
    const token = typeof source === "function" ? await within(FOREVER, signal, source) : source;
    if (token && !/^[!-~]+$/.test(token)) throw new TypeError("the token has characters that no header may have");
    return { accept: "application/json", ...(token && { authorization: `Bearer ${token}` }),
             ...(body !== undefined && { "content-type": "application/json" }) };
  }
}

const json = async (answer: Response): Promise<any> => parsed(await answer.text());

/** Returns the value that a JSON text stands for, undefined for an empty text. */
export function parsed(text: string): any {
  try { return text ? JSON.parse(text) : undefined; }
  catch { throw new BadAnswer(`the server's answer is no JSON: ${text.slice(0, 200)}`); }
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

export const FOREVER = 2 ** 31 - 1; // ms: the longest time of a timer
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

/** Runs a function with a signal of its own, which is aborted after so many milliseconds and with the other signal.
 * Settles as the function does, or rejects at once with the reason of its signal. */
export async function within<T>(ms: number, signal: AbortSignal | undefined,
                                run: (own: AbortSignal) => T | Promise<T>): Promise<T> {
  const own = new AbortController();
  const aborted = new Promise<never>((_, reject) => { own.signal.onabort = () => reject(own.signal.reason); });
  const timer = setTimeout(() => own.abort(new Error(`none within ${Math.round(ms)} ms`)), ms);
  const forget = onAbort(signal, () => own.abort(signal?.reason));
  return Promise.race([aborted, (async () => run(own.signal))()]).finally(() => {
    clearTimeout(timer);
    forget();
  });
}

/** Waits so long, or until the signal. */
export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  within(ms, signal, () => new Promise<void>(() => {})).catch(() => {});
