// Asking again and again, politely: one request at a time, none while the tab is hidden, less often while the daemon does not answer.
import { useEffect, useRef, useState } from "preact/hooks";
import { token } from "./session";

const SLOWEST_MS = 30_000;

export interface Polled<T> {
  value: T | undefined;
  error: unknown;
  again: () => void;
}

/** What `ask` brings, anew whenever `key` changes and every `everyMs` (0: once). */
export function usePoll<T>(ask: (signal: AbortSignal) => Promise<T>, key: string, everyMs: number): Polled<T> {
  const [state, setState] = useState<{ key: string; value?: T; error?: unknown }>({ key });
  const latest = useRef(ask);
  const kick = useRef<() => void>(() => undefined);
  latest.current = ask;
  const used = token.value;
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let failures = 0;
    let busy = false;
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      if (busy || abort.signal.aborted) return;
      busy = true;
      try {
        const value = await latest.current(abort.signal);
        failures = 0;
        if (!abort.signal.aborted) setState({ key, value });
      } catch (error) {
        failures += 1;
        if (!abort.signal.aborted) setState((old) => old.key === key && old.value !== undefined ? { key, value: old.value, error } : { key, error });
      }
      busy = false;
      if (!abort.signal.aborted && everyMs && !document.hidden) {
        timer = window.setTimeout(() => void run(), Math.min(SLOWEST_MS, everyMs * 2 ** Math.min(failures, 5)));
      }
    };
    const seen = (): void => {
      clearTimeout(timer);
      if (!document.hidden) void run();
    };
    kick.current = () => void run();
    if (everyMs) document.addEventListener("visibilitychange", seen);
    void run();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, everyMs, used]);
  const mine = state.key === key;
  return { value: mine ? state.value : undefined, error: mine ? state.error : undefined, again: () => kick.current() };
}
