// Names that begin or go on as the reader types: of queues, groups and partitions. A token that may not list them gets none.
import { get } from "./api";
import { limited } from "./session";

export type Suggest = (typed: string, signal: AbortSignal) => Promise<string[]>;
const MOST = 12;
/** The name by which the daemon knows the group of consumers without a group. */
export const QUEUE_MODE = "__QUEUE_MODE__";

/** The name of a group for people. */
export function groupTitle(name: string): string {
  return name === QUEUE_MODE ? "(without a group)" : name;
}

export const queueNames: Suggest = async (search, signal) =>
  limited.value ? [] : (await get("/api/v1/resources/queues", { query: { search, sort: "name", limit: MOST }, signal })).queues.map((one) => one.name);

/** Groups by a part of their name, each once, whatever queues they have. */
export const groupNames: Suggest = async (search, signal) =>
  limited.value ? [] : [...new Set((await get("/api/v1/consumer-groups", { query: { search, limit: 100 }, signal })).map((one) => one.name))].slice(0, MOST);

/** Partitions of a queue by the beginning of their name. */
export const partitionNames = (queue: string): Suggest => async (prefix, signal) =>
  queue ? (await get("/api/v1/resources/partitions", { query: { queue, prefix, limit: MOST }, signal })).partitions.map((one) => one.name) : [];
