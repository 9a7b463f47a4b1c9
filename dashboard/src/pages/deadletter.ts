// Dead letters as the pages hold them, and the requests for one of them.
import { get, post, remove, type Answer } from "../api";

type Listed = Answer<"/api/v1/dlq", "get">["messages"][number];
/** A dead letter and its payload as text. */
export type Letter = Listed & { raw: string };
/** errorId: exactly one error, of which `error` is a part. Empty: any error with the text `error` in it. */
export interface Filter { queue: string; consumerGroup: string; partition: string; error: string; errorId: string; from: string | undefined; to: string | undefined }

export const GONE = "This message is no longer a dead letter. Nothing was redriven.";
const DELETED = "This message is no longer a dead letter. Nothing was deleted.";

export function placeOf(letter: Letter): { partitionId: string; offset: number; consumerGroup: string } {
  return { partitionId: letter.partitionId, offset: letter.offset, consumerGroup: letter.consumerGroup };
}

/** Identifies a dead letter: a message has one for each group that failed it. */
export function keyOf(letter: Letter): string {
  return JSON.stringify(placeOf(letter));
}

export async function redriveOne(letter: Letter): Promise<void> {
  if (letter.queue === null) throw new Error("The queue was deleted. Nothing was redriven.");
  if (!(await post("/api/v1/dlq/redrive", { body: { queue: letter.queue, messages: [placeOf(letter)] } })).redriven) throw new Error(GONE);
}

export async function deleteOne(letter: Letter): Promise<void> {
  if (letter.queue === null) throw new Error("The queue was deleted. Nothing was deleted.");
  if (!(await remove("/api/v1/dlq", { query: { queue: letter.queue, ...placeOf(letter) } })).deleted) throw new Error(DELETED);
}

/** Returns how many dead letters match a filter, as the daemon counts them (up to 100 000). */
export async function countOf(filter: Filter): Promise<number> {
  return (await get("/api/v1/dlq", { query: { ...filter, limit: 1 } })).total;
}
