// Whether the daemon answers, and its clock, from the header `Date` of its answers. The clock of the browser may be wrong.
import { signal } from "@preact/signals";

let ahead = 0;
let known = false;
let answeredAt = performance.now();

/** Whether the newest request got no answer. */
export const silent = signal(false);

/** Seconds since the last answer. */
export function unanswered(): number {
  return (performance.now() - answeredAt) / 1000;
}

/** Notes the time of an answer, which is in whole seconds. */
export function heard(date: string | null): void {
  answeredAt = performance.now();
  silent.value = false;
  const at = date === null ? NaN : Date.parse(date);
  if (Number.isNaN(at)) return;
  const offset = at + 500 - Date.now();
  // A difference within the second of the header is no reason to move.
  if (!known || Math.abs(offset - ahead) > 1000) ahead = Math.abs(offset) < 1000 ? 0 : offset;
  known = true;
}

/** The time of the daemon, in milliseconds since 1970. */
export function serverNow(): number {
  return Date.now() + ahead;
}
