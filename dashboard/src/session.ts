// Who asks, and how the page looks. The token stays in this tab (sessionStorage): it is gone when the tab is closed.
import { computed, signal } from "@preact/signals";
import type { Answer } from "./api";

export type Session = Answer<"/api/v1/system/session", "get">;
export type Level = Session["level"];

const TOKEN = "queend-token";
const THEME = "queend-theme";

export const token = signal<string>(kept(sessionStorage, TOKEN));
export const session = signal<Session | null>(null);
/** Why the reader is asked for a token; null: he is not. */
export const asked = signal<string | null>(null);
export const theme = signal<"auto" | "light" | "dark">(readTheme());

const order: Level[] = ["read-only", "read-write", "admin"];
const level = computed(() => order.indexOf(session.value?.level ?? "read-only"));
export const mayWrite = computed(() => level.value >= 1);
export const mayAdmin = computed(() => level.value >= 2);

/** The token may read some queues only: it may not list all of them, nor see the sums. */
export const limited = computed(() => {
  const queues = session.value?.queues;
  return Boolean(queues) && !Object.entries(queues ?? {}).some(([pattern, verbs]) => /^\*+$/.test(pattern) && verbs.includes("read"));
});

export function keepToken(value: string): void {
  token.value = value;
  keep(sessionStorage, TOKEN, value);
}

export function setTheme(value: "auto" | "light" | "dark"): void {
  theme.value = value;
  keep(localStorage, THEME, value === "auto" ? "" : value);
  document.documentElement.dataset["theme"] = value;
}

function readTheme(): "auto" | "light" | "dark" {
  const found = kept(localStorage, THEME);
  return found === "light" || found === "dark" ? found : "auto";
}

// A browser may refuse both.
function kept(where: Storage, name: string): string {
  try {
    return where.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function keep(where: Storage, name: string, value: string): void {
  try {
    if (value) where.setItem(name, value);
    else where.removeItem(name);
  } catch { /* it holds for this page */ }
}
