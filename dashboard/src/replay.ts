// What a seek to a moment means for a group, from offsets: messages that come again, and messages that it skips.
import { get, post } from "./api";

/** Partitions of a queue that are counted: the first ones, in order of creation. */
export const COUNTED = 10_000;

export interface Replayed {
  again: number;
  skipped: number;
  partitions: number;
  /** The queue has more partitions than were counted. */
  more: boolean;
}

/** Counts for the moment `at` (ms). Both figures are upper bounds. A partition that the group does not list has no cursor and no lag: it counts as read to its end. */
export async function replayed(group: string, queue: string, at: number, signal: AbortSignal): Promise<Replayed> {
  const [places, found] = await Promise.all([
    get("/api/v1/consumer-groups/{group}", { names: { group }, query: { limit: COUNTED }, signal }),
    post("/api/v1/offsets", { body: { queue, at: new Date(at).toISOString(), limit: COUNTED }, signal })]);
  const cursors = new Map((places[queue]?.partitions ?? []).map((one) => [one.partition, one]));
  const sum = { again: 0, skipped: 0, partitions: found.partitions.length, more: found.next !== null };
  for (const one of found.partitions) {
    const cursor = cursors.get(one.name);
    const head = one.highWatermark ?? 0;
    const floor = one.logStartOffset ?? 0;
    const next = Math.max(floor, cursor?.offset ?? head);
    const wanted = Math.max(floor, one.offset ?? head);
    // Behind the cursor, what is not in the lag may be consumed already (acknowledged beyond a gap); a seek forgets that.
    const beyond = cursor ? Math.max(0, cursor.head - next - cursor.offsetLag) : 0;
    sum.again += Math.max(0, next - wanted) + Math.min(beyond, Math.max(0, head - wanted));
    sum.skipped += Math.max(0, wanted - next);
  }
  return sum;
}

/** The time of a seek that begins with the first message stored at or after `at` (ms): 1 µs before, since a seek goes past its time. */
export function before(at: number): string {
  return new Date(at - 1).toISOString().replace("Z", "999Z");
}

/** A moment (ms) in the form of a field of the type datetime-local. */
export function local(at: number): string {
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 23);
}
