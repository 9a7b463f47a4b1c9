// How figures and strangers' texts are written.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** 1 message, 2 messages. */
export function many(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

/** Short: 12.3k, 4.56M. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)}k`;
  return size >= 100 || Number.isInteger(value) ? whole.format(value) : value.toPrecision(2);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at ? value.toPrecision(3) : value} ${units[at]}`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 60) return `${Math.round(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value < 86_400) return `${Math.floor(value / 3600)} h ${Math.floor(value % 3600 / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.floor(value % 86_400 / 3600)} h`;
}

export function milliseconds(value: number | null): string {
  if (value === null) return "–";
  return value >= 1000 ? `${(value / 1000).toPrecision(3)} s` : value >= 0.1 ? `${value.toPrecision(2)} ms` : `${Math.round(value * 1000)} µs`;
}

// What turns the writing around, hides, or ends a line is written out: a name must not look like another.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const HIDDEN_IN_LINES = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const written = (found: string): string => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** A name as one line; an empty one is said to be empty. */
export function visible(text: string): string {
  return text === "" ? "(empty)" : text.replace(HIDDEN, written);
}

export function visibleLines(text: string): string {
  return text.replace(HIDDEN_IN_LINES, written);
}
