// The clock of the daemon, from the header `Date` of its answers. The clock of the browser may be wrong.
let ahead = 0;
let known = false;

/** Notes the time of an answer, which is in whole seconds. */
export function heard(date: string | null): void {
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
