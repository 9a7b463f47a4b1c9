// A message as a command line that pushes the same item again.
import { session } from "./session";

/** Bytes of one argument that Linux accepts (MAX_ARG_STRLEN is 131 072); larger bodies go through standard input. */
const ARGUMENT_MOST = 100_000;
// Characters that hide or turn the writing around, in JSON they stand within texts only.
const HIDDEN = /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text as one word of a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export interface Item { queue: string; partition: string; traceId: string | null; payload: string }

/** Returns a curl command that pushes an item. payload: JSON as text, which stays as it is. The transaction id is left out: a push with it would be a duplicate. */
export function pushCommand(item: Item): string {
  const names = JSON.stringify({ queue: item.queue, partition: item.partition, ...(item.traceId === null ? {} : { traceId: item.traceId }) }).slice(0, -1);
  const body = `{"items":[${names},"payload":${item.payload.replace(/[\r\n\t]+/g, " ")}}]}`.replace(HIDDEN, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const start = [`curl -X POST ${quoted(`${location.origin}/api/v1/push`)}`, "-H 'Content-Type: application/json'",
    ...(session.value?.tokens ? ['-H "Authorization: Bearer $QUEEND_TOKEN"'] : [])];
  return new TextEncoder().encode(body).length <= ARGUMENT_MOST ? [...start, `--data-raw ${quoted(body)}`].join(" \\\n  ")
    : `${[...start, "--data-binary @- <<'END_OF_ITEM'"].join(" \\\n  ")}\n${body}\nEND_OF_ITEM`;
}
