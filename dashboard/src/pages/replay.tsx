// Replay: choose a moment on the time line of a queue, see how many messages the group would get again, then seek.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../api";
import { QUEUE_MODE } from "../names";
import { usePoll } from "../poll";
import { before, COUNTED, local, replayed, type Replayed } from "../replay";
import { serverNow } from "../server";
import { mayWrite } from "../session";
import { count, many } from "../text";
import { Ask, Choice, moment, Name, Shown, Time } from "../ui";
import "./replay.css";

const RANGES: Record<string, string> = { 1: "Last hour", 6: "Last 6 hours", 24: "Last day", 168: "Last week" };
const EVERY_MS = 30_000;
const SETTLED_MS = 300;

/** The messages pushed in each interval from `from` to `to` (ms); those from the moment `at` on are marked. */
function Bars({ queue, from, to, at }: { queue: string; from: number; to: number; at: number }): JSX.Element {
  const polled = usePoll((signal) => get("/api/v1/analytics/queue-ops", { query: { queue, from: new Date(from).toISOString(), to: new Date(to).toISOString() }, signal }), `${queue}\n${from}\n${to}`, EVERY_MS);
  return <Shown of={polled}>{(done) => {
    const width = done.bucketMinutes * 60_000;
    const most = Math.max(1, ...done.series.map((one) => one.pushMessages));
    const pushed = done.series.reduce((sum, one) => sum + one.pushMessages, 0);
    return <svg class="bars" viewBox={`0 0 ${to - from} 100`} preserveAspectRatio="none" role="img" aria-label={`Messages pushed, in intervals of ${many(done.bucketMinutes, "minute")}: ${count(pushed)} in all, at most ${count(most)} in one`}>
      {done.series.filter((one) => one.pushMessages > 0).map((one) => {
        const begin = Date.parse(one.bucket);
        const height = Math.max(3, one.pushMessages / most * 96);
        return <rect key={one.bucket} class={begin + width > at ? "after" : ""} x={begin - from} y={100 - height} width={width * 0.9} height={height} />;
      })}
    </svg>;
  }}</Shown>;
}

function Meant({ group, of }: { group: string; of: Replayed }): JSX.Element {
  const who = group === QUEUE_MODE ? "Consumers without a group" : <Name>{group}</Name>;
  const where = of.more ? ` in the first ${count(COUNTED)} partitions` : "";
  return <>
    <p class="meant">{who} would get {of.again ? `up to ${many(of.again, "message")}` : "no messages"} again{where}.</p>
    {of.skipped > 0 && <p class="meant">{who} would skip up to {many(of.skipped, "message")}{where}.</p>}
    {of.more && <p class="note">The queue has more partitions than are counted. A seek moves the cursors of all of them.</p>}
  </>;
}

export function Replay({ group, queue, onMoved }: { group: string; queue: string; onMoved: () => void }): JSX.Element {
  const [hours, setHours] = useState("1");
  const [to, setTo] = useState(serverNow);
  const [at, setAt] = useState(to);
  const [asked, setAsked] = useState(at);
  const [seeking, setSeeking] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setAsked(at), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [at]);
  const from = to - Number(hours) * 3.6e6;
  const polled = usePoll((signal) => replayed(group, queue, asked, signal), `${group}\n${queue}\n${asked}`, EVERY_MS);
  const known = asked === at ? polled.value : undefined;
  const shown = new Date(at).toLocaleString();
  return <div class="replay" role="group" aria-label={`Replay of ${queue}`}>
    <div class="filters"><Choice label="Time range" value={hours} values={RANGES} onChange={(wanted) => { setHours(wanted); setTo(serverNow()); }} /></div>
    <Bars queue={queue} from={from} to={to} at={at} />
    <input type="range" aria-label="Moment" aria-valuetext={shown} min={0} max={to - from} step={(to - from) / 240} value={Math.min(to - from, Math.max(0, at - from))} onInput={(event) => setAt(Math.round(from + Number(event.currentTarget.value)))} />
    <p class="ends"><Time at={new Date(from).toISOString()} /><Time at={new Date(to).toISOString()} /></p>
    <label class="field">Deliver messages stored from this time on
      <input type="datetime-local" step="0.001" max="9999-12-31T23:59" value={local(at)} onInput={(event) => { const wanted = moment(event.currentTarget.value); if (wanted?.length === 24) setAt(Date.parse(wanted)); }} />
    </label>
    <div role="status">{asked !== at ? <p class="quiet">Counting…</p> : <Shown of={polled}>{(found) => <Meant group={group} of={found} />}</Shown>}</div>
    <p class="quiet">Counted by offset. Deleted and expired messages, messages for other groups, and messages that the group never consumed count too.</p>
    {mayWrite.value && <div class="filters"><button type="button" class="main" disabled={!known} onClick={() => setSeeking(true)}>Seek to this time</button></div>}
    {seeking && <Ask title="Seek in all partitions" verb="Seek" onClose={() => { setSeeking(false); polled.again(); onMoved(); }} onDo={async () => {
      const done = await post("/api/v1/consumer-groups/{group}/queues/{queue}/seek", { names: { group, queue }, body: { timestamp: before(at) } });
      return `Moved the cursors of ${many(done.partitionsUpdated, "partition")}.`;
    }}>
      <p>Moves the cursors of the group in all partitions of <Name>{queue}</Name> to {shown}. Leases of the group end.</p>
      {known && <Meant group={group} of={known} />}
    </Ask>}
  </div>;
}
