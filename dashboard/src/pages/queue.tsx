import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { get, post, Refused, remove, type Answer } from "../api";
import { usePoll } from "../poll";
import { go, place, to } from "../route";
import { serverNow } from "../server";
import { mayAdmin, mayWrite } from "../session";
import { count, many, unitOf } from "../text";
import { ANY_TIME_H, Ask, Facts, Heading, Name, Press, Shown, Table, Tag } from "../ui";
import { Ring } from "../chart";
import { Icon } from "../icons";
import { GroupTable } from "./groups";
import { MessageTable, PushForm } from "./messages";
import { PartitionTable } from "./partitions";
import { QueueCharts, SEEN } from "./queuecharts";
import { Topology } from "./topology";

type Queue = Answer<"/api/v1/resources/queues/{queue}", "get">;
const TABS: Record<string, string> = { partitions: "Partitions", messages: "Messages", groups: "Groups", options: "Options" };

export function QueuePage({ queue, tab }: { queue: string; tab: string }): JSX.Element {
  const [dialog, setDialog] = useState<"push" | "clear" | "delete" | null>(null);
  const watch = useRef({ queue, ring: new Ring(2, SEEN), turn: 0 });
  if (watch.current.queue !== queue) watch.current = { queue, ring: new Ring(2, SEEN), turn: 0 };
  const backlog = watch.current;
  const polled = usePoll(async (signal) => {
    const found = await get("/api/v1/resources/queues/{queue}", { names: { queue }, query: { limit: 0 }, signal });
    backlog.ring.add(serverNow() / 1000, [found.totals.pending, found.totals.processing]);
    backlog.turn += 1;
    return found;
  }, queue, 5000);
  const close = (): void => { setDialog(null); polled.again(); };
  const gone = polled.value === undefined && polled.error instanceof Refused && polled.error.status === 404;
  return <>
    <Heading title={<><span class="quiet">Queue </span><Name>{queue}</Name> {polled.value?.paused && <Tag kind="warn">paused</Tag>}</>}>
      {mayWrite.value && polled.value && <button type="button" class="main" onClick={() => setDialog("push")}><Icon of="push" />Push</button>}
      {mayWrite.value && polled.value && <Press onDo={async () => {
        await post(polled.value?.paused ? "/api/v1/queues/{queue}/resume" : "/api/v1/queues/{queue}/pause", { names: { queue } });
        polled.again();
      }}><Icon of={polled.value.paused ? "resume" : "pause"} />{polled.value.paused ? "Resume" : "Pause"}</Press>}
      <a class="button" href={to(["dead"], { queue })}>Dead letters</a>
      {mayAdmin.value && polled.value && <button type="button" class="danger" onClick={() => setDialog("clear")}>Clear</button>}
      {mayAdmin.value && polled.value && <button type="button" class="danger" onClick={() => setDialog("delete")}><Icon of="delete" />Delete</button>}
    </Heading>
    {gone && <p class="quiet">The queue does not exist. It is created by its first push, or on the page <a href={to(["queues"])}>Queues</a>.</p>}
    {!gone && <Shown of={polled}>{(found) => <>
      <Facts of={{
        Pending: count(found.totals.pending), "In flight": found.totals.processing ? <a href={to(["leases"], { queue })}>{count(found.totals.processing)}</a> : count(0), Consumed: count(found.totals.completed),
        "Dead letters": count(found.totals.deadLetter), Stored: count(found.totals.total),
        Namespace: found.namespace ? <Name>{found.namespace}</Name> : "–", Task: found.task ? <Name>{found.task}</Name> : "–",
      }} />
      <p class="quiet">Numbers of messages. Pending, in flight and consumed count, in each partition, those of the group that has most of them.</p>
      <Topology queue={queue} paused={Boolean(found.paused)} />
      <QueueCharts queue={queue} seen={backlog.ring} turn={backlog.turn} />
      <nav class="tabs" aria-label="Queue sections">{Object.entries(TABS).map(([name, title]) =>
        <a key={name} href={to(["queues", queue, name])} {...(name === (Object.hasOwn(TABS, tab) ? tab : "partitions") ? { "aria-current": "page" as const } : {})}>{title}</a>)}</nav>
      {tab === "messages" ? <MessageTable queue={queue} partition={place.value.query.get("partition") ?? ""} status="" hours={ANY_TIME_H} />
        : tab === "groups" ? <GroupTable queue={queue} search="" />
        : tab === "options" ? <Options queue={found} onDone={polled.again} />
        : <PartitionTable queue={queue} />}
      {dialog === "push" && <PushForm queue={queue} onClose={close} />}
      {dialog === "clear" && <Ask title="Clear queue" verb="Clear" danger confirm={queue} onClose={close} onDo={async () => {
        const done = await remove("/api/v1/queues/{queue}/clear", { names: { queue } });
        return `${many(done.count, "message")} deleted.`;
      }}><p>Deletes {many(found.totals.total, "message")}, consumed or not; {count(found.totals.pending)} pending. The queue, its partitions and its groups are kept.</p></Ask>}
      {dialog === "delete" && <Ask title="Delete queue" verb="Delete" danger confirm={queue} onClose={close} onDo={async () => {
        if (!(await remove("/api/v1/resources/queues/{queue}", { names: { queue } })).existed) throw new Error("The queue no longer exists. Nothing was deleted.");
        go(to(["queues"]));
      }}><p>Deletes the queue with {many(found.totals.total, "message")} ({count(found.totals.pending)} pending), {many(found.totals.deadLetter, "dead letter")}, its partitions and its groups. This cannot be undone.</p></Ask>}
    </>}</Shown>}
  </>;
}

