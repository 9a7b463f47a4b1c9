// Dead letters by error and group: how many, and since when.
import type { JSX } from "preact";
import { get } from "../api";
import { usePoll } from "../poll";
import { mayAdmin } from "../session";
import { count, many } from "../text";
import { Group as Named, Name, Shown, Table, Time } from "../ui";
import type { Filter } from "./deadletter";

/** Characters of an error that the filter takes: a request names it in its address. */
const FILTER_MOST = 500;
/** The part of an error that a filter finds it by. */
export function partOf(error: string): string {
  return error.slice(0, FILTER_MOST).replace(/[\ud800-\udbff]$/, "");
}

export interface Group { queue: string; consumerGroup: string; errorMessage: string | null; count: number }

export function ErrorTable({ filter, turn, onShow, onAct }: {
  filter: Filter; turn: number; onShow: (group: Group) => void; onAct: (group: Group, verb: "all" | "purge") => void;
}): JSX.Element {
  const polled = usePoll((signal) => get("/api/v1/dlq/errors", { query: { ...filter, limit: 100 }, signal }), JSON.stringify([filter, turn]), 10_000);
  return <section><h2>By error and group</h2>
    <Shown of={polled}>{(found) => <>
      <Table caption="Errors" rows={found.groups} none={Object.values(filter).some(Boolean) ? "No matching errors." : "No errors."} columns={[
        { title: "Error", cell: (row) => <Name>{(row.errorMessage ?? "no error recorded").slice(0, 300)}</Name> },
        { title: "Group", cell: (row) => <Named>{row.consumerGroup}</Named> }, { title: "Queue", cell: (row) => <Name>{row.queue}</Name> },
        { title: "Count", number: true, cell: (row) => count(row.count) },
        { title: "First failed", cell: (row) => <Time at={row.firstFailedAt} /> }, { title: "Last failed", cell: (row) => <Time at={row.lastFailedAt} /> },
        { title: "Actions", cell: (row) => {
          const of = <span class="unseen"> {row.consumerGroup}: {row.errorMessage?.slice(0, 100) ?? "no error"}</span>;
          return <div class="actions"><button type="button" class="small" onClick={() => onShow(row)}>Show{of}</button>
            {mayAdmin.value && row.errorMessage && <>
              <button type="button" class="small" onClick={() => onAct(row, "all")}>Redrive{of}</button>
              <button type="button" class="small danger" onClick={() => onAct(row, "purge")}>Delete{of}</button></>}</div>;
        } },
      ]} />
      {!found.complete && <p class="quiet">Counted among the newest {count(found.examined)} dead letters that match; there are more.</p>}
      {found.total > found.groups.length && <p class="quiet">The {count(found.groups.length)} largest of {many(found.total, "group")} are shown.</p>}
    </>}</Shown>
  </section>;
}
