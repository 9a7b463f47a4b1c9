import { onAbort, parsed, pause, segment, type Call, type Link } from "./attempts.js";
import type { ReadOptions, StreamOptions } from "./client.js";
import { Refused } from "./errors.js";
import { message, type Message } from "./message.js";

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
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    const cancel = (): void => void reader.cancel().catch(() => {}), forget = onAbort(signal, cancel);
    try {
      for (let rest = "", event: Record<string, string> = {}; ;) {
        const silent = setTimeout(cancel, SILENT * heartbeat * 1000);
        const { value } = await reader.read().catch(() => ({ value: undefined })).finally(() => clearTimeout(silent));
        if (!value) break;
        const lines = value.split("\n");
        lines[0] = rest + lines[0];
        rest = lines.pop()!;
        for (const line of lines) {
          const [, field = "", text] = /^([^:\r]*)(?:: ?(.*?))?\r?$/s.exec(line)!;
          event[field] = (event[field] ?? "") + (text ?? "");
          if (field || text !== undefined) continue;
          const { event: kind = "message", data = "", retry } = event, said = parsed(data);
          event = {};
          retryMs = Number(retry ?? retryMs) || retryMs;
          if (kind === "end" && said?.reason === "refused") throw new Refused(said.error);
          signal?.throwIfAborted();
          if (kind === "message" && said) yield message<T>(said);
        }
      }
    } finally {
      forget();
      cancel();
    }
  }
}