function Options({ queue, onDone }: { queue: Queue; onDone: () => void }): JSX.Element {
  const [changing, setChanging] = useState<string | null>(null);
  const options = Object.entries(queue.options as Record<string, { value: unknown; inForce: unknown; unit: string; default: unknown; asked: boolean }>);
  const one = options.find(([name]) => name === changing)?.[1];
  const close = (): void => { setChanging(null); onDone(); };
  const written = (value: unknown): string => value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return <>
    <Table caption="Options" rows={options} none="" columns={[
      { title: "Option", names: true, cell: ([name]) => name },
      { title: "In force", cell: ([, option]) => option.inForce === null ? <span class="quiet">no effect</span> : <>{written(option.inForce)} {unitOf(option.inForce, option.unit)}</> },
      { title: "Set", cell: ([, option]) => option.asked ? <><Tag kind="plain">set</Tag> {written(option.value)} {option.value !== null && unitOf(option.value, option.unit)}</> : <span class="quiet">–</span> },
      { title: "Default", cell: ([, option]) => <>{written(option.default)} {option.default !== null && unitOf(option.default, option.unit)}</> },
      ...(mayWrite.value ? [{ title: "Actions", cell: ([name]: [string, unknown]) => <button type="button" class="small" onClick={() => setChanging(name)}>Change<span class="unseen"> {name}</span></button> }] : []),
    ]} />
    {changing !== null && one && <Ask title={`Change ${changing}`} verb="Save" onClose={close} onDo={async (form) => {
      const given = String(form.get("value") ?? "").trim();
      const reset = form.get("reset") === "on";
      let value: unknown = null;
      if (!reset) {
        try { value = JSON.parse(given); } catch { throw new Error("Enter a number, true, false, or JSON."); }
      }
      const options = changing === "encryptionEnabled" ? { encryption: value === true ? "on" : "off" } : { [changing]: value };
      await post("/api/v1/configure", { body: { queue: queue.name, options } });
    }}>
      <label class="field">Value {one.unit && `(${one.unit})`}<input name="value" defaultValue={one.value === null ? "" : written(one.value)} autocomplete="off" spellcheck={false} /></label>
      {changing !== "encryptionEnabled" && <label class="field check"><input type="checkbox" name="reset" />Reset to the default, {written(one.default)}</label>}
    </Ask>}
  </>;
}
