// Whether the daemon works, in one line, and what is wrong with it. The line is good only while the database answers and commits.
import type { Answer } from "./api";
import { told } from "./api";
import { groupTitle, QUEUE_MODE } from "./names";
import { to } from "./route";
import { count, many, seconds, shortened } from "./text";

export type Live = Answer<"/api/v1/system/live", "get">;
type Queue = Answer<"/api/v1/resources/queues", "get">["queues"][number];
type Group = Answer<"/api/v1/consumer-groups", "get">[number];

export interface Verdict { kind: "good" | "warn" | "bad"; word: string; text: string }
/** names: the whole names that the title may shorten. */
export interface Trouble { kind: "warn" | "bad"; title: string; names?: string; text: string; link: string; where: string }

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

/** What the page has seen besides the last answer: messages in the failover buffer some time ago, new dead letters, paused queues, groups that are paused by themselves (stopped), groups that are behind. */
export interface Seen { buffered: number; dead: number; paused: Queue[]; stopped: Group[]; lagging: Group[] }

/** Minutes over which new dead letters count as a problem. */
export const DEAD_MIN = 10;

export function troublesOf(now: Live, seen: Seen, admin: boolean): Trouble[] {
  const switches = admin ? { link: to(["maintenance"]), where: "Maintenance" } : { link: to(["doctor"]), where: "Doctor" };
  const found: Trouble[] = now.doubts.map((one) => ({ kind: "bad", title: `Database: ${one.replace("_", " ")}`, text: DOUBTS[one], link: to(["doctor"]), where: "Doctor" }));
  const waiting = `${many(now.buffer.pending, "message")} ${now.buffer.pending === 1 ? "waits" : "wait"}`;
  if (now.buffer.failed) found.push({ kind: "bad", title: "Messages in quarantine", text: `${many(now.buffer.failed, "message")} of the failover buffer could not be stored.`, link: to(["doctor"]), where: "Doctor" });
  if (now.buffer.pending > seen.buffered) found.push({ kind: "bad", title: "The failover buffer is filling", text: `${waiting} for the database, and the number rises: pushes are stored on the daemon's disk.`, ...switches });
  else if (now.buffer.pending) found.push({ kind: "warn", title: "Messages in the failover buffer", text: `${waiting} for the database, to be stored when it is available and push maintenance is off.`, ...switches });
  if (now.maintenance.push) found.push({ kind: "warn", title: "Push maintenance", text: "Every daemon stores pushes in its failover buffer until it is switched off.", ...switches });
  if (now.maintenance.pop) found.push({ kind: "warn", title: "Delivery paused", text: "No daemon delivers messages until pop maintenance is switched off.", ...switches });
  if (seen.dead) found.push({ kind: "warn", title: "Dead letters are rising", text: `${many(seen.dead, "message")} became ${seen.dead === 1 ? "a dead letter" : "dead letters"} in the last ${DEAD_MIN} minutes: consumers failed or rejected ${seen.dead === 1 ? "it" : "them"}.`, link: to(["dead"]), where: "Dead letters" });
  // A paused group is behind because it is paused.
  return [...found, ...behind(seen.lagging.filter((one) => !one.paused)), ...paused(seen.paused), ...stopped(seen.stopped)];
}

/** The group as the subject of a sentence. */
const who = (group: Group): string => group.name === QUEUE_MODE ? "Consumers without a group are" : `Group ${shortened(group.name)} is`;
const both = (group: Group): string => `${groupTitle(group.name)}, ${group.queueName}`;

function behind(groups: Group[]): Trouble[] {
  return some(groups.map((one) => ({ kind: "warn", title: `${who(one)} behind in ${shortened(one.queueName)}`, names: both(one), link: to(["groups", one.name]), where: "Group",
    text: `Messages in ${many(one.partitionsWithLag, "partition")} wait, the oldest for ${seconds(one.maxTimeLag)}: consumers are stopped, blocked or slow.` })), "groups are behind", "groups");
}

function paused(queues: Queue[]): Trouble[] {
  return some(queues.map((one) => ({ kind: "warn", title: `Queue ${shortened(one.name)} is paused`, names: one.name, link: to(["queues", one.name]), where: "Queue",
    text: `No group receives its messages until it is resumed; ${count(one.messages.pending)} pending.` })), "queues are paused", "queues");
}

function stopped(groups: Group[]): Trouble[] {
  return some(groups.map((one) => ({ kind: "warn", title: `${who(one)} paused in ${shortened(one.queueName)}`, names: both(one), link: to(["groups", one.name]), where: "Group",
    text: `It receives no messages until it is resumed; its lag is ${many(one.totalLag, "message")}.` })), "groups are paused", "groups");
}

function some(all: Trouble[], what: string, page: string): Trouble[] {
  if (all.length <= MOST) return all;
  return [...all.slice(0, MOST), { kind: "warn", title: `More ${what}`, text: `Only the first ${MOST} are listed here.`, link: to([page]), where: page === "groups" ? "Groups" : "Queues" }];
}
