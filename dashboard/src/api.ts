// Requests to the daemon, by the types of its own document (src/openapi.ts is made from it).
import type { paths } from "./openapi";
import { heard, silent } from "./server";
import { asked, session, token } from "./session";

export type Path = keyof paths;
type Operation<P extends Path, M extends "get" | "post" | "delete"> = paths[P][M];
type Content<R> = R extends { content: { "application/json": infer J } } ? J : never;
export type Answer<P extends Path, M extends "get" | "post" | "delete"> =
  Operation<P, M> extends { responses: infer R }
    ? Content<R extends { 200: infer A } ? A : R extends { 201: infer B } ? B : R extends { 202: infer C } ? C : never> : never;
type Query<P extends Path, M extends "get" | "post" | "delete"> =
  Operation<P, M> extends { parameters: { query?: infer Q } } ? Partial<Record<keyof NonNullable<Q>, string | number | boolean | undefined>> : Record<string, never>;
export type Names = Record<string, string>;

export class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export interface Options<Q> {
  names?: Names | undefined;
  query?: Q | undefined;
  body?: unknown;
  raw?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** The path with its names in place, each of them one segment. */
export function filled(path: string, names: Names = {}): string {
  return path.replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(wellFormed(names[name] ?? "")).replace(/^\.{1,2}$/, (dots) => dots.replace(/\./g, "%2E")));
}

function wellFormed(text: string): string {
  return text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}

export async function send(method: string, path: string, options: Options<Record<string, unknown>> = {}): Promise<Response> {
  const url = new URL(filled(path, options.names), location.origin);
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  const headers: Record<string, string> = { Accept: "application/json" };
  const used = token.value;
  if (used) headers["Authorization"] = `Bearer ${used}`;
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(url, { method, headers, credentials: "omit", redirect: "error", signal: options.signal ?? null, ...(body === undefined ? {} : { body }) });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    silent.value = true;
    throw new Refused(0, "The daemon does not answer.");
  }
  heard(response.headers.get("date"));
  if (response.ok) return response;
  const text = await response.text();
  let message = `HTTP ${response.status}`;
  try {
    const told: unknown = JSON.parse(text);
    if (typeof told === "object" && told !== null && "error" in told && typeof told.error === "string") message = told.error;
  } catch { /* no JSON: the status has to do */ }
  // An answer to a token that was changed meanwhile says nothing about the one there is.
  if (response.status === 401 && used === token.value) {
    session.value = null;
    asked.value = used ? message : "";
  }
  throw new Refused(response.status, message);
}

export async function get<P extends Path>(path: P, options: Options<Query<P, "get">> = {}): Promise<Answer<P, "get">> {
  return await (await send("GET", path, options)).json() as Answer<P, "get">;
}

/** The same as text: payloads are shown as they came, not as JavaScript would write their numbers. */
export async function getText<P extends Path>(path: P, options: Options<Query<P, "get">> = {}): Promise<string> {
  return await (await send("GET", path, options)).text();
}

/** A page of a list, and whether another follows (RFC 8288). */
export async function getPage<P extends Path>(path: P, options: Options<Query<P, "get">> = {}): Promise<[Answer<P, "get">, boolean]> {
  const response = await send("GET", path, options);
  return [await response.json() as Answer<P, "get">, /rel="next"/.test(response.headers.get("link") ?? "")];
}

export async function post<P extends Path>(path: P, options: Options<Query<P, "post">> = {}): Promise<Answer<P, "post">> {
  return await (await send("POST", path, options)).json() as Answer<P, "post">;
}

export async function remove<P extends Path>(path: P, options: Options<Query<P, "delete">> = {}): Promise<Answer<P, "delete">> {
  return await (await send("DELETE", path, options)).json() as Answer<P, "delete">;
}

export function told(error: unknown): string {
  if (error instanceof Refused && error.status === 403) return `Access denied: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
