// How figures and strangers' texts are written.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** With so many figures; never as a power of ten, as toPrecision has what is larger. */
function figures(value: number, most: number): string {
  return Math.abs(value) >= 10 ** most - 0.5 ? String(Math.round(value)) : value.toPrecision(most);
}

/** 1 message, 2 messages. */
export function many(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

/** The unit of a value: `1 day`, `2 days`, `1 ms`. */
export function unitOf(value: unknown, unit: string): string {
  return Number(value) === 1 && unit.length > 2 && typeof value !== "boolean" ? unit.replace(/s$/, "") : unit;
}

/** Short: 12.3k, 4.56M. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 9.995e8) return `${figures(value / 1e9, 3)}G`;
  if (size >= 9.995e5) return `${figures(value / 1e6, 3)}M`;
  if (size >= 1e4) return `${figures(value / 1e3, 3)}k`;
  return size >= 100 || Number.isInteger(value) ? whole.format(value) : figures(value, size >= 10 ? 3 : 2);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at ? figures(value, 3) : value} ${units[at]}`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  value = Math.round(value);
  if (value < 60) return `${value} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${value % 60} s`;
  if (value < 86_400) return `${Math.floor(value / 3600)} h ${Math.floor(value % 3600 / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.floor(value % 86_400 / 3600)} h`;
}

/** A moment in the form of a field of the type datetime-local, as the page writes moments. */
export function local(value: string): string {
  const at = new Date(value);
  return value === "" || Number.isNaN(at.getTime()) ? value : at.toLocaleString();
}

/** A duration in its largest unit. */
export function roughly(value: number): string {
  const [size, unit] = value >= 86_400 ? [86_400, "d"] : value >= 3600 ? [3600, "h"] : value >= 60 ? [60, "min"] : [1, "s"];
  return `${Math.round(value / size)} ${unit}`;
}

/** A name within a sentence: the beginning and the end, if it is long. */
export function shortened(name: string): string {
  const letters = [...visible(name)];
  return letters.length > 40 ? `${letters.slice(0, 24).join("")}…${letters.slice(-7).join("")}` : letters.join("");
}

export function milliseconds(value: number | null): string {
  if (value === null) return "–";
  return value >= 1000 ? `${figures(value / 1000, 3)} s` : value >= 0.1 ? `${figures(value, 2)} ms` : `${Math.round(value * 1000)} µs`;
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
