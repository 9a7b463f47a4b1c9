// What tests share: the daemons of tests/typescript, the network before one of them, and names of queues.
import { setTimeout as wait } from "node:timers/promises";
import { Queend, type Message, type Settings } from "queend-client";

const given = (name: string): string => process.env[name] ?? "";
export const [URL, SMALL, GUARDED, TOKEN] = ["QUEEND_URL", "SMALL", "GUARDED", "TOKEN"].map(given) as
  [string, string, string, string];
export const [PUSH, POP, ACK, EXTEND, STREAM] = ["POST /api/v1/push", "GET /api/v1/pop", "POST /api/v1/ack",
  "POST /api/v1/lease", "GET /api/v1/stream"] as const;
const PATIENT = 60_000; // ms: on a busy machine no test may fail because an answer was late
let queues = 0;

export const name = (): string => `queue-${process.pid}-${++queues}`;
export const client = (settings: Partial<Settings> = {}): Queend =>
  new Queend({ url: URL, deadlineMs: PATIENT, timeoutMs: PATIENT, ...settings });
export const data = (messages: Message[]): unknown[] => messages.map((one) => one.data);

/** Has the Python side do something (tests/typescript/test_typescript_client.py). */
export async function ask(deed: "lose" | "lost" | "cut" | "asked" | "restart", ...args: unknown[]): Promise<any> {
  const answer = await fetch(`${given("CONTROLS")}/${deed}`, { method: "POST", body: JSON.stringify(args) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

/** Looks again and again until something true is seen, and returns it. */
export async function until<T>(look: () => T | Promise<T>, what: string): Promise<T> {
  for (const end = performance.now() + PATIENT; ;) {
    const seen = await look();
    if (seen) return seen;
    if (performance.now() > end) throw new Error(`waited in vain: ${what}`);
    await wait(20);
  }
}

/** Has everything delivered again, from the first message on. */
export const endLeases = (q: Queend, queue: string): Promise<unknown> =>
  q.call("POST", `/api/v1/consumer-groups/__QUEUE_MODE__/queues/${queue}/seek`, { body: { offset: 0 } });

/** Returns how many messages the consumers without a group have not completed. */
export const pending = async (q: Queend, queue: string): Promise<number> =>
  (await q.call("GET", `/api/v1/resources/queues/${queue}/depth`)).pending;

/** Returns a promise and the function that fulfils it. */
export function gate<T = void>(): { opened: Promise<T>; open: (value: T) => void } {
  let open!: (value: T) => void;
  const opened = new Promise<T>((resolve) => { open = resolve; });
  return { opened, open };
}
