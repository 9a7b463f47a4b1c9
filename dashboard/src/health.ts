// Whether the daemon works, in one line, and what is wrong with it. The line is good only while the database answers and commits.
import type { Answer } from "./api";
import { told } from "./api";
import { QUEUE_MODE } from "./names";
import { to } from "./route";
import { count, many, seconds } from "./text";

export type Live = Answer<"/api/v1/system/live", "get">;
type Queue = Answer<"/api/v1/resources/queues", "get">["queues"][number];
type Lagging = Answer<"/api/v1/consumer-groups/lagging", "get">[number];

export interface Verdict { kind: "good" | "warn" | "bad"; word: string; text: string }
export interface Trouble { kind: "warn" | "bad"; title: string; text: string; link: string; where: string }

/** A daemon whose last answer is older has not answered: the page asks every 2 s. */
export const SILENT_S = 6;
/** How many queues or groups are named one by one. */
const MOST = 5;

const DOUBTS: Record<Live["doubts"][number], string> = {
  away: "The daemon has no connection to the database.",
  silent: "The database has answered no statement for 5 seconds.",
  disk_full: "The database has no space on its disk. It stores no pushes.",
  read_only: "The database accepts no writes. The daemon tries the next host of its address.",
  refused: "The database refuses connections: a wrong password, a missing database or right, or an unknown host.",
  crowded: "The database has no free connection.",
  buffer_full: "The failover buffer has no room or cannot be written. Pushes are refused while the database is away.",
  commits_hang: "The database answers, but no commit has completed for 5 seconds: a synchronous standby is missing, or a disk hangs.",
};

/** The health line. `silence`: seconds since the last answer. */
export function verdict(now: Live, error: unknown, silence: number, troubles: Trouble[]): Verdict {
  if (error) return { kind: "bad", word: "no answer", text: `${told(error)} The figures below are old.` };
  if (silence > SILENT_S) return { kind: "bad", word: "no answer", text: "The daemon does not answer in time. The figures below are old." };
  const doubt = now.doubts[0];
  if (!now.ready) return { kind: "bad", word: "not serving", text: doubt ? DOUBTS[doubt] : "The daemon does not serve requests yet." };
  if (doubt) return { kind: "bad", word: "serving, with database problems", text: DOUBTS[doubt] };
  if (!now.buffer.dbHealthy || !now.backlog) return { kind: "bad", word: "serving, with database problems", text: "The database does not answer the daemon." };
  if (troubles.length) return { kind: "warn", word: `serving, with ${many(troubles.length, "problem")}`, text: "The database answers and commits." };
  return { kind: "good", word: "serving", text: "The database answers and commits." };
}

/** What the page has seen besides the last answer: messages in the failover buffer some time ago, new dead letters, queues and groups. */
export interface Seen { buffered: number; dead: number; paused: Queue[]; lagging: Lagging[] }

/** Minutes over which new dead letters count as a problem. */
export const DEAD_MIN = 10;

export function troublesOf(now: Live, seen: Seen, admin: boolean): Trouble[] {
  const switches = admin ? { link: to(["maintenance"]), where: "Maintenance" } : { link: to(["doctor"]), where: "Doctor" };
  const found: Trouble[] = now.doubts.map((one) => ({ kind: "bad", title: `Database: ${one.replace("_", " ")}`, text: DOUBTS[one], link: to(["doctor"]), where: "Doctor" }));
  if (now.buffer.failed) found.push({ kind: "bad", title: "Messages in quarantine", text: `${many(now.buffer.failed, "message")} of the failover buffer could not be stored.`, link: to(["doctor"]), where: "Doctor" });
  if (now.buffer.pending > seen.buffered) found.push({ kind: "bad", title: "The failover buffer is filling", text: `${many(now.buffer.pending, "message")} wait for the database, and the number rises: pushes are stored on the daemon's disk.`, ...switches });
  else if (now.buffer.pending) found.push({ kind: "warn", title: "Messages in the failover buffer", text: `${many(now.buffer.pending, "message")} wait for the database. They are stored when it is available and push maintenance is off.`, ...switches });
  if (now.maintenance.push) found.push({ kind: "warn", title: "Push maintenance", text: "Every daemon stores pushes in its failover buffer until it is switched off.", ...switches });
  if (now.maintenance.pop) found.push({ kind: "warn", title: "Delivery paused", text: "No daemon delivers messages until pop maintenance is switched off.", ...switches });
  if (seen.dead) found.push({ kind: "warn", title: "Dead letters are rising", text: `${many(seen.dead, "message")} became dead letters in the last ${DEAD_MIN} minutes: their consumers failed or rejected them.`, link: to(["dead"]), where: "Dead letters" });
  return [...found, ...behind(seen.lagging), ...paused(seen.paused)];
}

function behind(lagging: Lagging[]): Trouble[] {
  const groups = new Map<string, Lagging[]>();
  for (const one of lagging) {
    const key = `${one.consumer_group}\n${one.queue_name}`;
    groups.set(key, [...groups.get(key) ?? [], one]);
  }
  return some([...groups.values()].map((rows) => {
    const one = rows[0] as Lagging;
    const name = one.consumer_group === QUEUE_MODE ? "(without a group)" : one.consumer_group;
    return { kind: "warn", title: `Group ${name} is behind in ${one.queue_name}`, link: to(["groups", one.consumer_group]), where: "Group",
      text: `Messages in ${many(rows.length, "partition")} have waited up to ${seconds(one.time_lag_seconds)}: its consumers are stopped, blocked or too slow.` };
  }), "groups are behind", "groups");
}

function paused(queues: Queue[]): Trouble[] {
  return some(queues.map((one) => ({ kind: "warn", title: `Queue ${one.name} is paused`, link: to(["queues", one.name]), where: "Queue",
    text: `No group receives its messages until it is resumed; ${count(one.messages.pending)} pending.` })), "queues are paused", "queues");
}

function some(all: Trouble[], what: string, page: string): Trouble[] {
  if (all.length <= MOST) return all;
  return [...all.slice(0, MOST), { kind: "warn", title: `More ${what}`, text: `Only the first ${MOST} are listed here.`, link: to([page]), where: page === "groups" ? "Groups" : "Queues" }];
}
