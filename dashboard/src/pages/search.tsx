import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Answer } from "../api";
import { Icon } from "../icons";
import { to } from "../route";
import { serverNow } from "../server";
import { token } from "../session";
import { count, many } from "../text";
import { Name, Problem, State, Table, Time, Words } from "../ui";

const PAGE = 50;
type Found = Answer<"/api/v1/messages/search", "get">;

/** What was found so far, and how much was looked at. */
interface Search {
  key: string;
  messages: Found["messages"];
  searched: number;
  unreadable: number;
  back: string | null;
  next: string | null;
}

/** Messages by what their payloads say. The daemon looks at a part of the queue at a time: the reader says whether to go on. */
export function FoundTable({ queue, partition, text, hours }: { queue: string; partition: string; text: string; hours: number }): JSX.Element {
  const key = JSON.stringify([queue, partition, text, hours, token.value]);
  const [search, setSearch] = useState<Search>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const abort = useRef<AbortController | null>(null);
  const from = useRef("");

  /** Goes on until a page of messages more is found, or what is left is searched; the first time one part alone. */
  const go = async (before: Search | undefined): Promise<void> => {
    abort.current?.abort();
    const mine = abort.current = new AbortController();
    let now: Search = before ?? { key, messages: [], searched: 0, unreadable: 0, back: null, next: null };
    const enough = now.messages.length + PAGE;
    setBusy(true);
    setError(null);
    try {
      do {
        const found = await get("/api/v1/messages/search", { query: { queue, partition, text, from: from.current, limit: PAGE, after: now.next ?? undefined }, signal: mine.signal });
        now = { key, messages: [...now.messages, ...found.messages], searched: now.searched + found.searched, unreadable: now.unreadable + found.unreadable, back: found.searchedBackTo, next: found.next };
        setSearch(now);
      } while (before && now.next !== null && now.messages.length < enough);
    } catch (failed) {
      if (!mine.signal.aborted) setError(failed);
    }
    if (abort.current === mine) setBusy(false);
  };
  useEffect(() => {
    setSearch(undefined);
    from.current = new Date(serverNow() - hours * 3.6e6).toISOString();
    if (queue) void go(undefined);
    return () => abort.current?.abort();
  }, [key]);

  if (!queue) return <p class="quiet">Enter a queue to search.</p>;
  const found = search?.key === key ? search : undefined;
  return <>
    <Problem error={error} />
    <div class="actions looked">
      <span role="status">{found ? <>{many(found.searched, "message")} searched{found.next === null ? ". The search is complete." : <>, back to <Time at={found.back} />.</>}
        {found.unreadable > 0 && ` ${many(found.unreadable, "message")} could not be decrypted: the daemon lacks the key.`}</> : busy ? "Searching…" : ""}</span>
      {busy && found && <button type="button" onClick={() => { abort.current?.abort(); setBusy(false); }}>Stop</button>}
      {!busy && found?.next && <button type="button" class="main" onClick={() => void go(found)}>Load more</button>}
      {!busy && error !== null && !found && <button type="button" onClick={() => void go(undefined)}><Icon of="retry" />Try again</button>}
    </div>
    {found && <Table caption="Messages found" rows={found.messages} none="No matches so far." columns={[
      { title: "Message", cell: (row) => <a href={to(["messages", row.partitionId, row.transactionId])}><Name>{row.transactionId}</Name></a> },
      { title: "Partition", cell: (row) => <Name>{row.partition}</Name> }, { title: "Offset", number: true, cell: (row) => count(row.offset) },
      { title: "State", cell: (row) => <State of={row.status} /> }, { title: "Stored", cell: (row) => <Time at={row.createdAt} /> },
      { title: "Payload", fills: true, cell: (row) => <code><Words>{row.excerpt}</Words></code> },
    ]} />}
  </>;
}
