// Dead letters by error and group: how many, and since when.
import type { JSX } from "preact";
import { get } from "../api";
import { groupTitle } from "../names";
import { usePoll } from "../poll";
import { mayAdmin } from "../session";
import { count, local } from "../text";
import { GroupLink, QueueLink, Shown, Table, Time, Words } from "../ui";
import type { Filter } from "./deadletter";

/** Characters of an error that the filter shows: it stands in the address of the page. */
const FILTER_MOST = 500;

export interface Group { queue: string; consumerGroup: string; errorMessage: string | null; errorId: string; count: number }

/** Returns the filter that selects exactly the dead letters of a row, among those of the filter of the table. */
export function filterOf(group: Group, within: Filter): Filter {
  return { ...within, queue: group.queue, consumerGroup: group.consumerGroup, errorId: group.errorId,
    error: (group.errorMessage ?? "").slice(0, FILTER_MOST).replace(/[\ud800-\udbff]$/, "") };
}

export function ErrorTable({ filter, turn, onShow, onAct }: {
  filter: Filter; turn: number; onShow: (group: Group) => void; onAct: (group: Group, verb: "all" | "purge") => void;
}): JSX.Element {
  const polled = usePoll(async (signal) => {
    const { errorId, ...others } = filter;
    const found = await get("/api/v1/dlq/errors", { query: { ...others, limit: errorId ? 1000 : 100 }, signal });
    if (!errorId) return found;
    const groups = found.groups.filter((one) => one.errorId === errorId);
    return { ...found, groups, total: groups.length };
  }, JSON.stringify([filter, turn]), 10_000);
  return <section><h2>By error and group</h2>
    <Shown of={polled}>{(found) => <>
      <Table caption="Errors" rows={found.groups} none={Object.values(filter).some(Boolean) ? "No matching errors." : "No errors."} columns={[
        { title: "Error", fills: true, cell: (row) => <Words>{(row.errorMessage ?? "no error recorded").slice(0, 1000)}</Words> },
        { title: "Group", cell: (row) => <GroupLink>{row.consumerGroup}</GroupLink> }, { title: "Queue", cell: (row) => <QueueLink>{row.queue}</QueueLink> },
        { title: "Count", number: true, cell: (row) => count(row.count) },
        { title: "First and last failed", cell: (row) => <><Time at={row.firstFailedAt} />{local(row.lastFailedAt) !== local(row.firstFailedAt) && <div><Time at={row.lastFailedAt} /></div>}</> },
        { title: "Actions", cell: (row) => {
          const of = <span class="unseen"> {groupTitle(row.consumerGroup)}: {row.errorMessage?.slice(0, 100) ?? "no error"}</span>;
          return <div class="actions"><button type="button" class="small" onClick={() => onShow(row)}>Show{of}</button>
            {mayAdmin.value && <>
              <button type="button" class="small" onClick={() => onAct(row, "all")}>Redrive{of}</button>
              <button type="button" class="small danger" onClick={() => onAct(row, "purge")}>Delete{of}</button></>}</div>;
        } },
      ]} />
      {!found.complete && <p class="quiet">Counted among the newest {count(found.examined)} dead letters that match; there are more.</p>}
      {found.total > found.groups.length && <p class="quiet">The {count(found.groups.length)} largest of {count(found.total)} combinations of error, group and queue are shown.</p>}
    </>}</Shown>
  </section>;
}
