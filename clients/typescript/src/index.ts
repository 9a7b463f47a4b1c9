export type { Settings } from "./attempts.js";
export * from "./client.js";
export * from "./errors.js";
export type { Message, Push, Schemas, Stored } from "./message.js";
export type { Context, Handler, WorkerOptions } from "./worker.js";
