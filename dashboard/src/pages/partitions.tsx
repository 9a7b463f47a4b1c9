import type { JSX } from "preact";
import { get } from "../api";
import { usePoll } from "../poll";
import { alter, place } from "../route";
import { count } from "../text";
import { Choice, PartitionLink, Search, Shown, Table, Time } from "../ui";

const PAGE = 50;
/** Partitions that are compared by their backlog: the first ones by name. */
const COMPARED = 1000;

/** The partitions of a queue by name. A page begins behind the last name of the one before: so it costs the same among a million. */
export function PartitionTable({ queue }: { queue: string }): JSX.Element {
  const query = place.value.query;
  const prefix = query.get("prefix") ?? "";
  const after = query.get("after") ?? "";
  const backlog = query.get("sort") === "backlog";
  const polled = usePoll((signal) => get("/api/v1/resources/partitions", { query: backlog ? { queue, prefix, limit: COMPARED + 1 } : { queue, prefix, after, limit: PAGE + 1 }, signal }), `${queue}\n${prefix}\n${after}\n${backlog}`, 5000);
  return <section>
    <div class="filters"><Search label="Name prefix" value={prefix} onChange={(value) => alter({ prefix: value, after: undefined })} />
      <Choice label="Sort by" value={backlog ? "backlog" : "name"} values={{ name: "Name", backlog: "Largest backlog first" }} onChange={(wanted) => alter({ sort: wanted === "backlog" ? wanted : undefined, after: undefined })} /></div>
    <Shown of={polled}>{(found) => {
      const rows = (backlog ? found.partitions.slice(0, COMPARED).sort((a, b) => b.stats.pending - a.stats.pending || b.stats.total - a.stats.total) : found.partitions).slice(0, PAGE);
      const last = rows.at(-1)?.name;
      return <>
        <Table caption="Partitions" rows={rows} none="No partitions." columns={[
          { title: "Partition", fills: true, cell: (row) => <PartitionLink queue={queue}>{row.name}</PartitionLink> },
          { title: "Pending", number: true, cell: (row) => count(row.stats.pending) },
          { title: "In flight", number: true, cell: (row) => count(row.stats.processing) },
          { title: "Consumed", number: true, cell: (row) => count(row.stats.completed) },
          { title: "Dead letters", number: true, cell: (row) => count(row.stats.deadLetter) },
          { title: "Stored", number: true, cell: (row) => count(row.stats.total) },
          { title: "Created", cell: (row) => <Time at={row.createdAt} /> },
        ]} />
        {backlog && found.partitions.length > PAGE && <p class="quiet">The {PAGE} largest of {found.partitions.length > COMPARED ? `the first ${count(COMPARED)} partitions by name; a prefix chooses others` : `${count(found.partitions.length)} partitions`}.</p>}
        {!backlog && (after || found.partitions.length > PAGE) && <nav class="pager" aria-label="Pages of the list">
          <button type="button" disabled={!after} onClick={() => alter({ after: undefined })}>First</button>
          <button type="button" disabled={found.partitions.length <= PAGE} onClick={() => alter({ after: last })}>Next</button>
        </nav>}
      </>;
    }}</Shown>
  </section>;
}
