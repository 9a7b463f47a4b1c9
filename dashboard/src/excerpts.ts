// The beginnings of payloads for a list of messages, which comes without them. A stored payload does not change: each is read once.
import { send } from "./api";
import { elements, member } from "./raw";

interface Place { queue: string; partition: string; partitionId: string; offset: number }
const SHOWN = 300;
const BYTES_MOST = 4 << 20;
const AT_ONCE = 200;

export const placeKey = (one: Place): string => `${one.partitionId}/${one.offset}`;

/** Adds what `known` lacks of these messages. Without an entry afterwards: the payload was not read; the full view has it. */
export async function readExcerpts(messages: Place[], known: Map<string, string>, signal: AbortSignal): Promise<void> {
  const wanted = messages.filter((one) => one.partition !== "" && !known.has(placeKey(one))).slice(0, AT_ONCE);
  if (!wanted.length) return;
  const entries = wanted.map(({ queue, partition, offset }) => ({ queue, partition, offset, end: offset + 1, maxBytes: 1 }));
  try {
    const raw = await (await send("POST", "/api/v1/fetch", { body: { entries, maxBytes: BYTES_MOST }, signal })).text();
    elements(member(raw, "entries") ?? "[]").forEach((entry, i) => {
      const one = wanted[i];
      const payload = member(elements(member(entry, "records") ?? "[]")[0] ?? "{}", "payload");
      if (one && payload !== undefined) known.set(placeKey(one), payload.slice(0, SHOWN).replace(/[\r\n\t]+/g, " ") + (payload.length > SHOWN ? "…" : ""));
    });
  } catch (error) {
    if (signal.aborted) throw error;      // else the list is shown without payloads
  }
}
