import { onAbort, pause, segment, type Call, type Link } from "./attempts.js";
import type { ReadOptions } from "./client.js";
import { BadAnswer, Refused } from "./errors.js";
import { message, type Message } from "./message.js";

/** credit: messages that may be out without an acknowledgment; release: the leases end with the stream; heartbeat:
 * seconds of silence before the server gives a sign of life (15). A stream is broken after three of them. */
export interface StreamOptions extends ReadOptions { credit?: number; release?: boolean; heartbeat?: number }

const SILENT = 3; // heartbeats that may be missing

/** Returns the request of a pop or a stream. */
export function reading(route: string, queue: string, options: ReadOptions, more: Call["query"]): Call {
  const { group, partition, batch, partitions, leaseSeconds, autoAck, start, signal } = options;
  const of = partition === undefined ? "" : `/partition/${segment(partition)}`;
  return { method: "GET", path: `/api/v1/${route}/${segment(queue)}${of}`, signal, query: {
    consumerGroup: group, batch, partitions, leaseSeconds, autoAck, ...more,
    ...(start instanceof Date ? { subscriptionFrom: start.toISOString() } : { subscriptionMode: start }) } };
}

/** Gives messages as they are committed. A stream that breaks is opened again. */
export async function* stream<T>(link: Link, queue: string, options: StreamOptions): AsyncGenerator<Message<T>, void> {
  const { signal, credit, release, heartbeat = 15 } = options;
  const call = reading("stream", queue, options, { credit, release, heartbeat });
  for (let retryMs = 2000; ; await pause(retryMs, signal)) {
    const { value: body } = await link.send(call, async (answer) => answer.body!);
    const reader = body.getReader(), decoder = new TextDecoder();
    const cancel = (): void => void reader.cancel().catch(() => {}), forget = onAbort(signal, cancel);
    try {
      for (let rest = "", name = "", data = ""; ;) {
        signal?.throwIfAborted();
        const silent = setTimeout(cancel, SILENT * heartbeat * 1000);
        const { value } = await reader.read().catch(() => ({ value: undefined })).finally(() => clearTimeout(silent));
        if (!value) break;
        const lines = decoder.decode(value, { stream: true }).split("\n");
        lines[0] = rest + lines[0];
        rest = lines.pop()!;
        for (const line of lines) {
          const [, field, text = ""] = /^([^:\r]*)(?:: ?(.*?))?\r?$/s.exec(line)!;
          if (field === "event") name = text;
          else if (field === "data") data += text;
          else if (field === "retry" && /^\d+$/.test(text)) retryMs = Number(text);
          if (!/^\r?$/.test(line)) continue;
          const said = data ? parsed(data) : undefined, kind = name;
          name = data = "";
          if (said && kind === "end" && said.reason === "refused") throw new Refused(said.error);
          if (said && (kind === "" || kind === "message")) yield message<T>(said);
          signal?.throwIfAborted();
        }
      }
    } finally {
      forget();
      cancel();
    }
  }
}

function parsed(data: string): any {
  try { return JSON.parse(data); }
  catch { throw new BadAnswer(`an event is no JSON: ${data.slice(0, 200)}`); }
}
